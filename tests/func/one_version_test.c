/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block that is read is one version of it, whatever is written meanwhile, and its data digest is right:
 * hosts on several loops of one target read and write the same blocks of a ram namespace. Argument: tcp, shm
 * or udp, the latter two over the software RNIC.
 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <farlane/host.h>

#include "base/clock.h"
#include "real_target.h"

#define BLOCK      4096u
#define AREA_LEN   (1u << 20)
#define MAX_IO     (256u << 10) /* by R2T, the smaller ones in the capsule */
#define NR_READERS 4
#define NR_WRITERS 3
#define DEPTH      16
#define RUN_NS     (FL_NS_PER_S * 3 / 2)
#define LATE_NS                                                                                            \
    (2 * FL_NS_PER_S) /* overlap.c: a write that has waited so long ends the connection of who reads there \
                       */

static const char *path = "tcp";

struct slot {
    struct fl_io io;
    struct iovec iov;
    struct job *job;
    uint8_t *buf;
    uint64_t started_ns;
};

struct job {
    struct fl_device *dev;
    pthread_t thread;
    uint32_t number;
    bool writes, lazy; /* lazy: its socket is full most of the time */
    uint64_t seed, version, until_ns, nr_started, nr_done, nr_torn, nr_errors, longest_ns;
    struct slot slots[DEPTH];
    struct fl_queue *queue;
};

static uint32_t rnd(struct job *j)
{
    j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(j->seed >> 33);
}

static void stamp(struct job *j, uint8_t *buf, uint64_t len)
{
    uint64_t *word = (uint64_t *)(void *)buf, version = (uint64_t)j->number << 48 | ++j->version;

    for (uint64_t i = 0; i < len / sizeof(*word); i++)
        word[i] = version;
}

static uint64_t count_torn(const uint8_t *buf, uint64_t len)
{
    uint64_t nr = 0;

    for (uint64_t off = 0; off < len; off += BLOCK)
        nr += memcmp(buf + off, buf + off + 8, BLOCK - 8) != 0; /* some word differs from the next */
    return nr;
}

static void start(struct slot *s);

static void done(struct fl_io *io, int result)
{
    struct slot *s = FL_CONTAINER_OF(io, struct slot, io);
    struct job *j = s->job;

    j->nr_done++;
    j->nr_errors += result != 0;
    j->longest_ns = FL_MAX(j->longest_ns, fl_now_ns() - s->started_ns);
    if (!j->writes && !result)
        j->nr_torn += count_torn(s->buf, io->len);
    if (fl_now_ns() < j->until_ns)
        start(s);
}

static void start(struct slot *s)
{
    static const uint32_t lens[] = {BLOCK, 4 * BLOCK, 32 << 10, 128 << 10, MAX_IO};
    struct job *j = s->job;
    uint64_t len = j->lazy ? MAX_IO : lens[rnd(j) % 5], off = rnd(j) % ((AREA_LEN - len) / BLOCK + 1) * BLOCK;

    if (j->writes)
        stamp(j, s->buf, len);
    s->iov = (struct iovec){s->buf, len};
    s->io = (struct fl_io){.op = j->writes ? FL_IO_WRITE : FL_IO_READ,
                           .off = off,
                           .len = len,
                           .iov = &s->iov,
                           .nr_iov = 1,
                           .done = done};
    j->nr_started++;
    s->started_ns = fl_now_ns();
    if (fl_submit(j->queue, &s->io) < 0)
        j->nr_errors++;
}

static void *run_job(void *arg)
{
    struct job *j = arg;
    struct fl_error err = {0};

    /* A machine that gives nobody CPU ends connections: as a program would, it is tried again. */
    for (uint64_t until = fl_now_ns() + 30 * FL_NS_PER_S;
         fl_queue_create(j->dev, DEPTH, &j->queue, &err) < 0;)
        if (fl_now_ns() > until)
            fail_msg("%s", err.text);
    j->until_ns = fl_now_ns() + RUN_NS;
    for (int i = 0; i < DEPTH; i++) {
        j->slots[i].job = j;
        j->slots[i].buf = aligned_alloc(4096, MAX_IO);
        start(&j->slots[i]);
    }
    for (bool more = true; more;) {
        if (j->lazy)
            poll(NULL, 0, 20);
        else
            fl_queue_wait(j->queue, 10);
        fl_queue_poll(j->queue);
        more = fl_now_ns() < j->until_ns + 30 * FL_NS_PER_S && j->nr_done < j->nr_started;
    }
    fl_queue_destroy(j->queue); /* what is still there fails */
    for (int i = 0; i < DEPTH; i++)
        free(j->slots[i].buf);
    return NULL;
}

static void visit_ns(void *arg, const struct fl_namespace_info *info)
{
    *(uint64_t *)arg = info->io.nr_reads;
}

static void look(struct real *t, void *arg)
{
    struct fl_target_visitor visitor = {.ns = visit_ns};

    (void)t;
    fl_target_visit(t->target, &visitor, arg);
}

static void run_all(uint32_t nr_loops)
{
    bool tcp = !strcmp(path, "tcp");
    struct real_options ro = {.capsule_len = -1,
                              .nr_loops = nr_loops,
                              .spec = {"ram:1M,bs=4096"},
                              .transport = tcp ? "tcp" : "rdma",
                              .port = tcp ? 0 : 4420};
    struct fl_device_options ho = {.hostnqn = "nqn.2026-01.org.example:host-a",
                                   .connect_timeout_ms = 30000,
                                   .kato_ms = 60000,
                                   .io_timeout_ms = 60000,
                                   .ddgst = tcp};
    struct real *t = real_start(&ro);
    struct job *jobs = calloc(NR_READERS + NR_WRITERS, sizeof(*jobs));
    uint64_t nr_read = 0, nr_sent = 0, nr_torn = 0, nr_written = 0, longest_ns = 0;
    struct fl_error err = {0};

    for (uint32_t i = 0; i < NR_READERS + NR_WRITERS; i++) {
        struct job *j = &jobs[i];

        j->number = i;
        j->seed = 7919 * (i + 1);
        j->writes = i >= NR_READERS;
        j->lazy = i == 0;
        if (fl_device_open(t->url, &ho, &j->dev, &err) < 0)
            fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; i < NR_READERS + NR_WRITERS; i++)
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    for (uint32_t i = 0; i < NR_READERS + NR_WRITERS; i++) {
        struct job *j = &jobs[i];

        pthread_join(j->thread, NULL);
        assert_int_equal(j->nr_errors, 0);
        assert_true(j->nr_done >= DEPTH); /* nobody was kept out for ever */
        nr_torn += j->nr_torn;
        longest_ns = j->writes ? FL_MAX(longest_ns, j->longest_ns) : longest_ns;
        *(j->writes ? &nr_written : &nr_read) += j->nr_done;
    }
    real_call(t, look, &nr_sent);
    for (uint32_t i = 0; i < NR_READERS + NR_WRITERS; i++)
        fl_device_close(jobs[i].dev);
    free(jobs);
    real_end(t);
    print_message("%u loops: %llu reads, %llu writes, %llu torn blocks, %llu reads that were sent again; the "
                  "longest write took %llu ms\n",
                  nr_loops, (unsigned long long)nr_read, (unsigned long long)nr_written,
                  (unsigned long long)nr_torn, (unsigned long long)(nr_sent - nr_read),
                  (unsigned long long)(longest_ns / FL_NS_PER_MS));
    assert_int_equal(nr_torn, 0);
    /*
     * The host asks again for what came with a wrong digest, and tells nobody: the target has counted it. By
     * RDMA, which has no digest, it asks again where its connection was ended: since it did not take its data
     * for as long as another waited to write there, as on a machine that gives it no CPU.
     */
    if (tcp || longest_ns < LATE_NS)
        assert_int_equal(nr_sent, nr_read);
    assert_true(nr_sent >= nr_read);
}

static void a_block_is_one_version_on_one_loop(void **state)
{
    (void)state;
    run_all(1);
}

static void a_block_is_one_version_on_two_loops(void **state)
{
    (void)state;
    run_all(2);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        path = argv[1];
    if (strcmp(path, "tcp"))
        real_own_rnic(!strcmp(path, "udp"));
    return FL_UNIT_RUN(cmocka_unit_test(a_block_is_one_version_on_one_loop),
                       cmocka_unit_test(a_block_is_one_version_on_two_loops));
}
