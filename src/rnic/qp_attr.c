/* SPDX-License-Identifier: Apache-2.0 */
/* ibv_modify_qp() and ibv_query_qp(): from the verbs' attributes to the engine's, and back. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/shm_path.h"
#include "rnic/verbs.h"

static void merge(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define TAKE(bit, field)             \
    do {                             \
        if (mask & (bit))            \
            to->field = from->field; \
    } while (0)
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    TAKE(IBV_QP_PKEY_INDEX, pkey_index);
    TAKE(IBV_QP_PORT, port_num);
    TAKE(IBV_QP_QKEY, qkey);
    TAKE(IBV_QP_AV, ah_attr);
    TAKE(IBV_QP_PATH_MTU, path_mtu);
    TAKE(IBV_QP_TIMEOUT, timeout);
    TAKE(IBV_QP_RETRY_CNT, retry_cnt);
    TAKE(IBV_QP_RNR_RETRY, rnr_retry);
    TAKE(IBV_QP_RQ_PSN, rq_psn);
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    TAKE(IBV_QP_SQ_PSN, sq_psn);
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    TAKE(IBV_QP_DEST_QPN, dest_qp_num);
    TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef TAKE
}

static uint64_t line_rate(const struct fl_device *device)
{
    return __atomic_load_n(&device->speed_mbps, __ATOMIC_RELAXED) * UINT64_C(125000);
}

static struct fl_roce_attr roce_attr(const struct fl_qp *qp, const struct ibv_qp_attr *a)
{
    const struct fl_device *device = fl_context_of(qp->qp.context)->device;
    bool datagram = qp->qp.qp_type == IBV_QPT_UD;
    return (struct fl_roce_attr){
        .dest_qpn = a->dest_qp_num,
        .sq_psn = a->sq_psn & FL_IB_QPN_MASK,
        .rq_psn = a->rq_psn & FL_IB_QPN_MASK,
        .qkey = a->qkey,
        .pkey = FL_IB_PKEY_DEFAULT,
        .access = (int)a->qp_access_flags,
        .mtu = (uint8_t)(datagram ? fl_device_mtu(device) : a->path_mtu),
        .timeout = a->timeout,
        .retry_cnt = a->retry_cnt,
        .rnr_retry = a->rnr_retry,
        .min_rnr_timer = a->min_rnr_timer,
        .max_rd_atomic = a->max_rd_atomic,
        .max_dest_rd_atomic = a->max_dest_rd_atomic,
        .line_rate = line_rate(device),
        .selective = qp->selective,
        .nr_paths = qp->selective && qp->spray ? FL_RNIC_PATHS : 1,
    };
}

/* What may change without a change of state, or beside one; the engine reads these at each use. */
static void apply_live(struct fl_qp *qp, const struct fl_roce_attr *to, int mask)
{
    struct fl_roce_attr *now = &qp->roce.attr;
    if (mask & IBV_QP_ACCESS_FLAGS)
        now->access = to->access;
    if (mask & IBV_QP_QKEY)
        now->qkey = to->qkey;
    if (mask & IBV_QP_MIN_RNR_TIMER)
        now->min_rnr_timer = to->min_rnr_timer;
    if (mask & IBV_QP_RETRY_CNT)
        now->retry_cnt = to->retry_cnt;
    if (mask & IBV_QP_RNR_RETRY)
        now->rnr_retry = to->rnr_retry;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        now->max_rd_atomic = to->max_rd_atomic;
    if (mask & IBV_QP_TIMEOUT) {
        now->timeout = to->timeout;
        qp->roce.timeout_ns = fl_ib_ack_timeout_ns(to->timeout);
    }
}

static uint32_t entropy_of(const struct fl_qp *qp, const struct ibv_qp_attr *attr)
{
    uint32_t x = (qp->qp.qp_num ^ attr->dest_qp_num) * 0x9e3779b1u;
    return x >> 16;
}

/* A process of this host takes its packets itself, without the hub. */
static void find_port(struct fl_qp *qp)
{
    struct fl_port_peer peer;
    if (qp->qp.qp_type != IBV_QPT_UD && fl_shm_path_is_here(&qp->flow.dgid) &&
        fl_port_find_peer(qp->rnic->port, qp->attr.dest_qp_num, &peer) == 0)
        qp->flow.dport = peer.udp_port;
}

static int modify_locked(struct fl_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from = qp->path->state(qp), to = mask & IBV_QP_STATE ? attr->qp_state : from;
    struct ibv_qp_attr merged = qp->attr;
    struct fl_port_flow flow = qp->flow;
    int r = fl_qp_attr_check(qp, from, to, attr, mask);
    if (r)
        return r;
    merge(&merged, attr, mask);
    if (mask & IBV_QP_AV) {
        struct ibv_ah_attr av = attr->ah_attr;
        av.port_num = av.port_num ? av.port_num : 1; /* many programs leave it out */
        r = fl_flow_from_attr(fl_context_of(qp->qp.context), &av, entropy_of(qp, &merged), &flow);
        if (r)
            return r;
    }
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        fl_ack_now(qp);
    if (to == IBV_QPS_RESET) {
        fl_qp_reset(qp);
        qp->selective = qp->spray = false;
    }
    qp->sqd_notify = to == IBV_QPS_SQD && merged.en_sqd_async_notify;
    struct fl_roce_attr roce = roce_attr(qp, &merged);
    r = to == from && from != IBV_QPS_INIT ? 0 : qp->path->modify(qp, to, &roce);
    if (r) {
        FL_WARN("%s: queue pair 0x%06x: the attributes do not fit together", qp->qp.context->device->name,
                qp->qp.qp_num);
        return -r;
    }
    apply_live(qp, &roce, mask);
    qp->flow = flow;
    qp->attr = to == IBV_QPS_RESET ? (struct ibv_qp_attr){0} : merged;
    if (to == IBV_QPS_RTR) {
        fl_shm_path_choose(qp);
        find_port(qp);
    }
    if (to != IBV_QPS_RESET)
        qp->path->kick(qp); /* SQD may be drained already; RTS goes on after it */
    fl_qp_settle(qp);
    return 0;
}

int fl_qp_modify(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);
    struct fl_rnic *rnic = fl_qp_lock(qp);
    if (!rnic)
        return ENODEV;
    if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR)
        fl_shm_path_take(qp);
    int r = modify_locked(qp, attr, mask);
    fl_rnic_unlock(rnic);
    return r;
}

int fl_qp_query(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);
    struct fl_rnic *rnic = fl_qp_lock(qp);
    if (!rnic)
        return ENODEV;
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = qp->path->state(qp);
    attr->sq_draining = attr->qp_state == IBV_QPS_SQD && qp->roce.req.head != qp->roce.req.cur;
    attr->path_mig_state = IBV_MIG_MIGRATED;
    attr->cap = qp->init.cap;
    ibv_qp->state = attr->qp_state;
    *init = qp->init;
    fl_rnic_unlock(rnic);
    return 0;
}

int fl_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return 0; /* a packet that is sent again may write again */
}

int fl_qp_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return EOPNOTSUPP;
}

int fl_qp_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return EOPNOTSUPP;
}
