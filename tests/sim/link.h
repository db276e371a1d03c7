/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two queue pairs at the ends of a link with a rate, a latency and a fate for each packet, in virtual time.
 * Each end has memory, keys of which all are right, and completions that are kept in order.
 */
#ifndef FL_TESTS_SIM_LINK_H
#define FL_TESTS_SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rnic/roce/roce.h"

struct link;

struct link_packet {
    struct link_packet *next, *before;
    uint64_t at;
    uint32_t len;
    uint8_t bytes[]; /* BTH up to the pad; no ICRC: bits do not flip here */
};

struct link_end {
    struct fl_roce_qp qp;
    struct link *link;
    struct link_end *peer;
    uint8_t *mem;
    size_t mem_len;
    uint64_t free_at, pump_at;           /* the wire out of here; when to look for more */
    struct link_packet *oldest, *newest; /* on their way to here, by time */
    uint64_t nr_flying, max_flying, rng;
    uint64_t nr_sends, nr_recvs, nr_failed; /* completions; wr_id counts from 0 each */
    enum ibv_wc_status status;              /* of the first that failed */
    struct ibv_wc last;                     /* completion of a receive */
};

/* What becomes of a packet */
struct link_fate {
    bool drop, twice;
    uint64_t delay; /* others overtake it */
};

struct link {
    struct link_end a, b;
    struct fl_roce_pool pool;
    uint64_t now;
    uint64_t rate, latency; /* bytes a second, ns one way */
    uint64_t path_delay[FL_ROCE_PATHS_MAX];
    uint64_t backlog; /* ns of work that a port takes ahead */
    /* NULL: all arrive */
    void (*fate)(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                 struct link_fate *fate);
    unsigned loss;                      /* of 10,000: for the fate */
    uint64_t narrow_rate, narrow_queue; /* for link_narrow: bytes a second, bytes */
    uint64_t narrow_free_at[2];
    uint64_t nr_packets, nr_lost;
    void (*done)(struct link_end *e, const struct ibv_wc *wc, bool of_send); /* NULL: nothing more */
};

/* Both connected; attr and cap as changed by the caller, QPNs and PSNs are set here. */
struct link *link_new(const struct fl_roce_cap *cap, const struct fl_roce_attr *attr, size_t mem_len);
void link_free(struct link *l);
uint64_t link_draw(struct link *l);
/* Until nothing more will happen, or end (virtual ns) has come. */
void link_run(struct link *l, uint64_t end);
/* One request of len bytes at the same offset of both memories. */
void link_post(struct link_end *e, uint64_t id, enum ibv_wr_opcode opcode, uint64_t at, uint32_t len);
void link_post_recv(struct link_end *e, uint64_t id, uint64_t at, uint32_t len);
/* A fate: loss of 10,000 packets are lost, either way. */
void link_lossy(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                struct link_fate *fate);

/* A fate: somewhere on the way a link is narrower, and what does not fit its queue is lost. */
void link_narrow(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                 struct link_fate *fate);

#endif
