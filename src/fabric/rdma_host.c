/* SPDX-License-Identifier: Apache-2.0 */
/* A host's connection is made and ended. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/rdma_host_parts.h"

#define RESOLVE_MS 2000

static void drop_id(struct fl_rdma_host *h)
{
    if (!h->id)
        return;
    if (h->id->qp) {
        (void)h->lib->cm->disconnect(h->id);
        h->lib->cm->destroy_qp(h->id);
    }
    h->lib->cm->destroy_id(h->id);
    h->id = NULL;
}

static void drop_channel(struct fl_rdma_host *h)
{
    if (h->channel)
        h->lib->cm->destroy_event_channel(h->channel);
    h->channel = NULL;
}

/* Whose functions, and an event channel of theirs. */
static int take_lib(struct fl_rdma_host *h)
{
    const struct fl_rdma_lib *lib = h->options.lib;
    struct fl_error why = {0};
    int r = lib ? 0 : fl_rdma_lib_get(h->choice.hardware, &lib, &why);

    if (r < 0)
        return fl_rdma_host_broken(h, r, why.text);
    if (lib != h->lib)
        drop_channel(h);
    h->lib = lib;
    if (!h->channel)
        h->channel = lib->cm->create_event_channel();
    if (!h->channel || fcntl(h->channel->fd, F_SETFL, O_NONBLOCK) < 0)
        return fl_rdma_no_manager(h->lib, &h->err);
    return 0;
}

static int choose(struct fl_rdma_host *h, const struct fl_addr *addr)
{
    struct fl_error why = {0};
    int r = fl_choose_to(addr, h->options.dev, &h->choice, &why);

    return r < 0 ? fl_rdma_host_broken(h, r, why.text) : take_lib(h);
}

static int start_resolve(struct fl_rdma_host *h, struct fl_addr *addr)
{
    struct sockaddr *source = h->choice.bind ? (struct sockaddr *)&h->choice.source.ss : NULL;

    if (h->lib->cm->create_id(h->channel, &h->id, h, RDMA_PS_TCP)) {
        h->id = NULL;
        return fl_rdma_no_manager(h->lib, &h->err);
    }
    h->state = RESOLVE_ADDR;
    if (!h->lib->cm->resolve_addr(h->id, source, (struct sockaddr *)&addr->ss, RESOLVE_MS))
        return 0;
    return fl_rdma_host_broken(h, errno ? -errno : -EIO,
                               "no RDMA device of this machine leads to the target's address");
}

static int next_addr(struct fl_rdma_host *h)
{
    while (h->next_addr < h->options.nr_addrs) {
        struct fl_addr addr = h->options.addrs[h->next_addr++];

        drop_id(h);
        fl_error_clear(&h->err);
        if (choose(h, &addr) == 0 && start_resolve(h, &addr) == 0)
            return 0;
    }
    return h->err.code
               ? h->err.code
               : fl_rdma_host_broken(h, -EHOSTUNREACH, "the target's address cannot be reached by RDMA");
}

static int make_queue_pair(struct fl_rdma_host *h)
{
    uint32_t nr = h->options.nr_reqs;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = h->sends_max,
                .max_recv_wr = nr,
                .max_send_sge = h->max_sge,
                .max_recv_sge = 1,
                .max_inline_data = sizeof(struct fl_nvme_sqe)},
        .qp_type = IBV_QPT_RC,
    };
    int r = fl_rdma_domain_get(h->lib, h->id->verbs, FL_RDMA_HOST, &h->domain);

    if (r < 0)
        return r;
    h->keys.domain = h->domain;
    h->comp = h->lib->verbs->create_comp_channel(h->id->verbs);
    if (!h->comp || fcntl(h->comp->fd, F_SETFL, O_NONBLOCK) < 0)
        return -ENOMEM;
    h->cq = h->lib->verbs->create_cq(h->id->verbs, (int)(h->sends_max + nr), h, h->comp, 0);
    h->recv_mr = h->lib->verbs->reg_mr(
        h->domain->pd, h->recvs, nr * (sizeof(h->recvs[0]) + sizeof(h->capsules[0])), IBV_ACCESS_LOCAL_WRITE);
    if (!h->cq || !h->recv_mr)
        return -ENOMEM;
    attr.send_cq = attr.recv_cq = h->cq;
    return h->lib->cm->create_qp(h->id, h->domain->pd, &attr) ? (errno ? -errno : -EIO) : 0;
}

/* The connection manager decides by the address alone; where a device was named, it must be that one. */
static int check_device(struct fl_rdma_host *h)
{
    const char *name = h->lib->verbs->get_device_name(h->id->verbs->device), *dev = h->options.dev;

    if (!dev || strcmp(dev, h->choice.device) || !strcmp(dev, name))
        return 0;
    return fl_error_set(&h->err, -ENODEV, "dev=%s: the connection manager takes %s to this address instead",
                        dev, name);
}

static int start_connect(struct fl_rdma_host *h)
{
    struct fl_nvme_rdma_ask ask = {.qid = h->options.qid,
                                   .cntlid = h->options.qid ? h->options.cntlid : 0,
                                   .nr_recv = h->options.sqsize + 1u,
                                   .nr_send = h->options.sqsize + 1u};
    struct fl_nvme_rdma_req req;
    struct ibv_device_attr device;
    struct rdma_conn_param param = {.private_data = &req,
                                    .private_data_len = sizeof(req),
                                    .retry_count = 7,
                                    .rnr_retry_count = 7,
                                    .flow_control = 1};
    int r = check_device(h);

    if (r < 0)
        return r;
    r = h->lib->verbs->query_device(h->id->verbs, &device) ? -EIO : 0;
    h->max_sge = r < 0 ? 0 : (uint32_t)FL_MIN(device.max_sge, SGE_MAX);
    if (r == 0)
        r = make_queue_pair(h);
    if (r < 0)
        return fl_error_set(&h->err, r, "a queue pair could not be made: %s", strerror(-r));
    for (uint32_t i = 0; i < h->options.nr_reqs; i++)
        if (fl_rdma_host_post_recv(h, i) < 0)
            return h->err.code;
    fl_nvme_rdma_req_encode(&req, &ask);
    param.responder_resources = (uint8_t)FL_MIN(device.max_qp_rd_atom, 128);
    h->state = CONNECT;
    return h->lib->cm->connect(h->id, &param)
               ? fl_rdma_host_broken(h, errno ? -errno : -EIO, "connect failed")
               : 0;
}

static int established(struct fl_rdma_host *h, const struct rdma_cm_event *event)
{
    const struct rdma_conn_param *p = &event->param.conn;
    uint32_t nr_recv;
    int r = fl_rdma_host_check_reply(h, p->private_data, p->private_data_len, &nr_recv);

    if (r < 0)
        return r;
    h->max_out = nr_recv; /* may be fewer than asked for (RDMA transport specification 1.0, 3.1) */
    h->state = CONNECTED;
    return 0;
}

static int take_event(struct fl_rdma_host *h, const struct rdma_cm_event *event)
{
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        h->state = RESOLVE_ROUTE;
        return h->lib->cm->resolve_route(h->id, RESOLVE_MS)
                   ? fl_rdma_host_broken(h, errno ? -errno : -EIO, "there is no RDMA route to the target")
                   : 0;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return start_connect(h);
    case RDMA_CM_EVENT_ESTABLISHED:
        return established(h, event);
    case RDMA_CM_EVENT_REJECTED:
        return fl_rdma_host_rejected(h, event->status, event->param.conn.private_data,
                                     event->param.conn.private_data_len);
    case RDMA_CM_EVENT_DISCONNECTED:
        if (h->state != CONNECTED)
            return fl_rdma_host_closed(h);
        h->closed = true; /* its last responses may wait in the completion queue: see fl_rdma_host_io */
        return 0;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return 0;
    case RDMA_CM_EVENT_UNREACHABLE:
        return fl_rdma_host_broken(h, -EHOSTUNREACH, "the target's RDMA connection manager does not answer");
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return fl_error_set(&h->err, -EHOSTUNREACH, "%s finds no way to the target's address: %s",
                            *h->choice.device ? h->choice.device : h->lib->cm->name,
                            strerror(event->status < 0 ? -event->status : EHOSTUNREACH));
    default:
        return fl_rdma_host_broken(h, -EHOSTUNREACH, h->lib->cm->event_str(event->event));
    }
}

int fl_rdma_host_take_events(struct fl_rdma_host *h)
{
    struct rdma_cm_event *event;

    while (!h->err.code && !h->lib->cm->get_cm_event(h->channel, &event)) {
        (void)take_event(h, event);
        h->lib->cm->ack_cm_event(event);
    }
    return h->err.code;
}

static void free_queue(struct fl_rdma_host *h)
{
    drop_id(h);
    if (h->cq)
        h->lib->verbs->destroy_cq(h->cq);
    if (h->comp)
        h->lib->verbs->destroy_comp_channel(h->comp);
    if (h->recv_mr)
        h->lib->verbs->dereg_mr(h->recv_mr);
    h->cq = NULL;
    h->comp = NULL;
    h->recv_mr = NULL;
}

int fl_rdma_host_step(struct fl_rdma_host *h)
{
    while (fl_rdma_host_take_events(h) < 0) {
        if (h->state == CONNECTED || h->next_addr >= h->options.nr_addrs)
            return h->err.code;
        free_queue(h);
        if (h->domain)
            fl_rdma_domain_put(h->domain);
        h->domain = NULL;
        h->keys = (struct fl_rdma_keys){0};
        if (next_addr(h) < 0)
            return h->err.code;
    }
    return h->state == CONNECTED;
}

const struct fl_error *fl_rdma_host_err(const struct fl_rdma_host *h)
{
    return &h->err;
}

const struct fl_addr *fl_rdma_host_addr(const struct fl_rdma_host *h)
{
    return &h->options.addrs[h->next_addr ? h->next_addr - 1 : 0];
}

int fl_rdma_host_create(const struct fl_rdma_host_options *options, struct fl_rdma_host **host,
                        struct fl_error *err)
{
    struct fl_rdma_host *h = calloc(1, sizeof(*h));
    int r;

    if (!h)
        return fl_error_set(err, -ENOMEM, "out of memory");
    h->options = *options;
    h->sends_max = options->nr_reqs + 2 * SIGNAL_EVERY;
    while ((1u << h->slot_bits) < options->nr_reqs)
        h->slot_bits++;
    fl_list_init(&h->tx_wait);
    fl_list_init(&h->unsent);
    h->max_pieces = 1;
    h->recvs = calloc(options->nr_reqs, sizeof(h->recvs[0]) + sizeof(h->capsules[0]));
    h->capsules = (struct fl_rdma_host_capsule *)(h->recvs + (h->recvs ? options->nr_reqs : 0));
    h->slots = calloc(options->nr_reqs, sizeof(h->slots[0]));
    if (!h->recvs || !h->slots) {
        r = fl_error_set(err, -ENOMEM, "out of memory");
        goto destroy;
    }
    r = next_addr(h);
    if (r < 0) {
        fl_error_set(err, r, "%s", h->err.text);
        goto destroy;
    }
    *host = h;
    return 0;

destroy:
    fl_rdma_host_destroy(h);
    return r;
}

void fl_rdma_host_destroy(struct fl_rdma_host *h)
{
    free_queue(h);
    fl_rdma_host_end_requests(h);
    drop_channel(h);
    if (h->domain)
        fl_rdma_domain_put(h->domain);
    free(h->recvs);
    free(h->slots);
    free(h);
}

bool fl_rdma_host_taken(struct fl_rdma_host *h, struct fl_taken *taken)
{
    if (h->state != CONNECTED || h->err.code || !h->id || !h->id->qp)
        return false;
    fl_taken_by(h->lib->verbs, h->id->qp, taken);
    return true;
}

int fl_rdma_host_pollfds(const struct fl_rdma_host *h, struct pollfd p[FL_RDMA_HOST_FDS])
{
    int n = 0;

    p[n++] = (struct pollfd){.fd = h->channel->fd, .events = POLLIN};
    if (h->comp)
        p[n++] = (struct pollfd){.fd = h->comp->fd, .events = POLLIN};
    return n;
}
