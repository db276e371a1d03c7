/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a target with a namespace of RAM, and a host with an admin and an I/O queue. */
#ifndef FL_TARGET_TEST_SETUP_H
#define FL_TARGET_TEST_SETUP_H

#include "target/test_bed.h"

#define HOST_B "nqn.2026-01.org.example:host-b"

struct setup {
    struct bed *bed;
    struct bed_host h;
    uint32_t nsid;
};

static inline void start(struct setup *s, uint32_t loops, void (*tweak)(struct fl_target_options *o))
{
    s->bed = bed_new(loops, tweak);
    s->nsid = bed_add_ns(s->bed, "ram:1M,bs=512");
    bed_host(s->bed, BED_HOST, &s->h);
}

static inline void stop(struct setup *s)
{
    bed_free(s->bed);
    bed_conn_free(s->h.admin);
    bed_conn_free(s->h.io);
}

static inline struct bed_cmd *send_aer(struct setup *s)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_ASYNC_EVENT, 0);
    struct bed_cmd *aer = bed_send(s->h.admin, &sqe, NULL, 0, false, 0);

    bed_turn(s->bed);
    return aer;
}

static inline uint32_t aer_dw0(struct bed_cmd *aer)
{
    uint32_t dw0;

    assert_true(aer->answered);
    assert_int_equal(bed_status(aer), 0);
    dw0 = le32_get(aer->cqe.dw0);
    bed_free_cmd(aer);
    return dw0;
}

#endif
