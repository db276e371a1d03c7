/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm_path.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rnic/roce/parts.h"
#include "rnic/shm/shm.h"

#define TAKE_TURNS 256

struct fl_shm_path {
    struct fl_rnic_client client;
    struct fl_rnic *rnic;
    struct fl_shm *shm;
    uint32_t epoch; /* the last one given out */
};

static struct fl_shm_path *path_of(struct fl_rnic_client *client)
{
    return FL_CONTAINER_OF(client, struct fl_shm_path, client);
}

static int progress(struct fl_rnic_client *client, uint64_t now)
{
    struct fl_shm_path *path = path_of(client);
    const struct fl_shm_delivery to = {
        .packet = fl_rnic_deliver, .message = fl_shm_path_message, .arg = path->rnic};
    fl_rnic_gather(path->rnic);
    int nr = fl_shm_progress(path->shm, &to);
    fl_rnic_gathered(path->rnic);
    return nr;
}

static uint64_t deadline(struct fl_rnic_client *client)
{
    return fl_shm_deadline(path_of(client)->shm);
}

void fl_shm_path_start(struct fl_rnic *rnic)
{
    const struct fl_shm_options options = {.address = fl_port_address(rnic->port), .keys = &rnic->keys};
    const char *wanted = getenv("FARLANE_SHM");
    struct fl_shm_path *path;
    int r;
    if (wanted && !strcmp(wanted, "0"))
        return;
    path = calloc(1, sizeof(*path));
    r = path ? fl_shm_open(&options, &path->shm) : -ENOMEM;
    if (r) {
        FL_WARN("rnic: no shared memory with other processes: %s", strerror(-r));
        free(path);
        return;
    }
    path->rnic = rnic;
    path->client = (struct fl_rnic_client){
        .progress = progress, .deadline = deadline, .wait_fd = fl_shm_wait_fd(path->shm)};
    fl_list_init(&path->client.link);
    fl_rnic_lock(rnic);
    rnic->shm = path;
    fl_rnic_add_client(rnic, &path->client);
    fl_rnic_unlock(rnic);
}

void fl_shm_path_stop(struct fl_rnic *rnic)
{
    struct fl_shm_path *path = rnic->shm;
    if (!path)
        return;
    fl_list_del(&path->client.link);
    fl_shm_close(path->shm);
    free(path);
    rnic->shm = NULL;
}

void fl_shm_path_forget(struct fl_rnic *rnic)
{
    if (rnic->shm)
        fl_shm_forget(rnic->shm->shm);
}

/* 127.0.0.0/8 whole, and what the interfaces have */
bool fl_shm_path_is_here(const struct in6_addr *addr)
{
    bool here = IN6_IS_ADDR_V4MAPPED(addr) && addr->s6_addr[12] == 127;
    struct fl_device *device;
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (device, fl_devices(), link) {
        for (int i = 0; i < device->nr_gids && !here; i++)
            here = device->gids[i].assigned && IN6_ARE_ADDR_EQUAL(&device->gids[i].addr, addr);
    }
    pthread_mutex_unlock(&fl_devices_lock);
    return here;
}

static const char *choose(struct fl_qp *qp)
{
    struct fl_rnic *rnic = qp->rnic;
    struct fl_port_peer peer;
    const char *reason = NULL;
    if (qp->qp.qp_type == IBV_QPT_UD)
        return "datagrams go by UDP";
    if (!rnic->shm)
        return "shared memory is switched off";
    if (!fl_shm_path_is_here(&qp->flow.dgid))
        return "the peer is on another host";
    if (fl_port_find_peer(rnic->port, qp->attr.dest_qp_num, &peer))
        return "no farlane process of this host has the peer's queue pair";
    qp->link = fl_shm_get(rnic->shm->shm, &peer, &reason);
    return reason;
}

/* The grant is in place before anybody can see the epoch that it belongs to. */
static void begin_messages(struct fl_qp *qp)
{
    struct fl_shm_path *path = qp->rnic->shm;
    const struct fl_shm_qp nobody = {.qpn = qp->qp.qp_num};
    struct fl_shm_grant *own;
    if (!++path->epoch)
        path->epoch++;
    fl_shm_show(path->shm, &nobody);
    own = fl_shm_grant_at(path->shm, qp->qp.qp_num);
    fl_shm_path_begin_messages(qp, own, path->epoch);
}

void fl_shm_path_choose(struct fl_qp *qp)
{
    const char *reason = choose(qp);
    qp->messages = (struct fl_shm_flow){0};
    qp->peer_keys = (struct fl_key_memo){0};
    qp->not_direct_why = 0;
    qp->was_shm = NULL;
    if (qp->link)
        begin_messages(qp);
    qp->path = qp->link ? &fl_qp_path_shm : &fl_qp_path_udp;
    qp->path_reason = qp->link ? "the peer is a process of this host and user" : reason;
    qp->roce.direct = qp->link;
    fl_shm_path_show(qp);
}

void fl_shm_path_leave(struct fl_qp *qp)
{
    qp->roce.direct = false;
    qp->messages = (struct fl_shm_flow){0};
    if (qp->link)
        fl_shm_put(qp->rnic->shm->shm, qp->link);
    qp->link = NULL;
}

static bool takes_requests(enum ibv_qp_state state)
{
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE;
}

/* Field by field, in registers: this is asked for each packet, and what was stored in small pieces and is
 * read in larger ones waits until all stores before it are done, such as those of the packet's data. */
static bool is_same(const struct fl_shm_qp *a, const struct fl_shm_qp *b)
{
    return a->qpn == b->qpn && a->takes == b->takes && a->dest_qpn == b->dest_qpn && a->access == b->access &&
           a->pd == b->pd && a->epoch == b->epoch && a->psn == b->psn;
}

static void show(struct fl_qp *qp, bool takes)
{
    const struct fl_shm_qp now = {.qpn = qp->qp.qp_num,
                                  .takes = takes,
                                  .dest_qpn = qp->roce.attr.dest_qpn,
                                  .access = takes ? (uint32_t)qp->roce.attr.access : 0,
                                  .pd = qp->pd_number,
                                  .epoch = takes && !qp->messages.revoked ? qp->messages.epoch : 0,
                                  .psn = qp->roce.attr.rq_psn};
    bool closes = qp->shown.takes && (!takes || (qp->shown.access & ~now.access));
    fl_shm_path_grant(qp);
    if (is_same(&now, &qp->shown) || (!takes && !qp->shown.takes))
        return;
    qp->shown = now;
    fl_shm_show(qp->rnic->shm->shm, &now);
    if (closes)
        fl_shm_quiesce(qp->rnic->shm->shm);
}

void fl_shm_path_show(struct fl_qp *qp)
{
    if (qp->rnic->shm && qp->qp.qp_type != IBV_QPT_UD)
        show(qp, takes_requests(qp->roce.state));
}

void fl_shm_path_hide(struct fl_qp *qp)
{
    if (qp->rnic->shm && qp->qp.qp_type != IBV_QPT_UD)
        show(qp, false);
}

void fl_shm_path_quiesce(struct fl_rnic *rnic)
{
    if (rnic->shm)
        fl_shm_quiesce(rnic->shm->shm);
}

static enum fl_shm_op op_of(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return FL_SHM_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return FL_SHM_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return FL_SHM_ADD;
    default:
        return FL_SHM_WRITE;
    }
}

/* Our side of it, checked like that of every request. Number of pieces, or negative: it goes by packets,
 * whose sender says what is wrong. */
static int local_pieces(struct fl_roce_qp *roce, const struct fl_roce_swqe *wqe, struct iovec *iov)
{
    int nr = 0, access = fl_roce_is_rd(wqe) ? IBV_ACCESS_LOCAL_WRITE : 0;
    if (wqe->is_inline) {
        iov[0] = (struct iovec){wqe->inline_data, wqe->len};
        return 1;
    }
    for (uint32_t i = 0; i < wqe->nr_sge; i++) {
        const struct ibv_sge *sge = &wqe->sge[i];
        if (!sge->length)
            continue;
        int r = roce->ops->local(roce, sge->lkey, sge->addr, sge->length, access, &iov[nr].iov_base);
        if (r)
            return r;
        iov[nr++].iov_len = sge->length;
    }
    return nr;
}

bool fl_shm_path_do(struct fl_qp *qp, struct fl_shm_request *r)
{
    r->qpn = qp->qp.qp_num;
    r->dest_qpn = qp->roce.attr.dest_qpn;
    r->memo = &qp->peer_keys;
    r->behind = &qp->messages;
    enum fl_shm_how how = fl_shm_direct(qp->link, r);
    if (fl_unlikely(how == FL_SHM_NOT)) {
        qp->nr_not_direct++;
        qp->not_direct_why |= r->why;
        return false;
    }
    qp->nr_mapped += how == FL_SHM_MAPPED;
    qp->nr_vm += how == FL_SHM_VM;
    qp->direct_len += r->len;
    return true;
}

bool fl_shm_path_direct(struct fl_roce_qp *roce, const struct fl_roce_swqe *wqe)
{
    struct fl_qp *qp = fl_qp_of_roce(roce);
    struct iovec iov[FL_ROCE_SGE_MAX];
    bool atomic = fl_roce_is_atomic(wqe);
    struct fl_shm_request r = {.op = op_of(wqe->wr.opcode),
                               .rkey = atomic ? wqe->wr.wr.atomic.rkey : wqe->wr.wr.rdma.rkey,
                               .addr = atomic ? wqe->wr.wr.atomic.remote_addr : wqe->wr.wr.rdma.remote_addr,
                               .len = wqe->len,
                               .iov = iov};
    if (atomic) {
        bool swap = r.op == FL_SHM_SWAP;
        r.compare = swap ? wqe->wr.wr.atomic.compare_add : 0;
        r.operand = swap ? wqe->wr.wr.atomic.swap : wqe->wr.wr.atomic.compare_add;
    }
    r.nr_iov = local_pieces(roce, wqe, iov);
    if (!qp->link || r.nr_iov < 0 || !fl_shm_direct_begin(qp->link, qp->rnic->now))
        return false;
    bool ok = fl_shm_path_do(qp, &r);
    fl_shm_direct_end(qp->link);
    return ok;
}

/* Its process is gone, and with it what there was to wait for; the end comes as on any wire. */
static void give_up(struct fl_qp *qp)
{
    const char *why = fl_shm_link_end(qp->link);
    fl_shm_path_leave(qp);
    qp->path = &fl_qp_path_udp;
    qp->path_reason = qp->was_shm = why;
}

bool fl_shm_path_carries(struct fl_qp *qp)
{
    if (qp->link && fl_unlikely(qp->link->dead))
        give_up(qp);
    return qp->link && fl_shm_link_is_open(qp->link);
}

void fl_shm_path_take(struct fl_qp *qp)
{
    struct fl_rnic *rnic = qp->rnic;
    if (!qp->link || !qp->messages.epoch)
        return;
    for (int i = 0; i < TAKE_TURNS && progress(&rnic->shm->client, rnic->now); i++)
        ;
}

bool fl_shm_path_send_some(struct fl_qp *qp, int max)
{
    struct fl_roce_tx tx;
    for (int n = 0; n < max; n++) {
        if (!fl_shm_has_room(qp->link))
            return true;
        if (!fl_roce_qp_tx(&qp->roce, qp->rnic->now, &tx))
            return false;
        qp->nr_ring++;
        if (fl_shm_send(qp->link, &qp->flow, &tx))
            fl_rnic_wake_by(qp->rnic, qp->rnic->now);
    }
    return true;
}
