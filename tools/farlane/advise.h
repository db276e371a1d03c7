/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `farlane advise`: what was seen of loss and CPU (advise_look.c), the verdict, which is one
 * pure function over figures (advise_judge.c), and how it is said (advise_say.c, advise_show.c). What is
 * measured of each path is what `farlane tax` measures (tax.h). */
#ifndef FARLANE_ADVISE_H
#define FARLANE_ADVISE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "tax.h"

/* A difference of so much of the latency that an application sees, or less, is none to it. */
#define ADVISE_NOISE 0.10
/* Of packets. RoCE as hardware has it sends again all that follows a lost one; a thousandth costs it most of
 * its rate. */
#define ADVISE_LOSS 0.001

/* ---- advise_judge.c: no state, no clock, no files ---- */

enum advise_kind { ADVISE_SHM, ADVISE_UDP, ADVISE_HARDWARE };

/* In us unless said. */
struct advise_path {
    bool known;     /* it was measured */
    double us, p99; /* latency as an application sees it, at depth 1: the median, and the 99th percentile */
    double spread;  /* half the way from the least to the most of the rounds' medians */
    double rate, cores; /* I/Os a second at depth 32, and cores of this machine for them, vain polling not
                           counted; negative: not known */
};

struct advise_facts {
    struct advise_path rdma, tcp;
    enum advise_kind kind; /* of the RDMA */
    double device_us;      /* the device by itself; negative: not known */
    double budget_us;      /* for the fabric; 0: none was told */
    double loss;           /* share of packets sent again, the larger of both; negative: not known */
    double cores_free;     /* before it was measured; negative: not known */
};

enum advise_verdict { ADVISE_UNKNOWN, ADVISE_RDMA, ADVISE_TCP, ADVISE_BOTH, ADVISE_NEITHER };
enum advise_reason {
    ADVISE_NOTHING,   /* neither path could be measured */
    ADVISE_ONLY,      /* only one could */
    ADVISE_OVER,      /* no path that was measured keeps the budget */
    ADVISE_KEEPS,     /* one of them does */
    ADVISE_BOTH_KEEP, /* both do */
    ADVISE_LOSSY,     /* packets are lost */
    ADVISE_CORES,     /* the faster one needs more CPU than is free */
    ADVISE_SMALL,     /* what they add is little to this device */
    ADVISE_ALIKE,     /* the difference is little */
    ADVISE_UNSURE,    /* it is less than the rounds differ: measured too badly to tell */
    ADVISE_FASTER,
};

/* What would make another verdict of it. */
enum advise_turn {
    ADVISE_TURN_DEVICE_OVER,  /* a device slower than `value` us: noise then */
    ADVISE_TURN_DEVICE_UNDER, /* a device faster than `value` us */
    ADVISE_TURN_BUDGET,       /* at least `value` us */
    ADVISE_TURN_BUDGET_UNDER, /* less than `value` us */
    ADVISE_TURN_LOSS,         /* more than `value`, a share */
    ADVISE_TURN_NO_LOSS,      /* less than that */
    ADVISE_TURN_CORES,        /* `value` cores free */
    ADVISE_TURN_HARDWARE,     /* RDMA in hardware at both ends */
    ADVISE_TURN_OTHER,        /* the other path, once it can be had */
};
struct advise_change {
    enum advise_turn turn;
    enum advise_verdict to; /* ADVISE_UNKNOWN: to be measured then */
    double value;
};

struct advice {
    enum advise_verdict verdict;
    enum advise_reason reason;
    double added_rdma, added_tcp; /* to the device; to zero where the device is not known */
    double gap;                   /* TCP's median less RDMA's */
    double noise_us;              /* so large a gap would be noise here */
    bool tail_disagrees; /* the 99th percentile says the opposite of the verdict's median, by more than noise
                          */
    uint32_t nr_changes;
    struct advise_change change[6];
};

struct advice advise_judge(const struct advise_facts *facts);

/* ---- advise_say.c: pure as well ---- */

#define ADVISE_TEXT 400

const char *advise_verdict_name(enum advise_verdict verdict); /* "rdma", … for programs */
const char *advise_reason_name(enum advise_reason reason);
const char *advise_verdict_text(enum advise_verdict verdict); /* for people */
/* One sentence each. The buffer is ADVISE_TEXT long. */
char *advise_why(const struct advise_facts *facts, const struct advice *a, char *buf);
char *advise_change_text(const struct advise_facts *facts, const struct advise_change *change, char *buf);

/* ---- advise_look.c ---- */

struct advise_look;
/* Counters of TCP, UDP, interfaces and RDMA ports, and CPU time, now. NULL: no memory. */
struct advise_look *advise_look_take(void);
void advise_look_free(struct advise_look *look);
/* CPUs that nobody used between two looks, of those that this process may use; negative: not known. */
double advise_cores_free(const struct advise_look *before, const struct advise_look *after);

struct advise_seen {
    uint64_t tcp_sent, tcp_again, tcp_out_of_order; /* segments of this machine, between the looks */
    uint64_t boot_sent, boot_again;                 /* since the start */
    uint64_t udp_full;                              /* datagrams that found a full buffer */
    uint64_t rnic_sent, rnic_again,
        rnic_marked; /* packets of the software RNIC: all, sent again, congestion told */
    bool tcp_known, rnic_known;
    uint32_t nr_counters; /* of interfaces and RDMA ports that tell of loss or congestion, and grew */
    char counter[200];    /* the worst of them, in words; "": none */
    bool counter_is_loss;
};
/* `rnic`: what the software RNICs of the processes wrote at their end (FARLANE_RNIC_STATS); "" if none did.
 */
void advise_see(const struct advise_look *before, const struct advise_look *after, double seconds,
                const char *rnic, struct advise_seen *seen);
/* The larger of TCP's and the RNIC's shares; `since_start`: also that of TCP since the machine's start, which
 * is all that there is to say of a network that was not measured. Negative: too little was sent to tell. */
double advise_loss(const struct advise_seen *seen, bool since_start);

/* ---- advise_peer.c ---- */

#define ADVISE_URL_LEN 1100
/* URLs of one namespace that a target at HOST[:PORT] serves, by each transport that leads there; "": none
 * does, and why not. Blocks as fl_discover and fl_device_open do. Negative errno with text: there is nothing
 * to measure. */
struct advise_peer {
    char rdma[ADVISE_URL_LEN], tcp[ADVISE_URL_LEN];
    char rdma_why_not[256], tcp_why_not[256];
    char host[256]; /* of a URL */
};
int advise_peer_find(const char *host, struct advise_peer *peer, struct fl_error *err);
/* The same of a URL that a user gave: its own transport, and the other one at the same address and port. */
int advise_peer_of(const char *url, struct advise_peer *peer, struct fl_error *err);

/* ---- advise_show.c ---- */

struct advise_case {
    const char *where; /* "within this host" */
    struct advise_facts facts;
    struct advice advice;
    const char *rdma_why_not, *tcp_why_not; /* where a path is not known; "" else */
};
struct advise {
    struct tax tax;
    struct advise_peer peer;
    const char *host;  /* as the user named it; NULL: none */
    double budget_us;  /* 0: none */
    double service_us; /* of the peer's device; negative: not told */
    double cores_free;
    struct advise_seen seen;
    struct advise_case cases[2];
    uint32_t nr_cases;
};
void advise_show(const struct advise *advise);
json_t *advise_json(const struct advise *advise);

#endif
