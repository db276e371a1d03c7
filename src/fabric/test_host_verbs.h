/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests and fuzzers: verbs and connection manager of one host, where whoever includes this is the RNIC,
 * the network and the target. What the host posts waits in lists; what comes, comes when it is said, and says
 * what it is told to. Objects are counted, each event and each memory region is memory of its own, so that
 * ASan sees a use after the end.
 */
#ifndef FL_FABRIC_TEST_HOST_VERBS_H
#define FL_FABRIC_TEST_HOST_VERBS_H

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fabric/rdma_domain.h"
#include "wire/nvme_rdma.h"

#define HV_MAX_POSTED 512u
#define HV_MAX_MRS    64u
#define HV_MAX_EVENTS 8u

/* An event with its private data, which has just its length. */
struct hv_event {
    struct rdma_cm_event event;
    uint8_t *private_data;
};

/* What was sent: the command, and how many bytes with it. */
struct hv_send {
    struct ibv_send_wr wr;
    struct ibv_sge sge[8];
    struct fl_nvme_sqe sqe;
    uint32_t len;
};

static struct hv {
    struct ibv_device device;
    struct ibv_context context;
    struct ibv_pd pd;
    struct ibv_comp_channel comp;
    struct ibv_cq cq;
    struct ibv_qp qp;
    struct rdma_event_channel channel;
    int nr_objects, nr_ids, nr_acks_missing;
    bool qp_there, connecting;
    enum rdma_cm_event_type next; /* what the connection manager is at: said once, and only when asked for */
    bool has_next;
    long fail_in; /* 0: nothing fails; n: the n-th call from now on that makes something */
    struct ibv_mr *mrs[HV_MAX_MRS];
    uint32_t next_key;
    uint32_t max_send, max_recv;

    struct hv_event *events[HV_MAX_EVENTS];
    uint32_t nr_events;
    struct hv_send sends[HV_MAX_POSTED];
    uint32_t nr_sends;      /* the oldest first: not done yet */
    uint32_t nr_places;     /* taken in the send queue, until a completion was polled */
    uint32_t nr_unsignaled; /* done since the last completion */
    struct ibv_recv_wr recvs[HV_MAX_POSTED];
    struct ibv_sge recv_sges[HV_MAX_POSTED];
    uint32_t nr_recvs;
    struct {
        struct ibv_wc wc;
        uint32_t places;
    } wcs[2 * HV_MAX_POSTED];
    uint32_t nr_wcs;
    struct rdma_conn_param asked; /* by connect; private data copied */
    uint8_t asked_private[64];
} hv;

static bool hv_fails(void)
{
    if (!hv.fail_in || --hv.fail_in)
        return false;
    errno = ENOMEM;
    return true;
}

static void *hv_made(void *p)
{
    hv.nr_objects++;
    return p;
}

static int hv_gone(void)
{
    assert(hv.nr_objects-- > 0);
    return 0;
}

/* ---- verbs ---- */

static const char *hv_device_name(struct ibv_device *device)
{
    return "test0";
}

static int hv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    *attr = (struct ibv_device_attr){.max_qp_wr = 16384, .max_sge = 4, .max_qp_rd_atom = 16};
    return 0;
}

static struct ibv_pd *hv_alloc_pd(struct ibv_context *context)
{
    if (hv_fails())
        return NULL;
    hv.pd.context = context;
    return hv_made(&hv.pd);
}

static int hv_dealloc_pd(struct ibv_pd *pd)
{
    for (uint32_t i = 0; i < HV_MAX_MRS; i++)
        assert(!hv.mrs[i]);
    return hv_gone();
}

static struct ibv_mr *hv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    for (uint32_t i = 0; i < HV_MAX_MRS; i++) {
        if (hv.mrs[i])
            continue;
        hv.mrs[i] = hv_fails() ? NULL : calloc(1, sizeof(*hv.mrs[i]));
        if (hv.mrs[i])
            *hv.mrs[i] = (struct ibv_mr){
                .addr = addr, .length = len, .lkey = ++hv.next_key, .rkey = hv.next_key, .pd = pd};
        return hv.mrs[i];
    }
    errno = ENOMEM;
    return NULL;
}

static int hv_dereg_mr(struct ibv_mr *mr)
{
    for (uint32_t i = 0; i < HV_MAX_MRS; i++) {
        if (hv.mrs[i] != mr)
            continue;
        hv.mrs[i] = NULL;
        free(mr);
        return 0;
    }
    assert(!"it is no region");
    return -1;
}

static struct ibv_comp_channel *hv_create_comp(struct ibv_context *context)
{
    if (hv_fails())
        return NULL;
    hv.comp.fd = eventfd(0, EFD_NONBLOCK);
    return hv_made(&hv.comp);
}

static int hv_destroy_comp(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    return hv_gone();
}

static struct ibv_cq *hv_create_cq(struct ibv_context *context, int cqe, void *user,
                                   struct ibv_comp_channel *channel, int vector)
{
    if (hv_fails())
        return NULL;
    hv.cq.context = context;
    return hv_made(&hv.cq);
}

static int hv_destroy_cq(struct ibv_cq *cq)
{
    assert(!hv.qp_there);
    hv.nr_wcs = 0;
    return hv_gone();
}

static int hv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    errno = EAGAIN;
    return -1;
}

static void hv_ack_cq_events(struct ibv_cq *cq, unsigned nr)
{
}

static int hv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    assert(hv.qp_there && hv.nr_recvs < hv.max_recv && !wr->next && wr->num_sge == 1);
    hv.recvs[hv.nr_recvs] = *wr;
    hv.recv_sges[hv.nr_recvs++] = wr->sg_list[0];
    return 0;
}

static int hv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct hv_send *s = &hv.sends[hv.nr_sends];

    assert(hv.qp_there && hv.nr_places < hv.max_send && hv.nr_sends < HV_MAX_POSTED && !wr->next);
    assert(wr->opcode == IBV_WR_SEND && wr->num_sge >= 1 && wr->num_sge <= 4);
    assert(wr->sg_list[0].length >= sizeof(s->sqe));
    hv.nr_sends++;
    hv.nr_places++;
    s->wr = *wr;
    s->len = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        s->sge[i] = wr->sg_list[i];
        s->len += wr->sg_list[i].length;
    }
    memcpy(&s->sqe, (const void *)(uintptr_t)wr->sg_list[0].addr, sizeof(s->sqe));
    return 0;
}

static int hv_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
    int n = 0;

    while (n < max && hv.nr_wcs) {
        wcs[n++] = hv.wcs[0].wc;
        hv.nr_places -= hv.wcs[0].places;
        memmove(hv.wcs, hv.wcs + 1, --hv.nr_wcs * sizeof(hv.wcs[0]));
    }
    return n;
}

static int hv_notify_cq(struct ibv_cq *cq, int solicited)
{
    return 0;
}

/* ---- the connection manager ---- */

static struct rdma_event_channel *hv_create_channel(void)
{
    if (hv_fails())
        return NULL;
    hv.channel.fd = eventfd(0, EFD_NONBLOCK);
    return hv_made(&hv.channel);
}

static void hv_destroy_channel(struct rdma_event_channel *channel)
{
    close(channel->fd);
    hv_gone();
}

static void hv_free_event(struct hv_event *e)
{
    free(e->private_data);
    free(e);
}

/* These three do not come but in answer to a call, whatever the target does. */
static bool hv_is_out_of_turn(enum rdma_cm_event_type type)
{
    return (type == RDMA_CM_EVENT_ADDR_RESOLVED || type == RDMA_CM_EVENT_ROUTE_RESOLVED ||
            type == RDMA_CM_EVENT_ESTABLISHED) &&
           (!hv.has_next || hv.next != type);
}

static int hv_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct hv_event *e;

    do {
        if (!hv.nr_events) {
            errno = EAGAIN;
            return -1;
        }
        e = hv.events[0];
        memmove(hv.events, hv.events + 1, --hv.nr_events * sizeof(hv.events[0]));
        if (hv_is_out_of_turn(e->event.event)) {
            hv_free_event(e);
            e = NULL;
        }
    } while (!e);
    if (hv.has_next && hv.next == e->event.event)
        hv.has_next = false;
    *event = &e->event;
    hv.nr_acks_missing++;
    return 0;
}

static int hv_ack_event(struct rdma_cm_event *event)
{
    assert(hv.nr_acks_missing-- > 0);
    hv_free_event((struct hv_event *)(void *)event);
    return 0;
}

static const char *hv_event_str(enum rdma_cm_event_type type)
{
    return "an event of the connection manager";
}

static int hv_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                        enum rdma_port_space ps)
{
    *id = hv_fails() ? NULL : calloc(1, sizeof(**id));
    if (!*id)
        return -1;
    (*id)->channel = channel;
    (*id)->verbs = &hv.context;
    hv.nr_ids++;
    return 0;
}

/* Takes the events of the identifier along, and waits until each that was taken is acknowledged. */
static int hv_destroy_id(struct rdma_cm_id *id)
{
    assert(!id->qp && hv.nr_ids-- > 0 && !hv.nr_acks_missing);
    while (hv.nr_events)
        hv_free_event(hv.events[--hv.nr_events]);
    free(id);
    return 0;
}

static void hv_expect(enum rdma_cm_event_type type)
{
    hv.has_next = true;
    hv.next = type;
}

static int hv_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    hv_expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    return hv_fails() ? -1 : 0;
}

static int hv_resolve_route(struct rdma_cm_id *id, int ms)
{
    hv_expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return hv_fails() ? -1 : 0;
}

static int hv_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    assert(!id->qp && !hv.qp_there);
    if (hv_fails())
        return -1;
    hv.qp = (struct ibv_qp){.context = id->verbs};
    hv.max_send = attr->cap.max_send_wr;
    hv.max_recv = attr->cap.max_recv_wr;
    assert(hv.max_send <= HV_MAX_POSTED && hv.max_recv <= HV_MAX_POSTED);
    hv.nr_sends = hv.nr_places = hv.nr_unsignaled = hv.nr_recvs = hv.nr_wcs = 0;
    hv.qp_there = true;
    id->qp = hv_made(&hv.qp);
    return 0;
}

static void hv_destroy_qp(struct rdma_cm_id *id)
{
    id->qp = NULL;
    hv.qp_there = hv.connecting = false;
    hv.nr_sends = hv.nr_recvs = 0;
    hv_gone();
}

static int hv_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    if (hv_fails())
        return -1;
    assert(param->private_data_len <= sizeof(hv.asked_private));
    hv.asked = *param;
    memcpy(hv.asked_private, param->private_data, param->private_data_len);
    hv.connecting = true;
    hv_expect(RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

static int hv_disconnect(struct rdma_cm_id *id)
{
    return 0;
}

static struct fl_verbs hv_verbs = {.name = "test",
                                   .get_device_name = hv_device_name,
                                   .query_device = hv_query_device,
                                   .alloc_pd = hv_alloc_pd,
                                   .dealloc_pd = hv_dealloc_pd,
                                   .reg_mr = hv_reg_mr,
                                   .dereg_mr = hv_dereg_mr,
                                   .create_comp_channel = hv_create_comp,
                                   .destroy_comp_channel = hv_destroy_comp,
                                   .create_cq = hv_create_cq,
                                   .destroy_cq = hv_destroy_cq,
                                   .get_cq_event = hv_get_cq_event,
                                   .ack_cq_events = hv_ack_cq_events};
static struct fl_rdmacm hv_cm = {.name = "test",
                                 .create_event_channel = hv_create_channel,
                                 .destroy_event_channel = hv_destroy_channel,
                                 .get_cm_event = hv_get_event,
                                 .ack_cm_event = hv_ack_event,
                                 .event_str = hv_event_str,
                                 .create_id = hv_create_id,
                                 .destroy_id = hv_destroy_id,
                                 .resolve_addr = hv_resolve_addr,
                                 .resolve_route = hv_resolve_route,
                                 .create_qp = hv_create_qp,
                                 .destroy_qp = hv_destroy_qp,
                                 .connect = hv_connect,
                                 .disconnect = hv_disconnect};
static const struct fl_rdma_lib hv_lib = {.verbs = &hv_verbs, .cm = &hv_cm};

/* ---- what the test does ---- */

static void hv_init(void)
{
    memset(&hv, 0, sizeof(hv));
    hv.context.device = &hv.device;
    hv.context.ops = (struct ibv_context_ops){.poll_cq = hv_poll_cq,
                                              .req_notify_cq = hv_notify_cq,
                                              .post_send = hv_post_send,
                                              .post_recv = hv_post_recv};
    hv.next_key = 100;
}

/* Nothing is left of the host. */
static void hv_check_empty(void)
{
    assert(!hv.nr_objects && !hv.nr_ids && !hv.nr_acks_missing && !hv.nr_events && !hv.qp_there);
    for (uint32_t i = 0; i < HV_MAX_MRS; i++)
        assert(!hv.mrs[i]);
}

static void hv_event(enum rdma_cm_event_type type, int status, const void *private_data, uint8_t len)
{
    struct hv_event *e;

    if (hv.nr_events == HV_MAX_EVENTS)
        return;
    e = calloc(1, sizeof(*e));
    e->event.event = type;
    e->event.status = status;
    if (private_data) {
        e->private_data = malloc(len ? len : 1);
        memcpy(e->private_data, private_data, len);
        e->event.param.conn.private_data = e->private_data;
        e->event.param.conn.private_data_len = len;
    }
    hv.events[hv.nr_events++] = e;
}

/* len bytes come for the oldest receive; false: there is none, or nothing can come. wc: opcode, flags and
 * key. */
static bool hv_deliver(const void *bytes, uint32_t len, const struct ibv_wc *how)
{
    struct ibv_wc wc = *how;

    if (!hv.qp_there || !hv.nr_recvs || hv.nr_wcs == 2 * HV_MAX_POSTED)
        return false;
    wc.wr_id = hv.recvs[0].wr_id;
    wc.byte_len = len;
    if (wc.status == IBV_WC_SUCCESS && bytes) {
        if (len > hv.recv_sges[0].length)
            wc.status = IBV_WC_LOC_LEN_ERR;
        memcpy((void *)(uintptr_t)hv.recv_sges[0].addr, bytes, FL_MIN(len, hv.recv_sges[0].length));
    }
    hv.nr_recvs--;
    memmove(hv.recvs, hv.recvs + 1, hv.nr_recvs * sizeof(hv.recvs[0]));
    memmove(hv.recv_sges, hv.recv_sges + 1, hv.nr_recvs * sizeof(hv.recv_sges[0]));
    hv.wcs[hv.nr_wcs].places = 0;
    hv.wcs[hv.nr_wcs++].wc = wc;
    return true;
}

static bool hv_respond(uint16_t cid, fl_nvme_status status)
{
    const struct ibv_wc how = {.opcode = IBV_WC_RECV};
    struct fl_nvme_cqe cqe;

    memset(&cqe, 0, sizeof(cqe));
    fl_nvme_cqe_set(&cqe, cid, 0, 0, status);
    return hv_deliver(&cqe, sizeof(cqe), &how);
}

/* The oldest SEND is done; until now its memory was used. False: there is none. */
static bool hv_sent(enum ibv_wc_status status)
{
    struct hv_send *s = &hv.sends[0];
    volatile uint8_t sum = 0;

    if (!hv.nr_sends || hv.nr_wcs == 2 * HV_MAX_POSTED)
        return false;
    for (int i = s->wr.send_flags & IBV_SEND_INLINE ? s->wr.num_sge : 0; i < s->wr.num_sge; i++) {
        const uint8_t *at = (const uint8_t *)(uintptr_t)s->sge[i].addr;

        sum = (uint8_t)(sum ^ at[0] ^ at[s->sge[i].length - 1]);
    }
    hv.nr_unsignaled++;
    if (s->wr.send_flags & IBV_SEND_SIGNALED || status != IBV_WC_SUCCESS) {
        hv.wcs[hv.nr_wcs].places = hv.nr_unsignaled;
        hv.wcs[hv.nr_wcs++].wc = (struct ibv_wc){
            .wr_id = s->wr.wr_id, .status = status, .opcode = IBV_WC_SEND};
        hv.nr_unsignaled = 0;
    }
    memmove(hv.sends, hv.sends + 1, --hv.nr_sends * sizeof(hv.sends[0]));
    return true;
}

/* The memory that a key opens at this place, else NULL: an RNIC would refuse the access. */
static uint8_t *hv_memory(uint64_t addr, uint32_t len, uint32_t key)
{
    for (uint32_t i = 0; i < HV_MAX_MRS; i++) {
        const struct ibv_mr *mr = hv.mrs[i];

        if (mr && mr->rkey == key && addr - (uintptr_t)mr->addr <= mr->length &&
            len <= mr->length - (addr - (uintptr_t)mr->addr))
            return (uint8_t *)(uintptr_t)addr;
    }
    return NULL;
}

#endif
