/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA between two processes of this machine through plain verbs: one queue pair, one operation, as fast as
 * it goes. The client keeps `depth` operations in flight and polls; the server polls, too (--idle: it sleeps
 * instead, and its RNIC's thread serves). One JSON object. `pingpong` is a WRITE of --bs bytes each way by
 * turns, seen by looking at the last byte; its latency is one way.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apart.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/util.h"
#include "mem/pool.h"
#include "verbs/verbs.h"

#define MAX_DEPTH 256u
#define WARM_NS   300000000u

enum op { OP_READ, OP_WRITE, OP_SEND, OP_PINGPONG };

struct options {
    enum op op;
    size_t bs;
    uint32_t depth;
    double seconds;
    struct apart apart;
    bool idle, hardware, pool;
    const char *device;
};

/* What each end tells the other. */
struct about {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

struct end {
    const struct fl_verbs *v;
    const struct options *o;
    const char *address;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *buf;
    size_t len;
    int gid_index;
    struct about own, peer;
    int in, out; /* pipes */
};

static bool find_gid(struct end *e, struct ibv_context *context, const union ibv_gid *wanted)
{
    struct ibv_port_attr port;
    union ibv_gid gid;

    if (e->v->query_port(context, 1, &port))
        return false;
    for (int i = 0; i < port.gid_tbl_len; i++)
        if (e->v->query_gid(context, 1, i, &gid) == 0 && !memcmp(&gid, wanted, sizeof(gid))) {
            e->own.gid = gid;
            e->gid_index = i;
            return true;
        }
    return false;
}

static void open_device(struct end *e)
{
    struct ibv_device **list = e->v->get_device_list(NULL);
    union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}};

    if (!list)
        die("get_device_list");
    if (inet_pton(AF_INET, e->address, &wanted.raw[12]) != 1 &&
        inet_pton(AF_INET6, e->address, wanted.raw) != 1) {
        fprintf(stderr, "verbs: %s is no IP address\n", e->address);
        exit(2);
    }
    for (int i = 0; list[i]; i++) {
        struct ibv_context *context;

        if (e->o->device && strcmp(e->v->get_device_name(list[i]), e->o->device))
            continue;
        context = e->v->open_device(list[i]);
        if (context && find_gid(e, context, &wanted)) {
            e->context = context;
            break;
        }
        if (context)
            e->v->close_device(context);
    }
    e->v->free_device_list(list);
    if (!e->context) {
        fprintf(stderr, "verbs: no device has the address %s\n", e->address);
        exit(1);
    }
}

static void *make_memory(const struct options *o, size_t len)
{
    struct fl_pool *pool = NULL;
    void *p;

    if (o->pool) {
        if (len > FL_POOL_MAX_LEN || fl_pool_create(len, &pool) < 0)
            die("fl_pool_create (--bs times --depth at most 1 MiB)");
        p = fl_pool_get(pool, (uint32_t)len);
    } else {
        p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (!p || p == MAP_FAILED)
        die("memory");
    memset(p, 0, len);
    return p;
}

static void make_objects(struct end *e)
{
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = MAX_DEPTH,
                .max_recv_wr = MAX_DEPTH,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_RC,
    };

    e->len = FL_MAX(e->o->bs * e->o->depth, (size_t)4096);
    e->buf = make_memory(e->o, e->len);
    e->pd = e->v->alloc_pd(e->context);
    if (!e->pd)
        die("alloc_pd");
    e->mr = e->v->reg_mr(e->pd, e->buf, e->len,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    e->cq = e->v->create_cq(e->context, 2 * (int)MAX_DEPTH, NULL, NULL, 0);
    if (!e->mr || !e->cq)
        die("reg_mr, create_cq");
    init.send_cq = init.recv_cq = e->cq;
    e->qp = e->v->create_qp(e->pd, &init);
    if (!e->qp)
        die("create_qp");
    e->own.qpn = e->qp->qp_num;
    e->own.rkey = e->mr->rkey;
    e->own.addr = (uintptr_t)e->buf;
}

static void exchange(struct end *e)
{
    if (write(e->out, &e->own, sizeof(e->own)) != sizeof(e->own) ||
        read(e->in, &e->peer, sizeof(e->peer)) != sizeof(e->peer))
        die("pipe");
}

static void modify(struct end *e, struct ibv_qp_attr *attr, int mask)
{
    errno = e->v->modify_qp(e->qp, attr, mask);
    if (errno)
        die("modify_qp");
}

static void connect_qp(struct end *e)
{
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};

    if (e->v->query_port(e->context, 1, &port))
        die("query_port");
    modify(e, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port.active_mtu,
        .dest_qp_num = e->peer.qpn,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = e->peer.gid, .sgid_index = (uint8_t)e->gid_index, .hop_limit = 64}},
    };
    modify(e, &attr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16};
    modify(e, &attr,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

static void set_up(struct end *e)
{
    struct fl_error err = {0};

    e->v = &fl_verbs_soft;
    if (e->o->hardware && fl_verbs_hardware(&e->v, &err) < 0) {
        fprintf(stderr, "verbs: %s\n", err.text);
        exit(1);
    }
    open_device(e);
    make_objects(e);
    exchange(e);
    connect_qp(e);
    exchange(e); /* both are in RTS */
}

static void post(struct end *e, uint32_t slot)
{
    static const enum ibv_wr_opcode opcodes[] = {[OP_READ] = IBV_WR_RDMA_READ,
                                                 [OP_WRITE] = IBV_WR_RDMA_WRITE,
                                                 [OP_SEND] = IBV_WR_SEND,
                                                 [OP_PINGPONG] = IBV_WR_RDMA_WRITE};
    struct ibv_sge sge = {
        .addr = (uintptr_t)e->buf + slot * e->o->bs, .length = (uint32_t)e->o->bs, .lkey = e->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = slot,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcodes[e->o->op],
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;

    wr.wr.rdma.remote_addr = e->peer.addr + slot * e->o->bs;
    wr.wr.rdma.rkey = e->peer.rkey;
    if (e->o->bs <= 64 && e->o->op != OP_READ)
        wr.send_flags |= IBV_SEND_INLINE;
    errno = ibv_post_send(e->qp, &wr, &bad);
    if (errno)
        die("post_send");
}

static void post_recv(struct end *e, uint32_t slot)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)e->buf + slot * e->o->bs, .length = (uint32_t)e->o->bs, .lkey = e->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

    errno = ibv_post_recv(e->qp, &wr, &bad);
    if (errno)
        die("post_recv");
}

static int poll_cq(struct end *e, struct ibv_wc *wc, int max)
{
    int n = ibv_poll_cq(e->cq, max, wc);

    if (n < 0)
        die("poll_cq");
    for (int i = 0; i < n; i++)
        if (wc[i].status != IBV_WC_SUCCESS) {
            fprintf(stderr, "verbs: completion with status %d (enum ibv_wc_status)\n", wc[i].status);
            exit(1);
        }
    return n;
}

/* Each end by turns writes the number of the turn and waits for the other's. */
static uint64_t play(struct end *e, bool first, uint64_t until_ns, struct fl_histogram *latency)
{
    volatile uint8_t *mine = e->buf + e->o->bs - 1; /* the peer writes slot 0; we send from there after */
    uint64_t turns = 0, start = fl_now_ns();
    uint8_t turn = 0;
    struct ibv_wc wc[4];
    uint32_t posted = 0;

    for (;; turns++) {
        uint64_t now = fl_now_ns();

        if (first && now >= until_ns)
            return turns;
        turn++;
        if (first) {
            if (latency)
                start = now;
            e->buf[e->o->bs - 1] = turn;
            post(e, 0);
            posted++;
            turn++;
        }
        while (*mine != turn)
            posted -= (uint32_t)poll_cq(e, wc, 4);
        if (!first) {
            turn++;
            e->buf[e->o->bs - 1] = turn;
            post(e, 0);
            posted++;
        } else if (latency) {
            fl_histogram_record(latency, (fl_now_ns() - start) / 2);
        }
        while (posted > MAX_DEPTH / 2)
            posted -= (uint32_t)poll_cq(e, wc, 4);
    }
}

static void serve(struct end *e)
{
    struct ibv_wc wc[32];

    if (e->o->op == OP_SEND)
        for (uint32_t i = 0; i < FL_MIN(e->o->depth * 2, MAX_DEPTH); i++)
            post_recv(e, i % e->o->depth);
    exchange(e);
    if (e->o->op == OP_PINGPONG)
        play(e, false, 0, NULL);
    for (;;) {
        int n;

        if (e->o->idle) {
            pause();
            continue;
        }
        n = poll_cq(e, wc, 32);
        for (int i = 0; i < n; i++)
            post_recv(e, (uint32_t)wc[i].wr_id);
    }
}

struct result {
    uint64_t nr;
    double seconds;
};

static struct result drive(struct end *e, struct fl_histogram *latency)
{
    uint64_t started[MAX_DEPTH], start = fl_now_ns(), now = start, warm = start + WARM_NS;
    uint64_t end = warm + (uint64_t)(e->o->seconds * 1e9);
    struct result r = {0};
    struct ibv_wc wc[32];

    if (e->o->op == OP_PINGPONG) {
        start = fl_now_ns();
        r.nr = 2 * play(e, true, start + (uint64_t)(e->o->seconds * 1e9), latency);
        r.seconds = (double)(fl_now_ns() - start) / 1e9;
        return r;
    }
    for (uint32_t i = 0; i < e->o->depth; i++) {
        started[i] = now;
        post(e, i);
    }
    while (now < end) {
        int n = poll_cq(e, wc, 32);

        if (!n) {
            now = fl_now_ns();
            continue;
        }
        now = fl_now_ns();
        for (int i = 0; i < n; i++) {
            uint32_t slot = (uint32_t)wc[i].wr_id;

            if (now >= warm) {
                if (!r.nr++)
                    start = now;
                fl_histogram_record(latency, now - started[slot]);
            }
            started[slot] = now;
            post(e, slot);
        }
    }
    r.seconds = (double)(now - start) / 1e9;
    return r;
}

static void usage(FILE *out)
{
    fputs("usage: verbs [--op read|write|send|pingpong] [--bs BYTES] [--depth N] [--seconds S] [--cpus "
          "CLIENT,SERVER]\n"
          "             [--addresses CLIENT,SERVER] [--netns CLIENT,SERVER] [--device NAME] [--pool] "
          "[--idle] [--hardware]\n"
          "RDMA between two processes of this machine; prints one JSON object.\n",
          out);
}

static enum op parse_op(const char *name)
{
    static const char *const names[] = {
        [OP_READ] = "read", [OP_WRITE] = "write", [OP_SEND] = "send", [OP_PINGPONG] = "pingpong"};

    for (size_t i = 0; i < FL_ARRAY_LEN(names); i++)
        if (!strcmp(name, names[i]))
            return (enum op)i;
    usage(stderr);
    exit(2);
}

static void run_server(const struct options *o, int in, int out)
{
    struct end e = {.o = o, .address = o->apart.address[1], .in = in, .out = out};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    stand_apart(&o->apart, 1);
    set_up(&e);
    serve(&e);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"op", required_argument, NULL, 'o'},
        {"bs", required_argument, NULL, 'b'},
        {"depth", required_argument, NULL, 'd'},
        {"seconds", required_argument, NULL, 's'},
        {"cpus", required_argument, NULL, 'c'},
        {"addresses", required_argument, NULL, 'a'},
        {"netns", required_argument, NULL, 'n'},
        {"device", required_argument, NULL, 'D'},
        {"pool", no_argument, NULL, 'S'},
        {"idle", no_argument, NULL, 'i'},
        {"hardware", no_argument, NULL, 'H'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options o = {.bs = 4096,
                        .depth = 1,
                        .seconds = 2,
                        .apart = {.cpus = {0, 1}, .address = {"127.0.0.1", "127.0.0.1"}}};
    static const char *const op_names[] = {"read", "write", "send", "pingpong"};
    struct fl_histogram *latency = calloc(1, sizeof(*latency));
    int to_server[2], to_client[2], opt;
    struct end e = {.o = &o};
    struct result r;
    pid_t child;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'o':
            o.op = parse_op(optarg);
            break;
        case 'b':
            o.bs = strtoul(optarg, NULL, 10);
            break;
        case 'd':
            o.depth = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            o.seconds = strtod(optarg, NULL);
            break;
        case 'n':
            if (split_pair(optarg, o.apart.netns))
                break;
            usage(stderr);
            return 2;
        case 'a':
            if (split_pair(optarg, o.apart.address))
                break;
            usage(stderr);
            return 2;
        case 'D':
            o.device = optarg;
            break;
        case 'S':
            o.pool = true;
            break;
        case 'i':
            o.idle = true;
            break;
        case 'H':
            o.hardware = true;
            break;
        case 'c':
            if (sscanf(optarg, "%d,%d", &o.apart.cpus[0], &o.apart.cpus[1]) == 2)
                break;
            /* fall through */
        default:
            usage(opt == 'h' ? stdout : stderr);
            return opt == 'h' ? 0 : 2;
        }
    }
    if (!o.bs || o.bs > (64u << 20) || !o.depth || o.depth > MAX_DEPTH || o.seconds <= 0 || !latency) {
        usage(stderr);
        return 2;
    }
    if (pipe(to_server) < 0 || pipe(to_client) < 0)
        die("pipe");
    child = fork(); /* before the RNIC: a child of its process would have none */
    if (child < 0)
        die("fork");
    if (child == 0)
        run_server(&o, to_server[0], to_client[1]);
    e.address = o.apart.address[0];
    e.in = to_client[0];
    e.out = to_server[1];
    stand_apart(&o.apart, 0);
    set_up(&e);
    exchange(&e);
    fl_histogram_init(latency);
    r = drive(&e, latency);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("{\"op\": \"%s\", \"bs\": %zu, \"depth\": %u, \"iops\": %.0f, \"gb_per_s\": %.3f, \"mean_us\": "
           "%.3f, \"p50_us\": %.3f, "
           "\"p99_us\": %.3f}\n",
           op_names[o.op], o.bs, o.depth, (double)r.nr / r.seconds,
           (double)r.nr * (double)o.bs / r.seconds / 1e9, fl_histogram_mean(latency) / 1e3,
           (double)fl_histogram_percentile(latency, 50) / 1e3,
           (double)fl_histogram_percentile(latency, 99) / 1e3);
    return 0;
}
