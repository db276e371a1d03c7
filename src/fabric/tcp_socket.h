/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends ask of a TCP socket. */
#ifndef FL_FABRIC_TCP_SOCKET_H
#define FL_FABRIC_TCP_SOCKET_H

#include "base/address.h"

/*
 * An answer waits for nobody (TCP_NODELAY). Within a host nothing is paced: BBR and its like, which may be
 * the machine's default, would make a sender wait for a clock where there is no network to be kind to; Reno,
 * which everybody may choose, does not. Fails silently for what is not TCP. `fd` is connected or about to be.
 */
void fl_tcp_socket_tune(int fd, const struct fl_addr *peer);

#endif
