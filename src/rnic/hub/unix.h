/* SPDX-License-Identifier: Apache-2.0 */
/* Abstract Unix sockets that carry struct fl_hub_msg and descriptors. */
#ifndef FL_RNIC_HUB_UNIX_H
#define FL_RNIC_HUB_UNIX_H

#include <farlane/error.h>

#include "rnic/hub/proto.h"

#define FL_HUB_FDS_MAX  4
#define FL_HUB_NAME_LEN 64

/* The UDP port of RoCE: the standard's, or the one that FARLANE_ROCE_PORT tells. 0, or -EINVAL with text. */
int fl_hub_udp_port(uint16_t *port, struct fl_error *err);

/* The name of the hub's socket: hub_path, else the one of this network namespace and UDP port. 0, or
 * -ENAMETOOLONG. */
int fl_hub_default_name(const char *hub_path, uint16_t udp_port, char name[FL_HUB_NAME_LEN]);

/* Non-blocking descriptors, or negative errno. */
int fl_hub_unix_listen(const char *name);
int fl_hub_unix_connect(const char *name);
int fl_hub_unix_peer(int fd, struct fl_hub_peer *peer);

/* One message without waiting; -EAGAIN: the other side does not read. */
int fl_hub_unix_send(int fd, const struct fl_hub_msg *msg, const int *fds, int nr_fds);
/* One message, and at most FL_HUB_FDS_MAX descriptors, which are the caller's then (-1: none). 1; 0: nothing
 * there; negative: the connection is over. */
int fl_hub_unix_recv(int fd, struct fl_hub_msg *msg, int fds[FL_HUB_FDS_MAX]);

#endif
