/* SPDX-License-Identifier: Apache-2.0 */
/* The connection breaks, or nothing is answered any more: against a scripted target on loopback sockets. */
#include "host/test_remote.h"

#include "host/remote_queue.h"

#define NR_KEPT 16

static void ios_survive_a_cut(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 64);
    uint8_t *buf = malloc(NR_KEPT * 4096);
    struct counted c[NR_KEPT];
    struct iovec iov[NR_KEPT];

    for (int round = 0; round < 10; round++) {
        fill(buf, NR_KEPT * 4096, (uint32_t)round * 3 + 1);
        fake_set(f->mute_io, 1);
        submit_writes(q, c, iov, buf, NR_KEPT);
        fl_queue_poll(q);
        if (round & 1)
            usleep(2000);
        fake_cut(f);
        fake_set(f->mute_io, 0);
        settle(q, c, NR_KEPT);
        for (int i = 0; i < NR_KEPT; i++) {
            assert_int_equal(c[i].nr, 1);
            assert_int_equal(c[i].result, 0);
        }
        assert_memory_equal(f->mem, buf, NR_KEPT * 4096);
    }
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
    free(buf);
}

static void queue_loss_alone_is_mended(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8), *other = queue_of(dev, 8);
    uint8_t buf[4096];
    struct fl_error err = {0};

    for (int i = 0; i < 5; i++) {
        fake_set(f->drop_count, 1); /* the target throws this one connection out */
        assert_int_equal(fl_write(q, buf, 0, 4096, &err), 0);
        assert_int_equal(fl_write(other, buf, 4096, 4096, &err), 0);
    }
    fl_queue_destroy(q);
    fl_queue_destroy(other);
    fl_device_close(dev);
    fake_end(f);
}

/* The target takes note of a closed queue after it is asked for another. */
static void closed_queue_that_is_still_held(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q;
    uint8_t buf[512];
    struct fl_error err = {0};
    uint16_t before = 0;

    for (int i = 0; i < 3; i++) {
        fake_set(f->held_count, i);
        q = queue_of(dev, 4);
        assert_int_not_equal(fl_remote_queue_of(q)->qid, before);
        before = fl_remote_queue_of(q)->qid;
        assert_int_equal(fl_write(q, buf, 0, 512, &err), 0);
        assert_int_equal(fake_get(f->held_count), 0);
        fl_queue_destroy(q);
    }
    fl_device_close(dev);
    fake_end(f);
}

static void unanswered_io_makes_the_queue_reconnect(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    struct counted c[1];
    struct iovec iov[1];
    uint8_t buf[4096];
    uint64_t start;

    o.io_timeout_ms = 200;
    dev = open_with(f, &o);
    q = queue_of(dev, 8);
    fake_set(f->mute_io, 1);
    submit_writes(q, c, iov, buf, 1);
    start = fl_now_ns();
    while (fake_get(f->nr_accepted) < 4 && fl_now_ns() - start < PATIENCE_MS * FL_NS_PER_MS) {
        if (fl_queue_poll(q) == 0)
            fl_queue_wait(q, 20);
    }
    assert_true(fl_now_ns() - start >= 200 * FL_NS_PER_MS);
    fake_set(f->mute_io, 0);
    settle(q, c, 1);
    assert_int_equal(c[0].result, 0);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static bool is_lost(void *arg)
{
    struct fl_device_info info;

    fl_device_info(arg, &info);
    return strcmp(info.state, "lost") == 0;
}

static bool is_live(void *arg)
{
    struct fl_device_info info;

    fl_device_info(arg, &info);
    return strcmp(info.state, "live") == 0;
}

/* Whatever must not happen in this case is far away. */
static const struct fl_device_options *with_times(struct fl_device_options *o, int result)
{
    o->kato_ms = 300;
    o->connect_timeout_ms = 500;
    o->fast_fail_ms = result == -ENOLINK ? 600 : result == 0 ? 100000 : 0;
    o->loss_timeout_ms = result == -ENODEV ? 600 : 100000;
    return o;
}

/*
 * H3 in small: the cable is pulled under load (the target takes all and answers nothing), which keep-alive
 * finds out. It is back once that was noticed, after the I/Os have failed fast, and not before it is given
 * up.
 */
static void case_H3_cable_pulled(void **state)
{
    static const int results[] = {0, -ENOLINK, -ENODEV};

    for (uint32_t k = 0; k < FL_ARRAY_LEN(results); k++) {
        struct fake *f = fake_start();
        struct fl_device_options o = quick;
        struct fl_device *dev;
        struct fl_queue *q;
        uint8_t *buf = malloc(NR_KEPT * 4096);
        struct counted c[NR_KEPT];
        struct iovec iov[NR_KEPT];
        struct fl_error err = {0};
        struct fl_device_info info;
        uint64_t end;

        dev = open_with(f, with_times(&o, results[k]));
        q = queue_of(dev, 32);
        fill(buf, NR_KEPT * 4096, k);
        fake_set(f->mute_io, 1);
        submit_writes(q, c, iov, buf, NR_KEPT);
        fl_queue_poll(q);
        usleep(1000);
        fake_set(f->mute, 1);
        end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;
        while (results[k] == -ENODEV ? !is_lost(dev) : results[k] ? !c[NR_KEPT - 1].nr : is_live(dev)) {
            assert_true(fl_now_ns() < end);
            if (fl_queue_poll(q) == 0)
                fl_queue_wait(q, 5);
        }
        fl_device_info(dev, &info);
        if (results[k] == -ENOLINK)
            assert_true(strncmp(info.state, "reconnecting: attempt ", 22) == 0 &&
                        strstr(info.state, " of 1001"));
        fake_set(f->mute, 0);
        fake_set(f->mute_io, 0);
        fake_cut(f);
        settle(q, c, NR_KEPT);
        for (int i = 0; i < NR_KEPT; i++) {
            assert_int_equal(c[i].nr, 1);
            assert_int_equal(c[i].result, results[k]);
        }
        if (results[k] == -ENODEV) {
            assert_int_equal(fl_read(q, buf, 0, 4096, &err), -ENODEV);
            assert_int_equal(fl_queue_poll(q), -ENODEV);
        } else {
            assert_true(wait_until(is_live, dev));
            while (fl_read(q, buf, 0, 4096, &err) == -ENOLINK)
                fl_error_clear(&err);
            assert_int_equal(err.code, 0);
        }
        fl_queue_destroy(q);
        fl_device_close(dev);
        fake_end(f);
        free(buf);
    }
}

/* H1: one dead target among four delays none of the others. */
static void case_H1_one_dead_target(void **state)
{
    struct fake *f[4];
    struct fl_device *dev[4];
    struct fl_queue *q[4];
    struct fl_device_options o = quick;
    uint8_t buf[4096];
    uint64_t start, worst = 0;
    int before[4];

    o.kato_ms = 1000;
    o.connect_timeout_ms = 10000;
    for (int i = 0; i < 4; i++) {
        f[i] = fake_start();
        dev[i] = open_with(f[i], &o);
        q[i] = queue_of(dev[i], 4);
        before[i] = fake_get(f[i]->nr_accepted);
    }
    fake_set(f[0]->mute, 1); /* accepts, and never answers again: each attempt hangs until its time-out */
    start = fl_now_ns();
    while (fl_now_ns() - start < 3000 * FL_NS_PER_MS) {
        for (int i = 1; i < 4; i++) {
            uint64_t t = fl_now_ns();
            struct fl_error err = {0};

            if (fl_read(q[i], buf, 0, 4096, &err) < 0)
                fail_msg("%s", err.text);
            worst = FL_MAX(worst, fl_now_ns() - t);
        }
        usleep(1000);
    }
    assert_false(is_live(dev[0]));
    for (int i = 1; i < 4; i++) {
        assert_true(is_live(dev[i]));
        assert_int_equal(fake_get(f[i]->nr_accepted), before[i]);
        assert_true(fake_get(f[i]->nr_keep_alives) >= 4);
    }
    assert_true(worst <
                4 * FL_NS_PER_S); /* far below an attempt's time-out, far above a busy machine's hiccups */
    for (int i = 0; i < 4; i++) {
        fl_queue_destroy(q[i]);
        fl_device_close(dev[i]);
        fake_end(f[i]);
    }
}

/* H1, the other way to be dead: an address that does not even take the connection. */
static void case_H1_connect_that_hangs(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick), *dead;
    struct fl_queue *q = queue_of(dev, 4);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fds[8], lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), before = fake_get(f->nr_keep_alives);
    struct fl_device_options o = quick;
    struct fl_error err = {0};
    char url[128];
    uint8_t buf[512];
    uint64_t start;

    assert_int_equal(bind(lfd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(lfd, 0), 0);
    getsockname(lfd, (struct sockaddr *)&a, &len);
    for (int i = 0; i < 8; i++) { /* nobody accepts: the queue is full soon, and then nothing is answered */
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fds[i], (struct sockaddr *)&a, sizeof(a));
    }
    snprintf(url, sizeof(url), "nvme+tcp://127.0.0.1:%u/" FAKE_NQN "?ns=1", ntohs(a.sin_port));
    o.connect_timeout_ms = 3000;
    start = fl_now_ns();
    assert_int_equal(fl_device_open(url, &o, &dead, &err), -ETIMEDOUT);
    assert_true(strstr(err.text, "TCP connect") != NULL);
    assert_true(fl_now_ns() - start < 10 * FL_NS_PER_S);
    assert_true(fake_get(f->nr_keep_alives) - before >= 2); /* of 500 ms each, meanwhile */
    assert_int_equal(fake_get(f->nr_accepted), 2);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    close(lfd);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

/* T3: nothing but keep-alive decides. A quiet queue and a slow command outlast every time-out of the set-up.
 */
static void case_T3_quiet_and_slow(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    uint8_t buf[512];
    struct fl_error err = {0};

    o.connect_timeout_ms = 1000;
    o.kato_ms = 1000;
    dev = open_with(f, &o);
    q = queue_of(dev, 4);
    usleep(1500000);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), 0);
    fake_set(f->delay_ms, 1500);
    assert_int_equal(fl_write(q, buf, 0, 512, &err), 0);
    assert_int_equal(fake_get(f->nr_accepted), 2);
    assert_true(fake_get(f->nr_keep_alives) >= 4);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void another_namespace_is_not_taken_for_ours(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 4);
    uint8_t buf[512];
    struct fl_error err = {0};

    fake_down(f);
    fake_set(f->uuid0, 8);
    fake_listen(f);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), -ENODEV);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

int main(void)
{
    quiet_unless_asked();
    return FL_UNIT_RUN(cmocka_unit_test(ios_survive_a_cut), cmocka_unit_test(queue_loss_alone_is_mended),
                       cmocka_unit_test(closed_queue_that_is_still_held),
                       cmocka_unit_test(unanswered_io_makes_the_queue_reconnect),
                       cmocka_unit_test(case_H3_cable_pulled), cmocka_unit_test(case_H1_one_dead_target),
                       cmocka_unit_test(case_H1_connect_that_hangs), cmocka_unit_test(case_T3_quiet_and_slow),
                       cmocka_unit_test(another_namespace_is_not_taken_for_ours));
}
