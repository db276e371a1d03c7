/* SPDX-License-Identifier: Apache-2.0 */
/* An epoll descriptor that stands for the few, changing descriptors of a link. */
#ifndef FL_HOST_POLLSET_H
#define FL_HOST_POLLSET_H

#include "host/link.h"

struct fl_pollset {
    int epfd;
    int nr;
    uint32_t serial; /* of the link when it was brought up to date */
    struct pollfd reg[FL_LINK_MAX_FDS];
};

int fl_pollset_init(struct fl_pollset *set);
void fl_pollset_fini(struct fl_pollset *set);
/* Makes it stand for what the link waits for now. Cheap when nothing changed. */
void fl_pollset_sync(struct fl_pollset *set, const struct fl_link *link);

#endif
