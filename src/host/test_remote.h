/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of devices and queues against the scripted target share. */
#ifndef FL_HOST_TEST_REMOTE_H
#define FL_HOST_TEST_REMOTE_H

#include "host/test_target.h"

#include <farlane/host.h>

#include "base/log.h"

static const struct fl_device_options quick = {
    .hostnqn = "nqn.2026-01.org.example:host",
    .kato_ms = 1000,
    .connect_timeout_ms = 2000,
    .reconnect_delay_ms = 100,
    .loss_timeout_ms = 10000,
};

#define PATIENCE_MS 20000 /* for what must come: a thread may have to wait for a CPU */

static inline struct fl_device *open_with(struct fake *f, const struct fl_device_options *o)
{
    struct fl_device *dev = NULL;
    struct fl_error err = {0};

    if (fl_device_open(f->url, o, &dev, &err) < 0)
        fail_msg("%s", err.text);
    return dev;
}

static inline struct fl_queue *queue_of(struct fl_device *dev, uint32_t depth)
{
    struct fl_queue *q = NULL;
    struct fl_error err = {0};

    if (fl_queue_create(dev, depth, &q, &err) < 0)
        fail_msg("%s", err.text);
    return q;
}

static inline void fill(uint8_t *p, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)(i * 13 + i / 509 + seed);
}

static inline bool wait_until(bool (*is)(void *), void *arg)
{
    uint64_t end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;

    while (!is(arg)) {
        if (fl_now_ns() > end)
            return false;
        usleep(1000);
    }
    return true;
}

struct counted {
    struct fl_io io;
    int nr, result;
};

static inline void counted_done(struct fl_io *io, int result)
{
    struct counted *c = FL_CONTAINER_OF(io, struct counted, io);

    c->nr++;
    c->result = result;
}

/* Polls until nothing is in flight of c[0..nr). */
static inline void settle(struct fl_queue *q, struct counted *c, int nr)
{
    uint64_t end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;

    for (int i = 0; i < nr; i++)
        while (!c[i].nr) {
            if (fl_now_ns() > end)
                fail_msg("I/O %d does not end", i);
            if (fl_queue_poll(q) == 0)
                fl_queue_wait(q, 5);
        }
}

static inline void submit_writes(struct fl_queue *q, struct counted *c, struct iovec *iov, uint8_t *buf,
                                 int nr)
{
    for (int i = 0; i < nr; i++) {
        iov[i] = (struct iovec){buf + i * 4096, 4096};
        c[i] = (struct counted){.io = {.op = FL_IO_WRITE,
                                       .off = (uint64_t)i * 4096,
                                       .len = 4096,
                                       .iov = &iov[i],
                                       .nr_iov = 1,
                                       .done = counted_done}};
        assert_int_equal(fl_submit(q, &c[i].io), 0);
    }
}

static inline void drop_message(void *arg, enum fl_log_level level, const char *text)
{
}

static inline void quiet_unless_asked(void)
{
    if (!getenv("FARLANE_LOG"))
        fl_log_set_sink(drop_message, NULL);
}

#endif
