/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RoCE queue pairs, a network that loses, repeats, reorders, delays and changes packets, and a clock, all
 * from one seed: the same seed, the same run. Programs at both ends post work of every kind and know what
 * must come of it.
 */
#ifndef FL_RNIC_SIM_SIM_H
#define FL_RNIC_SIM_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rnic/roce/roce.h"

#define MAX_CONNS  4
#define MAX_MSGS   48
#define MSG_LEN    6000 /* longest message; a multiple of 8 */
#define SRC_LEN    16384
#define GUARD_LEN  8192
#define SGE_MAX    4
#define INLINE_LEN 64

enum scenario {
    CALM,   /* nothing is lost */
    LOSSY,  /* everything arrives in the end */
    BAD_OP, /* the last request of one side is not allowed */
    DEAD,   /* from some time on everything is lost */
    NR_SCENARIOS,
};

struct msg {
    enum ibv_wr_opcode opcode;
    uint32_t len, src; /* bytes, and where in the source area they begin */
    uint32_t imm;
    uint64_t add, compare;
    bool signaled;
};

struct world;

struct side {
    struct fl_roce_qp qp;
    struct world *world;
    struct side *peer;
    int id; /* for the trace */
    uint8_t *mem, *shadow;
    size_t mr_len, mem_len;
    size_t at_sink, at_read, at_recv, at_atomic; /* areas; the source area is at 0 */
    uint32_t key;
    struct msg msgs[MAX_MSGS];
    int nr_msgs, nr_posted, nr_done;  /* nr_done: known to be complete, told or not */
    int nr_recv_posted, nr_recv_want; /* receives posted so far, and how many the peer's messages take */
    int nr_received, next_received;   /* completions, and the peer's message to be looked at next */
    int nr_invalidated, nr_local_invalidated;
    uint64_t nr_closed; /* READs that came when the memory was closed already */
    uint64_t expect_original;  /* what the next atomic of ours must find */
    enum ibv_wc_status failed; /* first that was not success */
    int failed_at, nr_flushed;
    int bad; /* this message is not allowed; -1 */
    enum ibv_wc_status bad_status;
    uint64_t app_at, pump_at;
    unsigned event;
};

struct packet {
    uint64_t at, order;
    struct side *to;
    uint16_t src_port, id;
    uint8_t path;
    bool ce;
    uint32_t len; /* with ICRC */
    uint8_t *bytes;
};

struct world {
    uint64_t seed, rng, now, order;
    enum scenario scenario;
    enum ibv_qp_type type;
    /* out of 10,000 */
    unsigned drop, repeat, reorder, corrupt, mark;
    uint64_t pause_at, pause_end; /* nothing arrives in between */
    uint64_t latency, jitter, dead_at;
    /* selective retransmission, and spraying over paths of which each has a delay of its own and keeps its
     * order */
    bool selective;
    uint8_t nr_paths;
    uint64_t path_delay[FL_ROCE_PATHS_MAX], last_at[2 * MAX_CONNS][FL_ROCE_PATHS_MAX];
    struct fl_roce_pool pool;
    struct side sides[2 * MAX_CONNS];
    int nr_sides;
    struct packet *heap;
    size_t nr_heap, cap_heap, max_heap;
    FILE *trace; /* every packet and completion is told there; NULL: nowhere */
    FILE *pcap;  /* every packet sent goes there, too; NULL: nowhere */
    uint64_t nr_packets, nr_dropped, nr_repeated, nr_reordered, nr_corrupted, nr_marked, nr_paused, nr_events;
    uint64_t nr_late; /* repeated, by much */
    uint64_t nr_resent, nr_probes, nr_held, nr_no_room;
    jmp_buf broken;
    char why[256];
};

/* An invariant does not hold: the run ends. */
void sim_broken(struct world *w, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
#define HOLDS(w, condition, ...)          \
    do {                                  \
        if (!(condition))                 \
            sim_broken((w), __VA_ARGS__); \
    } while (0)

uint64_t sim_draw(struct world *w);
static inline uint32_t below(struct world *w, uint32_t n) /* 0 to n - 1 */
{
    return (uint32_t)(sim_draw(w) % n);
}
static inline bool chance(struct world *w, unsigned of_10000)
{
    return of_10000 && below(w, 10000) < of_10000;
}

/* net.c */
void net_send(struct side *from, const struct fl_roce_tx *tx);
void net_deliver(struct world *w); /* the packet that is due first */
static inline uint64_t net_next(const struct world *w)
{
    return w->nr_heap ? w->heap[0].at : FL_ROCE_NEVER;
}
void net_fini(struct world *w);
void net_pcap_begin(FILE *f);

/* side.c */
void side_make(struct world *w, struct side *s, struct side *peer, int id);
void side_plan(struct side *s);    /* its messages; before side_connect */
void side_connect(struct side *s); /* after both were planned */
void side_app(struct side *s);     /* the program's turn */
bool side_quiet(const struct side *s);
void side_check_end(struct side *s);
void side_free(struct side *s);

/* run.c: one seed from begin to end. 0, or 1 and world.why */
int sim_run(struct world *w, uint64_t seed, FILE *trace, FILE *pcap);

/* report.c: what many seeds came to */
struct sim_totals {
    uint64_t nr_seeds, nr_of[NR_SCENARIOS];
    uint64_t nr_packets, nr_dropped, nr_repeated, nr_reordered, nr_corrupted, nr_marked, nr_paused;
    uint64_t nr_late, nr_closed;
    uint64_t nr_selective, nr_sprayed, nr_resent, nr_probes, nr_held, nr_no_room; /* the first two: seeds */
};
const char *sim_scenario_name(enum scenario scenario);
void sim_totals_add(struct sim_totals *t, const struct world *w);
void sim_totals_print(const struct sim_totals *t, FILE *f);
/* Each scenario and each kind of damage came up: one that never happened was not tried. */
bool sim_totals_whole(const struct sim_totals *t);

#endif
