/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [FIRST [COUNT]]   runs seeds; the first that breaks an invariant is told and ends it
 * sim --trace SEED      one seed, every packet and completion
 * sim --pcap SEED FILE one seed, every packet sent as a capture for tshark and others
 * sim --faults COUNT    with each deliberate fault in the engine some of the first COUNT seeds must break
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define NR_FAULTS 10
extern int fl_roce_fault;

static struct world world;

static const char *const scenarios[] = {"calm", "lossy", "bad request", "dead network"};

static int run_seeds(uint64_t first, uint64_t count)
{
    uint64_t nr_packets = 0, nr_dropped = 0, nr_repeated = 0, nr_reordered = 0, nr_corrupted = 0;
    uint64_t nr_marked = 0, nr_paused = 0;
    unsigned nr_of[NR_SCENARIOS] = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        int r = sim_run(&world, seed, false, NULL);
        if (r) {
            printf("seed %llu (%s): %s\n", (unsigned long long)seed, scenarios[world.scenario], world.why);
            return 1;
        }
        nr_of[world.scenario]++;
        nr_packets += world.nr_packets;
        nr_dropped += world.nr_dropped;
        nr_repeated += world.nr_repeated;
        nr_reordered += world.nr_reordered;
        nr_corrupted += world.nr_corrupted;
        nr_marked += world.nr_marked;
        nr_paused += world.nr_paused;
    }
    printf("%llu seeds, %llu packets: %llu dropped, %llu repeated, %llu reordered, %llu corrupted, %llu "
           "marked, %llu paused\n",
           (unsigned long long)count, (unsigned long long)nr_packets, (unsigned long long)nr_dropped,
           (unsigned long long)nr_repeated, (unsigned long long)nr_reordered,
           (unsigned long long)nr_corrupted, (unsigned long long)nr_marked, (unsigned long long)nr_paused);
    for (int i = 0; i < NR_SCENARIOS; i++) {
        printf("%s %u%s", scenarios[i], nr_of[i], i + 1 < NR_SCENARIOS ? ", " : "\n");
        if (count >= 100 && !nr_of[i])
            return 1;
    }
    /* A kind of damage that never happened was not tried. */
    return count >= 100 &&
           !(nr_dropped && nr_repeated && nr_reordered && nr_corrupted && nr_marked && nr_paused);
}

static int try_faults(uint64_t count)
{
    int missed = 0;
    for (fl_roce_fault = 1; fl_roce_fault <= NR_FAULTS; fl_roce_fault++) {
        uint64_t seed = 0;
        while (seed < count && !sim_run(&world, seed, false, NULL))
            seed++;
        if (seed == count) {
            printf("fault %d: not noticed in %llu seeds\n", fl_roce_fault, (unsigned long long)count);
            missed++;
        } else {
            printf("fault %d: seed %llu: %s\n", fl_roce_fault, (unsigned long long)seed, world.why);
        }
    }
    fl_roce_fault = 0;
    return missed != 0;
}

static int write_pcap(uint64_t seed, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        return 2;
    }
    net_pcap_begin(f);
    int r = sim_run(&world, seed, false, f);
    return fclose(f) ? 2 : r;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--faults"))
        return try_faults(strtoull(argv[2], NULL, 0));
    if (argc == 3 && !strcmp(argv[1], "--trace")) {
        int r = sim_run(&world, strtoull(argv[2], NULL, 0), true, NULL);
        printf("%s: %s\n", scenarios[world.scenario], r ? world.why : "all invariants hold");
        return r;
    }
    if (argc == 4 && !strcmp(argv[1], "--pcap"))
        return write_pcap(strtoull(argv[2], NULL, 0), argv[3]);
    if (argc > 3 || (argc > 1 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: %s [FIRST [COUNT]] | --trace SEED | --pcap SEED FILE | --faults COUNT\n",
                argv[0]);
        return 2;
    }
    return run_seeds(argc > 1 ? strtoull(argv[1], NULL, 0) : 0, argc > 2 ? strtoull(argv[2], NULL, 0) : 300);
}
