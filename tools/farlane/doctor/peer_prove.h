/* SPDX-License-Identifier: Apache-2.0 */
/* One path to the peer, and what is proved on it: findings of d under `label`. */
#ifndef FARLANE_DOCTOR_PEER_PROVE_H
#define FARLANE_DOCTOR_PEER_PROVE_H

#include "peer.h"

struct peer_path {
    struct fl_addr from, to; /* from: len 0: the kernel's choice */
};

/* connect(2) that gives up: -ETIMEDOUT */
int peer_connect(int fd, const struct fl_addr *to, int ms);
/* Asks; the answer may be an error, which becomes one here. Takes over `ask`. */
int peer_question(struct peer_line *line, json_t *ask, json_t **answer, int ms, struct fl_error *err);

/* False: packets of full size do not pass */
bool prove_mtu(struct doctor *d, struct peer_line *line, const struct peer_path *path, const char *label,
               int64_t mtu);
void prove_roce_port(struct doctor *d, struct peer_line *line, const struct peer_path *path,
                     const char *label);
void prove_nvme_port(struct doctor *d, struct peer_line *line, const struct peer_path *path,
                     const char *label);
void prove_tcp(struct doctor *d, struct peer_line *line, const char *label);
void prove_rdma(struct doctor *d, struct peer_line *line, const struct peer_path *path, const char *label,
                bool hardware);

#endif
