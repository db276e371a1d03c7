/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that is asked. It never waits for who asks, answers its own user and root only, and keeps few
 * connections. One thread.
 */
#ifndef FL_RNIC_STATS_SERVER_H
#define FL_RNIC_STATS_SERVER_H

#include "rnic/stats/proto.h"

struct fl_stats_server;

/* Fills in nr, next and what was asked for; the rest is done. */
typedef void fl_stats_source(void *arg, const struct fl_stats_ask *ask, struct fl_stats_answer *answer);

/* 0 or negative errno. */
int fl_stats_server_open(const char *address, fl_stats_source *source, void *arg,
                         struct fl_stats_server **server);
void fl_stats_server_close(struct fl_stats_server *server);
void fl_stats_server_forget(struct fl_stats_server *server); /* in the child of a fork: closes descriptors */
/* Readable when fl_stats_server_run() has something to do. */
int fl_stats_server_fd(const struct fl_stats_server *server);
/* At most one question of each connection. */
void fl_stats_server_run(struct fl_stats_server *server);

#endif
