/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target without sockets for tests: a scripted transport, two loops turned by the test, connections that
 * record what is answered.
 */
#ifndef FL_TARGET_TEST_BED_H
#define FL_TARGET_TEST_BED_H

#ifdef FL_BED_PLAIN_ASSERT /* fuzzers: a failure ends the program */
#include <assert.h>
#define assert_true(c)         assert(c)
#define assert_false(c)        assert(!(c))
#define assert_null(p)         assert(!(p))
#define assert_non_null(p)     assert(p)
#define assert_int_equal(a, b) assert((a) == (b))
#define fail_msg(...)          assert(!"it fails")
#else
#include "base/unit.h"
#endif
#include "target/core.h"

#define BED_NQN       "nqn.2026-01.org.example:sub1"
#define BED_HOST      "nqn.2026-01.org.example:host-a"
#define BED_MAX_LOOPS 4u

struct bed_conn;

struct bed {
    struct fl_loop *loops[BED_MAX_LOOPS];
    uint32_t nr_loops;
    struct fl_target *target;
    struct fl_subsystem *ss;
    uint32_t port_id;
    struct fl_list conns;       /* open ones */
    uint32_t nr_conns, nr_cmds; /* that are open, that the target still has */
    int listen_error;           /* what the next listen() says; 0: fine */
    uint32_t nr_listening;
};

/* A command with the buffers of its host. Lives until bed_free_cmd, also after its answer. */
struct bed_cmd {
    struct fl_cmd cmd; /* the transport's object: gone after release, kept here for looking */
    struct bed_conn *bc;
    struct fl_list link;
    uint8_t *out, *in; /* data from the host, data to the host */
    uint32_t out_len, in_len, got_len;
    bool hold_fetch; /* the data does not come before bed_give_data */
    bool fetching, answered, released;
    struct fl_nvme_cqe cqe;
    struct fl_msg msg;
};

struct bed_conn {
    struct fl_conn conn;
    struct bed *bed;
    struct fl_list link, cmds; /* cmds: with the target */
    uint32_t depth, capsule_len;
    bool closing, closed;
    bool hold_release; /* data to the host is not sent before bed_release */
    bool can_detach;
    uint32_t nr_detached;
    char local[64];
    void (*moved)(struct fl_conn *conn);
    struct fl_msg msg_move, msg_close;
    uint16_t next_cid;
};

/* nr_loops 1 or 2; tweak (may be NULL) changes the options before the target is made. */
struct bed *bed_new(uint32_t nr_loops, void (*tweak)(struct fl_target_options *options));
void bed_free(struct bed *bed);               /* shuts down; every command must come back */
void bed_turn(struct bed *bed);               /* until nothing moves any more */
void bed_sleep(struct bed *bed, uint32_t ms); /* turns for that long */

uint32_t bed_add_ns(struct bed *bed, const char *spec);

struct bed_conn *bed_open(struct bed *bed); /* a connection without Connect */
void bed_cut(struct bed_conn *bc);          /* the host is gone */
bool bed_is_closed(const struct bed_conn *bc);
void bed_conn_free(struct bed_conn *bc); /* what is left of a closed one */

struct bed_cmd *bed_send(struct bed_conn *bc, const struct fl_nvme_sqe *sqe, const void *out,
                         uint32_t out_len, bool in_capsule, uint32_t in_len);
void bed_give_data(struct bed_cmd *bcmd);
/* This part of the data has come, the rest is on its way: has the target put it where it belongs? */
bool bed_place(struct bed_cmd *bcmd, uint32_t off, uint32_t len);
void bed_release(struct bed_cmd *bcmd);
void bed_free_cmd(struct bed_cmd *bcmd);
uint16_t bed_status(const struct bed_cmd *bcmd); /* code and type, without DNR and More */

/* Send, turn, copy the data back, free: the status. `result` may be NULL. */
uint16_t bed_run(struct bed_conn *bc, const struct fl_nvme_sqe *sqe, const void *out, uint32_t out_len,
                 void *in, uint32_t in_len, uint64_t *result);

struct bed_connect { /* what a Connect says; bed_connect_default fills in what is right */
    struct fl_nvmf_connect_data data;
    uint16_t qid, sqsize, recfmt;
    uint8_t cattr;
    uint32_t kato;
};
void bed_connect_default(struct bed_connect *c, const char *hostnqn, const char *subnqn, uint16_t qid,
                         uint16_t cntlid);
uint16_t bed_connect(struct bed_conn *bc, const struct bed_connect *c, uint32_t *dw0);

struct bed_host { /* a controller as a host has it: admin and one I/O queue */
    struct bed_conn *admin, *io;
    uint16_t cntlid;
};
/* Connects, enables, asks for queues, connects the I/O queue. */
void bed_host(struct bed *bed, const char *hostnqn, struct bed_host *host);
void bed_enable(struct bed_conn *admin);
struct bed_conn *bed_io_queue(struct bed *bed, const char *hostnqn, uint16_t cntlid, uint16_t qid);

struct fl_nvme_sqe bed_sqe(uint8_t opcode, uint32_t nsid);
struct fl_nvme_sqe bed_rw(uint8_t opcode, uint32_t nsid, uint64_t slba, uint32_t nr_blocks);
uint16_t bed_identify(struct bed_conn *admin, uint8_t cns, uint32_t nsid, void *page);
uint16_t bed_log(struct bed_conn *admin, uint8_t lid, uint64_t off, bool rae, void *buf, uint32_t len);
uint16_t bed_feature(struct bed_conn *admin, bool set, uint8_t fid, uint32_t nsid, uint32_t value,
                     uint64_t *result);

#endif
