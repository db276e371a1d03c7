/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hub knows: which process (a slot) owns which blocks of queue pair numbers, listens on which
 * service IDs, and whose a packet is. No I/O. Slots and blocks lie in memory that every process on the host
 * maps read-only, so that each can look peers up by itself, and so that the next hub knows, when this one is
 * killed, whose block is whose.
 */
#ifndef FL_RNIC_HUB_TABLE_H
#define FL_RNIC_HUB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/ib.h"

#define FL_HUB_SLOTS          4096u /* 0 is none; a slot is the upper 12 bits of its communication IDs */
#define FL_HUB_COMM_SHIFT     20
#define FL_HUB_BLOCK_BITS     10
#define FL_HUB_BLOCK_LEN      (1u << FL_HUB_BLOCK_BITS)
#define FL_HUB_BLOCKS         (1u << (24 - FL_HUB_BLOCK_BITS))
#define FL_HUB_SLOT_BLOCKS    512u  /* of one process */
#define FL_HUB_SLOT_SERVICES  4096u /* of one process */
#define FL_HUB_UID_BLOCKS     (FL_HUB_BLOCKS / 2)
#define FL_HUB_UID_SLOTS      (FL_HUB_SLOTS / 2)
#define FL_HUB_ADDRESS_LEN    100
#define FL_HUB_SHARED_VERSION 1u

enum fl_hub_slot_state {
    FL_HUB_FREE,
    FL_HUB_MEMBER,
    FL_HUB_MISSING, /* known to the hub before this one, has not come back yet */
};

struct fl_hub_slot {
    uint32_t seq; /* odd while it is being changed */
    uint32_t state;
    int32_t pid;
    uint32_t uid;
    uint32_t nr_blocks;
    char address[FL_HUB_ADDRESS_LEN];
    uint16_t udp_port; /* of its own, for packets from this host; 0: none, they go to the hub */
    uint16_t rsvd;     /* the last byte was always 0 */
};

_Static_assert(sizeof(struct fl_hub_slot) == 124, "versions that map the same table");

/* Shared: only the hub writes it; others trust none of it further than they can check. */
struct fl_hub_shared {
    uint32_t version;
    struct fl_hub_slot slots[FL_HUB_SLOTS];
    uint16_t blocks[FL_HUB_BLOCKS]; /* slot, 0: free */
};

#define FL_HUB_BUCKETS 1024u

struct fl_hub_table {
    struct fl_hub_shared *shared;
    uint32_t nr_slots; /* that are not free */
    uint32_t next_slot, next_block; /* numbers go round: one given back comes last */
    struct fl_list services[FL_HUB_BUCKETS];
    uint16_t nr_services[FL_HUB_SLOTS];
    bool settling; /* members of the hub before may not have said yet what they listen on */
    bool young;    /* members of a hub that we know nothing of may not have come yet */
};

struct fl_hub_peer {
    int32_t pid;
    uint32_t uid;
    uint16_t udp_port; /* as it says itself; pid and uid are the kernel's word */
};

/* shared: zeroed memory. before: what the hub before this one published, or NULL; nothing in it is trusted
 * to be sane. seed chooses where numbers begin. */
void fl_hub_table_init(struct fl_hub_table *table, struct fl_hub_shared *shared,
                       const struct fl_hub_shared *before, uint64_t seed);
void fl_hub_table_fini(struct fl_hub_table *table);

/*
 * A process comes, or comes back to a new hub: want, if not 0, is the slot that it had; it gets that one if
 * the slot is missing exactly this process, or free, and another one otherwise. address need not be
 * terminated. Slot, or -ENOSPC.
 */
int fl_hub_join(struct fl_hub_table *table, const struct fl_hub_peer *peer, uint32_t want,
                const char address[FL_HUB_ADDRESS_LEN]);
/* Its blocks and services are free then. */
void fl_hub_leave(struct fl_hub_table *table, uint32_t slot);

/* A block of its own. Block, or -ENOSPC: too many for one process or user. */
int fl_hub_block_get(struct fl_hub_table *table, uint32_t slot);
/* A block that it had from the hub before. 0, -EINVAL, -EEXIST: another's, -ENOSPC. */
int fl_hub_block_claim(struct fl_hub_table *table, uint32_t slot, uint32_t block);

/* 0, -EADDRINUSE, -ENOSPC, -ENOMEM */
int fl_hub_listen(struct fl_hub_table *table, uint32_t slot, uint64_t service_id);
void fl_hub_unlisten(struct fl_hub_table *table, uint32_t slot, uint64_t service_id);

/* Whose a queue pair is; 0: nobody's. Also for those who map the table. */
uint32_t fl_hub_slot_of_qpn(const struct fl_hub_shared *shared, uint32_t qpn);
uint32_t fl_hub_slot_of_service(const struct fl_hub_table *table, uint64_t service_id);

/*
 * Whose a packet is (BTH to ICRC, any bytes): by queue pair number, and for QP1 by what the message says.
 * 0: nobody's. self: who answers requests for services that nobody listens on.
 */
uint32_t fl_hub_route(const struct fl_hub_table *table, const uint8_t *packet, size_t len, uint32_t self);

/* A copy of a slot that was not being changed meanwhile; false: it is no member's. address is terminated. */
bool fl_hub_slot_read(const struct fl_hub_shared *shared, uint32_t slot, struct fl_hub_slot *copy);

#endif
