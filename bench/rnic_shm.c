/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shared-memory path of the software RNIC costs: two processes of this host, one queue pair each.
 * Each figure stands beside what a bare copy takes in the same run. `rnic_shm --json` for programs.
 */
#include <sys/uio.h>

#include "rnic/shm/link.h"
#include "rnic/test_peers.h"

#define RUN_NS (FL_NS_PER_S / 2)

static bool json;

static void say(const char *name, double value, const char *unit, double limit, bool more_is_better)
{
    if (json)
        printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", \"limit\": %.4g, \"met\": %s}\n", name,
               value, unit, limit, (more_is_better ? value >= limit : value <= limit) ? "true" : "false");
    else
        printf("%-44s %9.3f %-12s (%s %.3g)\n", name, value, unit, more_is_better ? "at least" : "at most",
               limit);
}

/* The peer of the ping-pong: answers each byte by the same one, until 255. Otherwise it sleeps. */
static void peer(struct tp *tp)
{
    volatile uint8_t *ball = tp->pool + TP_LEN / 2;
    for (;;) {
        while (!__atomic_load_n(&tp->me->command, __ATOMIC_SEQ_CST))
            usleep(1000);
        for (uint8_t next = 1;; next = next == 200 ? 1 : next + 1) {
            struct ibv_wc wc;
            while (*(ball + 63) != next && *(ball + 63) != 255)
                ;
            if (*(ball + 63) == 255)
                break;
            memset(tp->plain, next, 64);
            tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 64, tp->other->pool_at + TP_LEN / 2,
                    tp->other->pool_key, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
            while (!fl_cq_poll(tp->cq, 1, &wc))
                ;
        }
        __atomic_store_n(&tp->me->command, 0, __ATOMIC_SEQ_CST);
    }
}

static void read_one(struct tp *tp, uint32_t len, uint64_t at, uint32_t key)
{
    tp_post(tp, IBV_WR_RDMA_READ, tp->plain, tp->plain_mr->lkey, len, at, key, IBV_SEND_SIGNALED);
    TP_CHECK(tp_next(tp).status == IBV_WC_SUCCESS);
}

struct copy { /* what a batch does */
    struct tp *tp;
    uint32_t len;
    uint64_t at;
    uint32_t key;
    const uint8_t *from;
};

static void batch_reads(const struct copy *c, int nr)
{
    for (int i = 0; i < nr; i++)
        read_one(c->tp, c->len, c->at, c->key);
}

static void batch_memcpy(const struct copy *c, int nr)
{
    for (int i = 0; i < nr; i++) {
        memcpy(c->tp->plain, c->from, c->len);
        __asm__ volatile("" : : "r"(c->tp->plain) : "memory");
    }
}

static void batch_vm(const struct copy *c, int nr)
{
    struct iovec local = {c->tp->plain, c->len}, remote = {(void *)(uintptr_t)c->at, c->len};
    for (int i = 0; i < nr; i++)
        TP_CHECK(process_vm_readv(c->tp->child, &local, 1, &remote, 1, 0) == (ssize_t)c->len);
}

static void batch_writes(const struct copy *c, int nr)
{
    struct ibv_sge sge[16];
    struct ibv_send_wr wr[16], *bad;
    struct ibv_wc wc;
    for (int i = 0; i < 16; i++) {
        sge[i] = (struct ibv_sge){(uintptr_t)c->tp->plain + (uint64_t)i * 64, 64, c->tp->plain_mr->lkey};
        wr[i] = (struct ibv_send_wr){.sg_list = &sge[i],
                                     .num_sge = 1,
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .send_flags = i == 15 ? IBV_SEND_SIGNALED : 0,
                                     .next = i == 15 ? NULL : &wr[i + 1],
                                     .wr.rdma = {c->at + (uint64_t)i * 64, c->key}};
    }
    for (; nr > 0; nr -= 16) {
        TP_CHECK(!fl_qp_post_send(c->tp->qp, wr, &bad));
        while (!fl_cq_poll(c->tp->cq, 1, &wc))
            ;
    }
}

/* Nanoseconds each, in the best of many short batches: what else runs on the machine is not asked about. */
static double best(void (*batch)(const struct copy *c, int nr), const struct copy *c, int nr)
{
    double least = 1e18;
    uint64_t end = fl_now_ns() + RUN_NS;
    while (fl_now_ns() < end) {
        uint64_t start = fl_now_ns();
        batch(c, nr);
        least = FL_MIN(least, (double)(fl_now_ns() - start) / nr);
    }
    return least;
}

/* Both sides write, and poll their memory. */
static void batch_ping_pong(const struct copy *c, int nr)
{
    static uint8_t next = 1;
    const volatile uint8_t *ball = c->tp->pool + TP_LEN / 2;
    struct ibv_wc wc;
    for (; nr; nr--, next = next == 200 ? 1 : next + 1) {
        memset(c->tp->plain, next, 64);
        tp_post(c->tp, IBV_WR_RDMA_WRITE, c->tp->plain, c->tp->plain_mr->lkey, 64, c->at, c->key,
                IBV_SEND_SIGNALED | IBV_SEND_INLINE);
        while (!fl_cq_poll(c->tp->cq, 1, &wc))
            ;
        while (*(ball + 63) != next)
            ;
    }
}

static double ping_pong(struct tp *tp)
{
    const struct copy c = {.tp = tp, .at = tp->other->pool_at + TP_LEN / 2, .key = tp->other->pool_key};
    double each;
    __atomic_store_n(&tp->other->command, 1, __ATOMIC_SEQ_CST);
    usleep(20000);
    each = best(batch_ping_pong, &c, 200) / 2;
    memset(tp->plain, 255, 64);
    tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 64, c.at, c.key, IBV_SEND_SIGNALED);
    tp_next(tp);
    return each;
}

static const uint8_t *mapped(const struct tp *tp)
{
    const struct fl_shm_link *link = fl_qp_of(tp->qp)->link;
    for (int i = 0; i < FL_SHARED_MAX; i++)
        if (link->regions[i].id && link->regions[i].base == tp->other->pool_at)
            return link->regions[i].at;
    abort();
}

int main(int argc, char **argv)
{
    struct tp *tp = tp_open(peer);
    json = argc > 1 && !strcmp(argv[1], "--json");
    if (!tp_wait_for_direct(tp)) {
        fprintf(stderr, "the peer's memory is not within reach: %s\n", fl_qp_of(tp->qp)->path_reason);
        return 1;
    }
    struct copy pool = {.tp = tp,
                        .len = 4096,
                        .at = tp->other->pool_at,
                        .key = tp->other->pool_key,
                        .from = mapped(tp)},
                plain = {.tp = tp, .len = 4096, .at = tp->other->plain_at, .key = tp->other->plain_key};
    double copy = best(batch_memcpy, &pool, 256), vm = best(batch_vm, &plain, 256);
    say("memcpy of 4 KiB between the same buffers", copy / 1e3, "us", copy / 1e3, false);
    say("RDMA READ of 4 KiB, pool memory, depth 1", best(batch_reads, &pool, 256) / 1e3, "us", 1.0, false);
    say("bare process_vm_readv of 4 KiB", vm / 1e3, "us", vm / 1e3, false);
    say("RDMA READ of 4 KiB, other memory, depth 1", best(batch_reads, &plain, 256) / 1e3, "us", 2.5, false);
    pool.len = 1 << 20;
    copy = best(batch_memcpy, &pool, 4);
    say("RDMA READ of 1 MiB, pool memory", copy / best(batch_reads, &pool, 4), "of memcpy", 0.9, true);
    say("RDMA WRITEs of 64 bytes on one core", 1e3 / best(batch_writes, &pool, 1024), "M/s", 4.0, true);
    say("RDMA WRITE of 64 bytes, ping-pong, one way", ping_pong(tp) / 1e3, "us", 0.6, false);
    tp_close(tp);
    return 0;
}
