/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to READs that their owner puts where they belong as they come. */
#include "rnic/roce/test_pair.h"

#define MTU     1024u
#define PACKETS 20u
#define LEN     (PACKETS * MTU + 5)
#define ID      77u

/* What the owner of queue pair a was offered, by packet. */
static struct {
    uint8_t bytes[MEM_LEN];
    uint32_t nr_offered[PACKETS + 1], nr_other;
    uint32_t refuses; /* each so many-th; 0: none */
} owner;

static bool place(struct fl_roce_qp *qp, uint64_t wr_id, uint32_t offset, const void *data, uint32_t len)
{
    uint32_t i = offset / MTU;
    if (wr_id != ID) {
        owner.nr_other++;
        return false;
    }
    assert_true(offset % MTU == 0 && offset + len <= LEN && len == (i == PACKETS ? 5 : MTU));
    owner.nr_offered[i]++;
    if (owner.refuses && i % owner.refuses == 0)
        return false;
    memcpy(owner.bytes + offset, data, len);
    return true;
}

/* Every other turn the peer's packets at these places in the message are lost, once each. */
static void read_with_loss(bool selective, const uint32_t *lost, uint32_t nr_lost, uint32_t refuses)
{
    struct fl_roce_ops ops = pair_ops;
    struct pair *p = pair_new();
    uint64_t gone = 0;
    struct sent *s;
    memset(&owner, 0, sizeof(owner));
    owner.refuses = refuses;
    if (selective) {
        assert_int_equal(fl_roce_pool_init(&p->pool, 64), 0);
        p->cap.pool = &p->pool;
        p->attr.selective = true;
        p->attr.nr_paths = 1;
    }
    pair_up(p);
    ops.place = place;
    p->a.qp.ops = &ops;
    memset(p->a.mem, 0, MEM_LEN);
    assert_int_equal(post(&p->a, ID, IBV_WR_RDMA_READ, 0, LEN, 20000), 0);
    assert_int_equal(post(&p->a, ID + 1, IBV_WR_RDMA_READ, 40000, 100, 30000), 0);
    for (int i = 0; i < 100 && p->a.nr_wcs < 2; i++) {
        while ((s = take(p, &p->a)))
            give(p, s);
        while ((s = take(p, &p->b))) {
            bool drop = false;
            for (uint32_t k = 0; k < nr_lost; k++)
                if (fl_psn_diff(s->view.psn, 100 + lost[k]) == 0 && !(gone & 1u << k)) {
                    gone |= 1u << k;
                    drop = true;
                }
            if (!drop)
                give(p, s);
        }
        if (p->a.nr_wcs < 2 && fl_roce_qp_deadline(&p->a.qp) != FL_ROCE_NEVER)
            wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    }
    assert_int_equal(gone, (1u << nr_lost) - 1);
    expect_wc(&p->a, 0, ID, IBV_WC_SUCCESS);
    expect_wc(&p->a, 1, ID + 1, IBV_WC_SUCCESS);
    assert_int_equal(owner.nr_other, 1);
    assert_memory_equal(p->a.mem + 40000, p->b.mem + 30000, 100);
    for (uint32_t i = 0; i <= PACKETS; i++) {
        uint32_t at = i * MTU, len = i == PACKETS ? 5 : MTU;
        bool refused = refuses && i % refuses == 0;
        assert_int_equal(owner.nr_offered[i], 1); /* also what was sent twice */
        assert_memory_equal((refused ? p->a.mem : owner.bytes) + at, p->b.mem + 20000 + at, len);
        for (uint32_t k = 0; k < len; k++)
            assert_int_equal((refused ? owner.bytes : p->a.mem)[at + k], 0);
    }
    pair_free(p);
}

static void each_byte_is_offered_once(void **state)
{
    static const uint32_t lost[] = {0, 4, 5, 11, PACKETS};
    for (int selective = 0; selective < 2; selective++)
        for (uint32_t refuses = 0; refuses < 4; refuses++) {
            read_with_loss(selective, lost, 0, refuses);
            read_with_loss(selective, lost, FL_ARRAY_LEN(lost), refuses);
        }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(each_byte_is_offered_once));
}
