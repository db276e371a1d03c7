/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: the software RNIC's verbs and connection manager, where each object that is made is counted, the
 * n-th call that makes one can fail, and the device can be smaller than it is.
 */
#ifndef FL_FABRIC_TEST_VERBS_H
#define FL_FABRIC_TEST_VERBS_H

#include <errno.h>

#include "base/unit.h"
#include "fabric/rdma_domain.h"
#include "wire/nvme_rdma.h"

static struct test_verbs {
    long nr_pds, nr_mrs, nr_comps, nr_cqs, nr_qps, nr_srqs, nr_ids, nr_channels;
    long fail_in; /* 0: nothing fails; n: the n-th call from now on */
    bool fired;
    struct ibv_device_attr
        device; /* its limits, where not 0: max_qp_wr, max_sge, max_qp_rd_atom, max_qp_init_rd_atom */
    struct rdma_conn_param accepted; /* with what the last connection was accepted */
    struct ibv_qp *accepted_qp;
    uint16_t crqsize; /* not 0: what the target's reply says instead of the truth */
} test_verbs;

static struct fl_verbs test_verbs_table;
static struct fl_rdmacm test_cm_table;
static const struct fl_rdma_lib test_lib = {.verbs = &test_verbs_table, .cm = &test_cm_table};

static bool test_fails(void)
{
    if (!test_verbs.fail_in || --test_verbs.fail_in)
        return false;
    test_verbs.fired = true;
    errno = ENOMEM;
    return true;
}

static void *test_made(void *p, long *nr)
{
    if (p)
        __atomic_add_fetch(nr, 1, __ATOMIC_RELAXED);
    return p;
}

static int test_gone(int r, long *nr)
{
    assert_int_equal(r, 0); /* nothing is in use any more when it is destroyed */
    assert_true(__atomic_sub_fetch(nr, 1, __ATOMIC_RELAXED) >= 0);
    return r;
}

static struct ibv_pd *test_alloc_pd(struct ibv_context *context)
{
    return test_fails() ? NULL : test_made(fl_verbs_soft.alloc_pd(context), &test_verbs.nr_pds);
}

static int test_dealloc_pd(struct ibv_pd *pd)
{
    return test_gone(fl_verbs_soft.dealloc_pd(pd), &test_verbs.nr_pds);
}

static struct ibv_mr *test_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return test_fails() ? NULL : test_made(fl_verbs_soft.reg_mr(pd, addr, len, access), &test_verbs.nr_mrs);
}

static int test_dereg_mr(struct ibv_mr *mr)
{
    return test_gone(fl_verbs_soft.dereg_mr(mr), &test_verbs.nr_mrs);
}

static struct ibv_comp_channel *test_create_comp(struct ibv_context *context)
{
    return test_fails() ? NULL : test_made(fl_verbs_soft.create_comp_channel(context), &test_verbs.nr_comps);
}

static int test_destroy_comp(struct ibv_comp_channel *channel)
{
    return test_gone(fl_verbs_soft.destroy_comp_channel(channel), &test_verbs.nr_comps);
}

static struct ibv_cq *test_create_cq(struct ibv_context *context, int cqe, void *user,
                                     struct ibv_comp_channel *channel, int vector)
{
    return test_fails()
               ? NULL
               : test_made(fl_verbs_soft.create_cq(context, cqe, user, channel, vector), &test_verbs.nr_cqs);
}

static int test_destroy_cq(struct ibv_cq *cq)
{
    return test_gone(fl_verbs_soft.destroy_cq(cq), &test_verbs.nr_cqs);
}

static struct ibv_srq *test_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return test_fails() ? NULL : test_made(fl_verbs_soft.create_srq(pd, attr), &test_verbs.nr_srqs);
}

static int test_destroy_srq(struct ibv_srq *srq)
{
    return test_gone(fl_verbs_soft.destroy_srq(srq), &test_verbs.nr_srqs);
}

static int test_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    int r = fl_verbs_soft.query_device(context, attr);

#define LIMIT(what)                              \
    do {                                         \
        if (test_verbs.device.what)              \
            attr->what = test_verbs.device.what; \
    } while (0)
    LIMIT(max_qp_wr);
    LIMIT(max_sge);
    LIMIT(max_qp_rd_atom);
    LIMIT(max_qp_init_rd_atom);
#undef LIMIT
    return r;
}

static struct rdma_event_channel *test_create_channel(void)
{
    return test_fails() ? NULL : test_made(fl_rdmacm_soft.create_event_channel(), &test_verbs.nr_channels);
}

static void test_destroy_channel(struct rdma_event_channel *channel)
{
    fl_rdmacm_soft.destroy_event_channel(channel);
    test_gone(0, &test_verbs.nr_channels);
}

static int test_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    int r = test_fails() ? -1 : fl_rdmacm_soft.create_id(channel, id, context, ps);

    if (r == 0)
        test_made(*id, &test_verbs.nr_ids);
    return r;
}

static int test_destroy_id(struct rdma_cm_id *id)
{
    return test_gone(fl_rdmacm_soft.destroy_id(id), &test_verbs.nr_ids);
}

/* A request to connect brings an identifier with it. */
static int test_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    int r = fl_rdmacm_soft.get_cm_event(channel, event);

    if (r == 0 && (*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        test_made((*event)->id, &test_verbs.nr_ids);
    return r;
}

static int test_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    int r = test_fails() ? -1 : fl_rdmacm_soft.create_qp(id, pd, attr);

    if (r == 0)
        test_made(id->qp, &test_verbs.nr_qps);
    return r;
}

static void test_destroy_qp(struct rdma_cm_id *id)
{
    fl_rdmacm_soft.destroy_qp(id);
    test_gone(0, &test_verbs.nr_qps);
}

static int test_migrate(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    return test_fails() ? -1 : fl_rdmacm_soft.migrate_id(id, channel);
}

static int test_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return test_fails() ? -1 : fl_rdmacm_soft.connect(id, param);
}

static int test_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    static struct fl_nvme_rdma_rep rep;

    test_verbs.accepted = *param;
    if (test_verbs.crqsize) {
        fl_nvme_rdma_rep_encode(&rep, test_verbs.crqsize);
        param->private_data = &rep;
    }
    test_verbs.accepted_qp = id->qp;
    return test_fails() ? -1 : fl_rdmacm_soft.accept(id, param);
}

static void test_verbs_init(void)
{
    memset(&test_verbs, 0, sizeof(test_verbs));
    test_verbs_table = fl_verbs_soft;
    test_verbs_table.alloc_pd = test_alloc_pd;
    test_verbs_table.dealloc_pd = test_dealloc_pd;
    test_verbs_table.reg_mr = test_reg_mr;
    test_verbs_table.dereg_mr = test_dereg_mr;
    test_verbs_table.create_comp_channel = test_create_comp;
    test_verbs_table.destroy_comp_channel = test_destroy_comp;
    test_verbs_table.create_cq = test_create_cq;
    test_verbs_table.destroy_cq = test_destroy_cq;
    test_verbs_table.create_srq = test_create_srq;
    test_verbs_table.destroy_srq = test_destroy_srq;
    test_verbs_table.query_device = test_query_device;
    test_cm_table = fl_rdmacm_soft;
    test_cm_table.create_event_channel = test_create_channel;
    test_cm_table.destroy_event_channel = test_destroy_channel;
    test_cm_table.create_id = test_create_id;
    test_cm_table.destroy_id = test_destroy_id;
    test_cm_table.get_cm_event = test_get_event;
    test_cm_table.create_qp = test_create_qp;
    test_cm_table.destroy_qp = test_destroy_qp;
    test_cm_table.migrate_id = test_migrate;
    test_cm_table.connect = test_connect;
    test_cm_table.accept = test_accept;
}

static void test_verbs_check_empty(void)
{
    assert_int_equal(test_verbs.nr_pds, 0);
    assert_int_equal(test_verbs.nr_mrs, 0);
    assert_int_equal(test_verbs.nr_comps, 0);
    assert_int_equal(test_verbs.nr_cqs, 0);
    assert_int_equal(test_verbs.nr_qps, 0);
    assert_int_equal(test_verbs.nr_srqs, 0);
    assert_int_equal(test_verbs.nr_ids, 0);
    assert_int_equal(test_verbs.nr_channels, 0);
}

#endif
