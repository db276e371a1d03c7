/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O queues over RDMA that end before they have begun, at any moment on the way: the host gives up, or the
 * target throws its queues out. Nothing is left of them at either end, and the next queue works.
 */
#include <stdlib.h>
#include <unistd.h>

#include <farlane/host.h>

#include "base/clock.h"
#include "fabric/rdma_domain.h"
#include "host/remote.h"
#include "real_target.h"
#include "target/core.h"

#define WAIT_NS (60 * FL_NS_PER_S)
#define ROUNDS  400

static void count_queues(struct real *t, void *arg)
{
    uint32_t *nr = arg;

    *nr = t->target->nr_queues;
}

/* Only those of the controller's own connection are left. */
static void wait_for_queues(struct real *t, uint32_t want)
{
    const uint64_t until = fl_now_ns() + WAIT_NS;
    uint32_t nr;

    do {
        if (fl_now_ns() > until)
            fail_msg("the target has %u queues, not %u", nr, want);
        usleep(1000);
        real_call(t, count_queues, &nr);
    } while (nr != want);
}

static struct fl_queue *a_queue(struct fl_device *dev)
{
    const uint64_t until = fl_now_ns() + WAIT_NS;
    struct fl_error err = {0};
    struct fl_queue *q;

    while (fl_queue_create(dev, 8, &q, &err) < 0)
        if (fl_now_ns() > until)
            fail_msg("%s", err.text);
    return q;
}

static void given_up_at_any_moment(void **state)
{
    struct real_options ro = {.capsule_len = -1, .transport = "rdma", .port = 4420, .nr_loops = 2};
    struct fl_device_options ho = {.connect_timeout_ms = 60000, .kato_ms = 60000, .io_timeout_ms = 60000};
    struct real *t = real_start(&ro);
    struct fl_device *dev;
    struct fl_error err = {0};
    struct fl_rdma_counts counts;
    uint32_t nr_failed = 0;

    if (fl_device_open(t->url, &ho, &dev, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < ROUNDS; i++) {
        struct fl_queue *q = NULL;

        fl_remote_of(dev)->connect_timeout_ms = (uint32_t)i % 12;
        fl_error_clear(&err);
        if (fl_queue_create(dev, 8, &q, &err) < 0) {
            nr_failed++;
            assert_true(strlen(err.text) > 10);
        } else {
            fl_queue_destroy(q);
        }
    }
    printf("%u of %d given up\n", nr_failed, ROUNDS);
    fl_remote_of(dev)->connect_timeout_ms = 60000;
    for (int i = 0; i < 3; i++) {
        struct fl_queue *q = a_queue(dev);
        uint8_t buf[4096];

        if (fl_read(q, buf, 0, sizeof(buf), &err) < 0)
            fail_msg("%s", err.text);
        fl_queue_destroy(q);
    }
    wait_for_queues(t, 1);
    fl_rdma_counts_get(&counts);
    assert_int_equal(counts.nr_temporary, 0);
    assert_true(nr_failed > 0);
    fl_device_close(dev);
    wait_for_queues(t, 0);
    real_end(t);
}

/* A UDP port and a hub that no other test has; not one that the kernel may give to a socket of another. */
static void set_up_rnic(void)
{
    char text[64];

    snprintf(text, sizeof(text), "%d", 20000 + (int)getpid() % 12000);
    setenv("FARLANE_ROCE_PORT", text, 1);
    snprintf(text, sizeof(text), "farlane-cut-%d", (int)getpid());
    setenv("FARLANE_HUB", text, 1);
}

int main(void)
{
    set_up_rnic();
    return FL_UNIT_RUN(cmocka_unit_test(given_up_at_any_moment));
}
