/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "rnic/sim/sim.h"

const char *sim_scenario_name(enum scenario scenario)
{
    static const char *const names[NR_SCENARIOS] = {"calm", "lossy", "bad request", "dead network"};
    return names[scenario];
}

void sim_totals_add(struct sim_totals *t, const struct world *w)
{
    t->nr_seeds++;
    t->nr_of[w->scenario]++;
    t->nr_packets += w->nr_packets;
    t->nr_dropped += w->nr_dropped;
    t->nr_repeated += w->nr_repeated;
    t->nr_late += w->nr_late;
    for (int i = 0; i < w->nr_sides; i++)
        t->nr_closed += w->sides[i].nr_closed;
    t->nr_reordered += w->nr_reordered;
    t->nr_corrupted += w->nr_corrupted;
    t->nr_marked += w->nr_marked;
    t->nr_paused += w->nr_paused;
    t->nr_selective += w->selective;
    t->nr_sprayed += w->nr_paths > 1;
    t->nr_resent += w->nr_resent;
    t->nr_probes += w->nr_probes;
    t->nr_held += w->nr_held;
    t->nr_no_room += w->nr_no_room;
}

void sim_totals_print(const struct sim_totals *t, FILE *f)
{
    fprintf(f,
            "%" PRIu64 " seeds, %" PRIu64 " packets: %" PRIu64 " dropped, %" PRIu64 " repeated (%" PRIu64
            " late, %" PRIu64 " after their memory was closed), %" PRIu64 " reordered, %" PRIu64 " corrupted, %" PRIu64 " marked, %" PRIu64 " paused\n",
            t->nr_seeds, t->nr_packets, t->nr_dropped, t->nr_repeated, t->nr_late, t->nr_closed,
            t->nr_reordered, t->nr_corrupted, t->nr_marked, t->nr_paused);
    fprintf(f,
            "%" PRIu64 " resent; %" PRIu64 " seeds with selective retransmission, %" PRIu64
            " sprayed: %" PRIu64 " held, %" PRIu64 " without room, %" PRIu64 " probes\n",
            t->nr_resent, t->nr_selective, t->nr_sprayed, t->nr_held, t->nr_no_room, t->nr_probes);
    for (int i = 0; i < NR_SCENARIOS; i++)
        fprintf(f, "%s %" PRIu64 "%s", sim_scenario_name((enum scenario)i), t->nr_of[i],
                i + 1 < NR_SCENARIOS ? ", " : "\n");
}

bool sim_totals_whole(const struct sim_totals *t)
{
    for (int i = 0; i < NR_SCENARIOS; i++)
        if (!t->nr_of[i])
            return false;
    return t->nr_dropped && t->nr_repeated && t->nr_late && t->nr_closed && t->nr_reordered && t->nr_corrupted && t->nr_marked &&
           t->nr_paused && t->nr_selective && t->nr_sprayed && t->nr_selective != t->nr_seeds && t->nr_held &&
           t->nr_no_room && t->nr_probes;
}
