/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of the world of cm.h: cm_sim FIRST COUNT, cm_sim --trace SEED */
#include "cm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void broken(struct world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->why, sizeof(w->why), format, args);
    va_end(args);
    longjmp(w->broken, 1);
}

void note(const struct world *w, const char *format, ...)
{
    va_list args;
    if (!w->trace)
        return;
    printf("%12.6f ", (double)w->now / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

uint64_t draw(struct world *w)
{
    uint64_t z = w->rng += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

const char *name_of(const struct end *end)
{
    static char names[4][24];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof(names[0]), "connect %d %s", end->connect->nr, end->role == ASKS ? "asks" : "asked");
    return name;
}

static void start_host(struct world *w, int i)
{
    struct host *host = &w->hosts[i];
    host->config.seed[0] = draw(w);
    host->config.seed[1] = draw(w);
    int r = fl_cm_create(&host->config, &host->cm);
    HOLDS(w, !r, "create: %d", r);
    r = fl_cm_listen(host->cm, SERVICE, chance(w, 500) ? &host->addr : NULL, w->backlog, host,
                     &host->listener);
    HOLDS(w, !r, "listen: %d", r);
}

/* All that it knew is gone, and its programs with it; queue pair numbers come again. */
static void restart_host(struct world *w)
{
    note(w, "host 0 restarts");
    fl_cm_destroy(w->hosts[0].cm);
    start_host(w, 0);
    for (int i = 0; i < w->nr_connects; i++)
        for (int role = ASKS; role <= ASKED; role++)
            if (w->connects[i].end[role].host == 0 && w->connects[i].end[role].conn)
                forget(&w->connects[i].end[role]);
    for (int i = 0; i < w->nr_connects; i++) { /* what was asked here before may be asked again */
        struct end *end = &w->connects[i].end[ASKED];
        if (end->host == 0)
            *end = (struct end){.world = w, .connect = end->connect, .role = ASKED, .terms = end->terms};
    }
    w->restart_at = FL_CM_NEVER;
}

static void make(struct world *w)
{
    w->scenario = (enum scenario)below(w, NR_SCENARIOS);
    w->latency = 1000 + below(w, MS);
    w->drop = w->scenario == CALM ? 0 : (unsigned)below(w, 2) * (unsigned)below(w, 300);
    w->repeat = w->scenario == CALM ? 0 : (unsigned)below(w, 300);
    w->reorder = w->scenario == CALM ? 0 : (unsigned)below(w, 500);
    w->late = chance(w, 500) ? 2000 * MS : 0;
    w->again = chance(w, 500);
    w->dead_at = w->scenario == DEAD ? below(w, 1000 * MS) : FL_CM_NEVER;
    w->restart_at = w->scenario == RESTART ? below(w, 1000 * MS) : FL_CM_NEVER;
    w->slow = chance(w, 300);
    w->backlog = chance(w, 700) ? CONNECTS : 1 + (uint32_t)below(w, 8);
    w->lazy = chance(w, 300);
    w->nr_connects = 1 + (int)below(w, chance(w, 300) ? CONNECTS : 6);
    if (chance(w, 500))
        w->drop = FL_MIN(w->drop, 50u);
    w->exact = w->drop <= 50 && (w->scenario == CALM || w->scenario == LOSSY || w->scenario == STORM);
    for (int i = 0; i < HOSTS; i++) {
        struct host *host = &w->hosts[i];
        host->addr = (struct in6_addr){{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(i + 1)}}};
        host->config = (struct fl_cm_config){
            .guid = 100 + (uint64_t)i,
            .response_timeout = (uint8_t)(14 + below(w, 7)),
            .retries = (uint8_t)(w->exact ? 15 : 2 + below(w, 14)),
            .max_conns = 2 * CONNECTS + 32, /* few, so that they meet in the tables */
        };
        host->config.service_timeout = (uint8_t)(host->config.response_timeout + 3);
        start_host(w, i);
    }
    for (int i = 0; i < w->nr_connects; i++) {
        struct connect *connect = &w->connects[i];
        connect->nr = i;
        for (int role = ASKS; role <= ASKED; role++) {
            struct end *end = &connect->end[role];
            *end = (struct end){.world = w, .connect = connect, .host = (int)below(w, HOSTS), .role = role};
            end->terms = (struct fl_cm_terms){
                .qpn = 2 + (uint32_t)(2 * i + role),
                .psn = (uint32_t)below(w, 1 << 24),
                .responder_resources = (uint8_t)draw(w),
                .initiator_depth = (uint8_t)draw(w),
                .rnr_retry_count = (uint8_t)below(w, 8),
                .features = (uint16_t)below(w, 8),
            };
        }
        plan(&connect->end[ASKS], ACT_CONNECT, w->scenario == RESTART ? 2000 * MS : 200 * MS);
        /* A program of the restarted host that has the number of one from before */
        if (w->scenario == RESTART && i && chance(w, 500)) {
            connect->end[ASKS].host = 0;
            connect->end[ASKS].terms.qpn = w->connects[i - 1].end[ASKS].terms.qpn;
        }
    }
}

static uint64_t next_time(const struct world *w, struct end **who)
{
    uint64_t next = w->restart_at;
    int first = first_packet(w);
    *who = NULL;
    if (first >= 0)
        next = FL_MIN(next, w->packets[first].at);
    for (int i = 0; i < HOSTS; i++)
        next = FL_MIN(next, fl_cm_deadline(w->hosts[i].cm));
    for (int i = 0; i < w->nr_connects; i++) {
        for (int role = ASKS; role <= ASKED; role++) {
            struct end *end = (struct end *)&w->connects[i].end[role];
            if (end->act && end->act_at < next) {
                next = end->act_at;
                *who = end;
            }
        }
    }
    return next;
}

static void check_in_time(struct world *w)
{
    for (int i = 0; i < w->nr_connects; i++) {
        for (int role = ASKS; role <= ASKED; role++) {
            const struct end *end = &w->connects[i].end[role];
            /* The asking side's own program may think for long after the response, the other's before it
             * accepts */
            bool waits = end->begun && !end->ended && (role == ASKS ? !end->responded : end->accepted);
            HOLDS(w, !waits || w->now <= end->end_by, "%s: no outcome in time", name_of(end));
        }
    }
}

/* True: there were events. */
static bool take_events(struct world *w, bool all)
{
    bool any = false;
    struct fl_cm_event event;
    for (int i = 0; i < HOSTS; i++) {
        while ((all || chance(w, 100)) && fl_cm_next_event(w->hosts[i].cm, &event)) {
            take_event(w, i, &event);
            any = true;
        }
        send_all(w, i);
    }
    return any;
}

static bool step(struct world *w)
{
    struct end *who;
    uint64_t next = next_time(w, &who);
    if (next == FL_CM_NEVER)
        return take_events(w, true);
    HOLDS(w, next >= w->now, "time goes back");
    HOLDS(w, ++w->nr_steps < 1000000, "no end");
    w->now = next;
    if (w->now >= w->restart_at)
        restart_host(w);
    else if (who)
        do_act(w, who);
    else if (w->nr_packets && w->packets[first_packet(w)].at == w->now)
        deliver(w, first_packet(w));
    for (int i = 0; i < HOSTS; i++)
        if (fl_cm_deadline(w->hosts[i].cm) <= w->now)
            fl_cm_tick(w->hosts[i].cm, w->now);
    take_events(w, !w->lazy);
    if (!w->lazy)
        check_in_time(w);
    return true;
}

/* Unless programs go away, both ends know the same. */
static void check_agreement(struct world *w)
{
    for (int i = 0; i < w->nr_connects; i++) {
        const struct end *a = &w->connects[i].end[ASKS], *b = &w->connects[i].end[ASKED];
        HOLDS(w, !a->begun || a->ended, "%s: no outcome", name_of(a));
        HOLDS(w, !b->begun || b->ended, "%s: no outcome", name_of(b));
        if (!w->exact || a->destroyed || b->destroyed)
            continue;
        HOLDS(w, a->up == b->up || (b->disconnecting && !b->up),
              "connect %d: one side is connected, the other is not", i);
        HOLDS(w, a->disconnected == b->disconnected, "connect %d: one side is disconnected, the other is not",
              i);
        HOLDS(w, a->disconnected == a->timewait_over, "connect %d: time wait", i);
    }
}

static void run(struct world *w)
{
    make(w);
    while (step(w))
        ;
    check_agreement(w);
    for (int i = 0; i < w->nr_connects; i++)
        for (int role = ASKS; role <= ASKED; role++)
            destroy(&w->connects[i].end[role]);
    while (step(w))
        ;
    for (int i = 0; i < HOSTS; i++)
        HOLDS(w, !fl_cm_nr_conns(w->hosts[i].cm), "%u connections are left", fl_cm_nr_conns(w->hosts[i].cm));
}

static int run_seed(struct world *w, uint64_t seed, bool trace)
{
    *w = (struct world){.seed = seed, .rng = seed, .trace = trace};
    int r = setjmp(w->broken);
    if (!r)
        run(w);
    else
        fprintf(stderr, "seed %llu, at %.6f s: %s\n", (unsigned long long)seed, (double)w->now / 1e9, w->why);
    for (int i = 0; i < HOSTS; i++)
        if (w->hosts[i].cm)
            fl_cm_destroy(w->hosts[i].cm);
    return r;
}

int main(int argc, char **argv)
{
    static struct world w;
    uint64_t sum[6] = {0};
    int nr_broken = 0;
    if (argc == 3 && !strcmp(argv[1], "--trace"))
        return run_seed(&w, strtoull(argv[2], NULL, 10), true);
    if (argc != 3) {
        fprintf(stderr, "usage: %s FIRST COUNT | --trace SEED\n", argv[0]);
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count && nr_broken < 10; seed++) {
        nr_broken += run_seed(&w, seed, false);
        const uint64_t of_this[] = {w.nr_sent,     w.nr_dropped,     w.nr_up,
                                    w.nr_rejected, w.nr_unreachable, w.nr_disconnected};
        for (size_t i = 0; i < FL_ARRAY_LEN(sum); i++)
            sum[i] += of_this[i];
    }
    printf(
        "%llu seeds: %llu messages, %llu lost; %llu ends established, %llu rejected, %llu unreachable, %llu "
        "disconnected; %d seeds failed\n",
        (unsigned long long)count, (unsigned long long)sum[0], (unsigned long long)sum[1],
        (unsigned long long)sum[2], (unsigned long long)sum[3], (unsigned long long)sum[4],
        (unsigned long long)sum[5], nr_broken);
    return nr_broken != 0;
}
