/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVMe/TCP connection of the target whose bytes come from memory and go there: for tests, fuzzers and a
 * host in the same process. All calls on the loop's thread, none from inside the handler's callbacks.
 */
#ifndef FL_FABRIC_PAIR_H
#define FL_FABRIC_PAIR_H

#include "fabric/fabric.h"

struct fl_pair;

/* Of the options addr and setup_timeout_ms are not used. Without a loop (NULL), what the target does between
 * two calls has its effect in the next fl_pair_run, feed or take. handler->opened() is called inside. */
int fl_pair_create(const struct fl_listen_options *options, struct fl_pair **pair);
/* Cuts it; the target must complete its commands within the callbacks of that (or have done so before). */
void fl_pair_destroy(struct fl_pair *pair);

/* Bytes from the host. Returns how many were taken: less than len when the connection has closed or reading
 * is paused. */
size_t fl_pair_feed(struct fl_pair *pair, const void *bytes, size_t len);
/* Bytes to the host, at most len. */
size_t fl_pair_take(struct fl_pair *pair, void *bytes, size_t len);
/* How many there are to be taken. */
size_t fl_pair_pending(const struct fl_pair *pair);
/* Does what was put off, so that closed() may be called. */
void fl_pair_run(struct fl_pair *pair);
/* As if the network broke: what was not taken is lost. */
void fl_pair_cut(struct fl_pair *pair);
/* closed() was called; then conn is not to be used any more. */
bool fl_pair_closed(const struct fl_pair *pair);
/* Why it was closed, or is about to be; "" before. */
const char *fl_pair_why(const struct fl_pair *pair);
struct fl_conn *fl_pair_conn(struct fl_pair *pair);

#endif
