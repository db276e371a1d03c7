/* SPDX-License-Identifier: Apache-2.0 */
/* Channels that are destroyed while another thread fetches events from them, as rping does it at its end */
#include <dirent.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "rnic/cma/test_bed.h"

#define NR_RACES 400

struct fetcher {
    pthread_t thread;
    struct rdma_event_channel *channel;
    pid_t tid;   /* atomic; 0: it has not begun */
    bool may_go; /* atomic */
    int result, error;
};

static void *fetch(void *arg)
{
    struct fetcher *f = arg;
    struct rdma_cm_event *event;
    __atomic_store_n(&f->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&f->may_go, __ATOMIC_ACQUIRE))
        sched_yield();
    f->result = fl_cma_get_cm_event(f->channel, &event);
    f->error = errno;
    return NULL;
}

static void start(struct fetcher *f, struct rdma_event_channel *channel, bool may_go)
{
    *f = (struct fetcher){.channel = channel, .may_go = may_go};
    assert_int_equal(pthread_create(&f->thread, NULL, fetch, f), 0);
    while (!__atomic_load_n(&f->tid, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void go(struct fetcher *f)
{
    __atomic_store_n(&f->may_go, true, __ATOMIC_RELEASE);
}

static bool ended(struct fetcher *f)
{
    void *value;
    assert_int_equal(pthread_join(f->thread, &value), 0);
    return value != PTHREAD_CANCELED;
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Until it sleeps in the kernel */
static void wait_asleep(const struct fetcher *f)
{
    uint64_t end = fl_now_ns() + WAIT_MS * FL_NS_PER_MS;
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)f->tid);
    while (!strstr(text, ") S")) {
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, text, sizeof(text) - 1);
        assert_true(n > 0 && fl_now_ns() < end);
        text[n] = '\0';
        close(fd);
    }
}

static void assert_untouched(int fd)
{
    uint64_t n = 0;
    assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
    assert_int_equal(n, 7);
}

/* As with the kernel it is told nothing, and can still be cancelled. */
static void who_sleeps_goes_on_sleeping(void **state)
{
    int nr = count_descriptors();
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct fetcher f;
    start(&f, channel, true);
    wait_asleep(&f);
    fl_cma_destroy_event_channel(channel);
    int other = eventfd(7, EFD_NONBLOCK); /* has the number now */
    assert_int_equal(pthread_cancel(f.thread), 0);
    assert_false(ended(&f));
    assert_untouched(other);
    close(other);
    assert_int_equal(count_descriptors(), nr);
}

/* However the two meet, what has the number next is left alone. */
static void the_number_may_be_used_again(void **state)
{
    for (int i = 0; i < NR_RACES; i++) {
        struct rdma_event_channel *channel = fl_cma_create_event_channel();
        struct fetcher f;
        int number = channel->fd;
        start(&f, channel, false);
        go(&f);
        for (int k = 0; k < i % 8; k++)
            sched_yield();
        fl_cma_destroy_event_channel(channel);
        int other = eventfd(7, EFD_NONBLOCK);
        while (other != number && other >= 0) { /* the thread has the number for itself */
            close(other);
            other = eventfd(7, EFD_NONBLOCK);
        }
        wait_asleep(&f);
        pthread_cancel(f.thread);
        assert_false(ended(&f));
        assert_untouched(other);
        close(other);
    }
}

static void who_comes_late_waits_for_the_end_of_the_process(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_event *event;
    struct fetcher f;
    start(&f, channel, false);
    uint64_t from = fl_now_ns();
    fl_cma_destroy_event_channel(channel);
    go(&f);
    assert_int_equal(fl_cma_get_cm_event(channel, &event), -1); /* the thread that did it */
    assert_int_equal(errno, EBADF);
    assert_true(ended(&f));
    assert_int_equal(f.result, -1);
    assert_int_equal(f.error, EBADF);
    assert_true(fl_now_ns() - from >= FL_CMA_LATE_NS);
    start(&f, channel, true); /* much too late */
    assert_true(ended(&f));
    assert_int_equal(f.error, EBADF);
}

static void who_never_sleeps_is_told(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_event *event;
    struct fetcher f;
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fl_cma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    start(&f, channel, false);
    fl_cma_destroy_event_channel(channel);
    assert_int_equal(fl_cma_channel_of(channel)->late_till, 0);
    go(&f);
    assert_true(ended(&f));
    assert_int_equal(f.error, EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sleeps_goes_on_sleeping),
        cmocka_unit_test(the_number_may_be_used_again),
        cmocka_unit_test(who_comes_late_waits_for_the_end_of_the_process),
        cmocka_unit_test(who_never_sleeps_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
