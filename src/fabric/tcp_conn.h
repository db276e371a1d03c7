/* SPDX-License-Identifier: Apache-2.0 */
/* A target's connection on a socket and a loop. */
#ifndef FL_FABRIC_TCP_CONN_H
#define FL_FABRIC_TCP_CONN_H

#include "fabric/fabric.h"

/* Takes the connected, non-blocking fd over, also when it fails. Calls handler->opened. */
int fl_tcp_conn_create(const struct fl_listen_options *options, int fd, const struct fl_addr *peer);

#endif
