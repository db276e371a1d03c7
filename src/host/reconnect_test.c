/* SPDX-License-Identifier: Apache-2.0 */
/* What a device does when its target has gone, and how long for: against a scripted target. */
#include "host/test_target.h"

#include <farlane/host.h>

#include "base/log.h"
#include "host/remote_queue.h"

#define PATIENCE_MS 20000 /* a guard only, for busy machines */

static const struct fl_device_options quick = {
    .hostnqn = "nqn.2026-01.org.example:host",
    .kato_ms = 1000,
    .connect_timeout_ms = 5000,
    .reconnect_delay_ms = 50,
    .loss_timeout_ms = 60000,
};

/* What was logged at warning and above. */
static struct {
    pthread_mutex_t lock;
    char text[32][1024];
    int nr;
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep_message(void *arg, enum fl_log_level level, const char *text)
{
    pthread_mutex_lock(&said.lock);
    if (level <= FL_LOG_WARN && said.nr < 32)
        snprintf(said.text[said.nr++], sizeof(said.text[0]), "%s", text);
    pthread_mutex_unlock(&said.lock);
}

static int count_messages(const char *words)
{
    int nr = 0;

    pthread_mutex_lock(&said.lock);
    for (int i = 0; i < said.nr; i++)
        nr += strstr(said.text[i], words) != NULL;
    pthread_mutex_unlock(&said.lock);
    return nr;
}

static void forget_messages(void)
{
    pthread_mutex_lock(&said.lock);
    said.nr = 0;
    pthread_mutex_unlock(&said.lock);
}

static struct fl_device *open_with(struct fake *f, const struct fl_device_options *o)
{
    struct fl_device *dev = NULL;
    struct fl_error err = {0};

    if (fl_device_open(f->url, o, &dev, &err) < 0)
        fail_msg("%s", err.text);
    return dev;
}

static struct fl_queue *queue_of(struct fl_device *dev)
{
    struct fl_queue *q = NULL;
    struct fl_error err = {0};

    if (fl_queue_create(dev, 8, &q, &err) < 0)
        fail_msg("%s", err.text);
    return q;
}

/* How long it took. */
static uint32_t wait_for_state(struct fl_device *dev, const char *state)
{
    uint64_t start = fl_now_ns();
    struct fl_device_info info;

    for (;;) {
        fl_device_info(dev, &info);
        if (strcmp(info.state, state) == 0)
            return (uint32_t)((fl_now_ns() - start) / FL_NS_PER_MS);
        if (fl_now_ns() - start > PATIENCE_MS * FL_NS_PER_MS)
            fail_msg("it is '%s' and does not get '%s'", info.state, state);
        usleep(500);
    }
}

static void check_lost_for(struct fl_device *dev, struct fl_queue *q, const char *why, int code)
{
    struct fl_device_info info;
    struct fl_error err = {0};
    struct fl_queue *second;
    uint8_t buf[512];

    fl_device_info(dev, &info);
    assert_non_null(strstr(info.reason, why));
    assert_int_equal(info.reason_code, code);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), -ENODEV);
    assert_non_null(strstr(err.text, why));
    fl_error_clear(&err);
    assert_int_equal(fl_queue_create(dev, 8, &second, &err), -ENODEV);
    assert_non_null(strstr(err.text, why));
}

/* The host was taken from the allow-list, the subsystem was removed: the target says so, and not to try
 * again. */
static void refusal_for_good_ends_it_at_once(void **state)
{
    static const struct {
        int status;
        uint32_t dw0;
        const char *text;
        int code;
    } cases[] = {
        {FL_NVME_SC_CONNECT_INVALID_HOST | FL_NVME_DNR, 0,
         "does not allow this host, nqn.2026-01.org.example:host", -EACCES},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 0x10100, "has no subsystem " FAKE_NQN, -ENOENT},
    };

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fake *f = fake_start();
        struct fl_device *dev = open_with(f, &quick);
        struct fl_queue *q = queue_of(dev);
        int before = fake_get(f->nr_accepted);

        forget_messages();
        f->connect_dw0 = cases[i].dw0;
        fake_set(f->connect_status, cases[i].status);
        fake_cut(f);
        wait_for_state(dev, "lost");
        usleep(200000);
        assert_int_equal(fake_get(f->nr_accepted), before + 1);
        assert_int_equal(count_messages("given up as lost: the target refuses to take this host back"), 1);
        assert_int_equal(count_messages(cases[i].text), 1);
        check_lost_for(dev, q, cases[i].text, cases[i].code);
        fl_queue_destroy(q);
        fl_device_close(dev);
        fake_end(f);
    }
}

static void refusal_that_may_pass_is_tried_again(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_device_info info;
    int before = fake_get(f->nr_accepted);

    fake_set(f->connect_status, FL_NVME_SC_CONNECT_CTRL_BUSY);
    fake_cut(f);
    while (fake_get(f->nr_accepted) < before + 4)
        usleep(1000);
    fl_device_info(dev, &info);
    assert_non_null(strstr(info.state, "reconnecting"));
    assert_non_null(strstr(info.reason, "busy"));
    fake_set(f->connect_status, 0);
    wait_for_state(dev, "live");
    fl_device_info(dev, &info);
    assert_string_equal(info.reason, "");
    assert_int_equal(info.reason_code, 0);
    fl_device_close(dev);
    fake_end(f);
}

static void cause_is_told_once(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    int before;

    for (int round = 1; round <= 2; round++) { /* of each loss */
        forget_messages();
        before = fake_get(f->nr_accepted);
        fake_set(f->connect_status, FL_NVME_SC_CONNECT_CTRL_BUSY);
        fake_cut(f);
        while (fake_get(f->nr_accepted) < before + 6)
            usleep(1000);
        fake_set(f->connect_status, 0);
        wait_for_state(dev, "live");
        assert_int_equal(count_messages("to reconnect failed"), 1);
        assert_int_equal(count_messages("attempt 1 to reconnect failed: the target refused Connect"), 1);
        for (int i = 0; i < 2000 && !count_messages("reconnected at attempt"); i++) /* it follows the state */
            usleep(1000);
        assert_int_equal(count_messages("reconnected at attempt"), 1);
        usleep(100000); /* no longer a target that lets in and throws out at once */
    }
    fl_device_close(dev);
    fake_end(f);
}

/* H3: an attempt that hangs must not outlast the time after which the target is given up. */
static void case_H3_loss_time_bounds_an_attempt(void **state)
{
    for (int listening = 0; listening < 2; listening++) {
        struct fake *f = fake_start();
        struct fl_device_options o = quick;
        struct fl_device *dev;
        struct fl_queue *q;
        uint32_t ms;

        o.loss_timeout_ms = 700;
        o.connect_timeout_ms = 15000;
        dev = open_with(f, &o);
        q = queue_of(dev);
        if (listening)
            fake_set(f->mute, 1); /* takes the connection and says nothing */
        else
            fake_set(f->admin_delay_ms, 15000); /* answers ICReq, and nothing after it */
        fake_cut(f);
        ms = wait_for_state(dev, "lost");
        assert_in_range(ms, 400, 6000);
        check_lost_for(dev, q, "no answer to", -ETIMEDOUT);
        fake_set(f->admin_delay_ms, 0);
        fl_queue_destroy(q);
        fl_device_close(dev);
        fake_end(f);
    }
}

/* An attempt as a whole may take long: what counts is how long the target leaves a command without answer. */
static void slow_answers_are_not_silence(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    uint64_t start = fl_now_ns();
    struct fl_device *dev;

    o.connect_timeout_ms = 5000;
    fake_set(f->admin_delay_ms, 600);
    dev = open_with(f, &o);
    assert_true(fl_now_ns() - start > 5000 * FL_NS_PER_MS);
    fake_set(f->admin_delay_ms, 0);
    fl_device_close(dev);
    fake_end(f);
}

static void *burn(void *arg)
{
    while (!fake_get(*(int *)arg))
        ;
    return NULL;
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* Connections that go and come while other threads take the processors, so that every step of a reconnect is
 * cut in two by a pause at some time. A wake-up that is lost shows as a wait for the time-out, which is far
 * longer than all of this. */
static void no_wake_up_is_lost(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    pthread_t burner[3];
    int stop = 0, nr_cuts = 0;
    uint64_t end;

    o.connect_timeout_ms = o.io_timeout_ms = 600000;
    o.kato_ms = 600000;
    o.reconnect_delay_ms = 1;
    dev = open_with(f, &o);
    q = queue_of(dev);
    for (uint32_t i = 0; i < FL_ARRAY_LEN(burner); i++)
        pthread_create(&burner[i], NULL, burn, &stop);
    end = fl_now_ns() + 2 * FL_NS_PER_S;
    for (; fl_now_ns() < end; nr_cuts++) {
        struct fl_error err = {0};
        uint8_t buf[512];

        fake_cut(f);
        wait_for_state(dev, "live");
        if (fl_read(q, buf, 0, 512, &err) < 0)
            fail_msg("%s", err.text);
    }
    fake_set(stop, 1);
    for (uint32_t i = 0; i < FL_ARRAY_LEN(burner); i++)
        pthread_join(burner[i], NULL);
    assert_true(nr_cuts > 0);
    wait_for_state(dev, "live");
    while (fl_queue_poll(q) == 0 && fl_remote_queue_of(q)->state != FL_RQ_LIVE)
        fl_queue_wait(q, 100);
    assert_false(
        is_readable(fl_remote_queue_of(q)->wake_fd)); /* or a healthy queue would never sleep again */
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

/* The controller's own connection says nothing of the way that the data of its I/O queues goes. */
static void path_is_that_of_io_queues(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_remote *r = fl_remote_of(dev);
    struct fl_queue *q[2] = {queue_of(dev), queue_of(dev)};
    struct fl_device_info info;

    pthread_mutex_lock(&r->lock);
    r->taken.path = FL_PATH_HARDWARE;
    fl_remote_queue_of(q[0])->taken.path = FL_PATH_UDP;
    fl_remote_queue_of(q[1])->taken.path = FL_PATH_SHM;
    pthread_mutex_unlock(&r->lock);
    fl_device_info(dev, &info);
    assert_string_equal(info.path, "udp");
    fl_queue_destroy(q[0]);
    fl_device_info(dev, &info);
    assert_string_equal(info.path, "shm");
    fl_queue_destroy(q[1]);
    fl_device_info(dev, &info);
    assert_string_equal(info.path, "hardware");
    fl_device_close(dev);
    fake_end(f);
}

int main(void)
{
    fl_log_set_sink(keep_message, NULL);
    return FL_UNIT_RUN(cmocka_unit_test(refusal_for_good_ends_it_at_once),
                       cmocka_unit_test(refusal_that_may_pass_is_tried_again),
                       cmocka_unit_test(cause_is_told_once),
                       cmocka_unit_test(case_H3_loss_time_bounds_an_attempt),
                       cmocka_unit_test(slow_answers_are_not_silence), cmocka_unit_test(no_wake_up_is_lost),
                       cmocka_unit_test(path_is_that_of_io_queues));
}
