/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct service {
    struct fl_list link;
    uint64_t id;
    uint32_t slot;
};

static struct fl_list *bucket_of(const struct fl_hub_table *table, uint64_t id)
{
    uint64_t h = id * UINT64_C(0x9e3779b97f4a7c15);
    return (struct fl_list *)&table->services[h >> 32 & (FL_HUB_BUCKETS - 1)];
}

static struct service *find_service(const struct fl_hub_table *table, uint64_t id)
{
    struct service *s;
    fl_list_for_each (s, bucket_of(table, id), link) {
        if (s->id == id)
            return s;
    }
    return NULL;
}

/* Readers see either the slot before or the slot after. */
static void change_begin(struct fl_hub_slot *slot)
{
    __atomic_store_n(&slot->seq, slot->seq + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void change_end(struct fl_hub_slot *slot)
{
    __atomic_store_n(&slot->seq, slot->seq + 1, __ATOMIC_RELEASE);
}

static void set_block(struct fl_hub_table *table, uint32_t block, uint32_t slot)
{
    __atomic_store_n(&table->shared->blocks[block], (uint16_t)slot, __ATOMIC_RELAXED);
}

/* The first and the last block hold QP0, QP1 and the multicast number. */
static bool block_is_valid(uint32_t block)
{
    return block > 0 && block < FL_HUB_BLOCKS - 1;
}

/* Nobody but the dead hub could write `before`, and it may have been another user's. */
static void inherit(struct fl_hub_table *table, const struct fl_hub_shared *before)
{
    struct fl_hub_slot copy;
    if (before->version != FL_HUB_SHARED_VERSION)
        return;
    for (uint32_t i = 1; i < FL_HUB_SLOTS; i++) {
        struct fl_hub_slot *slot = &table->shared->slots[i];
        if (!fl_hub_slot_read(before, i, &copy))
            continue;
        slot->state = FL_HUB_MISSING;
        table->nr_slots++;
        slot->pid = copy.pid;
        slot->uid = copy.uid;
    }
    for (uint32_t block = 0; block < FL_HUB_BLOCKS; block++) {
        uint32_t slot = __atomic_load_n(&before->blocks[block], __ATOMIC_RELAXED);
        if (!block_is_valid(block) || slot >= FL_HUB_SLOTS ||
            table->shared->slots[slot].state == FL_HUB_FREE ||
            table->shared->slots[slot].nr_blocks >= FL_HUB_SLOT_BLOCKS)
            continue;
        table->shared->slots[slot].nr_blocks++;
        set_block(table, block, slot);
    }
}

void fl_hub_table_init(struct fl_hub_table *table, struct fl_hub_shared *shared,
                       const struct fl_hub_shared *before, uint64_t seed)
{
    *table = (struct fl_hub_table){
        .shared = shared,
        .next_slot = (uint32_t)(seed >> 32) % FL_HUB_SLOTS,
        .next_block = 1 + (uint32_t)seed % (FL_HUB_BLOCKS - 2), /* those that may be */
    };
    for (uint32_t i = 0; i < FL_HUB_BUCKETS; i++)
        fl_list_init(&table->services[i]);
    if (before)
        inherit(table, before);
    __atomic_store_n(&shared->version, FL_HUB_SHARED_VERSION, __ATOMIC_RELEASE);
}

static void drop_services(struct fl_hub_table *table, uint32_t slot, bool all)
{
    struct service *s, *next;
    for (uint32_t i = 0; i < FL_HUB_BUCKETS; i++) {
        fl_list_for_each_safe (s, next, &table->services[i], link) {
            if (!all && s->slot != slot)
                continue;
            fl_list_del(&s->link);
            free(s);
        }
    }
}

void fl_hub_table_fini(struct fl_hub_table *table)
{
    drop_services(table, 0, true);
}

static uint32_t slots_of(const struct fl_hub_table *table, uint32_t uid)
{
    uint32_t nr = 0;
    for (uint32_t i = 1; i < FL_HUB_SLOTS; i++) {
        const struct fl_hub_slot *slot = &table->shared->slots[i];
        nr += slot->state != FL_HUB_FREE && slot->uid == uid;
    }
    return nr;
}

static uint32_t free_slot(struct fl_hub_table *table)
{
    for (uint32_t n = 0; n < FL_HUB_SLOTS; n++) {
        uint32_t slot = table->next_slot++ % FL_HUB_SLOTS;
        if (slot && table->shared->slots[slot].state == FL_HUB_FREE)
            return slot;
    }
    return 0;
}

int fl_hub_join(struct fl_hub_table *table, const struct fl_hub_peer *peer, uint32_t want,
                const char address[FL_HUB_ADDRESS_LEN])
{
    struct fl_hub_slot *slots = table->shared->slots, *slot;
    bool back = want && want < FL_HUB_SLOTS && slots[want].state == FL_HUB_MISSING &&
                slots[want].pid == peer->pid && slots[want].uid == peer->uid;
    if (!back) {
        if (slots_of(table, peer->uid) >= FL_HUB_UID_SLOTS)
            return -ENOSPC;
        if (!want || want >= FL_HUB_SLOTS || slots[want].state != FL_HUB_FREE)
            want = free_slot(table);
        if (!want)
            return -ENOSPC;
        table->nr_slots++;
    }
    slot = &slots[want];
    change_begin(slot);
    slot->state = FL_HUB_MEMBER;
    slot->pid = peer->pid;
    slot->uid = peer->uid;
    slot->udp_port = peer->udp_port;
    memcpy(slot->address, address, sizeof(slot->address));
    slot->address[sizeof(slot->address) - 1] = 0;
    change_end(slot);
    return (int)want;
}

void fl_hub_leave(struct fl_hub_table *table, uint32_t slot)
{
    struct fl_hub_slot *s = &table->shared->slots[slot];
    if (table->nr_services[slot])
        drop_services(table, slot, false);
    table->nr_services[slot] = 0;
    for (uint32_t block = 0; s->nr_blocks && block < FL_HUB_BLOCKS; block++) {
        if (table->shared->blocks[block] != slot)
            continue;
        set_block(table, block, 0);
        s->nr_blocks--;
    }
    table->nr_slots -= s->state != FL_HUB_FREE;
    change_begin(s);
    s->state = FL_HUB_FREE;
    s->udp_port = 0;
    memset(s->address, 0, sizeof(s->address));
    change_end(s);
}

static bool may_have_more(const struct fl_hub_table *table, uint32_t slot)
{
    const struct fl_hub_slot *slots = table->shared->slots;
    uint32_t nr = 0;
    if (slots[slot].nr_blocks >= FL_HUB_SLOT_BLOCKS)
        return false;
    for (uint32_t i = 1; i < FL_HUB_SLOTS; i++) {
        if (slots[i].state != FL_HUB_FREE && slots[i].uid == slots[slot].uid)
            nr += slots[i].nr_blocks;
    }
    return nr < FL_HUB_UID_BLOCKS;
}

int fl_hub_block_get(struct fl_hub_table *table, uint32_t slot)
{
    if (!may_have_more(table, slot))
        return -ENOSPC;
    for (uint32_t n = 0; n < FL_HUB_BLOCKS; n++) {
        uint32_t block = table->next_block++ % FL_HUB_BLOCKS;
        if (!block_is_valid(block) || table->shared->blocks[block])
            continue;
        set_block(table, block, slot);
        table->shared->slots[slot].nr_blocks++;
        return (int)block;
    }
    return -ENOSPC;
}

int fl_hub_block_claim(struct fl_hub_table *table, uint32_t slot, uint32_t block)
{
    if (!block_is_valid(block))
        return -EINVAL;
    if (table->shared->blocks[block] == slot)
        return 0; /* known from the hub before */
    if (table->shared->blocks[block])
        return -EEXIST;
    if (!may_have_more(table, slot))
        return -ENOSPC;
    set_block(table, block, slot);
    table->shared->slots[slot].nr_blocks++;
    return 0;
}

int fl_hub_listen(struct fl_hub_table *table, uint32_t slot, uint64_t service_id)
{
    struct service *s = find_service(table, service_id);
    if (s)
        return -EADDRINUSE;
    if (table->nr_services[slot] >= FL_HUB_SLOT_SERVICES)
        return -ENOSPC;
    s = malloc(sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct service){.id = service_id, .slot = slot};
    fl_list_add_tail(bucket_of(table, service_id), &s->link);
    table->nr_services[slot]++;
    return 0;
}

void fl_hub_unlisten(struct fl_hub_table *table, uint32_t slot, uint64_t service_id)
{
    struct service *s = find_service(table, service_id);
    if (!s || s->slot != slot)
        return;
    fl_list_del(&s->link);
    free(s);
    table->nr_services[slot]--;
}

uint32_t fl_hub_slot_of_qpn(const struct fl_hub_shared *shared, uint32_t qpn)
{
    uint32_t slot = __atomic_load_n(&shared->blocks[(qpn & FL_IB_QPN_MASK) >> FL_HUB_BLOCK_BITS],
                                    __ATOMIC_RELAXED);
    return slot < FL_HUB_SLOTS ? slot : 0;
}

uint32_t fl_hub_slot_of_service(const struct fl_hub_table *table, uint64_t service_id)
{
    const struct service *s = find_service(table, service_id);
    return s ? s->slot : 0;
}

bool fl_hub_slot_read(const struct fl_hub_shared *shared, uint32_t slot, struct fl_hub_slot *copy)
{
    const struct fl_hub_slot *from;
    if (!slot || slot >= FL_HUB_SLOTS)
        return false;
    from = &shared->slots[slot];
    /* A hub that was killed in the middle of a change leaves an odd number behind: no more than a few tries.
     */
    for (int tries = 0; tries < 100; tries++) {
        uint32_t seq = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);
        memcpy(copy, from, sizeof(*copy));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(seq & 1) && __atomic_load_n(&from->seq, __ATOMIC_RELAXED) == seq) {
            copy->address[sizeof(copy->address) - 1] = 0;
            return copy->state != FL_HUB_FREE;
        }
    }
    return false;
}
