/* SPDX-License-Identifier: Apache-2.0 */
/* A running target in this process: its loops and threads, and what was asked for beyond what the target
 * itself remembers. */
#ifndef FARLANE_SERVER_H
#define FARLANE_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

#include "config.h"
#include "loop/loop.h"
#include "target/target.h"

struct server_listener {
    uint32_t id;
    struct fl_listener_spec spec;
};

struct server {
    struct fl_target *target;
    struct fl_loop **loops; /* [0] runs on the main thread: control, admin queues */
    pthread_t *threads;     /* [1..nr_loops) */
    uint32_t nr_loops, nr_threads;
    struct config *config; /* settings; its lists tell only how the server started */
    struct config_marks marks;
    const char *config_file; /* NULL: none */
    struct server_listener *listeners;
    uint32_t nr_listeners;
    uint64_t start_ns;
    bool stopping; /* changes are refused */
};

/* Makes loops and target, adds what the config lists, starts the threads. The server is the caller's, zeroed
 * but config and marks. */
int server_start(struct server *s, struct fl_error *err);
/* Turns the control loop until every loop has every namespace: before that a host is told that there is none.
 * At most 10 s, after which a warning says so. */
void server_settle(struct server *s);
/* Runs the control loop until fl_loop_stop(s->loops[0]). */
int server_run(struct server *s);
/* Closes the target, turning the control loop; at most deadline_ms. -ETIMEDOUT: something is still in flight
 * and points into the loops, so that server_free is not allowed. */
int server_drain(struct server *s, uint32_t deadline_ms);
/* After server_drain: frees everything but config and marks. Nothing else may live on the loops any more. */
void server_free(struct server *s);

#define SERVER_FIELD_LEN 64

/* Changes of a running server, also used at the start. `field` gets what an error is about: "nqn",
 * "namespaces[1].spec". Errors as in target.h. */
int server_add_subsystem(struct server *s, const struct config_subsystem *cfg, char field[SERVER_FIELD_LEN],
                         struct fl_error *err);
int server_add_namespace(struct fl_subsystem *ss, const struct config_namespace *cfg, uint32_t *nsid,
                         char field[SERVER_FIELD_LEN], struct fl_error *err);
int server_add_listener(struct server *s, const struct config_listener *cfg, uint32_t *id,
                        char field[SERVER_FIELD_LEN], struct fl_error *err);
int server_remove_listener(struct server *s, uint32_t id, struct fl_error *err);

/* What runs now, as a configuration that can be loaded again. */
struct config *server_snapshot(struct server *s);

#endif
