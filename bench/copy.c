/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memcpy does alone: blocks out of a memory as large as a namespace, which lies as the ram back end's
 * does, into a few buffers that lie as a program's do, or the other way round (--write). The least that a
 * read or write within one host could cost. Prints JSON.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/util.h"
#include "mem/shared.h"

struct options {
    size_t bs, memory;
    uint32_t depth;
    double seconds;
    int cpu, random, write;
};

static void fail(const char *what)
{
    fprintf(stderr, "copy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static size_t number(const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);

    if (!n || *end || n > SIZE_MAX) {
        fprintf(stderr, "copy: %s is not a number above 0\n", text);
        exit(2);
    }
    return (size_t)n;
}

static void parse(int argc, char **argv, struct options *o)
{
    const struct option options[] = {{"bs", 1, NULL, 'b'},       {"memory", 1, NULL, 'm'},
                                     {"depth", 1, NULL, 'd'},    {"seconds", 1, NULL, 's'},
                                     {"cpu", 1, NULL, 'c'},      {"random", 0, &o->random, 1},
                                     {"write", 0, &o->write, 1}, {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'b')
            o->bs = number(optarg);
        else if (c == 'm')
            o->memory = number(optarg);
        else if (c == 'd')
            o->depth = (uint32_t)number(optarg);
        else if (c == 's')
            o->seconds = strtod(optarg, NULL);
        else if (c == 'c')
            o->cpu = atoi(optarg);
        else if (c)
            exit(2);
    }
    if (o->memory < o->bs || !o->depth) {
        fprintf(stderr, "usage: copy --bs BYTES --memory BYTES --depth BUFFERS --seconds S [--cpu N] "
                        "[--random] [--write]\n");
        exit(2);
    }
}

static void bind_to(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        fail("cannot bind to the CPU");
}

int main(int argc, char **argv)
{
    struct options o = {.bs = 4096, .memory = 256 << 20, .depth = 1, .seconds = 1, .cpu = -1};
    uint64_t nr = 0, random = 1, start, now;
    uint8_t *memory, *buffers;

    parse(argc, argv, &o);
    bind_to(o.cpu);
    memory = mmap(NULL, o.memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    buffers = fl_shared_alloc(fl_round_up(o.bs * o.depth, 4096));
    if (memory == MAP_FAILED || !buffers)
        fail("no memory");
    madvise(memory, o.memory, MADV_HUGEPAGE);
    memset(memory, 1, o.memory);
    memset(buffers, 2, o.bs * o.depth);
    start = now = fl_now_ns();
    while ((double)(now - start) < o.seconds * 1e9) {
        for (int i = 0; i < 64; i++, nr++) {
            size_t nr_blocks = o.memory / o.bs;
            uint8_t *there, *here = buffers + nr % o.depth * o.bs;

            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            there = memory +
                    (o.random ? (size_t)(((unsigned __int128)random * nr_blocks) >> 64) : nr % nr_blocks) *
                        o.bs;
            if (o.write)
                memcpy(there, here, o.bs);
            else
                memcpy(here, there, o.bs);
            __asm__ volatile("" : : "r"(here), "r"(there) : "memory");
        }
        now = fl_now_ns();
    }
    printf("{\"iops\": %.9g, \"gb_per_s\": %.9g, \"mean_us\": %.9g}\n",
           (double)nr * 1e9 / (double)(now - start), (double)nr * (double)o.bs / (double)(now - start),
           (double)(now - start) / 1e3 / (double)nr);
    return 0;
}
