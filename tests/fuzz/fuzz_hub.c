/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub's table, and members that say anything. Input: records of a byte that says what happens (a process
 * comes or leaves, sends a message, a packet has to be routed, the hub is replaced by another), a byte that
 * says whose, and what it needs. Whatever they say, a block has one owner, and each count is right.
 */
#include "fuzz.h"
#include "input.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "rnic/hub/proto.h"

struct bed {
    struct fl_hub_table table;
    struct fl_hub_shared *shared[2];
    int now; /* which of them */
    uint32_t slots[8];
};

static void check(const struct bed *bed)
{
    const struct fl_hub_shared *shared = bed->table.shared;
    uint32_t nr[FL_HUB_SLOTS] = {0};
    assert(!shared->blocks[0] && !shared->blocks[FL_HUB_BLOCKS - 1]);
    for (uint32_t i = 0; i < FL_HUB_BLOCKS; i++) {
        assert(shared->blocks[i] < FL_HUB_SLOTS);
        nr[shared->blocks[i]]++;
    }
    for (uint32_t i = 1; i < FL_HUB_SLOTS; i++) {
        assert(nr[i] == shared->slots[i].nr_blocks);
        assert(!nr[i] || shared->slots[i].state != FL_HUB_FREE);
        assert(nr[i] <= FL_HUB_SLOT_BLOCKS);
    }
}

static void join(struct bed *bed, struct input *in, uint32_t *slot)
{
    const struct fl_hub_peer peer = {.pid = byte(in) & 3, .uid = byte(in) & 1};
    char address[FL_HUB_ADDRESS_LEN];
    uint32_t want;
    int rc;
    take(in, &want, sizeof(want));
    memset(address, 'x', sizeof(address)); /* not terminated */
    if (*slot)
        return;
    rc = fl_hub_join(&bed->table, &peer, want, address);
    if (rc > 0) {
        assert(rc < (int)FL_HUB_SLOTS);
        assert(bed->shared[bed->now]->slots[rc].state == FL_HUB_MEMBER);
        for (size_t i = 0; i < FL_ARRAY_LEN(bed->slots); i++)
            assert(bed->slots[i] != (uint32_t)rc);
        *slot = (uint32_t)rc;
    }
}

/* A small message as a whole one: type, number, and the first values. */
static void message(struct bed *bed, struct input *in, uint32_t slot)
{
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC}, reply;
    size_t len = sizeof(msg);
    uint8_t kind = byte(in);
    bool broken;
    msg.type = kind & 15;
    msg.nr = byte(in);
    take(in, msg.values, sizeof(msg.values[0]) * (kind >> 6));
    if (kind & 16)
        msg.magic ^= 1;
    if (kind & 32)
        len -= byte(in);
    if (slot && fl_hub_handle(&bed->table, slot, &msg, len, &reply, &broken))
        assert(!broken && reply.type == FL_HUB_REPLY && reply.magic == FL_HUB_MAGIC);
}

static void route(struct bed *bed, struct input *in)
{
    size_t len = byte(in) * 2u;
    uint8_t *packet = malloc(len + 1); /* exactly that long, so that ASan sees the end */
    uint32_t slot;
    assert(packet);
    take(in, packet, len);
    slot = fl_hub_route(&bed->table, packet, len, 5);
    assert(slot < FL_HUB_SLOTS);
    free(packet);
}

/* The next hub goes on with what this one left, as it is or spoiled. */
static void replace(struct bed *bed, struct input *in)
{
    uint32_t spoil;
    take(in, &spoil, sizeof(spoil));
    fl_hub_table_fini(&bed->table);
    if (spoil & 1)
        ((uint8_t *)bed->shared[bed->now])[(spoil >> 1) % sizeof(struct fl_hub_shared)] ^= 0xff;
    bed->now ^= 1;
    memset(bed->shared[bed->now], 0, sizeof(struct fl_hub_shared));
    fl_hub_table_init(&bed->table, bed->shared[bed->now], bed->shared[bed->now ^ 1], spoil);
    memset(bed->slots, 0, sizeof(bed->slots));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct bed bed = {0};
    bed.shared[0] = calloc(1, sizeof(struct fl_hub_shared));
    bed.shared[1] = calloc(1, sizeof(struct fl_hub_shared));
    assert(bed.shared[0] && bed.shared[1]);
    fl_hub_table_init(&bed.table, bed.shared[0], NULL, size);
    while (in.at < in.end) {
        uint8_t what = byte(&in);
        uint32_t *slot = &bed.slots[byte(&in) % FL_ARRAY_LEN(bed.slots)];
        switch (what % 8) {
        case 0:
        case 1:
            join(&bed, &in, slot);
            break;
        case 2:
            if (*slot)
                fl_hub_leave(&bed.table, *slot);
            *slot = 0;
            break;
        case 3:
            replace(&bed, &in);
            break;
        case 4:
            route(&bed, &in);
            break;
        default:
            message(&bed, &in, *slot);
        }
    }
    check(&bed);
    fl_hub_table_fini(&bed.table);
    free(bed.shared[0]);
    free(bed.shared[1]);
    return 0;
}
