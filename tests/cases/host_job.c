/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application of libfarlane for the cases of the host: writes that number themselves, at a depth, until
 * told to stop, through whatever happens to the connection meanwhile.
 *
 *   host_job URL DEPTH SECONDS KATO_MS FAST_FAIL_MS LOSS_MS RECONNECT_MS
 *
 * Each slot writes its own block again and again: slot number, count. At the end one line of JSON: what was
 * submitted, completed and failed, the largest latency, the states seen, and the count that each slot's block
 * must hold ("last": the last one acknowledged, "sent": the last one submitted).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <farlane/host.h>

#define MAX_DEPTH 128
#define LEN       4096

struct slot {
    struct fl_io io;
    struct iovec iov;
    uint64_t *buf;
    uint64_t sent, last, at_us;
    int in_flight;
};

static struct slot slots[MAX_DEPTH];
static uint64_t nr_submitted, nr_ok, nr_failed, nr_twice, worst_us;
static int first_error, last_error;

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void done(struct fl_io *io, int result)
{
    struct slot *s = io->user;
    uint64_t took = now_us() - s->at_us;

    if (!s->in_flight) {
        nr_twice++;
        return;
    }
    s->in_flight = 0;
    if (took > worst_us)
        worst_us = took;
    if (result == 0) {
        nr_ok++;
        s->last = s->sent;
        return;
    }
    nr_failed++;
    last_error = result;
    if (!first_error)
        first_error = result;
}

static int submit(struct fl_queue *q, struct slot *s, unsigned index)
{
    uint64_t count = s->sent + 1;
    int r;

    for (unsigned i = 0; i < LEN / sizeof(uint64_t); i += 2) {
        s->buf[i] = index;
        s->buf[i + 1] = count;
    }
    s->iov = (struct iovec){s->buf, LEN};
    s->io = (struct fl_io){.op = FL_IO_WRITE,
                           .off = (uint64_t)index * LEN,
                           .len = LEN,
                           .iov = &s->iov,
                           .nr_iov = 1,
                           .done = done,
                           .user = s};
    s->in_flight = 1;
    s->at_us = now_us();
    r = fl_submit(q, &s->io);
    if (r < 0) {
        s->in_flight = 0;
        return r;
    }
    s->sent = count;
    nr_submitted++;
    return 0;
}

/* The states, each once as it comes, without the numbers that change all the time. */
static void note_state(struct fl_device *dev, char *states, size_t cap)
{
    static char before[64];
    struct fl_device_info info;
    size_t len = strlen(states);

    fl_device_info(dev, &info);
    if (!strcmp(before, info.state))
        return;
    memcpy(before, info.state, sizeof(before));
    if (len + strlen(before) + 4 < cap)
        snprintf(states + len, cap - len, "%s%s", len ? "; " : "", before);
}

static int busy(unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        if (slots[i].in_flight)
            return 1;
    return 0;
}

static int work(struct fl_device *dev, struct fl_queue *q, unsigned depth, uint64_t seconds, char *states,
                size_t cap)
{
    uint64_t end = now_us() + seconds * 1000000, limit = end + 30000000;
    int r = 0;

    while (r >= 0 && (now_us() < end || (busy(depth) && now_us() < limit))) {
        for (unsigned i = 0; i < depth && now_us() < end; i++)
            if (!slots[i].in_flight && submit(q, &slots[i], i) < 0)
                break;
        r = fl_queue_poll(q);
        note_state(dev, states, cap);
        if (r == 0)
            fl_queue_wait(q, 20);
        usleep(2000); /* a load, not a measurement */
    }
    return r < 0 ? r : last_error == -ENODEV ? last_error : 0; /* polls tell of completions first */
}

static void report(unsigned depth, int lost, const char *states)
{
    printf("{\"submitted\": %llu, \"ok\": %llu, \"failed\": %llu, \"twice\": %llu, \"in_flight\": %d, "
           "\"error\": \"%s\", \"lost\": \"%s\", "
           "\"worst_us\": %llu, \"states\": \"%s\", \"slots\": [",
           (unsigned long long)nr_submitted, (unsigned long long)nr_ok, (unsigned long long)nr_failed,
           (unsigned long long)nr_twice, busy(depth), first_error ? strerror(-first_error) : "",
           lost ? strerror(-lost) : "", (unsigned long long)worst_us, states);
    for (unsigned i = 0; i < depth; i++)
        printf("%s[%llu, %llu]", i ? ", " : "", (unsigned long long)slots[i].last,
               (unsigned long long)slots[i].sent);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    struct fl_device_options o = {0};
    static char states[8192];
    struct fl_error err = {0};
    struct fl_device *dev;
    struct fl_queue *q;
    unsigned depth;
    int lost;

    if (argc != 8 || (depth = (unsigned)atoi(argv[2])) > MAX_DEPTH)
        return 2;
    o.kato_ms = (uint32_t)atoi(argv[4]);
    o.fast_fail_ms = (uint32_t)atoi(argv[5]);
    o.loss_timeout_ms = (uint32_t)atoi(argv[6]);
    o.reconnect_delay_ms = (uint32_t)atoi(argv[7]);
    if (fl_device_open(argv[1], &o, &dev, &err) < 0 || fl_queue_create(dev, depth, &q, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (unsigned i = 0; i < depth; i++)
        if (posix_memalign((void **)&slots[i].buf, 4096, LEN))
            return 1;
    printf("started\n");
    fflush(stdout);
    lost = work(dev, q, depth, (uint64_t)atoi(argv[3]), states, sizeof(states));
    fl_queue_destroy(q);
    note_state(dev, states, sizeof(states));
    report(depth, lost, states);
    fl_device_close(dev);
    for (unsigned i = 0; i < depth; i++)
        free(slots[i].buf);
    return 0;
}
