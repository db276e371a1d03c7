/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a cache line takes from one CPU to another and back, now: line --cpus A,B. Two threads write the same
 * word in turn. On some virtual machines it differs by five times from one minute to the next, and with it all
 * that two processes do by shared memory. Prints JSON: the median of short batches.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "apart.h"
#include "base/clock.h"
#include "base/util.h"

#define BATCHES 101
#define TURNS   1000u /* of each thread in a batch */

static uint64_t word __attribute__((aligned(2 * FL_CACHE_LINE)));
static struct apart apart;

/* The numbers of one thread are even, those of the other odd. */
static void turns(uint64_t first)
{
    for (uint64_t i = first; i < first + (uint64_t)2 * TURNS; i += 2) {
        while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != i)
            ;
        __atomic_store_n(&word, i + 1, __ATOMIC_RELEASE);
    }
}

static void *other(void *arg)
{
    (void)arg;
    stand_apart(&apart, 1);
    for (uint64_t n = 0; n < BATCHES; n++)
        turns(n * 2 * TURNS + 1);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    const char *cpus[2];
    uint64_t took[BATCHES];
    pthread_t thread;

    if (argc != 3 || strcmp(argv[1], "--cpus") != 0 || !split_pair(argv[2], cpus)) {
        fputs("usage: line --cpus A,B\n", stderr);
        return 2;
    }
    apart.cpus[0] = atoi(cpus[0]);
    apart.cpus[1] = atoi(cpus[1]);
    stand_apart(&apart, 0);
    errno = pthread_create(&thread, NULL, other, NULL);
    if (errno)
        die("pthread_create");
    for (uint64_t n = 0; n < BATCHES; n++) {
        uint64_t start = fl_now_ns();

        turns(n * 2 * TURNS);
        took[n] = fl_now_ns() - start;
    }
    pthread_join(thread, NULL);
    qsort(took, BATCHES, sizeof(took[0]), compare);
    printf("{\"round_trip_us\": %.3f}\n", (double)took[BATCHES / 2] / TURNS / 1e3);
    return 0;
}
