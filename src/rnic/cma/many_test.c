/* SPDX-License-Identifier: Apache-2.0 */
/* Many connections at once, and many threads. */
#include "rnic/cma/test_bed.h"

#include <stdatomic.h>

#define V11_CLIENTS 64
#define MANY        1000
#define THREADS     4
#define ROUNDS      25

/* Accepts what comes until nr connections are established at both sides; counts what else came. */
static void serve_all(struct bed *bed, struct rdma_cm_id **passive, int nr)
{
    struct ibv_qp_init_attr attr;
    int asked = 0, up[2] = {0};
    while (up[0] < nr || up[1] < nr) {
        struct pollfd fds[] = {{.fd = bed->server->fd, .events = POLLIN},
                               {.fd = bed->client->fd, .events = POLLIN}};
        struct rdma_cm_event *event;
        assert_true(poll(fds, 2, WAIT_MS) > 0);
        for (int i = 0; i < 2; i++) {
            if (!fds[i].revents)
                continue;
            assert_int_equal(fl_cma_get_cm_event(i ? bed->client : bed->server, &event), 0);
            struct rdma_cm_id *id = event->id;
            enum rdma_cm_event_type type = event->event;
            fl_cma_ack_cm_event(event);
            if (type == RDMA_CM_EVENT_ESTABLISHED) {
                up[i]++;
                continue;
            }
            assert_int_equal(type, RDMA_CM_EVENT_CONNECT_REQUEST);
            assert_true(asked < nr);
            passive[asked++] = id;
            attr = qp_attr(IBV_QPT_RC);
            assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
            assert_int_equal(fl_cma_accept(id, NULL), 0);
        }
    }
}

/* The first ones may have waited out their time before the last has parted. */
static void expect_parted(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type type;
    do {
        wait_readable(channel->fd);
        assert_int_equal(fl_cma_get_cm_event(channel, &event), 0);
        type = event->event;
        assert_int_equal(fl_cma_ack_cm_event(event), 0);
    } while (type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
    assert_int_equal(type, RDMA_CM_EVENT_DISCONNECTED);
}

static void connect_many(int nr, int backlog)
{
    struct rdma_cm_id **active = calloc((size_t)nr, sizeof(struct rdma_cm_id *));
    struct rdma_cm_id **passive = calloc((size_t)nr, sizeof(struct rdma_cm_id *));
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, backlog);
    for (int i = 0; i < nr; i++)
        active[i] = resolved(bed.client, bed.port, RDMA_PS_TCP);
    for (int i = 0; i < nr; i++)
        assert_int_equal(fl_cma_connect(active[i], NULL), 0);
    serve_all(&bed, passive, nr);
    for (int i = 0; i < nr; i++)
        assert_int_equal(fl_cma_disconnect(active[i]), 0);
    for (int i = 0; i < nr; i++) {
        expect_parted(bed.client);
        expect_parted(bed.server);
    }
    for (int i = 0; i < nr; i++) {
        destroy(active[i]);
        destroy(passive[i]);
    }
    free(active);
    free(passive);
    bed_fini(&bed);
}

/* 64 queue pairs connect at once: a full backlog makes them come again, and nobody is refused. */
static void v11_backlog_of_1(void **state)
{
    connect_many(V11_CLIENTS, 1);
}

static void v11_backlog_of_64(void **state)
{
    connect_many(V11_CLIENTS, V11_CLIENTS);
}

static void a_thousand_at_once(void **state)
{
    connect_many(MANY, 0);
}

/* Threads that connect, each with an id of its own, synchronously; one that serves them */
struct crowd {
    uint16_t port;
    atomic_int failed;
    struct rdma_event_channel *channel;
};

static void *client_thread(void *arg)
{
    struct crowd *crowd = arg;
    struct sockaddr_in addr = loopback(crowd->port);
    for (int i = 0; i < ROUNDS; i++) {
        struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
        struct rdma_cm_id *id;
        if (fl_cma_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
            crowd->failed++;
            return NULL;
        }
        if (fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000) || fl_cma_resolve_route(id, 1000) ||
            fl_cma_create_qp(id, NULL, &attr) || fl_cma_connect(id, NULL) || (i % 2 && fl_cma_disconnect(id)))
            crowd->failed++;
        fl_cma_destroy_ep(id);
    }
    return NULL;
}

static void *server_thread(void *arg)
{
    struct crowd *crowd = arg;
    struct rdma_cm_event *event;
    for (int gone = 0; gone < THREADS * ROUNDS;) {
        if (fl_cma_get_cm_event(crowd->channel, &event)) {
            crowd->failed++;
            return NULL;
        }
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;
        fl_cma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
            if (fl_cma_create_qp(id, NULL, &attr) || fl_cma_accept(id, NULL))
                crowd->failed++;
        } else if (type == RDMA_CM_EVENT_DISCONNECTED) {
            fl_cma_destroy_ep(id);
            gone++;
        }
    }
    return NULL;
}

static void threads(void **state)
{
    struct bed bed;
    struct crowd crowd = {.failed = 0};
    pthread_t clients[THREADS], server;
    bed_init(&bed, RDMA_PS_TCP, 0);
    crowd.port = bed.port;
    crowd.channel = bed.server;
    assert_int_equal(pthread_create(&server, NULL, server_thread, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, client_thread, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(clients[i], NULL);
    pthread_join(server, NULL);
    assert_int_equal(crowd.failed, 0);
    bed_fini(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v11_backlog_of_1),
        cmocka_unit_test(v11_backlog_of_64),
        cmocka_unit_test(a_thousand_at_once),
        cmocka_unit_test(threads),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
