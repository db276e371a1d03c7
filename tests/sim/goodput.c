/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What 1 % random loss costs on a link of 100 Gbit/s and 5 us one way, in virtual time: go-back-N, selective
 * retransmission, and that with spraying over paths of different delay. goodput [LOSS of 10,000]
 *
 * Fails when selective retransmission keeps less than 85 % of the loss-free goodput, or less than 60 % of a
 * link that overflows.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "link.h"

#define MSG_LEN  (1u << 20)
#define NR_MSGS  96
#define DEPTH    8
#define AT_LEAST 0.85

static enum ibv_wr_opcode opcode;
static uint64_t nr_posted;

static void post_next(struct link_end *a)
{
    if (nr_posted == NR_MSGS)
        return;
    uint64_t at = nr_posted % DEPTH * MSG_LEN;
    if (opcode == IBV_WR_SEND)
        link_post_recv(a->peer, nr_posted, at, MSG_LEN);
    link_post(a, nr_posted++, opcode, at, MSG_LEN);
}

static void done(struct link_end *e, const struct ibv_wc *wc, bool of_send)
{
    if (of_send)
        post_next(e);
}

/* Bytes a second */
static double measure(bool selective, uint8_t nr_paths, unsigned loss, uint64_t narrow)
{
    struct fl_roce_cap cap = {.type = IBV_QPT_RC,
                              .max_send_wr = DEPTH + 1,
                              .max_recv_wr = DEPTH + 1,
                              .max_send_sge = 1,
                              .max_recv_sge = 1,
                              .max_dest_rd_atomic = DEPTH,
                              .sq_sig_all = true};
    struct fl_roce_attr attr = {.pkey = 0xffff,
                                .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
                                .mtu = IBV_MTU_4096,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .min_rnr_timer = 12,
                                .max_rd_atomic = DEPTH,
                                .max_dest_rd_atomic = DEPTH,
                                .selective = selective,
                                .nr_paths = nr_paths};
    struct link *l = link_new(&cap, &attr, (size_t)DEPTH * MSG_LEN);
    l->loss = loss;
    l->narrow_rate = narrow;
    l->narrow_queue = 64 * 4096;
    l->fate = narrow ? link_narrow : link_lossy;
    l->done = done;
    for (int i = 0; i < nr_paths; i++)
        l->path_delay[i] = (uint64_t)i * 1500;
    uint64_t from = l->now;
    nr_posted = 0;
    for (int i = 0; i < DEPTH; i++)
        post_next(&l->a);
    uint64_t end = from;
    while (l->a.nr_sends < NR_MSGS &&
           !l->a.nr_failed) /* the last acknowledgement counts, not what comes after it */
        link_run(l, end += 100000);
    double ns = (double)(l->now - from);
    const struct fl_roce_stats *stats = &l->a.qp.stats, *others = &l->b.qp.stats;
    printf("    %6.2f GB/s  %7llu packets, %5llu lost, %6llu sent again, %4llu probes, %2llu time-outs, "
           "%6llu held, "
           "%llu had no room%s\n",
           l->a.nr_failed ? 0 : (double)NR_MSGS * MSG_LEN / ns, (unsigned long long)l->nr_packets,
           (unsigned long long)l->nr_lost, (unsigned long long)stats->nr_resent,
           (unsigned long long)stats->nr_probes, (unsigned long long)stats->nr_timeouts,
           (unsigned long long)(stats->nr_held + others->nr_held),
           (unsigned long long)(stats->nr_no_room + others->nr_no_room), l->a.nr_failed ? ": FAILED" : "");
    double rate = l->a.nr_failed ? 0 : (double)NR_MSGS * MSG_LEN / ns * 1e9;
    link_free(l);
    return rate;
}

static int compare(const char *name, enum ibv_wr_opcode op, unsigned loss)
{
    opcode = op;
    printf("%s\n  no loss, go-back-N\n", name);
    double free_of = measure(false, 1, 0, 0);
    printf("  %.2f %% loss, go-back-N\n", loss / 100.0);
    double back = measure(false, 1, loss, 0);
    printf("  no loss, selective\n");
    double clean = measure(true, 1, 0, 0);
    printf("  %.2f %% loss, selective\n", loss / 100.0);
    double one = measure(true, 1, loss, 0);
    printf("  %.2f %% loss, selective, 8 paths\n", loss / 100.0);
    double eight = measure(true, 8, loss, 0);
    printf("  of the loss-free goodput: go-back-N %.0f %%, selective %.0f %%, on 8 paths %.0f %%\n",
           100 * back / free_of, 100 * one / clean, 100 * eight / clean);
    return clean < 0.98 * free_of || one < AT_LEAST * clean || eight < AT_LEAST * clean;
}

/* Into a link of a fifth of the rate, with a queue of 64 packets: what is lost there says that less should be
 * sent. */
static int overflow(const char *name, enum ibv_wr_opcode op)
{
    const uint64_t narrow = 2500000000ull;
    opcode = op;
    printf("%s, into 20 Gbit/s with a queue of 64 packets\n  go-back-N\n", name);
    double back = measure(false, 1, 0, narrow);
    printf("  selective\n");
    double one = measure(true, 1, 0, narrow);
    printf("  of the narrow link: go-back-N %.0f %%, selective %.0f %%\n", 100 * back / (double)narrow,
           100 * one / (double)narrow);
    return one < 0.6 * (double)narrow;
}

int main(int argc, char **argv)
{
    unsigned loss = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 100;
    int bad = compare("RDMA WRITE of 1 MiB, 8 at a time", IBV_WR_RDMA_WRITE, loss);
    bad |= compare("RDMA READ of 1 MiB, 8 at a time", IBV_WR_RDMA_READ, loss);
    bad |= compare("SEND of 1 MiB, 8 at a time", IBV_WR_SEND, loss);
    bad |= overflow("RDMA WRITE", IBV_WR_RDMA_WRITE);
    bad |= overflow("RDMA READ", IBV_WR_RDMA_READ);
    return bad;
}
