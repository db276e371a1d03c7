/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection manager engines in a simulated network: storms of connects, rejects and disconnects between
 * hosts, with loss, repeats (some of them long after), reordering, slow and impatient programs, a network
 * that dies, a host that restarts; all from one seed. Held all along: each connect ends once at either side
 * and within its time, the two ends agree as far as they can, nothing is told of what its owner has
 * destroyed, and nothing is left at the end.
 */
#ifndef FL_TESTS_SIM_CM_H
#define FL_TESTS_SIM_CM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"
#include "rnic/cm/cm.h"

#define HOSTS       3
#define CONNECTS    48
#define PACKETS_MAX 4096
#define SERVICE     fl_cm_service_id(FL_CM_PS_TCP, 7471)
#define MS          1000000ull

enum scenario { CALM, LOSSY, STORM, DEAD, RESTART, NR_SCENARIOS };

enum act { ACT_NONE, ACT_CONNECT, ACT_ACCEPT, ACT_REJECT, ACT_READY, ACT_HEAR, ACT_DISCONNECT, ACT_DESTROY };

enum { ASKS, ASKED };

struct end {
    struct world *world;
    struct connect *connect;
    int host, role;
    struct fl_cm_conn *conn; /* NULL: not begun, or destroyed */
    struct fl_cm_terms terms;
    bool begun, ended; /* ended: the one outcome was told, or was its own program's */
    bool up, disconnecting, disconnected, timewait_over, destroyed, rejected;
    bool responded, accepted;
    bool qpn_free;   /* the peer knows as well that it is over */
    uint64_t end_by; /* an outcome must come by then */
    enum act act;
    uint64_t act_at;
};

struct connect {
    int nr;
    struct end end[2];
};

struct packet {
    uint64_t at, order;
    int to;
    struct fl_cm_tx tx;
};

struct host {
    struct fl_cm *cm;
    struct fl_cm_config config;
    struct in6_addr addr;
    struct fl_cm_listener *listener;
};

struct world {
    uint64_t seed, rng, now, order, dead_at, restart_at;
    enum scenario scenario;
    unsigned drop, repeat, reorder; /* out of 1000 */
    uint64_t latency, late;         /* late: what a repeat may be held back */
    bool again;                     /* queue pair numbers have another connection as soon as one is over */
    struct host hosts[HOSTS];
    struct connect connects[CONNECTS];
    int nr_connects;
    uint32_t backlog;
    struct packet packets[PACKETS_MAX];
    int nr_packets;
    bool trace, slow;
    bool lazy;  /* programs ask for events late */
    bool exact; /* what is lost is repeated often enough: nothing but a program's will keeps two ends apart */
    uint64_t nr_sent, nr_dropped, nr_up, nr_rejected, nr_unreachable, nr_disconnected, nr_steps;
    jmp_buf broken;
    char why[256];
};

/* An invariant does not hold: the run ends. */
void broken(struct world *w, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
#define HOLDS(w, condition, ...)      \
    do {                              \
        if (!(condition))             \
            broken((w), __VA_ARGS__); \
    } while (0)

void note(const struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *name_of(const struct end *end);

uint64_t draw(struct world *w);
static inline uint64_t below(struct world *w, uint64_t n)
{
    return draw(w) % n;
}
static inline bool chance(struct world *w, unsigned of_1000)
{
    return below(w, 1000) < of_1000;
}

/* cm_net.c */
void send_all(struct world *w, int from);
int first_packet(const struct world *w); /* -1: none */
void deliver(struct world *w, int i);

/* cm_program.c */
void plan(struct end *end, enum act act, uint64_t most_ns);
void take_event(struct world *w, int host, const struct fl_cm_event *event);
void do_act(struct world *w, struct end *end); /* what was planned */
void forget(struct end *end);                  /* its host has */
void destroy(struct end *end);

#endif
