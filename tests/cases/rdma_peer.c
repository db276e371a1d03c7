/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs of a host that python plays (peer_rdma.py): plain libibverbs and librdmacm, nothing of farlane's.
 * It does what it is told, one line a command, one line an answer; what bytes mean, only python knows.
 *
 *     rdma_peer HEAP            a file, mapped; registered at the first connection with all rights
 *
 * connect Q ADDR PORT IRD ORD NRECV HOLD PRIVATE   established PRIVATE | rejected REASON PRIVATE | event NAME
 * STATUS HOLD 1: the queue pair may send, but the peer is not told yet rtu Q ... until now: ok post Q N so
 * many more receives: ok send Q BYTES                                     ok | error ERRNO recv Q MS recv
 * BYTES KEY (invalidated; 0: none) | failed STATUS | event NAME | nothing key | reg OFF LEN REMOTE-RIGHTS |
 * mw Q OFF LEN   key KEY BASE dereg KEY                                        ok disconnect Q | destroy Q
 * ok; by DREQ, or without a word
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define QUEUES   256
#define REGIONS  256
#define RECV_LEN 4096u
#define RECV_MAX 1024
#define SEND_LEN 65536u
#define SEND_MAX 256

struct queue {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *mem;
    struct ibv_mr *mr;
    uint32_t nr_recv, next_send;
};

static struct queue queues[QUEUES];
static struct ibv_pd *pd;
static uint8_t *heap;
static size_t heap_len;
static struct ibv_mr *regions[REGIONS], *heap_mr;
static struct ibv_mw *windows[REGIONS];

static void answer(const char *text)
{
    puts(text);
    fflush(stdout);
}

static size_t unhex(const char *text, uint8_t *out, size_t max)
{
    size_t n = 0;

    if (text[0] == '-')
        return 0;
    for (unsigned byte; n < max && sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
        out[n] = (uint8_t)byte;
    return n;
}

static void say_bytes(const char *what, const uint8_t *bytes, size_t len, const char *end)
{
    printf("%s ", what);
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
    printf("%s%s\n", len ? "" : "-", end);
    fflush(stdout);
}

static void say_errno(const char *what)
{
    printf("error %s %d\n", what, errno);
    fflush(stdout);
}

/* ---- connecting ---- */

static int next_event(struct queue *q, struct rdma_cm_event **event, int ms)
{
    struct pollfd p = {.fd = q->channel->fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1 && !rdma_get_cm_event(q->channel, event) ? 0 : -1;
}

static int expect(struct queue *q, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    int r = -1;

    if (next_event(q, &event, 20000)) {
        answer("event none 0");
        return -1;
    }
    if (event->event == type) {
        r = 0;
    } else {
        printf("event %s %d\n", rdma_event_str(event->event), event->status);
        fflush(stdout);
    }
    rdma_ack_cm_event(event);
    return r;
}

static int modify(struct queue *q, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;

    return rdma_init_qp_attr(q->id, &attr, &mask) || ibv_modify_qp(q->qp, &attr, mask) ? -1 : 0;
}

static void post_recv(struct queue *q, uint32_t i)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)(q->mem + i * RECV_LEN), .length = RECV_LEN, .lkey = q->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

    (void)ibv_post_recv(q->qp, &wr, &bad);
}

static int make_queue_pair(struct queue *q, uint32_t nr_recv)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = SEND_MAX, .max_recv_wr = RECV_MAX, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    size_t len = RECV_MAX * RECV_LEN + SEND_MAX * (size_t)SEND_LEN;
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                 IBV_ACCESS_MW_BIND;

    if (!pd)
        pd = ibv_alloc_pd(q->id->verbs);
    if (pd && !heap_mr)
        heap_mr = ibv_reg_mr(pd, heap, heap_len, rights);
    q->mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!pd || !heap_mr || q->mem == MAP_FAILED)
        return -1;
    q->mr = ibv_reg_mr(pd, q->mem, len, IBV_ACCESS_LOCAL_WRITE);
    attr.send_cq = attr.recv_cq = q->cq = ibv_create_cq(q->id->verbs, SEND_MAX + RECV_MAX, NULL, NULL, 0);
    if (!q->mr || !q->cq)
        return -1;
    q->qp = ibv_create_qp(pd, &attr);
    if (!q->qp || modify(q, IBV_QPS_INIT))
        return -1;
    for (q->nr_recv = 0; q->nr_recv < nr_recv && q->nr_recv < RECV_MAX; q->nr_recv++)
        post_recv(q, q->nr_recv);
    return 0;
}

static void take_answer(struct queue *q, bool hold)
{
    struct rdma_cm_event *event;
    char end[32];

    if (next_event(q, &event, 30000)) {
        answer("event none 0");
        return;
    }
    if (event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
        /* what the peer may do is known only now */
        if (modify(q, IBV_QPS_INIT) || modify(q, IBV_QPS_RTR) || modify(q, IBV_QPS_RTS) ||
            (!hold && rdma_establish(q->id)))
            say_errno("establish");
        else
            say_bytes("established", event->param.conn.private_data, event->param.conn.private_data_len, "");
    } else if (event->event == RDMA_CM_EVENT_REJECTED) {
        snprintf(end, sizeof(end), " %d", event->status);
        say_bytes("rejected", event->param.conn.private_data, event->param.conn.private_data_len, end);
    } else {
        printf("event %s %d\n", rdma_event_str(event->event), event->status);
        fflush(stdout);
    }
    rdma_ack_cm_event(event);
}

static void do_connect(struct queue *q, const char *addr, int port, int ird, int ord, uint32_t nr_recv,
                       int hold, const char *hex)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    uint8_t private_data[256];
    struct rdma_conn_param param = {.private_data = private_data,
                                    .responder_resources = (uint8_t)ird,
                                    .initiator_depth = (uint8_t)ord,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7};

    inet_pton(AF_INET, addr, &to.sin_addr);
    param.private_data_len = (uint8_t)unhex(hex, private_data, sizeof(private_data));
    q->channel = rdma_create_event_channel();
    if (!q->channel || rdma_create_id(q->channel, &q->id, NULL, RDMA_PS_TCP)) {
        say_errno("create");
        return;
    }
    if (rdma_resolve_addr(q->id, NULL, (struct sockaddr *)&to, 5000)) {
        say_errno("resolve");
        return;
    }
    if (expect(q, RDMA_CM_EVENT_ADDR_RESOLVED))
        return;
    if (rdma_resolve_route(q->id, 5000)) {
        say_errno("route");
        return;
    }
    if (expect(q, RDMA_CM_EVENT_ROUTE_RESOLVED))
        return;
    if (make_queue_pair(q, nr_recv)) {
        say_errno("queue-pair");
        return;
    }
    param.qp_num = q->qp->qp_num;
    if (rdma_connect(q->id, &param))
        say_errno("connect");
    else
        take_answer(q, hold);
}

/* ---- traffic ---- */

static void do_send(struct queue *q, const char *hex)
{
    uint32_t i = q->next_send++ % SEND_MAX;
    uint8_t *at = q->mem + RECV_MAX * RECV_LEN + (size_t)i * SEND_LEN;
    struct ibv_sge sge = {
        .addr = (uintptr_t)at, .length = (uint32_t)unhex(hex, at, SEND_LEN), .lkey = q->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = RECV_MAX + i,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED};

    errno = ibv_post_send(q->qp, &wr, &bad);
    if (errno)
        say_errno("send");
    else
        answer("ok");
}

static bool take_completion(struct queue *q)
{
    struct ibv_wc wc;
    char end[32];

    while (ibv_poll_cq(q->cq, 1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS) {
            printf("failed %d\n", wc.status);
            fflush(stdout);
            return true;
        }
        if (wc.wr_id >= RECV_MAX)
            continue;
        snprintf(end, sizeof(end), " %u", wc.wc_flags & IBV_WC_WITH_INV ? wc.invalidated_rkey : 0);
        say_bytes("recv", q->mem + wc.wr_id * RECV_LEN, wc.byte_len, end);
        post_recv(q, (uint32_t)wc.wr_id);
        return true;
    }
    return false;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void do_recv(struct queue *q, int ms)
{
    double end = now() + ms;

    do {
        struct rdma_cm_event *event;

        if (q->cq && take_completion(q))
            return;
        if (q->channel && !next_event(q, &event, 0)) {
            printf("event %s\n", rdma_event_str(event->event));
            fflush(stdout);
            rdma_ack_cm_event(event);
            return;
        }
        usleep(200);
    } while (now() < end);
    answer("nothing");
}

static void do_destroy(struct queue *q)
{
    if (q->qp)
        ibv_destroy_qp(q->qp);
    if (q->cq)
        ibv_destroy_cq(q->cq);
    if (q->mr)
        ibv_dereg_mr(q->mr);
    if (q->mem)
        munmap(q->mem, RECV_MAX * RECV_LEN + SEND_MAX * (size_t)SEND_LEN);
    if (q->id)
        rdma_destroy_id(q->id);
    if (q->channel)
        rdma_destroy_event_channel(q->channel);
    memset(q, 0, sizeof(*q));
    answer("ok");
}

/* ---- keys ---- */

static void say_key(uint32_t key, const void *base)
{
    printf("key %u %llu\n", key, (unsigned long long)(uintptr_t)base);
    fflush(stdout);
}

static void do_reg(size_t off, size_t len, int rights)
{
    int i = 0;

    while (i < REGIONS && regions[i])
        i++;
    if (i < REGIONS)
        regions[i] = ibv_reg_mr(pd, heap + off, len, IBV_ACCESS_LOCAL_WRITE | rights);
    if (i == REGIONS || !regions[i])
        say_errno("reg");
    else
        say_key(regions[i]->rkey, heap + off);
}

static void do_dereg(uint32_t key)
{
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i] && regions[i]->rkey == key) {
            ibv_dereg_mr(regions[i]);
            regions[i] = NULL;
        }
    }
    answer("ok");
}

static void do_window(struct queue *q, size_t off, size_t len)
{
    struct ibv_send_wr *bad,
        wr = {.wr_id = RECV_MAX, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    int i = 0;

    while (i < REGIONS && windows[i])
        i++;
    if (i < REGIONS)
        windows[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    if (i == REGIONS || !windows[i]) {
        say_errno("mw");
        return;
    }
    wr.bind_mw.mw = windows[i];
    wr.bind_mw.rkey = ibv_inc_rkey(windows[i]->rkey);
    wr.bind_mw.bind_info.mr = heap_mr;
    wr.bind_mw.bind_info.addr = (uintptr_t)(heap + off);
    wr.bind_mw.bind_info.length = len;
    wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    errno = ibv_post_send(q->qp, &wr, &bad);
    if (errno)
        say_errno("bind");
    else
        say_key(wr.bind_mw.rkey, heap + off);
}

static void obey(char *line)
{
    static char hex[2 * SEND_LEN + 16];
    unsigned nr = 0, n, key;
    int port, ird, ord, hold, ms;
    char what[32] = "", addr[64];
    size_t off, len;
    struct queue *q;

    sscanf(line, "%31s %u", what, &nr);
    q = &queues[nr % QUEUES];
    if (!strcmp(what, "connect") &&
        sscanf(line, "%*s %*u %63s %d %d %d %u %d %131000s", addr, &port, &ird, &ord, &n, &hold, hex) == 7)
        do_connect(q, addr, port, ird, ord, n, hold, hex);
    else if (!strcmp(what, "rtu"))
        rdma_establish(q->id) ? say_errno("rtu") : answer("ok");
    else if (!strcmp(what, "post") && sscanf(line, "%*s %*u %u", &n) == 1) {
        for (; n && q->nr_recv < RECV_MAX; n--)
            post_recv(q, q->nr_recv++);
        answer("ok");
    } else if (!strcmp(what, "send") && sscanf(line, "%*s %*u %131087s", hex) == 1)
        do_send(q, hex);
    else if (!strcmp(what, "recv") && sscanf(line, "%*s %*u %d", &ms) == 1)
        do_recv(q, ms);
    else if (!strcmp(what, "key"))
        say_key(heap_mr ? heap_mr->rkey : 0, heap);
    else if (!strcmp(what, "reg") && sscanf(line, "%*s %zu %zu %d", &off, &len, &ms) == 3)
        do_reg(off, len, ms);
    else if (!strcmp(what, "dereg") && sscanf(line, "%*s %u", &key) == 1)
        do_dereg(key);
    else if (!strcmp(what, "mw") && sscanf(line, "%*s %*u %zu %zu", &off, &len) == 2)
        do_window(q, off, len);
    else if (!strcmp(what, "disconnect"))
        rdma_disconnect(q->id) ? say_errno("disconnect") : answer("ok");
    else if (!strcmp(what, "destroy"))
        do_destroy(q);
    else
        answer("error what 0");
}

int main(int argc, char **argv)
{
    static char line[2 * SEND_LEN + 256];
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;

    if (fd < 0 || fstat(fd, &st)) {
        fprintf(stderr, "usage: rdma_peer HEAP\n");
        return 2;
    }
    heap_len = (size_t)st.st_size;
    heap = mmap(NULL, heap_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (heap == MAP_FAILED)
        return 1;
    while (fgets(line, sizeof(line), stdin))
        obey(line);
    return 0;
}
