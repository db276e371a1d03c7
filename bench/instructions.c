/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends in one thread, taking turns over a loopback connection, for callgrind: the instructions that farlane spends on one
 * I/O, without the kernel's and without waiting. bench/instructions.py runs it and reads the cost of the two functions that
 * take the turns.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farlane/host.h>

#include "base/util.h"
#include "mem/shared.h"
#include "target/target.h"

#define NQN "nqn.2026-01.io.farlane:instructions"
#define DEPTH 32u
#define NS_LEN (64u << 20)

__attribute__((noinline)) void target_turn(struct fl_loop *loop);
__attribute__((noinline)) int host_turn(struct fl_queue *queue, struct fl_io *ios, uint32_t nr);

static uint32_t nr_done;

static void done(struct fl_io *io, int result)
{
    if (result < 0) {
        fprintf(stderr, "instructions: I/O failed: %s\n", strerror(-result));
        exit(1);
    }
    nr_done++;
}

void target_turn(struct fl_loop *loop)
{
    fl_loop_turn(loop, 0);
}

/* Submits the first nr of ios (0: none) and polls. */
int host_turn(struct fl_queue *queue, struct fl_io *ios, uint32_t nr)
{
    for (uint32_t i = 0; i < nr; i++) {
        int r = fl_submit(queue, &ios[i]);

        if (r < 0)
            return r;
    }
    return fl_queue_poll(queue);
}

static void *run_loop(void *arg)
{
    fl_loop_run(arg);
    return NULL;
}

static void check(int r, const char *what, const struct fl_error *err)
{
    if (r >= 0)
        return;
    fprintf(stderr, "instructions: %s: %s\n", what, err && err->text[0] ? err->text : strerror(-r));
    exit(1);
}

static void find_port(void *arg, const struct fl_listener_info *info)
{
    snprintf(arg, 16, "%s", strrchr(info->url, ':') + 1);
}

static uint32_t number(const char *text, uint32_t max)
{
    unsigned long v = strtoul(text, NULL, 10);

    return v && v <= max ? (uint32_t)v : 0;
}

/* A UDP port and a hub that nobody else on this machine has: both ends meet in the process's own memory. */
static void use_own_hub(void)
{
    char text[64];

    snprintf(text, sizeof(text), "%d", 20000 + (int)getpid() % 12000);
    setenv("FARLANE_ROCE_PORT", text, 0);
    snprintf(text, sizeof(text), "farlane-instructions-%d", (int)getpid());
    setenv("FARLANE_HUB", text, 0);
}

int main(int argc, char **argv)
{
    static const struct fl_target_visitor visitor = {.listener = find_port};
    const struct fl_loop_options loop_options = {.poll = FL_POLL_BUSY, .cpu = -1};
    struct fl_target_options target_options = {.nr_loops = 1, .capsule_len = -1};
    struct fl_listener_spec spec;
    struct fl_subsystem *ss;
    struct fl_target *target;
    struct fl_loop *loop;
    struct fl_device *dev;
    struct fl_queue *queue;
    struct fl_error err = {0};
    struct fl_io ios[DEPTH];
    struct iovec iov[DEPTH];
    uint32_t id, nsid, bs, rounds, seed = 1;
    char url[256], port[16] = "";
    const char *query;
    pthread_t thread;
    bool write, rdma;
    uint8_t *buffers;

    if (argc != 5 || !(bs = number(argv[2], 1u << 20)) || !(rounds = number(argv[3], 100000))) {
        fprintf(stderr, "usage: instructions read|write BYTES ROUNDS none|digest|rdma\n"
                        "%u I/Os a round; for callgrind, see instructions.py\n",
                DEPTH);
        return 2;
    }
    write = !strcmp(argv[1], "write");
    query = !strcmp(argv[4], "digest") ? "&hdgst=1&ddgst=1" : "";
    rdma = !strcmp(argv[4], "rdma");
    use_own_hub();

    check(fl_loop_create(&loop_options, &loop), "loop", NULL);
    target_options.loops = &loop;
    check(fl_target_create(&target_options, &target, &err), "target", &err);
    check(fl_subsystem_add(target, &(struct fl_subsystem_options){.nqn = NQN, .allow_any_host = true}, &ss, &err), "subsystem", &err);
    check(fl_namespace_add(ss, &(struct fl_namespace_options){.spec = "ram:64M"}, &nsid, &err), "namespace", &err);
    check(fl_listener_spec_parse(rdma ? "rdma://127.0.0.1:0" : "tcp://127.0.0.1:0", &spec, &err), "listener", &err);
    check(fl_target_listen(target, &spec, &id, &err), "listener", &err);
    fl_target_visit(target, &visitor, port);
    snprintf(url, sizeof(url), "nvme+%s://127.0.0.1:%s/" NQN "?ns=1%s", rdma ? "rdma" : "tcp", port, query);

    check(pthread_create(&thread, NULL, run_loop, loop), "thread", NULL);
    check(fl_device_open(url, NULL, &dev, &err), url, &err);
    check(fl_queue_create(dev, DEPTH, &queue, &err), url, &err);
    fl_loop_stop(loop);
    pthread_join(thread, NULL);

    buffers = fl_shared_alloc(DEPTH * fl_round_up(bs, 4096));
    if (!buffers)
        return 1;
    for (uint32_t i = 0; i < DEPTH; i++) {
        iov[i] = (struct iovec){.iov_base = buffers + i * fl_round_up(bs, 4096), .iov_len = bs};
        memset(iov[i].iov_base, (int)i, bs);
    }
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < DEPTH; i++) {
            seed = seed * 1664525 + 1013904223;
            ios[i] = (struct fl_io){.op = write ? FL_IO_WRITE : FL_IO_READ, .off = (uint64_t)(seed >> 8) % (NS_LEN / bs) * bs,
                                    .len = bs, .iov = &iov[i], .nr_iov = 1, .done = done};
        }
        nr_done = 0;
        check(host_turn(queue, ios, DEPTH), "submit", NULL);
        while (nr_done < DEPTH) {
            target_turn(loop);
            check(host_turn(queue, ios, 0), "poll", NULL);
        }
    }
    printf("%u\n", rounds * DEPTH);
    /* The target's loop has no thread any more to say goodbye to: end here, without closing. */
    fflush(stdout);
    _Exit(0);
}
