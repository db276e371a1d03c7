/* SPDX-License-Identifier: Apache-2.0 */
/* A host's request to connect becomes a connection of the target, or is rejected with a reason. */
#include "fabric/rdma_conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "fabric/rdma_parts.h"
#include "rnic/verbs.h"

#define DEFAULT_SETUP_MS  10000u
#define DEFAULT_CLOSE_MS  2000u
#define MAX_ENTRIES       1024u /* of a submission queue */
#define ADMIN_CAPSULE_LEN 1024u

static void name_ends(struct rdma_conn *c)
{
    const struct rdma_addr *a = &c->id->route.addr;
    struct fl_addr addr;

    if (fl_addr_from(&addr, &a->dst_addr, sizeof(a->dst_storage)) == 0)
        fl_addr_format(&addr, c->peer);
    if (fl_addr_from(&addr, &a->src_addr, sizeof(a->src_storage)) == 0)
        fl_addr_format(&addr, c->local);
}

static uint8_t *map_memory(size_t len)
{
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static int make_memory(struct rdma_conn *c, uint32_t nr_recv, uint32_t capsule_len)
{
    c->nr_recv = nr_recv;
    c->capsule_len = capsule_len;
    c->recv_stride = (uint32_t)fl_round_up(sizeof(struct fl_nvme_sqe) + capsule_len, FL_CACHE_LINE);
    if (c->shared) {
        c->copies_len = (size_t)3 * nr_recv * c->recv_stride; /* of each slot, and of what waits for one */
        c->copies = map_memory(c->copies_len);
    } else {
        c->recv_mem_len = fl_round_up((size_t)nr_recv * c->recv_stride, 4096);
        c->recv_mem = map_memory(c->recv_mem_len);
    }
    c->nr_slots = 2 * nr_recv;
    c->slots = calloc(c->nr_slots, sizeof(c->slots[0]));
    c->pieces = calloc((size_t)c->nr_slots * FL_NVME_RDMA_MAX_PIECES, sizeof(c->pieces[0]));
    c->waiting = calloc(nr_recv, sizeof(c->waiting[0]));
    if ((!c->recv_mem && !c->copies) || !c->slots || !c->pieces || !c->waiting)
        return -ENOMEM;
    for (uint32_t i = c->nr_slots; i--;) {
        c->slots[i].cmd.conn = &c->conn;
        c->slots[i].pieces = c->pieces + (size_t)i * FL_NVME_RDMA_MAX_PIECES;
        c->slots[i].next = c->free;
        c->free = &c->slots[i];
    }
    return 0;
}

/* Data and response of each slot, and of one command with as many pieces as there can be. */
static uint32_t send_places(const struct rdma_conn *c, const struct ibv_device_attr *device)
{
    return FL_MIN(2 * c->nr_slots + FL_NVME_RDMA_MAX_PIECES, (uint32_t)device->max_qp_wr);
}

static int make_queue_pair(struct rdma_conn *c)
{
    struct ibv_device_attr device;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_recv_wr = c->nr_recv,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = sizeof(struct fl_nvme_cqe)},
        .qp_type = IBV_QPT_RC,
    };

    if (c->lib->verbs->query_device(c->id->verbs, &device))
        return -EIO;
    c->nr_places = attr.cap.max_send_wr = send_places(c, &device);
    if (c->nr_places <= FL_NVME_RDMA_MAX_PIECES)
        return -EOPNOTSUPP;
    c->comp = c->lib->verbs->create_comp_channel(c->id->verbs);
    if (!c->comp || fcntl(c->comp->fd, F_SETFL, O_NONBLOCK) < 0)
        return errno ? -errno : -EIO;
    c->cq = c->lib->verbs->create_cq(c->id->verbs, (int)(c->nr_places + c->nr_recv), c, c->comp, 0);
    if (!c->cq)
        return errno ? -errno : -EIO;
    if (c->shared) {
        attr.srq = c->shared->srq;
        attr.cap.max_recv_wr = 0;
    } else {
        c->recv_mr = c->lib->verbs->reg_mr(c->domain->pd, c->recv_mem, c->recv_mem_len,
                                           IBV_ACCESS_LOCAL_WRITE);
        if (!c->recv_mr)
            return errno ? -errno : -EIO;
    }
    attr.send_cq = attr.recv_cq = c->cq;
    if (c->lib->cm->create_qp(c->id, c->domain->pd, &attr))
        return errno ? -errno : -EIO;
    if (c->qid && fl_device_is_soft(c->id->verbs->device))
        fl_qp_place_answers(c->id->qp, fl_rdma_place, c);
    if (c->shared)
        return 0;
    for (uint32_t i = 0; i < c->nr_recv; i++)
        fl_rdma_post_recv(c, i);
    return c->broke ? -EIO : 0;
}

static int accept_host(struct rdma_conn *c, const struct rdma_conn_param *asked)
{
    struct ibv_device_attr device;
    struct fl_nvme_rdma_rep rep;
    struct rdma_conn_param param = {
        .private_data = &rep,
        .private_data_len = sizeof(rep),
        .retry_count = 7,
        .rnr_retry_count = asked->rnr_retry_count}; /* to be that of the host (3.1) */

    if (c->lib->verbs->query_device(c->id->verbs, &device))
        return -EIO;
    fl_nvme_rdma_rep_encode(&rep, c->nr_recv);
    param.initiator_depth = (uint8_t)FL_MIN((int)asked->initiator_depth, device.max_qp_init_rd_atom);
    param.flow_control = asked->flow_control;
    return c->lib->cm->accept(c->id, &param) ? (errno ? -errno : -EIO) : 0;
}

static uint16_t check_ask(const struct rdma_conn_param *p, struct fl_nvme_rdma_ask *ask)
{
    uint16_t sts = fl_nvme_rdma_req_decode(p->private_data, p->private_data_len, ask);

    if (!sts && ask->nr_send > MAX_ENTRIES)
        return FL_NVME_RDMA_INVALID_HSQSIZE;
    if (!sts && !p->initiator_depth)
        return FL_NVME_RDMA_INVALID_IRD; /* we could fetch no data */
    return sts;
}

/* Those in common, of the connection's device. Without them it has its own. */
static void find_shared(struct rdma_conn *c, const struct fl_listen_options *o, struct fl_rdma_shared **list)
{
    struct fl_rdma_shared *s = *list;
    int r = 0;

    while (s && s->domain->context != c->id->verbs)
        s = s->next;
    if (!s) {
        r = fl_rdma_shared_create(c->lib, c->id->verbs, o->shared_recv,
                                  (uint32_t)sizeof(struct fl_nvme_sqe) + o->capsule_len, &s);
        if (r < 0) {
            FL_WARN("there are no %u shared receives (%s): each queue has its own", o->shared_recv,
                    strerror(-r));
            return;
        }
        s->next = *list;
        *list = s;
    }
    fl_rdma_shared_get(s);
    c->shared = s;
}

static int set_up(struct rdma_conn *c, const struct fl_listen_options *o, const struct fl_nvme_rdma_ask *ask,
                  const struct rdma_conn_param *param)
{
    int r = make_memory(c, ask->nr_send, ask->qid ? o->capsule_len : ADMIN_CAPSULE_LEN);

    c->qid = ask->qid;
    if (r == 0)
        r = fl_rdma_domain_get(c->lib, c->id->verbs, FL_RDMA_TARGET, &c->domain);
    if (r < 0)
        return r;
    c->keys.domain = c->domain;
    c->channel = c->lib->cm->create_event_channel();
    if (!c->channel || fcntl(c->channel->fd, F_SETFL, O_NONBLOCK) < 0 ||
        c->lib->cm->migrate_id(c->id, c->channel))
        return errno ? -errno : -EIO;
    r = make_queue_pair(c);
    if (r < 0)
        return r;
    fl_rdma_prepare(c);
    r = fl_rdma_arm_timer(c, c->setup_ms);
    if (r == 0)
        r = fl_rdma_register(c);
    if (r == 0)
        r = accept_host(c, param);
    return r;
}

int fl_rdma_conn_create(const struct fl_listen_options *o, const struct fl_rdma_lib *lib,
                        struct fl_rdma_shared **shared, struct rdma_cm_event *event)
{
    struct rdma_conn_param param = event->param.conn;
    struct rdma_cm_id *id = event->id;
    struct fl_nvme_rdma_ask ask;
    struct fl_nvme_rdma_rej rej;
    struct rdma_conn *c;
    uint16_t sts = check_ask(&param, &ask);
    int r = 0;

    lib->cm->ack_cm_event(event);
    if (sts) {
        FL_INFO("a host's RDMA connect was rejected: %s", fl_nvme_rdma_sts_text(sts));
        goto reject;
    }
    sts = FL_NVME_RDMA_NO_RESOURCES;
    c = calloc(1, sizeof(*c));
    if (!c)
        goto reject;
    c->conn = (struct fl_conn){.handler = o->handler, .loop = o->loop, .pool = o->pool};
    c->conn.keyed_sgl = true;
    c->lib = lib;
    c->id = id;
    c->setup_ms = o->setup_timeout_ms ? o->setup_timeout_ms : DEFAULT_SETUP_MS;
    c->close_ms = o->close_timeout_ms ? o->close_timeout_ms : DEFAULT_CLOSE_MS;
    name_ends(c);
    if (o->shared_recv && ask.qid)
        find_shared(c, o, shared);
    r = set_up(c, o, &ask, &param);
    if (r < 0) {
        FL_WARN("an RDMA connection from %s could not be accepted: %s", c->peer, strerror(-r));
        fl_nvme_rdma_rej_encode(&rej, sts);
        (void)lib->cm->reject(id, &rej, sizeof(rej));
        fl_rdma_unregister(c);
        fl_rdma_free(c);
        return r;
    }
    c->last_ns = fl_loop_now(o->loop);
    ensure_polled(c);
    o->handler->opened(&c->conn, o->listener_user);
    return 0;

reject:
    fl_nvme_rdma_rej_encode(&rej, sts);
    (void)lib->cm->reject(id, &rej, sizeof(rej));
    lib->cm->destroy_id(id);
    return -EPROTO;
}
