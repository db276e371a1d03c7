/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [FIRST [COUNT]]   runs seeds; the first that breaks an invariant is told and ends it
 * sim --faults COUNT    with each deliberate fault in the engine some of the first COUNT seeds must break
 *
 * `farlane sim` runs the same seeds on the engine without faults, and traces one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/sim/sim.h"

#define NR_FAULTS 15
extern int fl_roce_fault;

static struct world world;

static int run_seeds(uint64_t first, uint64_t count)
{
    struct sim_totals totals = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        int r = sim_run(&world, seed, NULL, NULL);
        if (r) {
            printf("seed %llu (%s): %s\n", (unsigned long long)seed, sim_scenario_name(world.scenario),
                   world.why);
            return 1;
        }
        sim_totals_add(&totals, &world);
    }
    sim_totals_print(&totals, stdout);
    return count >= 100 && !sim_totals_whole(&totals);
}

static int try_faults(uint64_t count)
{
    int missed = 0;
    for (fl_roce_fault = 1; fl_roce_fault <= NR_FAULTS; fl_roce_fault++) {
        uint64_t seed = 0;
        while (seed < count && !sim_run(&world, seed, NULL, NULL))
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

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--faults"))
        return try_faults(strtoull(argv[2], NULL, 0));
    if (argc > 3 || (argc > 1 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: %s [FIRST [COUNT]] | --faults COUNT\n", argv[0]);
        return 2;
    }
    return run_seeds(argc > 1 ? strtoull(argv[1], NULL, 0) : 0, argc > 2 ? strtoull(argv[2], NULL, 0) : 300);
}
