/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each RC operation of verbs once, and what a responder can refuse, with a connection for each case.
 *   vmix -s ADDRESS COUNT     answer COUNT connections
 *   vmix -c ADDRESS CASE...   exit status 1: a case went otherwise than it must
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 65536, PAGE = 4096, RECVS = 16, AT_WRITE = 4096, AT_IMM = 8192, AT_ATOMIC = 16384 };

/* In the reply's private data: what the client may use */
struct hello {
    uint64_t addr, ro_addr;
    uint32_t rkey, ro_rkey;
};

struct side {
    struct rdma_cm_id *id;
    char *buf, *ro, *rx;
    struct ibv_mr *mr, *ro_mr, *rx_mr;
    struct hello hello; /* of the server */
    bool wrong;
};

static void die(const char *what)
{
    fprintf(stderr, "vmix: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void set_up(struct side *s, int nr_recvs)
{
    s->buf = aligned_alloc(PAGE, SIZE);
    s->ro = aligned_alloc(PAGE, PAGE);
    s->rx = aligned_alloc(PAGE, RECVS * PAGE);
    if (!s->buf || !s->ro || !s->rx)
        die("memory");
    for (int i = 0; i < SIZE; i++)
        s->buf[i] = (char)(i * 7 + i / 256);
    memset(s->ro, 'r', PAGE);
    s->mr = ibv_reg_mr(s->id->pd, s->buf, SIZE,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
    s->ro_mr = ibv_reg_mr(s->id->pd, s->ro, PAGE, IBV_ACCESS_REMOTE_READ);
    s->rx_mr = ibv_reg_mr(s->id->pd, s->rx, RECVS * PAGE, IBV_ACCESS_LOCAL_WRITE);
    if (!s->mr || !s->ro_mr || !s->rx_mr)
        die("ibv_reg_mr");
    for (int i = 0; i < nr_recvs; i++)
        if (rdma_post_recv(s->id, NULL, s->rx + i * PAGE, PAGE, s->rx_mr))
            die("rdma_post_recv");
}

static void take_down(struct side *s)
{
    ibv_dereg_mr(s->mr);
    ibv_dereg_mr(s->ro_mr);
    ibv_dereg_mr(s->rx_mr);
    rdma_destroy_ep(s->id);
    free(s->buf);
    free(s->ro);
    free(s->rx);
}

static struct rdma_addrinfo *resolve(char *address, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;
    if (rdma_getaddrinfo(address, "7471", &hints, &res))
        die("rdma_getaddrinfo");
    return res;
}

static struct ibv_qp_init_attr qp_attr(void)
{
    return (struct ibv_qp_init_attr){
        .cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1};
}

static struct rdma_conn_param conn_param(const void *data, uint8_t len)
{
    return (struct rdma_conn_param){.private_data = data,
                                    .private_data_len = len,
                                    .responder_resources = 4,
                                    .initiator_depth = 4,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7};
}

struct request {
    enum ibv_wr_opcode opcode;
    uint32_t len, rkey;
    uint64_t offset, compare_add, swap;
    enum ibv_wc_status want;
};

/* One work request of the client. rxe refuses some wrong ones when they are posted. */
static void do_one(struct side *s, const char *what, const struct request *r)
{
    struct ibv_sge sge = {(uintptr_t)s->buf, r->len, s->mr->lkey};
    struct ibv_send_wr *bad, wr = {.opcode = r->opcode, .sg_list = &sge, .num_sge = r->len ? 1 : 0};
    struct ibv_wc wc;
    bool good;
    if (r->opcode == IBV_WR_SEND_WITH_INV) {
        wr.invalidate_rkey = r->rkey;
        wr.send_flags = IBV_SEND_SOLICITED;
    } else if (r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = s->hello.addr + r->offset;
        wr.wr.atomic.rkey = r->rkey;
        wr.wr.atomic.compare_add = r->compare_add;
        wr.wr.atomic.swap = r->swap;
    } else {
        wr.imm_data = htobe32(0x01020304);
        wr.wr.rdma.remote_addr = s->hello.addr + r->offset;
        wr.wr.rdma.rkey = r->rkey;
    }
    if (ibv_post_send(s->id->qp, &wr, &bad)) {
        good = r->want != IBV_WC_SUCCESS;
        printf("  %-18s %5u bytes: not posted%s\n", what, r->len, good ? "" : "  UNEXPECTED");
    } else {
        if (rdma_get_send_comp(s->id, &wc) <= 0)
            die("rdma_get_send_comp");
        /* rxe says so of a SEND that is longer than the receive buffer */
        good = wc.status == r->want || (r->want == IBV_WC_REM_INV_REQ_ERR && wc.status == IBV_WC_REM_OP_ERR);
        printf("  %-18s %5u bytes: %s%s\n", what, r->len, ibv_wc_status_str(wc.status),
               good ? "" : "  UNEXPECTED");
    }
    s->wrong |= !good;
}

#define DO(s, what, ...) do_one(s, what, &(struct request){__VA_ARGS__})

static void must_be(struct side *s, const char *what, uint64_t seen, uint64_t wanted)
{
    if (seen != wanted) {
        printf("  %s is %" PRIu64 " and not %" PRIu64 "  UNEXPECTED\n", what, seen, wanted);
        s->wrong = true;
    }
}

static void atomics(struct side *s)
{
    uint64_t *v = (uint64_t *)s->buf;
    uint32_t key = s->hello.rkey;
    v[0] = 40;
    DO(s, "write", IBV_WR_RDMA_WRITE, 8, key, AT_ATOMIC);
    DO(s, "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, key, AT_ATOMIC, 2);
    must_be(s, "value", v[0], 40);
    DO(s, "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8, key, AT_ATOMIC, 7, 1);
    must_be(s, "value", v[0], 42);
    DO(s, "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8, key, AT_ATOMIC, 42, 43);
    must_be(s, "value", v[0], 42);
    DO(s, "read", IBV_WR_RDMA_READ, 8, key, AT_ATOMIC);
    must_be(s, "value", v[0], 43);
}

static void case_ok(struct side *s)
{
    static const uint32_t lengths[] = {0, 1, 99, 1024, 3001};
    uint32_t key = s->hello.rkey;
    char first[3001];
    memcpy(first, s->buf, sizeof(first));
    for (int i = 0; i < 5; i++) {
        DO(s, "send", IBV_WR_SEND, lengths[i]);
        DO(s, "write", IBV_WR_RDMA_WRITE, lengths[i], key, AT_WRITE);
    }
    for (int i = 0; i < 5; i += 2) {
        DO(s, "send, immediate", IBV_WR_SEND_WITH_IMM, lengths[i]);
        DO(s, "write, immediate", IBV_WR_RDMA_WRITE_WITH_IMM, lengths[i], key, AT_IMM);
    }
    for (int i = 1; i < 5; i++) {
        memset(s->buf, 0, PAGE);
        DO(s, "read", IBV_WR_RDMA_READ, lengths[i], key, AT_WRITE);
        must_be(s, "difference", (uint64_t) !!memcmp(first, s->buf, lengths[i]), 0);
    }
    atomics(s);
}

static void case_inv(struct side *s) /* the server sends the key of a window */
{
    struct ibv_wc wc;
    uint32_t window;
    if (rdma_get_recv_comp(s->id, &wc) <= 0 || wc.status)
        die("no window");
    memcpy(&window, s->rx, sizeof(window));
    DO(s, "write to window", IBV_WR_RDMA_WRITE, 100, window);
    DO(s, "send, invalidate", IBV_WR_SEND_WITH_INV, 100, window);
    DO(s, "write to window", IBV_WR_RDMA_WRITE, 100, window, .want = IBV_WC_REM_ACCESS_ERR);
}

static void case_badkey(struct side *s)
{
    DO(s, "write, wrong key", IBV_WR_RDMA_WRITE, 2000, s->hello.rkey ^ 0x5500, .want = IBV_WC_REM_ACCESS_ERR);
}

static void case_bounds(struct side *s)
{
    DO(s, "read past the end", IBV_WR_RDMA_READ, 2000, s->hello.rkey, SIZE - 1000,
       .want = IBV_WC_REM_ACCESS_ERR);
}

static void case_readonly(struct side *s)
{
    s->hello.addr = s->hello.ro_addr;
    DO(s, "write, read-only", IBV_WR_RDMA_WRITE, 100, s->hello.ro_rkey, .want = IBV_WC_REM_ACCESS_ERR);
}

static void case_rnr(struct side *s)
{
    DO(s, "send, none waits", IBV_WR_SEND, 1500);
}

static void case_long(struct side *s)
{
    DO(s, "send, too long", IBV_WR_SEND, PAGE + 1, .want = IBV_WC_REM_INV_REQ_ERR);
}

static void case_unaligned(struct side *s)
{
    DO(s, "atomic, unaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, s->hello.rkey, 4, 1,
       .want = IBV_WC_REM_INV_REQ_ERR);
}

enum { WINDOW = 1, NO_RECEIVES = 5 }; /* cases in which the server does more */
static const struct {
    const char *name;
    void (*run)(struct side *s);
} cases[] = {{"ok", case_ok},
             {"inv", case_inv},
             {"badkey", case_badkey},
             {"bounds", case_bounds},
             {"readonly", case_readonly},
             {"rnr", case_rnr},
             {"long", case_long},
             {"unaligned", case_unaligned}};
enum { NR_CASES = sizeof(cases) / sizeof(cases[0]) };

static bool client(char *address, const char *name)
{
    uint8_t n = 0;
    while (n < NR_CASES && strcmp(cases[n].name, name))
        n++;
    if (n == NR_CASES) {
        fprintf(stderr, "vmix: no case %s\n", name);
        return true;
    }
    struct rdma_addrinfo *ai = resolve(address, 0);
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_conn_param param = conn_param(&n, 1);
    struct side s = {0};
    if (rdma_create_ep(&s.id, ai, NULL, &attr))
        die("rdma_create_ep");
    rdma_freeaddrinfo(ai);
    set_up(&s, RECVS);
    if (rdma_connect(s.id, &param))
        die("rdma_connect");
    if (!s.id->event || s.id->event->param.conn.private_data_len < sizeof(s.hello))
        die("no private data");
    memcpy(&s.hello, s.id->event->param.conn.private_data, sizeof(s.hello));
    printf("%s:\n", name);
    cases[n].run(&s);
    rdma_disconnect(s.id);
    take_down(&s);
    return s.wrong;
}

static struct ibv_mw *give_window(struct side *s)
{
    struct ibv_mw *mw = ibv_alloc_mw(s->id->pd, IBV_MW_TYPE_2);
    struct ibv_wc wc;
    if (!mw)
        die("ibv_alloc_mw");
    struct ibv_send_wr *bad,
        wr = {.opcode = IBV_WR_BIND_MW,
              .bind_mw = {.mw = mw,
                          .rkey = ibv_inc_rkey(mw->rkey),
                          .bind_info = {s->mr, (uintptr_t)s->buf, PAGE, IBV_ACCESS_REMOTE_WRITE}}};
    if (ibv_post_send(s->id->qp, &wr, &bad) || rdma_get_send_comp(s->id, &wc) <= 0 || wc.status)
        die("bind");
    memcpy(s->buf, &wr.bind_mw.rkey, 4);
    if (rdma_post_send(s->id, NULL, s->buf, 4, s->mr, 0) || rdma_get_send_comp(s->id, &wc) <= 0 || wc.status)
        die("send");
    return mw;
}

static void tell_receive(const struct ibv_wc *wc)
{
    if (wc->status) {
        printf("  receive: %s\n", ibv_wc_status_str(wc->status));
        return;
    }
    printf("  received %s %u bytes", wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? "write" : "send",
           wc->byte_len);
    if (wc->wc_flags & IBV_WC_WITH_IMM)
        printf(", immediate %08x", be32toh(wc->imm_data));
    if (wc->wc_flags & IBV_WC_WITH_INV)
        printf(", key invalidated");
    printf("\n");
}

/* Until the client has left: the synchronous mode gives no event for that, the queue pair's state tells it.
 */
static void answer(struct rdma_cm_id *id)
{
    struct side s = {.id = id};
    uint8_t n = id->event && id->event->param.conn.private_data
                    ? *(const uint8_t *)id->event->param.conn.private_data
                    : 0;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc;
    set_up(&s, n == NO_RECEIVES ? 0 : RECVS);
    struct hello hello = {(uintptr_t)s.buf, (uintptr_t)s.ro, s.mr->rkey, s.ro_mr->rkey};
    struct rdma_conn_param param = conn_param(&hello, sizeof(hello));
    if (rdma_accept(id, &param))
        die("rdma_accept");
    struct ibv_mw *mw = n == WINDOW ? give_window(&s) : NULL;
    if (n == NO_RECEIVES) {
        usleep(300000);
        if (rdma_post_recv(id, NULL, s.rx, PAGE, s.rx_mr))
            die("rdma_post_recv");
    }
    printf("%s:\n", n < NR_CASES ? cases[n].name : "unknown case");
    for (int idle = 0; idle < 20; idle++) {
        while (ibv_poll_cq(id->recv_cq, 1, &wc) > 0) {
            idle = 0;
            tell_receive(&wc);
            if (wc.status == IBV_WC_WR_FLUSH_ERR)
                goto left;
        }
        if (idle > 5 && (ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init) || attr.qp_state == IBV_QPS_ERR))
            break;
        usleep(50000);
    }
left:
    rdma_disconnect(id);
    if (mw)
        ibv_dealloc_mw(mw);
    take_down(&s);
}

static void serve(char *address, long count)
{
    struct rdma_addrinfo *ai = resolve(address, RAI_PASSIVE);
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_cm_id *listener, *id;
    if (rdma_create_ep(&listener, ai, NULL, &attr) || rdma_listen(listener, 8))
        die("rdma_listen");
    rdma_freeaddrinfo(ai);
    for (; count > 0; count--) {
        if (rdma_get_request(listener, &id))
            die("rdma_get_request");
        answer(id);
    }
    rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
    bool wrong = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && !strcmp(argv[1], "-s")) {
        serve(argv[2], atol(argv[3]));
        return 0;
    }
    if (argc < 4 || strcmp(argv[1], "-c")) {
        fprintf(stderr, "usage: vmix -s ADDRESS COUNT | vmix -c ADDRESS CASE...\n");
        return 2;
    }
    for (int i = 3; i < argc; i++)
        wrong |= client(argv[2], argv[i]);
    return wrong;
}
