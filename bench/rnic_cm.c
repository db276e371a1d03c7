/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What connections cost: two processes of this host, a server with one listener and a client that connects as
 * a storm (so many at a time). `rnic_cm [--json] [CONNECTIONS [AT_A_TIME]]`. Each connection has a queue pair
 * of 16 requests each way at both ends; all of a process share one completion queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/rdmacm.h"
#include "rnic/verbs.h"

#define WRS     16
#define IDLE_NS (2 * FL_NS_PER_S)

#define CHECK(ok)                                                                          \
    do {                                                                                   \
        if (!(ok)) {                                                                       \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #ok, strerror(errno)); \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

static bool json;
static int nr_said;

/* key: what it is called in the JSON object that --json prints */
static void say(const char *key, const char *name, double value, const char *unit)
{
    if (json)
        printf("%s\"%s\": %.6g", nr_said ? ", " : "{", key, value);
    else
        printf("%-44s %10.4g %s\n", name, value, unit);
    nr_said++;
}

static struct ibv_cq *cq; /* of the process */

static void add_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = WRS, .max_recv_wr = WRS, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    if (!cq)
        cq = fl_cq_create(id->verbs, 1024, NULL, NULL, 0);
    CHECK(cq);
    attr.send_cq = attr.recv_cq = cq;
    CHECK(!fl_cma_create_qp(id, NULL, &attr));
}

static void serve(int fd)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
    struct rdma_cm_id *listener;
    struct rdma_cm_event *event;
    __be16 port;
    CHECK(channel && !fl_cma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
    CHECK(!fl_cma_bind_addr(listener, (struct sockaddr *)&addr) && !fl_cma_listen(listener, 0));
    port = fl_cma_get_src_port(listener);
    CHECK(write(fd, &port, sizeof(port)) == sizeof(port));
    while (!fl_cma_get_cm_event(channel, &event)) {
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;
        fl_cma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            add_qp(id);
            CHECK(!fl_cma_accept(id, NULL));
        } else if (type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
            fl_cma_destroy_ep(id);
        }
    }
}

struct storm {
    struct rdma_event_channel *channel;
    struct sockaddr_in to;
    struct rdma_cm_id **ids;
    uint64_t *begun, *took; /* by connection, ns */
    int nr, begun_nr, up;
};

static void begin(struct storm *storm)
{
    struct rdma_cm_id *id;
    int i = storm->begun_nr++;
    storm->begun[i] = fl_now_ns();
    CHECK(!fl_cma_create_id(storm->channel, &id, (void *)(intptr_t)i, RDMA_PS_TCP));
    storm->ids[i] = id;
    CHECK(!fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&storm->to, 1000));
}

static void advance(struct storm *storm)
{
    struct rdma_cm_event *event;
    CHECK(!fl_cma_get_cm_event(storm->channel, &event));
    struct rdma_cm_id *id = event->id;
    enum rdma_cm_event_type type = event->event;
    fl_cma_ack_cm_event(event);
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        CHECK(!fl_cma_resolve_route(id, 1000));
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        add_qp(id);
        CHECK(!fl_cma_connect(id, NULL));
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        storm->took[(intptr_t)id->context] = fl_now_ns() - storm->begun[(intptr_t)id->context];
        storm->up++;
        break;
    default:
        fprintf(stderr, "%s\n", fl_cma_event_str(type));
        _exit(1);
    }
}

static double resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    CHECK(f && fscanf(f, "%ld %ld", &pages, &resident) == 2);
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static double cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void run_storm(struct storm *storm, int at_a_time)
{
    double kib = resident_kib(), cpu = cpu_ns();
    uint64_t begin_ns = fl_now_ns();
    while (storm->up < storm->nr) {
        while (storm->begun_nr < storm->nr && storm->begun_nr - storm->up < at_a_time)
            begin(storm);
        advance(storm);
    }
    double seconds = (double)(fl_now_ns() - begin_ns) / 1e9;
    qsort(storm->took, (size_t)storm->nr, sizeof(*storm->took), by_time);
    say("per_second", "connections set up a second", storm->nr / seconds, "1/s");
    say("cpu_us", "CPU of the client a connection", (cpu_ns() - cpu) / 1000 / storm->nr, "us");
    say("median_us", "median time of one in the storm", (double)storm->took[storm->nr / 2] / 1000, "us");
    say("p99_us", "99th percentile", (double)storm->took[storm->nr * 99 / 100] / 1000, "us");
    say("kib", "memory a connection, queues included", (resident_kib() - kib) / storm->nr, "KiB");
}

static void measure_idle(const struct storm *storm)
{
    double before = cpu_ns();
    usleep(IDLE_NS / 1000);
    say("idle_percent", "CPU of one process while all are idle", (cpu_ns() - before) / (double)IDLE_NS * 100,
        "%");
}

static void measure_end(const struct storm *storm)
{
    uint64_t begin_ns = fl_now_ns();
    for (int i = 0; i < storm->nr; i++)
        fl_cma_destroy_ep(storm->ids[i]);
    say("ended_per_second", "ended a second", storm->nr / ((double)(fl_now_ns() - begin_ns) / 1e9), "1/s");
}

int main(int argc, char **argv)
{
    int fds[2], at_a_time = 32;
    struct storm storm = {.nr = 1000,
                          .to = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)}};
    char hub[64];
    if (argc > 1 && !strcmp(argv[1], "--json")) {
        json = true;
        argv++;
        argc--;
    }
    storm.nr = argc > 1 ? atoi(argv[1]) : storm.nr;
    at_a_time = argc > 2 ? atoi(argv[2]) : at_a_time;
    CHECK(storm.nr > 0 && at_a_time > 0);
    snprintf(hub, sizeof(hub), "farlane-bench-%d", (int)getpid());
    setenv("FARLANE_HUB", hub, 0);
    setenv("FARLANE_ROCE_PORT", "14791", 0);
    CHECK(!pipe(fds));
    pid_t server = fork();
    CHECK(server >= 0);
    if (!server) {
        serve(fds[1]);
        _exit(1);
    }
    CHECK(read(fds[0], &storm.to.sin_port, 2) == 2);
    storm.ids = calloc((size_t)storm.nr, sizeof(struct rdma_cm_id *));
    storm.begun = calloc((size_t)storm.nr, sizeof(*storm.begun));
    storm.took = calloc((size_t)storm.nr, sizeof(*storm.took));
    storm.channel = fl_cma_create_event_channel();
    CHECK(storm.ids && storm.begun && storm.took && storm.channel);
    run_storm(&storm, at_a_time);
    measure_idle(&storm);
    measure_end(&storm);
    if (json)
        printf("}\n");
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
