/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation costs, on plain verbs: time of one at depth 1, rate and goodput at others, and whether
 * the bytes are right. Two processes of its own, or --server PORT here and --client HOST:PORT there.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/util.h"
#include "peer.h"

enum op { READ, WRITE, SEND, PINGPONG, WRITE_PINGPONG, NR_OPS };
static const char *const op_names[NR_OPS] = {"read", "write", "send", "pingpong", "write-pingpong"};

struct bench {
    struct peer_options options;
    const char *verbs, *server, *client;
    enum op op;
    uint32_t len, depth, nr_receives;
    uint64_t count;
    bool check;
};

static int usage(void)
{
    fprintf(
        stderr,
        "verbs_bench [--verbs soft|hardware] [--device NAME] [--gid N] [--mtu N] [--op "
        "read|write|send|pingpong|write-pingpong]\n"
        "            [--size N] [--depth N] [--count N] [--no-check] [--server PORT | --client HOST:PORT]\n");
    return 2;
}

static int parse_op(const char *name, enum op *op)
{
    for (int i = 0; i < NR_OPS; i++) {
        if (!strcmp(name, op_names[i])) {
            *op = (enum op)i;
            return 0;
        }
    }
    return -1;
}

static int parse(int argc, char **argv, struct bench *b)
{
    static const struct option longs[] = {
        {"verbs", 1, NULL, 'v'},  {"device", 1, NULL, 'd'},   {"gid", 1, NULL, 'g'},
        {"mtu", 1, NULL, 'm'},    {"op", 1, NULL, 'o'},       {"size", 1, NULL, 's'},
        {"depth", 1, NULL, 'q'},  {"count", 1, NULL, 'n'},    {"server", 1, NULL, 'S'},
        {"client", 1, NULL, 'C'}, {"no-check", 0, NULL, 'k'}, {0}};
    int c;
    *b = (struct bench){.options = {.gid_index = -1, .type = IBV_QPT_RC},
                        .verbs = "soft",
                        .len = 4096,
                        .depth = 1,
                        .count = 20000,
                        .check = true};
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'v':
            b->verbs = optarg;
            break;
        case 'd':
            b->options.device = optarg;
            break;
        case 'g':
            b->options.gid_index = atoi(optarg);
            break;
        case 'm':
            b->options.mtu = atoi(optarg);
            break;
        case 'o':
            if (parse_op(optarg, &b->op))
                return -1;
            break;
        case 's':
            b->len = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'q':
            b->depth = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'n':
            b->count = strtoull(optarg, NULL, 0);
            break;
        case 'S':
            b->server = optarg;
            break;
        case 'C':
            b->client = optarg;
            break;
        case 'k':
            b->check = false;
            break;
        default:
            return -1;
        }
    }
    if (optind != argc || !b->len || !b->depth || b->depth > 1024 || (uint64_t)b->len * b->depth > 1u << 30)
        return -1;
    if (b->op == WRITE_PINGPONG && b->depth != 1)
        return -1;
    /* More receives than there are SENDs on their way: one that is complete is not posted again at once. */
    b->nr_receives = b->op == SEND ? 4 * b->depth : b->depth;
    b->options.depth = b->nr_receives + 1;
    b->options.len = b->len * (b->op == WRITE_PINGPONG ? 2 : b->depth);
    b->options.max_inline = b->len <= 64 ? b->len : 0;
    return 0;
}

/* The bytes at an offset of the server's buffer, as they are after the run */
static uint8_t pattern(uint32_t at)
{
    return (uint8_t)(at * 31 + (at >> 12) + 7);
}

static void fill(const struct peer *p)
{
    for (uint32_t i = 0; i < p->options.len; i++)
        p->buf[i] = pattern(i);
}

/* As if each end had written all its pattern to the other, which its buffer begins with. */
static void fill_half(const struct bench *b, const struct peer *p)
{
    memset(p->buf + b->len, 0, b->len);
    for (uint32_t i = 0; i < b->len; i++)
        p->buf[i] = pattern(b->len + i);
}

static int verify(const struct bench *b, const struct peer *p)
{
    bool half = b->op == WRITE_PINGPONG; /* its last byte is a mark */
    for (uint32_t i = half ? b->len : 0; i < p->options.len - half; i++) {
        if (p->buf[i] != pattern(i)) {
            fprintf(stderr, "byte %u is %u, not %u\n", i, p->buf[i], pattern(i));
            return -1;
        }
    }
    return 0;
}

static int post(const struct bench *b, struct peer *p, uint64_t i)
{
    uint32_t at = (uint32_t)(i % b->depth) * b->len;
    struct ibv_sge sge = {(uintptr_t)p->buf + at, b->len, p->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    wr.opcode = b->op == READ                               ? IBV_WR_RDMA_READ
                : b->op == WRITE || b->op == WRITE_PINGPONG ? IBV_WR_RDMA_WRITE
                                                            : IBV_WR_SEND;
    if (b->op != READ && b->len <= p->options.max_inline)
        wr.send_flags |= IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = p->other.addr + at + (b->op == WRITE_PINGPONG ? b->len : 0);
    wr.wr.rdma.rkey = p->other.rkey;
    errno = ibv_post_send(p->qp, &wr, &bad);
    if (errno)
        perror("post_send");
    return errno ? -1 : 0;
}

static int post_recv(const struct bench *b, struct peer *p, uint64_t i)
{
    struct ibv_sge sge = {(uintptr_t)p->buf + (i % b->depth) * b->len, b->len, p->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
    errno = ibv_post_recv(p->qp, &wr, &bad);
    if (errno)
        perror("post_recv");
    return errno ? -1 : 0;
}

static int one_by_one(const struct bench *b, struct peer *p, struct fl_histogram *h)
{
    for (uint64_t i = 0; i < b->count; i++) {
        uint64_t begin = fl_now_ns();
        if (post(b, p, i) || peer_reap(p, b->op == PINGPONG ? 2 : 1))
            return -1;
        fl_histogram_record(h, fl_now_ns() - begin);
        if (b->op == PINGPONG && post_recv(b, p, i))
            return -1;
    }
    return 0;
}

/* Each writes into the upper half of the other's buffer, and sees by the last byte that it was written to. */
static int write_in_turn(const struct bench *b, struct peer *p, struct fl_histogram *h)
{
    const volatile uint8_t *last = p->buf + 2 * b->len - 1;
    bool begins = h;
    for (uint64_t i = 0; i < b->count; i++) {
        uint64_t begin = begins ? fl_now_ns() : 0;
        uint8_t mark = (uint8_t)(i + 1);
        for (int turn = 0; turn < 2; turn++) {
            if ((turn == 0) == begins) {
                p->buf[b->len - 1] = mark;
                if (post(b, p, i))
                    return -1;
            } else {
                while (*last != mark)
                    ;
            }
        }
        if (begins)
            fl_histogram_record(h, fl_now_ns() - begin);
        if (peer_reap(p, 1))
            return -1;
    }
    return 0;
}

static int many(const struct bench *b, struct peer *p)
{
    uint64_t posted = 0, done = 0;
    struct ibv_wc wc[32];
    while (done < b->count) {
        for (; posted < b->count && posted - done < b->depth; posted++)
            if (post(b, p, posted))
                return -1;
        int n = ibv_poll_cq(p->cq, 32, wc);
        for (int i = 0; i < n; i++) {
            if (wc[i].status != IBV_WC_SUCCESS) {
                fprintf(stderr, "request %llu ended with status %d\n", (unsigned long long)wc[i].wr_id,
                        wc[i].status);
                return -1;
            }
        }
        if (n < 0)
            return -1;
        done += (uint64_t)n;
    }
    return 0;
}

static int run_client(const struct bench *b, struct peer *p, int fd)
{
    static struct fl_histogram h;
    fl_histogram_init(&h);
    if (b->op == WRITE_PINGPONG)
        fill_half(b, p);
    else if (b->op != READ)
        fill(p);
    if (b->op == PINGPONG && post_recv(b, p, 0))
        return -1;
    if (peer_meet(fd))
        return -1;
    uint64_t begin = fl_now_ns();
    if (b->op == WRITE_PINGPONG ? write_in_turn(b, p, &h) : b->depth == 1 ? one_by_one(b, p, &h) : many(b, p))
        return -1;
    double s = (double)(fl_now_ns() - begin) / 1e9;
    if (peer_meet(fd) || (b->check && (b->op == READ || b->op == WRITE_PINGPONG) && verify(b, p)))
        return -1;
    printf("%s %u bytes, depth %u, MTU %u: %.0f a second, %.1f MB/s", op_names[b->op], b->len, b->depth,
           FL_MIN(p->mine.mtu, p->other.mtu), (double)b->count / s, (double)b->count * b->len / s / 1e6);
    if (b->depth == 1)
        printf(", %.2f us (median %.2f, 99 %% %.2f)", fl_histogram_mean(&h) / 1e3,
               (double)fl_histogram_percentile(&h, 50) / 1e3, (double)fl_histogram_percentile(&h, 99) / 1e3);
    printf("\n");
    return 0;
}

static int serve_sends(const struct bench *b, struct peer *p)
{
    for (uint64_t i = 0; i < b->count; i++) {
        if (peer_reap(p, 1) || post_recv(b, p, i + b->nr_receives))
            return -1;
        if (b->op == PINGPONG && (post(b, p, i) || peer_reap(p, 1)))
            return -1;
    }
    return 0;
}

/* One-sided operations go on while the server does nothing but wait for the end. */
static int run_server(const struct bench *b, struct peer *p, int fd)
{
    bool receives = b->op == SEND || b->op == PINGPONG;
    if (b->op == READ)
        fill(p);
    if (b->op == WRITE_PINGPONG)
        fill_half(b, p);
    for (uint32_t i = 0; receives && i < b->nr_receives; i++)
        if (post_recv(b, p, i))
            return -1;
    if (peer_meet(fd) || (receives && serve_sends(b, p)) ||
        (b->op == WRITE_PINGPONG && write_in_turn(b, p, NULL)) || peer_meet(fd))
        return -1;
    return b->check && b->op != READ && b->count >= b->depth ? verify(b, p) : 0;
}

static int run_end(const struct bench *b, int fd, bool server)
{
    const struct fl_verbs *verbs = &fl_verbs_soft;
    struct fl_error err = {0};
    struct peer p;
    int r = -1;
    if (!strcmp(b->verbs, "hardware") && fl_verbs_hardware(&verbs, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (!peer_open(&p, verbs, &b->options) && !peer_connect(&p, fd))
        r = server ? run_server(b, &p, fd) : run_client(b, &p, fd);
    peer_close(&p);
    return r ? 1 : 0;
}

static int both(const struct bench *b)
{
    int fds[2], status;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        return 1;
    pid_t child = fork(); /* before there is an RNIC */
    if (child < 0)
        return 1;
    if (!child) {
        close(fds[0]);
        _exit(run_end(b, fds[1], true));
    }
    close(fds[1]);
    int r = run_end(b, fds[0], false);
    close(fds[0]);
    waitpid(child, &status, 0);
    return r || !WIFEXITED(status) || WEXITSTATUS(status) ? 1 : 0;
}

static int tcp(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE}, *ai;
    int one = 1, fd = -1;
    if (getaddrinfo(host, port, &hints, &ai))
        return -1;
    int s = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (host) {
        fd = connect(s, ai->ai_addr, ai->ai_addrlen) ? -1 : s;
    } else {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (!bind(s, ai->ai_addr, ai->ai_addrlen) && !listen(s, 1))
            fd = accept(s, NULL, NULL);
    }
    freeaddrinfo(ai);
    return fd;
}

int main(int argc, char **argv)
{
    struct bench b;
    int fd;
    if (parse(argc, argv, &b))
        return usage();
    if (b.server) {
        fd = tcp(NULL, b.server);
    } else if (b.client) {
        char *host = strdup(b.client), *colon = host ? strrchr(host, ':') : NULL;
        if (!colon)
            return usage();
        *colon = 0;
        fd = tcp(host, colon + 1);
        free(host);
    } else {
        return both(&b);
    }
    if (fd < 0) {
        perror("the other end");
        return 1;
    }
    return run_end(&b, fd, b.server);
}
