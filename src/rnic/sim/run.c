/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rnic/sim/sim.h"

#define END_NS     20000000000ull /* no run needs that long */
#define EVENTS_MAX 400000

void sim_broken(struct world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->why, sizeof(w->why), format, args);
    va_end(args);
    longjmp(w->broken, 1);
}

static void choose(struct world *w)
{
    w->scenario = (enum scenario)below(w, NR_SCENARIOS);
    unsigned kind = below(w, 10);
    w->type = kind < 8 ? IBV_QPT_RC : kind < 9 ? IBV_QPT_UC : IBV_QPT_UD;
    if (w->type != IBV_QPT_RC && w->scenario > LOSSY)
        w->scenario = LOSSY;
    w->latency = 1000 + below(w, 20000);
    w->jitter = below(w, 2) ? below(w, 20000) : 0;
    w->dead_at = w->scenario == DEAD ? below(w, 3000000) : FL_ROCE_NEVER;
    if (w->scenario == LOSSY || (w->scenario != CALM && below(w, 2))) {
        w->drop = below(w, 3) ? below(w, 400) : 0;
        w->repeat = below(w, 3) ? below(w, 600) : 0;
        w->reorder = below(w, 3) ? below(w, 600) : 0;
        w->corrupt = below(w, 3) ? below(w, 200) : 0;
        w->mark = below(w, 3) ? 0 : below(w, 3000);
        w->pause_at = below(w, 3000000);
        w->pause_end = below(w, 2) ? w->pause_at + below(w, 500000) : 0;
    }
    w->nr_paths = 1;
    if (w->type == IBV_QPT_RC && below(w, 5) >= 2) {
        w->selective = true;
        if (below(w, 2))
            w->nr_paths = (uint8_t)(1u << (1 + below(w, 4)));
        for (int i = 0; i < w->nr_paths && w->nr_paths > 1; i++)
            w->path_delay[i] = below(w, 3) ? below(w, 30000) : 0;
    }
    HOLDS(w, !fl_roce_pool_init(&w->pool, 1 + below(w, below(w, 3) ? 500 : 10)), "no memory");
    w->nr_sides = 2 * (1 + (int)below(w, below(w, 4) ? 1 : MAX_CONNS));
}

static uint32_t some_psn(struct world *w)
{
    return (below(w, 2) ? (uint32_t)sim_draw(w) : 0u - below(w, 60)) & 0xffffff; /* half of them wrap soon */
}

static void choose_attrs(struct world *w, struct side *a, struct side *b)
{
    struct fl_roce_attr attr = {
        .pkey = FL_IB_PKEY_DEFAULT,
        .qkey = 0x11111111,
        .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
        .mtu = (uint8_t)(1 + below(w, below(w, 2) ? 5 : 2)),
        .timeout = (uint8_t)(8 + below(w, 4)),
        .retry_cnt = 7,
        .rnr_retry = 7,
        .min_rnr_timer = (uint8_t)(1 + below(w, 12)),
        .window = 1 + below(w, 64),
        .read_piece = below(w, 2) ? 1 + below(w, 8) : 0,
        .line_rate = 1000000000ull * (1 + below(w, 12)),
        .selective = w->selective,
        .nr_paths = w->nr_paths,
    };
    a->qp.attr = b->qp.attr = attr;
    a->qp.attr.sq_psn = b->qp.attr.rq_psn = some_psn(w);
    b->qp.attr.sq_psn = a->qp.attr.rq_psn = some_psn(w);
    a->qp.attr.max_rd_atomic = (uint8_t)(1 + below(w, 4));
    b->qp.attr.max_rd_atomic = (uint8_t)(1 + below(w, 4));
    a->qp.attr.max_dest_rd_atomic = (uint8_t)(b->qp.attr.max_rd_atomic + below(w, 2));
    b->qp.attr.max_dest_rd_atomic = (uint8_t)(a->qp.attr.max_rd_atomic + below(w, 2));
}

static void pump(struct side *s)
{
    struct fl_roce_tx tx;
    s->pump_at = FL_ROCE_NEVER;
    while (fl_roce_qp_tx(&s->qp, s->world->now, &tx))
        net_send(s, &tx);
}

static void step_side(struct side *s)
{
    struct world *w = s->world;
    if (w->now >= fl_roce_qp_deadline(&s->qp)) {
        fl_roce_qp_tick(&s->qp, w->now);
        s->pump_at = w->now;
    }
    if (w->now >= s->app_at)
        side_app(s);
    if (w->now >= s->pump_at)
        pump(s);
}

static uint64_t next_event(const struct world *w)
{
    uint64_t at = net_next(w);
    for (int i = 0; i < w->nr_sides; i++) {
        const struct side *s = &w->sides[i];
        uint64_t deadline = fl_roce_qp_deadline(&s->qp);
        at = deadline < at ? deadline : at;
        at = s->app_at < at ? s->app_at : at;
        at = s->pump_at < at ? s->pump_at : at;
    }
    return at;
}

static bool all_quiet(const struct world *w)
{
    for (int i = 0; i < w->nr_sides; i++)
        if (!side_quiet(&w->sides[i]))
            return false;
    return true;
}

static void live(struct world *w)
{
    choose(w);
    for (int i = 0; i < w->nr_sides; i++)
        side_make(w, &w->sides[i], &w->sides[i ^ 1], i);
    for (int i = 0; i < w->nr_sides; i += 2)
        choose_attrs(w, &w->sides[i], &w->sides[i + 1]);
    for (int i = 0; i < w->nr_sides; i++)
        side_plan(&w->sides[i]);
    for (int i = 0; i < w->nr_sides; i++)
        side_connect(&w->sides[i]);
    for (;;) {
        uint64_t at = next_event(w);
        if (at == FL_ROCE_NEVER)
            break; /* what is in flight has arrived, too: late packets must do no harm */
        HOLDS(w, at >= w->now, "time goes back");
        w->now = at;
        HOLDS(w, at < END_NS && w->nr_events++ < EVENTS_MAX, "no end: after %llu us and %llu events",
              (unsigned long long)at / 1000, (unsigned long long)w->nr_events);
        if (net_next(w) <= at)
            net_deliver(w);
        for (int i = 0; i < w->nr_sides; i++)
            step_side(&w->sides[i]);
    }
    HOLDS(w, all_quiet(w), "nothing moves any more, and not everything is done");
    uint32_t nr_free = w->pool.nr_free;
    for (int i = 0; i < w->nr_sides; i++) {
        const struct fl_roce_stats *stats = &w->sides[i].qp.stats;
        side_check_end(&w->sides[i]);
        w->nr_resent += stats->nr_resent;
        w->nr_probes += stats->nr_probes;
        w->nr_held += stats->nr_held;
        w->nr_no_room += stats->nr_no_room;
        nr_free += w->sides[i].qp.sel ? w->sides[i].qp.sel->nr_held : 0;
    }
    HOLDS(w, nr_free == w->pool.nr, "%u packets of the pool are lost", w->pool.nr - nr_free);
}

int sim_run(struct world *w, uint64_t seed, FILE *trace, FILE *pcap)
{
    memset(w, 0, sizeof(*w));
    w->seed = w->rng = seed;
    w->trace = trace;
    w->pcap = pcap;
    int r = setjmp(w->broken);
    if (!r)
        live(w);
    net_fini(w);
    for (int i = 0; i < w->nr_sides; i++)
        side_free(&w->sides[i]);
    fl_roce_pool_fini(&w->pool);
    return r;
}
