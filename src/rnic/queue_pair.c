/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: making and ending, and what the engine asks of its surroundings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/port/patience.h"
#include "rnic/qp_ex.h"
#include "rnic/retired.h"
#include "rnic/shm_path.h"
#include "rnic/stats.h"
#include "rnic/verbs.h"

#define QP_WR_MAX  16384
#define INLINE_MAX 4096
/* Granted to all: programs that ask for none post a few bytes inline, since hardware rounds up what was
 * asked. */
#define INLINE_MIN    64u
#define FLUSH_AT_ONCE 4 /* requests that are not complete */

int fl_qp_ask_own_key(struct fl_qp *qp, uint32_t lkey, uint64_t addr, uint64_t len, int access, uint64_t *ptr)
{
    const struct fl_key_ask ask = {.key = lkey,
                                   .pd = qp->pd_number,
                                   .qpn = qp->qp.qp_num,
                                   .access = access,
                                   .addr = addr,
                                   .len = len,
                                   .memo = &qp->own_keys};
    return fl_key_check_own(&qp->rnic->keys, &ask, ptr);
}

static int check_local(struct fl_roce_qp *roce, uint32_t lkey, uint64_t addr, uint32_t len, int access,
                       void **ptr)
{
    uint64_t at;
    int r = fl_qp_check_own_key(fl_qp_of_roce(roce), lkey, addr, len, access, &at);
    *ptr = (void *)(uintptr_t)at;
    return r;
}

static int check_remote(struct fl_roce_qp *roce, uint32_t rkey, uint64_t addr, uint32_t len, int access,
                        void **ptr)
{
    struct fl_qp *qp = fl_qp_of_roce(roce);
    struct fl_key_ask ask = {.key = rkey,
                             .pd = qp->pd_number,
                             .qpn = qp->qp.qp_num,
                             .access = access,
                             .remote = true,
                             .addr = addr,
                             .len = len,
                             .memo = &qp->own_keys};
    uint64_t at;
    int r = fl_key_check(qp->rnic->keys.file, &ask, &at);
    *ptr = (void *)(uintptr_t)at;
    return r;
}

static int invalidate(struct fl_roce_qp *roce, uint32_t rkey, bool from_peer)
{
    return fl_key_invalidate(fl_qp_of_roce(roce), rkey, from_peer);
}

static int bind_window(struct fl_roce_qp *roce, const struct ibv_send_wr *wr)
{
    return fl_mw_bind(fl_qp_of_roce(roce), wr);
}

static void tell_gathered(struct fl_rnic *rnic)
{
    if (rnic->gather.cq)
        fl_cq_tell(rnic->gather.cq, rnic->gather.solicited);
    rnic->gather.cq = NULL;
    rnic->gather.solicited = false;
}

void fl_rnic_gather(struct fl_rnic *rnic)
{
    rnic->gather.on = true;
}

void fl_rnic_gathered(struct fl_rnic *rnic)
{
    rnic->gather.on = false;
    tell_gathered(rnic);
}

void fl_qp_complete(struct fl_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    struct fl_cq *cq = of_send ? qp->send_cq : qp->recv_cq;
    struct fl_rnic *rnic = qp->rnic;
    fl_cq_put(cq, wc);
    if (!of_send)
        fl_ack_received(qp);
    if (rnic->gather.cq != cq)
        tell_gathered(rnic);
    rnic->gather.cq = cq;
    rnic->gather.solicited |= solicited;
    if (!rnic->gather.on)
        tell_gathered(rnic);
    if (fl_unlikely(cq->failed))
        qp->doomed = true;
}

static void complete(struct fl_roce_qp *roce, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    fl_qp_complete(fl_qp_of_roce(roce), wc, of_send, solicited);
}

static void raise_event(struct fl_qp *qp, enum ibv_event_type type)
{
    struct ibv_async_event event = {.element.qp = &qp->qp, .event_type = type};
    fl_async_raise(fl_context_of(qp->qp.context), &event, &qp->nr_told);
}

static bool place(struct fl_roce_qp *roce, uint64_t wr_id, uint32_t offset, const void *data, uint32_t len)
{
    const struct fl_qp *qp = fl_qp_of_roce(roce);
    return qp->place && qp->place(qp->place_arg, wr_id, offset, data, len);
}

void fl_qp_place_answers(struct ibv_qp *ibv_qp, fl_qp_place *f, void *arg)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);
    struct fl_rnic *rnic = fl_qp_lock(qp);
    if (!rnic)
        return;
    qp->place = f;
    qp->place_arg = arg;
    fl_rnic_unlock(rnic);
}

static void event(struct fl_roce_qp *roce, enum ibv_event_type type)
{
    struct fl_qp *qp = fl_qp_of_roce(roce);
    if (type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        struct ibv_async_event limit = {.element.srq = &qp->srq->srq, .event_type = type};
        fl_async_raise(fl_context_of(qp->qp.context), &limit, &qp->srq->nr_told);
    } else if (type != IBV_EVENT_SQ_DRAINED || qp->sqd_notify) {
        raise_event(qp, type);
    }
}

const struct fl_roce_ops fl_qp_roce_ops = {
    .local = check_local,
    .remote = check_remote,
    .invalidate = invalidate,
    .bind = bind_window,
    .direct = fl_shm_path_direct,
    .place = place,
    .complete = complete,
    .event = event,
};

static void set_ready(struct fl_qp *qp)
{
    if (!fl_list_linked(&qp->ready_link))
        fl_list_add_tail(&qp->rnic->ready, &qp->ready_link);
}

void fl_qp_settle(struct fl_qp *qp)
{
    if (fl_unlikely(qp->doomed)) {
        qp->doomed = false;
        if (qp->path->state(qp) != IBV_QPS_ERR && qp->path->state(qp) != IBV_QPS_RESET) {
            qp->path->modify(qp, IBV_QPS_ERR, NULL);
            raise_event(qp, IBV_EVENT_QP_FATAL);
        }
    }
    qp->qp.state = qp->path->state(qp);
    fl_shm_path_show(qp);
    if (fl_unlikely(qp->qp.state == IBV_QPS_ERR) && !qp->was_error) {
        qp->was_error = true;
        if (qp->srq) /* 10.3.1: no more receives will be taken */
            raise_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
    uint64_t at = fl_roce_qp_deadline(&qp->roce);
    if (at == FL_ROCE_NEVER || (qp->timer.heap_index && qp->timer.deadline_ns <= at))
        return; /* the timer may come too early, and is set anew then */
    if (fl_timer_heap_set(&qp->rnic->timers, &qp->timer, at))
        set_ready(qp);          /* no memory: looked at each turn */
    if (qp->rnic->port_watched) /* else a program polls and keeps to it, and the thread looks soon anyway */
        fl_rnic_wake_by(qp->rnic, at);
}

static bool from_peer(const struct fl_qp *qp, const struct fl_port_packet *packet)
{
    return IN6_ARE_ADDR_EQUAL(&packet->sgid, &qp->flow.dgid) &&
           IN6_ARE_ADDR_EQUAL(&packet->dgid, &qp->flow.sgid);
}

void fl_qp_first_packet(struct fl_qp *qp, uint64_t now)
{
    struct fl_rnic_client *client;
    qp->established = true;
    if (qp->path->state(qp) == IBV_QPS_RTR)
        raise_event(qp, IBV_EVENT_COMM_EST);
    fl_list_for_each (client, &qp->rnic->clients, link) {
        if (client->first_packet)
            client->first_packet(client, qp, now);
    }
}

void fl_qp_deliver(struct fl_qp *qp, const struct fl_port_packet *packet, uint64_t now)
{
    if (qp->qp.qp_type != IBV_QPT_UD && !from_peer(qp, packet)) {
        qp->rnic->stats.nr_foreign++;
        qp->nr_foreign++;
        return;
    }
    fl_roce_qp_rx(&qp->roce, &packet->packet, &packet->meta, now);
    if (fl_unlikely(!qp->established) && qp->qp.qp_type != IBV_QPT_UD)
        fl_qp_first_packet(qp, now);
    set_ready(qp);
    fl_qp_settle(qp);
}

static int udp_post_send(struct fl_qp *qp, const struct ibv_send_wr *wr)
{
    return fl_roce_qp_post_send(&qp->roce, wr);
}

static int udp_post_recv(struct fl_qp *qp, const struct ibv_recv_wr *wr)
{
    return fl_roce_qp_post_recv(&qp->roce, wr);
}

static void udp_take_back(struct fl_qp *qp, uint32_t nr)
{
    fl_roce_qp_take_back(&qp->roce, nr);
}

/*
 * A packet leaves at once while few are on their way, or nobody drives. With more, answers come soon, and
 * with them turns that send what has gathered in few system calls; the port sends by itself when much has.
 */
static void udp_kick(struct fl_qp *qp)
{
    qp->rnic->now = fl_now_ns();
    fl_ack_answered(qp);
    fl_rnic_send_locked(qp->rnic, qp);
    if (qp->qp.qp_type == IBV_QPT_UD && fl_port_stats(qp->rnic->port)->is_hub) {
        /* What is for this host comes to our own socket, and nobody would send it again if the program ended
         * now by _exit(): to its owner with it. */
        fl_port_flush(qp->rnic->port);
        fl_rnic_progress_locked(qp->rnic, 0);
    } else if (qp->roce.req.tail - qp->roce.req.head <= FLUSH_AT_ONCE || fl_rnic_sleeps(qp->rnic)) {
        fl_port_flush(qp->rnic->port);
    }
}

static int udp_modify(struct fl_qp *qp, enum ibv_qp_state to, const struct fl_roce_attr *attr)
{
    return fl_roce_qp_modify(&qp->roce, to, attr);
}

static enum ibv_qp_state udp_state(const struct fl_qp *qp)
{
    return qp->roce.state;
}

/* A clock that costs little: not ahead, and late by one tick of the kernel (some ms) at most. */
static uint64_t rough_now(uint64_t last)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    uint64_t now = (uint64_t)ts.tv_sec * FL_NS_PER_S + (uint64_t)ts.tv_nsec;
    return FL_MAX(now, last);
}

/* What is done in the peer's memory has no packets, and so no times to be kept to. */
static void shm_kick(struct fl_qp *qp)
{
    qp->rnic->now = rough_now(qp->rnic->now);
    fl_rnic_send_locked(qp->rnic, qp);
    fl_port_flush(qp->rnic->port);
}

static struct ibv_send_wr *shm_post_now(struct fl_qp *qp, struct ibv_send_wr *wr)
{
    qp->rnic->now = rough_now(qp->rnic->now);
    return fl_shm_path_post(qp, wr, qp->rnic->now);
}

static int shm_post_recv(struct fl_qp *qp, const struct ibv_recv_wr *wr)
{
    int r = fl_roce_qp_post_recv(&qp->roce, wr);
    if (!r)
        fl_shm_path_posted(qp, wr);
    return r;
}

const struct fl_qp_path_ops fl_qp_path_udp = {
    .name = "udp",
    .post_send = udp_post_send,
    .post_recv = udp_post_recv,
    .take_back = udp_take_back,
    .kick = udp_kick,
    .modify = udp_modify,
    .state = udp_state,
};

/* The same engine: what cannot be done in the peer's memory goes to it as packets, by a ring. */
const struct fl_qp_path_ops fl_qp_path_shm = {
    .name = "shm",
    .post_send = udp_post_send,
    .post_recv = shm_post_recv,
    .take_back = udp_take_back,
    .post_now = shm_post_now,
    .kick = shm_kick,
    .modify = udp_modify,
    .state = udp_state,
    .leave = fl_shm_path_leave,
};

static bool type_ok(enum ibv_qp_type type)
{
    return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD;
}

static int check_create(const struct ibv_qp_init_attr_ex *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                           IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (attr->comp_mask & ~known || !type_ok(attr->qp_type))
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
        return EOPNOTSUPP;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || !attr->send_cq || !attr->recv_cq)
        return EINVAL;
    if (attr->send_cq->context != attr->pd->context || attr->recv_cq->context != attr->pd->context ||
        (attr->srq && attr->srq->context != attr->pd->context))
        return EINVAL;
    if (cap->max_send_wr > QP_WR_MAX || cap->max_send_sge > FL_ROCE_SGE_MAX ||
        cap->max_inline_data > INLINE_MAX)
        return EINVAL;
    if (!attr->srq && (cap->max_recv_wr > QP_WR_MAX || cap->max_recv_sge > FL_ROCE_SGE_MAX))
        return EINVAL;
    return 0;
}

static void count_users(struct fl_qp *qp, int by)
{
    qp->send_cq->nr_users += (uint32_t)by;
    qp->recv_cq->nr_users += (uint32_t)by;
    if (qp->srq)
        qp->srq->nr_users += (uint32_t)by;
    qp->rnic->nr_qps += (uint32_t)by;
}

/* Under the lock: a number, the engine, its place in the table. */
static int set_up(struct fl_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
    struct fl_rnic *rnic = qp->rnic;
    /* What it is made of may be destroyed meanwhile. */
    if (rnic->gone || qp->send_cq->rnic != rnic || qp->recv_cq->rnic != rnic ||
        (attr->srq && fl_gone(attr->srq->context)))
        return -ENODEV;
    int r = fl_port_qpn_get(rnic->port, &qp->qp.qp_num);
    if (r)
        return r;
    struct fl_roce_cap cap = {
        .type = attr->qp_type,
        .qpn = qp->qp.qp_num,
        .max_send_wr = attr->cap.max_send_wr,
        .max_recv_wr = attr->srq ? 0 : attr->cap.max_recv_wr,
        .max_send_sge = attr->cap.max_send_sge,
        .max_recv_sge = attr->srq ? 0 : attr->cap.max_recv_sge,
        .max_inline = attr->cap.max_inline_data,
        .max_dest_rd_atomic = attr->qp_type == IBV_QPT_RC ? FL_ROCE_RD_MAX : 0,
        .sq_sig_all = attr->sq_sig_all,
        .rq = attr->srq ? &fl_srq_of(attr->srq)->rq : NULL,
        .pool = &rnic->pool,
    };
    r = fl_roce_qp_init(&qp->roce, &fl_qp_roce_ops, &cap, qp);
    if (r)
        goto put_qpn;
    r = fl_qp_table_set(&rnic->qps, qp->qp.qp_num, qp);
    if (r)
        goto fini_roce;
    if (attr->qp_type == IBV_QPT_UD)
        fl_list_add_tail(&rnic->datagrams, &qp->datagram_link);
    count_users(qp, 1);
    return 0;

fini_roce:
    fl_roce_qp_fini(&qp->roce);
put_qpn:
    fl_port_qpn_put(rnic->port, qp->qp.qp_num);
    return r;
}

static void fill_in(struct fl_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
    qp->rnic = fl_context_of(attr->pd->context)->rnic;
    qp->path = &fl_qp_path_udp;
    qp->path_reason = "not connected yet";
    qp->send_cq = fl_cq_of(attr->send_cq);
    qp->recv_cq = fl_cq_of(attr->recv_cq);
    qp->srq = attr->srq ? fl_srq_of(attr->srq) : NULL;
    qp->pd_number = fl_pd_of(attr->pd)->number;
    fl_list_init(&qp->ready_link);
    fl_list_init(&qp->datagram_link);
    qp->qp.context = attr->pd->context;
    qp->qp.qp_context = attr->qp_context;
    qp->qp.pd = attr->pd;
    qp->qp.send_cq = attr->send_cq;
    qp->qp.recv_cq = attr->recv_cq;
    qp->qp.srq = attr->srq;
    qp->qp.qp_type = attr->qp_type;
    qp->qp.state = IBV_QPS_RESET;
    pthread_mutex_init(&qp->qp.mutex, NULL);
    pthread_cond_init(&qp->qp.cond, NULL);
    if (attr->srq)
        attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
    attr->cap.max_send_sge = FL_MAX(attr->cap.max_send_sge, 1u); /* inline data counts as one */
    attr->cap.max_inline_data = FL_MAX(attr->cap.max_inline_data, INLINE_MIN);
    memcpy(&qp->init, attr, sizeof(qp->init)); /* the struct without _ex is its beginning */
}

static void free_qp(struct fl_qp *qp)
{
    fl_qp_builder_destroy(qp->builder);
    pthread_mutex_destroy(&qp->qp.mutex);
    pthread_cond_destroy(&qp->qp.cond);
    free(qp);
}

/* The hub gives numbers to a process, and may take its time; the lock is not held meanwhile. */
static int set_up_in_time(struct fl_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
    const struct timespec moment = {.tv_nsec = 50000};
    struct fl_port_patience patience = {0};
    for (;;) {
        fl_rnic_lock(qp->rnic);
        int r = set_up(qp, attr);
        fl_rnic_unlock(qp->rnic);
        if (r != -EAGAIN)
            return r;
        if (!fl_port_is_patient(&patience, fl_now_ns()))
            return -ETIMEDOUT;
        nanosleep(&moment, NULL);
    }
}

static struct ibv_qp *make_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct fl_qp *qp = NULL;
    int r = fl_gone(context) ? -ENODEV : -check_create(attr);
    if (!r) {
        qp = calloc(1, sizeof(*qp));
        r = qp ? 0 : -ENOMEM;
    }
    if (r) {
        errno = -r;
        return NULL;
    }
    fill_in(qp, attr);
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        r = fl_qp_builder_create(qp, attr->send_ops_flags);
    if (!r)
        r = set_up_in_time(qp, attr);
    if (r) {
        free_qp(qp);
        errno = -r;
        return NULL;
    }
    qp->qp.handle = qp->qp.qp_num;
    fl_count(&fl_pd_of(attr->pd)->nr_objects, 1);
    return &qp->qp;
}

struct ibv_qp *fl_qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    if (!fl_limit_take(context, FL_LIMITED_QP))
        return NULL;
    return fl_limit_used(context, FL_LIMITED_QP, make_qp(context, attr));
}

struct ibv_qp *fl_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {0};
    memcpy(&ex, attr, sizeof(*attr));
    ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    ex.pd = pd;
    struct ibv_qp *qp = fl_qp_create_ex(pd->context, &ex);
    if (qp)
        attr->cap = ex.cap;
    return qp;
}

/* Under the lock: nothing of what it did or waits for is left. */
static void forget_work(struct fl_qp *qp)
{
    fl_list_del(&qp->ready_link);
    fl_timer_heap_remove(&qp->rnic->timers, &qp->timer);
    if (qp->path->leave)
        qp->path->leave(qp);
    qp->path = &fl_qp_path_udp;
    fl_shm_path_hide(qp);
    fl_cq_drop(qp->send_cq, qp->qp.qp_num);
    if (qp->recv_cq != qp->send_cq)
        fl_cq_drop(qp->recv_cq, qp->qp.qp_num);
}

static void log_end(const struct fl_qp *qp)
{
    const struct fl_roce_stats *s = &qp->roce.stats;
    FL_DEBUG(
        "%s: queue pair 0x%06x by %s: %llu packets sent, %llu came; %llu time-outs, %llu times gone back, "
        "%llu sent "
        "again, %llu repeats, %llu out of order",
        qp->qp.context->device->name, qp->qp.qp_num, qp->path->name, (unsigned long long)s->nr_tx,
        (unsigned long long)s->nr_rx, (unsigned long long)s->nr_timeouts, (unsigned long long)s->nr_gone_back,
        (unsigned long long)s->nr_resent, (unsigned long long)s->nr_duplicates,
        (unsigned long long)s->nr_out_of_order);
}

int fl_qp_destroy(struct ibv_qp *ibv_qp)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);
    struct ibv_context *context = ibv_qp->context;
    struct fl_rnic *rnic = fl_qp_lock(qp);
    if (!rnic)
        return ENODEV;
    fl_ack_now(qp);
    log_end(qp);
    fl_stats_qp_gone(qp);
    fl_qp_table_set(&rnic->qps, ibv_qp->qp_num, NULL);
    forget_work(qp);
    fl_list_del(&qp->datagram_link);
    fl_roce_qp_fini(&qp->roce);
    fl_port_qpn_put(rnic->port, ibv_qp->qp_num);
    count_users(qp, -1);
    ibv_qp->context = fl_retired_context(context);
    __atomic_store_n(&qp->rnic, &fl_rnic_none, __ATOMIC_RELAXED); /* who waits for the lock sees it */
    fl_rnic_unlock(rnic);
    fl_async_forget(fl_context_of(context), &qp->nr_told, &ibv_qp->mutex, &ibv_qp->cond,
                    &ibv_qp->events_completed);
    fl_count(&fl_pd_of(ibv_qp->pd)->nr_objects, -1);
    fl_limit_give(context, FL_LIMITED_QP);
    pthread_mutex_destroy(&ibv_qp->mutex);
    pthread_cond_destroy(&ibv_qp->cond);
    if (qp->builder)
        fl_retire(qp->builder);
    fl_retire(qp);
    return 0;
}

void fl_qp_reset(struct fl_qp *qp)
{
    if (qp->link)
        qp->was_shm = "it was reset";
    forget_work(qp);
    qp->was_error = qp->established = qp->doomed = qp->sqd_notify = false;
    memset(&qp->ack, 0, sizeof(qp->ack));
    qp->path_reason = "not connected yet";
}

bool fl_qp_uses_ah(const struct fl_rnic *rnic, const struct ibv_ah *ah)
{
    struct fl_qp *qp;
    fl_list_for_each (qp, &rnic->datagrams, datagram_link) {
        const struct fl_roce_requester *req = &qp->roce.req;
        for (uint32_t i = req->head; i != req->tail; i++)
            if (req->wqes[i & req->mask].wr.wr.ud.ah == ah)
                return true;
    }
    return false;
}
