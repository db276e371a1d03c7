/* SPDX-License-Identifier: Apache-2.0 */
/* The time. Engines are given it as an argument; whoever drives them reads it here. */
#ifndef FL_BASE_CLOCK_H
#define FL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define FL_NS_PER_US UINT64_C(1000)
#define FL_NS_PER_MS UINT64_C(1000000)
#define FL_NS_PER_S  UINT64_C(1000000000)

/* Nanoseconds since an arbitrary start, never backwards (CLOCK_MONOTONIC; stands still while the machine
 * sleeps). */
static inline uint64_t fl_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * FL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

#endif
