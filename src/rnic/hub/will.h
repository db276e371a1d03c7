/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be said for a process that dies without a word: which connections it had, so that their peers
 * hear of its end. The process writes it into memory of its own; the hub maps that read-only, and, where the
 * process is the hub, members of its user do. Nobody else sees it: who knows a connection's numbers could end
 * it.
 *
 * It may be believed only as far as the process itself could go: it can send such packets on its own.
 */
#ifndef FL_RNIC_HUB_WILL_H
#define FL_RNIC_HUB_WILL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define FL_HUB_WILL_MAX 4096u /* connections; those beyond are not told of */

/* A connection, as the DREQ that ends it names it */
struct fl_hub_bond {
    struct in6_addr local, remote; /* GIDs */
    uint32_t scope_id;             /* of link-local ones */
    uint32_t local_id, remote_id;  /* communication IDs */
    uint32_t remote_qpn;
};

struct fl_hub_will_shared {
    /* The member's connection to its hub, or, of a hub, its service: a number that comes only once. It is
     * taken back before the connection is closed on purpose. So who still finds it here when the connection
     * broke knows that the process died. */
    uint64_t bound_to;
    uint32_t nr; /* entries that were ever used */
    uint32_t rsvd;
    struct {
        uint32_t valid;
        struct fl_hub_bond bond;
    } entries[FL_HUB_WILL_MAX];
};

struct fl_hub_will {
    struct fl_hub_will_shared *shared; /* NULL: there is none */
    int fd;
    uint32_t nr_given_back;
    uint16_t given_back[FL_HUB_WILL_MAX];
};

int fl_hub_will_create(struct fl_hub_will *will); /* 0 or negative errno; then all others do nothing */
void fl_hub_will_fini(struct fl_hub_will *will);
/* A number for fl_hub_will_del(), or -ENOSPC. */
int fl_hub_will_add(struct fl_hub_will *will, const struct fl_hub_bond *bond);
void fl_hub_will_del(struct fl_hub_will *will, int number); /* negative: nothing */
/* Returns the number; 0: there is no will. */
uint64_t fl_hub_will_bind(struct fl_hub_will *will);
void fl_hub_will_unbind(struct fl_hub_will *will);

/* Of another process: NULL, if it is not what it should be, or could shrink. */
const struct fl_hub_will_shared *fl_hub_will_map(int fd);
void fl_hub_will_unmap(const struct fl_hub_will_shared *will); /* NULL: nothing */
bool fl_hub_will_is_bound(const struct fl_hub_will_shared *will, uint64_t number);
/* The next connection from *at on, which is moved behind it. False: no more. */
bool fl_hub_will_next(const struct fl_hub_will_shared *will, uint32_t *at, struct fl_hub_bond *bond);

#endif
