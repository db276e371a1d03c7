/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/roce/congestion.h"

#define PERIOD_NS     55000 /* of alpha's decay and of recovery */
#define ONE           1024u /* alpha is a fraction of it */
#define GAIN_SHIFT    4     /* how fast alpha follows */
#define FAST_ROUNDS   5     /* half way back each; then the target grows */
#define ROUNDS_MAX    4096  /* all that time without a notification: the limit is history */
#define FLOOR_DIVISOR 128

static uint64_t floor_of(const struct fl_roce_congestion *cc)
{
    uint64_t least = cc->line_rate / FLOOR_DIVISOR;
    return least ? least : 1;
}

void fl_roce_congestion_cut(struct fl_roce_congestion *cc, uint64_t now)
{
    if (!cc->line_rate)
        cc->line_rate = FL_ROCE_LINE_RATE;
    if (!cc->limited) {
        cc->limited = true;
        cc->rate = cc->target = cc->line_rate;
        cc->alpha = ONE; /* the first cut halves */
        cc->next_at = now;
    }
    cc->target = cc->rate;
    cc->rate -= cc->rate / (2 * ONE) * cc->alpha;
    if (cc->rate < floor_of(cc))
        cc->rate = floor_of(cc);
    cc->alpha += (ONE - cc->alpha) >> GAIN_SHIFT;
    cc->nr_rounds = 0;
    cc->alpha_at = cc->round_at = now + PERIOD_NS;
}

static void recover(struct fl_roce_congestion *cc)
{
    if (++cc->nr_rounds > FAST_ROUNDS) /* a bolder step with each round that nobody complains about */
        cc->target += cc->line_rate / 256 * (cc->nr_rounds - FAST_ROUNDS);
    if (cc->target > cc->line_rate)
        cc->target = cc->line_rate;
    cc->rate = (cc->rate + cc->target + 1) / 2;
    if (cc->rate >= cc->line_rate - cc->line_rate / 64)
        cc->limited = false;
}

/* Catches up with the clock. */
static void advance(struct fl_roce_congestion *cc, uint64_t now)
{
    if (now >= cc->round_at + (uint64_t)ROUNDS_MAX * PERIOD_NS)
        cc->limited = false;
    for (; cc->limited && now >= cc->alpha_at; cc->alpha_at += PERIOD_NS)
        cc->alpha -= cc->alpha >> GAIN_SHIFT;
    for (; cc->limited && now >= cc->round_at; cc->round_at += PERIOD_NS)
        recover(cc);
}

bool fl_roce_congestion_open(struct fl_roce_congestion *cc, uint64_t now)
{
    if (!cc->limited)
        return true;
    advance(cc, now);
    return !cc->limited || now >= cc->next_at;
}

void fl_roce_congestion_sent(struct fl_roce_congestion *cc, uint32_t len, uint64_t now)
{
    if (!cc->limited)
        return;
    uint64_t from = cc->next_at > now ? cc->next_at : now;
    cc->next_at = from + len * 1000000000ull / cc->rate;
}

bool fl_roce_congestion_marked(struct fl_roce_congestion *cc, uint64_t now)
{
    if (now < cc->cnp_at)
        return false;
    cc->cnp_at = now + FL_ROCE_CNP_NS;
    return true;
}
