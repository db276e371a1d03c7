/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "rnic/hub/proto.h"
#include "wire/ib_cm.h"

static const char address[FL_HUB_ADDRESS_LEN] = "somewhere";
static const struct fl_hub_peer alice = {.pid = 100, .uid = 1000}, bob = {.pid = 200, .uid = 2000};

static struct fl_hub_table *table_new(const struct fl_hub_shared *before)
{
    struct fl_hub_table *table = malloc(sizeof(*table));
    struct fl_hub_shared *shared = calloc(1, sizeof(*shared));
    assert_non_null(table);
    assert_non_null(shared);
    fl_hub_table_init(table, shared, before, UINT64_C(0x123456789abcdef0));
    return table;
}

static void table_free(struct fl_hub_table *table)
{
    fl_hub_table_fini(table);
    free(table->shared);
    free(table);
}

static uint32_t join(struct fl_hub_table *table, const struct fl_hub_peer *peer, uint32_t want)
{
    int slot = fl_hub_join(table, peer, want, address);
    assert_true(slot > 0);
    return (uint32_t)slot;
}

static uint32_t get(struct fl_hub_table *table, uint32_t slot)
{
    int block = fl_hub_block_get(table, slot);
    assert_true(block > 0);
    return (uint32_t)block;
}

static void gives_each_its_own_blocks(void **state)
{
    struct fl_hub_table *table = table_new(NULL);
    uint32_t a = join(table, &alice, 0), b = join(table, &bob, 0);
    uint32_t block_a = get(table, a), block_b = get(table, b);
    assert_int_not_equal(a, b);
    assert_int_not_equal(block_a, block_b);
    assert_int_equal(fl_hub_slot_of_qpn(table->shared, block_a << FL_HUB_BLOCK_BITS | 7), a);
    assert_int_equal(fl_hub_slot_of_qpn(table->shared, block_b << FL_HUB_BLOCK_BITS | 1023), b);
    assert_int_equal(fl_hub_slot_of_qpn(table->shared, 1), 0);
    assert_int_equal(fl_hub_slot_of_qpn(table->shared, 0xffffff), 0);
    assert_int_equal(fl_hub_block_claim(table, b, block_a), -EEXIST);
    assert_int_equal(fl_hub_block_claim(table, b, 0), -EINVAL);
    assert_int_equal(fl_hub_block_claim(table, b, FL_HUB_BLOCKS - 1), -EINVAL);
    assert_int_equal(fl_hub_block_claim(table, b, 123456), -EINVAL);
    fl_hub_leave(table, a);
    assert_int_equal(fl_hub_slot_of_qpn(table->shared, block_a << FL_HUB_BLOCK_BITS), 0);
    assert_int_not_equal(get(table, b), block_a); /* rests first */
    table_free(table);
}

static void nobody_takes_all(void **state)
{
    struct fl_hub_table *table = table_new(NULL);
    uint32_t nr = 0, slots = 0, a;
    for (uint32_t i = 0; i < 100; i++) {
        a = join(table, &alice, 0);
        while (fl_hub_block_get(table, a) > 0)
            nr++;
        assert_true(table->shared->slots[a].nr_blocks <= FL_HUB_SLOT_BLOCKS);
    }
    assert_int_equal(nr, FL_HUB_UID_BLOCKS);
    get(table, join(table, &bob, 0));
    while (fl_hub_join(table, &alice, 0, address) > 0)
        slots++;
    assert_int_equal(slots, FL_HUB_UID_SLOTS - 100);
    join(table, &bob, 0);
    table_free(table);
}

static void next_hub_keeps_what_is_whose(void **state)
{
    struct fl_hub_table *old = table_new(NULL), *table;
    uint32_t a = join(old, &alice, 0), b = join(old, &bob, 0);
    uint32_t block_a = get(old, a), block_b = get(old, b);
    table = table_new(old->shared);
    /* Bob comes first, and asks for what is Alice's. */
    assert_int_not_equal(join(table, &bob, a), a);
    assert_int_equal(join(table, &bob, b), b);
    assert_int_equal(fl_hub_block_claim(table, b, block_a), -EEXIST);
    assert_int_equal(fl_hub_block_claim(table, b, block_b), 0);
    /* One who was not there gets none of them. */
    assert_int_not_equal(get(table, join(table, &bob, 0)), block_a);
    assert_int_equal(join(table, &alice, a), a);
    assert_int_equal(fl_hub_block_claim(table, a, block_a), 0);
    assert_int_equal(table->shared->slots[a].nr_blocks, 1);
    /* The same process again, while it is there: another slot. */
    assert_int_not_equal(join(table, &alice, a), a);
    table_free(table);
    table_free(old);
}

static void an_insane_table_is_survived(void **state)
{
    struct fl_hub_table *old = table_new(NULL), *table;
    memset(old->shared, 0xff, sizeof(*old->shared));
    old->shared->version = FL_HUB_SHARED_VERSION;
    table = table_new(old->shared);
    get(table, join(table, &alice, 77));
    table_free(table);
    for (uint32_t i = 0; i < FL_HUB_SLOTS; i++) {
        old->shared->slots[i].seq = 0;
        old->shared->slots[i].pid = -1;
    }
    table = table_new(old->shared);
    for (uint32_t i = 0; i < FL_HUB_BLOCKS; i++)
        assert_int_equal(table->shared->blocks[i], 0); /* 0xffff is no slot */
    table_free(table);
    table_free(old);
}

static void services_have_one_listener(void **state)
{
    struct fl_hub_table *table = table_new(NULL);
    uint32_t a = join(table, &alice, 0), b = join(table, &bob, 0);
    uint64_t id = fl_cm_service_id(FL_CM_PS_TCP, 5000);
    assert_int_equal(fl_hub_listen(table, a, id), 0);
    assert_int_equal(fl_hub_listen(table, b, id), -EADDRINUSE);
    fl_hub_unlisten(table, b, id);
    assert_int_equal(fl_hub_slot_of_service(table, id), a);
    fl_hub_unlisten(table, a, id);
    assert_int_equal(fl_hub_listen(table, b, id), 0);
    fl_hub_leave(table, b);
    assert_int_equal(fl_hub_slot_of_service(table, id), 0);
    for (uint32_t i = 0; i < FL_HUB_SLOT_SERVICES; i++)
        assert_int_equal(fl_hub_listen(table, a, i), 0);
    assert_int_equal(fl_hub_listen(table, a, FL_HUB_SLOT_SERVICES), -ENOSPC);
    table_free(table);
}

struct mad_packet {
    struct fl_bth bth;
    struct fl_deth deth;
    struct fl_cm_mad mad;
    uint8_t icrc[FL_IB_ICRC_LEN];
};

static struct mad_packet packet_of(enum fl_cm_attr attr)
{
    struct mad_packet p = {0};
    fl_bth_set(&p.bth, FL_IB_OPCODE(FL_IB_UD, FL_IB_SEND_ONLY), FL_IB_PKEY_DEFAULT, FL_IB_QP1, 0, 0);
    fl_cm_init(&p.mad, attr, 1);
    return p;
}

static void routes_messages_of_the_cm(void **state)
{
    struct fl_hub_table *table = table_new(NULL);
    uint32_t self = join(table, &alice, 0), b = join(table, &bob, 0), nobody = self;
    uint64_t id = fl_cm_service_id(FL_CM_PS_TCP, 5000);
    struct mad_packet p = packet_of(FL_CM_REQ);
    const uint8_t *bytes = (const uint8_t *)&p;
    while (nobody == self || nobody == b)
        nobody = nobody % (FL_HUB_SLOTS - 1) + 1;
    p.mad.req.service_id = be64_of(id);
    assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), self); /* who answers: nobody listens */
    fl_hub_listen(table, b, id);
    assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), b);
    p = packet_of(FL_CM_SIDR_REQ);
    p.mad.sidr_req.service_id = be64_of(id);
    assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), b);
    p = packet_of(FL_CM_SIDR_REP);
    p.mad.sidr_rep.request_id = be32_of(b << FL_HUB_COMM_SHIFT | 5);
    assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), b);
    for (int attr = FL_CM_MRA; attr <= FL_CM_DREP; attr++) {
        p = packet_of((enum fl_cm_attr)attr);
        p.mad.rtu.remote_id = be32_of(b << FL_HUB_COMM_SHIFT | 99);
        p.mad.rtu.local_id = be32_of(self << FL_HUB_COMM_SHIFT | 98);
        assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), b);
        p.mad.rtu.remote_id = be32_of(nobody << FL_HUB_COMM_SHIFT | 99);
        assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), self);
        table->young = true; /* whoever it is for may be about to come */
        assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), 0);
        p.mad.rtu.remote_id = be32_of(self << FL_HUB_COMM_SHIFT | 99);
        assert_int_equal(fl_hub_route(table, bytes, sizeof(p), self), self);
        table->young = false;
    }
    for (size_t len = 0; len < sizeof(p); len++)
        assert_int_equal(fl_hub_route(table, bytes, len, self), 0); /* cut short */
    table_free(table);
}

static void broken_messages_end_the_connection(void **state)
{
    struct fl_hub_table *table = table_new(NULL);
    uint32_t a = join(table, &alice, 0);
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_HUB_GET, .seq = 9}, reply;
    bool broken;
    assert_true(fl_hub_handle(table, a, &msg, sizeof(msg), &reply, &broken));
    assert_false(broken);
    assert_int_equal(reply.seq, 9);
    assert_int_equal(reply.status, 0);
    msg.type = FL_HUB_CLAIM;
    msg.nr = 3;
    msg.values[0] = UINT64_MAX;
    msg.values[1] = reply.values[0];
    msg.values[2] = UINT64_C(1) << 32 | 5; /* no block, though its low half is one */
    assert_true(fl_hub_handle(table, a, &msg, sizeof(msg), &reply, &broken));
    assert_int_equal(reply.status, -EINVAL);
    assert_int_equal(reply.values[0], 2);
    msg.nr = FL_HUB_BATCH + 1;
    assert_false(fl_hub_handle(table, a, &msg, sizeof(msg), &reply, &broken));
    assert_true(broken);
    msg.nr = 0;
    assert_false(fl_hub_handle(table, a, &msg, sizeof(msg) - 1, &reply, &broken));
    assert_true(broken);
    msg.type = FL_HUB_HELLO; /* a second one */
    assert_false(fl_hub_handle(table, a, &msg, sizeof(msg), &reply, &broken));
    assert_true(broken);
    table_free(table);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(gives_each_its_own_blocks), cmocka_unit_test(nobody_takes_all),
        cmocka_unit_test(next_hub_keeps_what_is_whose), cmocka_unit_test(an_insane_table_is_survived),
        cmocka_unit_test(services_have_one_listener), cmocka_unit_test(routes_messages_of_the_cm),
        cmocka_unit_test(broken_messages_end_the_connection));
}
