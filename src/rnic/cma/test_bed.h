/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of one process that talk over loopback, through a port of their own. */
#ifndef FL_RNIC_CMA_TEST_BED_H
#define FL_RNIC_CMA_TEST_BED_H

#include "base/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/cma/parts.h"
#include "rnic/verbs.h"

#define WAIT_MS 20000 /* for what must come */

/* A UDP port and a hub that no other test has */
static inline void use_own_port(void)
{
    char text[64];
    snprintf(text, sizeof(text), "%d", 20000 + (int)getpid() % 12000);
    setenv("FARLANE_ROCE_PORT", text, 1);
    snprintf(text, sizeof(text), "farlane-test-%d", (int)getpid());
    setenv("FARLANE_HUB", text, 1);
}

static inline struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htobe16(port), .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
}

static inline void wait_readable(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, WAIT_MS), 1);
}

/* The next event, which must be of this kind. */
static inline struct rdma_cm_event *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    wait_readable(channel->fd);
    assert_int_equal(fl_cma_get_cm_event(channel, &event), 0);
    if (event->event != type)
        fail_msg("%s (%d) came and not %s", fl_cma_event_str(event->event), event->status,
                 fl_cma_event_str(type));
    return event;
}

static inline void expect_and_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    assert_int_equal(fl_cma_ack_cm_event(expect(channel, type)), 0);
}

static inline void expect_nothing(struct rdma_event_channel *channel)
{
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 20), 0);
}

static inline struct ibv_qp_init_attr qp_attr(enum ibv_qp_type type)
{
    return (struct ibv_qp_init_attr){
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type,
        .sq_sig_all = 1};
}

/* Channel, listener at a port that was free, and its number */
struct bed {
    struct rdma_event_channel *server, *client; /* channels */
    struct rdma_cm_id *listener;
    uint16_t port;
};

static inline void bed_init(struct bed *bed, enum rdma_port_space ps, int backlog)
{
    struct sockaddr_in addr = loopback(0);
    bed->server = fl_cma_create_event_channel();
    bed->client = fl_cma_create_event_channel();
    assert_non_null(bed->server);
    assert_non_null(bed->client);
    assert_int_equal(fl_cma_create_id(bed->server, &bed->listener, bed, ps), 0);
    assert_int_equal(fl_cma_bind_addr(bed->listener, (struct sockaddr *)&addr), 0);
    assert_int_equal(fl_cma_listen(bed->listener, backlog), 0);
    bed->port = be16toh(fl_cma_get_src_port(bed->listener));
    assert_int_not_equal(bed->port, 0);
}

static inline void bed_fini(struct bed *bed)
{
    assert_int_equal(fl_cma_destroy_id(bed->listener), 0);
    expect_nothing(bed->server);
    expect_nothing(bed->client);
    fl_cma_destroy_event_channel(bed->server);
    fl_cma_destroy_event_channel(bed->client);
}

/* A client up to where it may connect, with a queue pair */
static inline struct rdma_cm_id *resolved(struct rdma_event_channel *channel, uint16_t port,
                                          enum rdma_port_space ps)
{
    struct sockaddr_in addr = loopback(port);
    struct ibv_qp_init_attr attr = qp_attr(ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC);
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(channel, &id, NULL, ps), 0);
    assert_int_equal(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(fl_cma_resolve_route(id, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
    return id;
}

static inline void destroy(struct rdma_cm_id *id)
{
    fl_cma_destroy_qp(id);
    assert_int_equal(fl_cma_destroy_id(id), 0);
}

/* Both ends of a connection that is established */
static inline void connect_both(struct bed *bed, struct rdma_cm_id **client, struct rdma_cm_id **server)
{
    struct rdma_conn_param param = {
        .responder_resources = 4, .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 7};
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    *client = resolved(bed->client, bed->port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(*client, &param), 0);
    struct rdma_cm_event *event = expect(bed->server, RDMA_CM_EVENT_CONNECT_REQUEST);
    *server = event->id;
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    assert_int_equal(fl_cma_create_qp(*server, NULL, &attr), 0);
    assert_int_equal(fl_cma_accept(*server, &param), 0);
    expect_and_ack(bed->client, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(bed->server, RDMA_CM_EVENT_ESTABLISHED);
}

struct buffer {
    uint8_t bytes[256];
    struct ibv_mr *mr;
};

static inline void buffer_init(struct buffer *buffer, struct rdma_cm_id *id)
{
    buffer->mr = fl_mr_reg(id->pd, buffer->bytes, sizeof(buffer->bytes), IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(buffer->mr);
}

static inline void post_recv(struct rdma_cm_id *id, struct buffer *buffer)
{
    struct ibv_sge sge = {(uintptr_t)buffer->bytes, sizeof(buffer->bytes), buffer->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
    assert_int_equal(ibv_post_recv(id->qp, &wr, &bad), 0);
}

static inline void post_send(struct rdma_cm_id *id, struct buffer *buffer, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)buffer->bytes, len, buffer->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
}

static inline struct ibv_wc wait_wc(struct ibv_cq *cq)
{
    uint64_t end = fl_now_ns() + WAIT_MS * FL_NS_PER_MS;
    struct ibv_wc wc;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, &wc)))
        assert_true(fl_now_ns() < end);
    assert_int_equal(n, 1);
    return wc;
}

#endif
