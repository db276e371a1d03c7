/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe target: subsystems, namespaces, hosts, listeners, controllers. What is configured, and every admin queue, lives on
 * the control loop (loops[0]); I/O queues are spread over all loops. All functions here are called on the control loop's
 * thread (or before the loops run). Loops exchange messages; no lock is taken on the path of an I/O.
 */
#ifndef FL_TARGET_TARGET_H
#define FL_TARGET_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

#include "backend/backend.h"
#include "base/address.h"
#include "fabric/fabric.h"
#include "loop/loop.h"
#include "mem/pool.h"

struct fl_target;
struct fl_subsystem;

struct fl_target_options {
    struct fl_loop **loops; /* [0] is the control loop; the caller's, they outlive the target */
    uint32_t nr_loops;
    size_t pool_len;       /* data buffers per loop, bytes; 0: default */
    uint32_t max_queues;   /* I/O queues per controller; 0: default 64 */
    uint32_t max_depth;    /* entries of an I/O queue (MQES + 1); 0: default 128 */
    uint32_t mdts_len;     /* largest data transfer, bytes, power of two 4 KiB..1 MiB; 0: default 1 MiB */
    uint32_t shared_recv;  /* RDMA: receives that the I/O queues of a listener have in common, 8 to 16384; 0: each has its own */
    int64_t capsule_len;   /* in-capsule data of I/O queues, bytes, less where the transport has less; -1: the transport's default */
    uint32_t min_kato_ms;  /* granularity, default 100 ms */
    bool no_success_flag;  /* always send response capsules */
};

int fl_target_create(const struct fl_target_options *options, struct fl_target **target, struct fl_error *err);
/* Closes everything; done runs on the control loop when nothing is left. Then fl_target_destroy. */
void fl_target_shutdown(struct fl_target *target, void (*done)(void *arg), void *arg);
void fl_target_destroy(struct fl_target *target);

/* Completion of a change that needs other loops or the end of I/O: result 0 or negative errno. */
struct fl_change {
    void (*done)(struct fl_change *change, int result, const struct fl_error *err);
};

/* ---- subsystems ---- */
struct fl_subsystem_options {
    const char *nqn;
    const char *serial; /* NULL: made from the NQN; 20 characters */
    const char *model;  /* NULL: "farlane"; 40 characters */
    bool allow_any_host;
};
/* Can it be told as a serial number (max 20) or model (40): printable ASCII. */
bool fl_subsystem_text_ok(const char *text, size_t max);
int fl_subsystem_add(struct fl_target *target, const struct fl_subsystem_options *options, struct fl_subsystem **ss,
                     struct fl_error *err);
void fl_subsystem_remove(struct fl_subsystem *ss, struct fl_change *change);
struct fl_subsystem *fl_subsystem_find(struct fl_target *target, const char *nqn);
int fl_subsystem_set_allow_any(struct fl_subsystem *ss, bool allow);
int fl_subsystem_host_add(struct fl_subsystem *ss, const char *hostnqn, struct fl_error *err); /* -EEXIST: there already */
/* Cuts the host's controllers unless keep. */
int fl_subsystem_host_remove(struct fl_subsystem *ss, const char *hostnqn, bool keep, struct fl_error *err);

/* ---- namespaces ---- */
struct fl_namespace_options {
    uint32_t nsid;        /* 0: the lowest free one */
    const char *spec;     /* "ram:1G,bs=4096" */
    const uint8_t *uuid;  /* NULL: the backend's */
    uint32_t ana_group;   /* 0: 1 */
};
#define FL_TARGET_NSID_MAX 1024u /* NN and MNAN: the ANA log of that many fits into any MDTS from 8 KiB */
/* -EEXIST: there is one of that NSID; -ENOTUNIQ: there is one, here or in another subsystem, of that UUID. */
int fl_namespace_add(struct fl_subsystem *ss, const struct fl_namespace_options *options, uint32_t *nsid, struct fl_error *err);
/* Ends when the I/O in flight has ended, or after deadline_ms (0: default 30 s) with -ETIMEDOUT (the namespace is gone for hosts
 * at once, the back end is closed when its I/O ends). */
void fl_namespace_remove(struct fl_subsystem *ss, uint32_t nsid, uint32_t deadline_ms, struct fl_change *change);
/* len 0: what the back end's file has now. Growing and, with force, shrinking; a refusal names both sizes. */
int fl_namespace_resize(struct fl_subsystem *ss, uint32_t nsid, uint64_t len, bool force, struct fl_error *err);

#define FL_TARGET_CAPSULE_MAX (1u << 20)
#define FL_TARGET_MDTS_MIN 8192u /* the least limit that a controller can tell its hosts */

/* ---- listeners ---- */
struct fl_listener_spec {
    char transport[8]; /* "tcp", "rdma" */
    char host[300];    /* as the user wrote it */
    char port[8];
    bool strict;       /* an address that isn't there yet fails at once instead of waiting for it */
    bool exclusive;    /* a port that somebody else has fails at once instead of being tried again */
    bool hdgst, ddgst; /* digests allowed */
    char dev[64];      /* RDMA: auto, soft, hardware or a device's name; "": auto */
};
/* "tcp://ADDR[:PORT]", "rdma://ADDR[:PORT][?dev=auto|soft|hardware|NAME]" -> spec */
int fl_listener_spec_parse(const char *text, struct fl_listener_spec *spec, struct fl_error *err);
/* -EEXIST: the same is there already; -EADDRINUSE with the reason for a clash. url: where hosts reach it ("tcp://1.2.3.4:4420"). */
int fl_target_listen(struct fl_target *target, const struct fl_listener_spec *spec, uint32_t *id, struct fl_error *err);
int fl_target_unlisten(struct fl_target *target, uint32_t id, struct fl_error *err);
#define FL_TARGET_ANA_GROUPS 32u
/* The state through a listener, as fl_target_set_ana takes it; NULL: there is no such listener or group. */
const char *fl_target_ana(const struct fl_target *target, uint32_t listener_id, uint32_t ana_group);
int fl_target_set_ana(struct fl_target *target, uint32_t listener_id, uint32_t ana_group, const char *state, struct fl_error *err);

/* ---- looking ---- */
struct fl_io_counters {
    uint64_t nr_reads, nr_writes, nr_other, read_len, write_len, nr_errors;
    uint64_t zero_copy_len, copied_len; /* payload bytes that no CPU of ours copied, and those that one did */
};
struct fl_subsystem_info {
    const char *nqn, *serial, *model;
    bool allow_any_host, discovery;
};
struct fl_namespace_info {
    const char *ss_nqn, *spec, *backend, *state; /* "active", "removing" */
    uint32_t nsid, block_len, ana_group;
    uint64_t len;
    uint8_t uuid[16];
    struct fl_io_counters io;
    bool reserved;
};
struct fl_listener_info {
    uint32_t id;
    const char *state, *reason; /* "listening", "waiting for address", "waiting for device", "failed" */
    char url[400];              /* tcp://1.2.3.4:4420, as hosts reach it */
    uint32_t nr_connections;
};
struct fl_controller_info {
    uint16_t cntlid;
    const char *ss_nqn, *hostnqn, *state;
    uint8_t hostid[16];
    uint32_t kato_ms, nr_io_queues, queues_asked, queues_granted;
    bool discovery;
};
struct fl_queue_info {
    uint16_t cntlid, qid;
    uint32_t loop, depth_asked, depth, in_flight;
    struct fl_conn_info conn;
    struct fl_io_counters io;
};
struct fl_loop_info {
    uint32_t index;
    uint64_t busy_ns;
    uint32_t nr_connections;
    struct fl_pool_stats pool;
};

struct fl_target_visitor { /* NULL members are skipped; strings are valid during the call */
    void (*subsystem)(void *arg, const struct fl_subsystem_info *info);
    void (*ns)(void *arg, const struct fl_namespace_info *info);
    void (*host)(void *arg, const char *ss_nqn, const char *hostnqn);
    void (*listener)(void *arg, const struct fl_listener_info *info);
    void (*controller)(void *arg, const struct fl_controller_info *info);
    void (*queue)(void *arg, const struct fl_queue_info *info); /* one connection each, after its controller */
    void (*loop)(void *arg, const struct fl_loop_info *info);
};
void fl_target_visit(struct fl_target *target, const struct fl_target_visitor *visitor, void *arg);

#endif
