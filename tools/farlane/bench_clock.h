/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that costs little: the CPU's own counter where it is steady. Its rate is measured against
 * CLOCK_MONOTONIC: by bench_clock_init for planning, and over each run for its result. */
#ifndef FARLANE_BENCH_CLOCK_H
#define FARLANE_BENCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

extern bool bench_clock_tsc; /* set by bench_clock_init */
extern double bench_clock_ns_per_tick;
void bench_clock_init(bool library); /* library: CLOCK_MONOTONIC, to be compared with the library's times */

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    if (bench_clock_tsc)
        return __rdtsc();
#endif
    return fl_now_ns();
}

#endif
