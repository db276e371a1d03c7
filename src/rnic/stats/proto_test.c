/* SPDX-License-Identifier: Apache-2.0 */
/* Asking and being asked: pages, who may ask, and ends that do not keep to the rules. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit.h"
#include "rnic/hub/unix.h"
#include "rnic/stats/client.h"
#include "rnic/stats/server.h"

#define NR_QPS 75 /* more than two pages */

struct asked {
    char address[FL_STATS_ADDRESS_LEN];
    struct fl_stats_server *server;
    pthread_t thread;
    bool stop;
    uint32_t nr_gone, goes; /* as many queue pairs go, one a question */
};

static void name_of(const char *what, char address[FL_STATS_ADDRESS_LEN])
{
    snprintf(address, FL_STATS_ADDRESS_LEN, "farlane-stats-test-%d-%s", (int)getpid(), what);
}

static void source(void *arg, const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    struct asked *asked = arg;
    if (asked->goes) {
        asked->goes--;
        asked->nr_gone++;
    }
    a->nr_gone = asked->nr_gone;
    if (ask->what == FL_STATS_PROCESS) {
        a->nr = 1;
        a->process.nr_qps = NR_QPS;
        a->process.counters[FL_PROCESS_COUNTER_bad_icrc] = 3;
    } else if (ask->what == FL_STATS_DEVICES) {
        a->nr = 2;
        for (int i = 0; i < 2; i++) {
            snprintf(a->devices[i].name, sizeof(a->devices[i].name), "dev%d", i);
            a->devices[i].gone[FL_QP_COUNTER_tx_packets] = 1000;
        }
    } else {
        uint32_t qpn = ask->from;
        for (; qpn < NR_QPS && a->nr < FL_STATS_QPS_MAX; qpn++) {
            struct fl_stats_qp *qp = &a->qps[a->nr++];
            snprintf(qp->device, sizeof(qp->device), "dev%u", qpn % 2);
            qp->qpn = qpn;
            qp->counters[FL_QP_COUNTER_tx_packets] = qpn;
        }
        a->next = qpn < NR_QPS ? qpn : 0;
    }
}

static void *run(void *arg)
{
    struct asked *asked = arg;
    struct pollfd pfd = {.fd = fl_stats_server_fd(asked->server), .events = POLLIN};
    while (!__atomic_load_n(&asked->stop, __ATOMIC_ACQUIRE)) {
        if (poll(&pfd, 1, 20) > 0)
            fl_stats_server_run(asked->server);
    }
    return NULL;
}

static void start(struct asked *asked, const char *name)
{
    *asked = (struct asked){0};
    name_of(name, asked->address);
    assert_int_equal(fl_stats_server_open(asked->address, source, asked, &asked->server), 0);
    assert_int_equal(pthread_create(&asked->thread, NULL, run, asked), 0);
}

static void stop(struct asked *asked)
{
    __atomic_store_n(&asked->stop, true, __ATOMIC_RELEASE);
    pthread_join(asked->thread, NULL);
    fl_stats_server_close(asked->server);
}

static void all_pages_are_read(void **state)
{
    uint64_t counters[FL_NR_QP_COUNTERS], even = 0, odd = 0;
    struct fl_stats_view view;
    struct asked asked;
    start(&asked, "pages");
    assert_int_equal(fl_stats_view_get(asked.address, &view), 0);
    assert_int_equal(view.pid, getpid());
    assert_int_equal(view.process.counters[FL_PROCESS_COUNTER_bad_icrc], 3);
    assert_int_equal(view.nr_qps, NR_QPS);
    for (uint32_t i = 0; i < NR_QPS; i++) {
        assert_int_equal(view.qps[i].qpn, i);
        *(i % 2 ? &odd : &even) += i;
    }
    assert_int_equal(view.nr_devices, 2);
    fl_stats_sum(&view, &view.devices[0], counters);
    assert_int_equal(counters[FL_QP_COUNTER_tx_packets], 1000 + even);
    fl_stats_sum(&view, &view.devices[1], counters);
    assert_int_equal(counters[FL_QP_COUNTER_tx_packets], 1000 + odd);
    fl_stats_view_free(&view);
    stop(&asked);
    assert_int_equal(fl_stats_view_get(asked.address, &view), -ECONNREFUSED);
}

/* A queue pair that goes in between is counted neither twice nor never: asked again, until it is quiet. */
static void what_changes_is_asked_again(void **state)
{
    struct fl_stats_view view;
    struct asked asked;
    start(&asked, "changes");
    asked.goes = 3;
    assert_int_equal(fl_stats_view_get(asked.address, &view), 0);
    assert_int_equal(asked.goes, 0);
    assert_int_equal(view.nr_qps, NR_QPS); /* and not those of the first try as well */
    fl_stats_view_free(&view);
    stop(&asked);
}

static void silent_ones_make_room(void **state)
{
    struct fl_stats_view view;
    struct asked asked;
    int fds[32];
    start(&asked, "room");
    for (size_t i = 0; i < FL_ARRAY_LEN(fds); i++) {
        fds[i] = fl_hub_unix_connect(asked.address);
        assert_true(fds[i] >= 0);
    }
    assert_int_equal(fl_stats_view_get(asked.address, &view), 0);
    fl_stats_view_free(&view);
    for (size_t i = 0; i < FL_ARRAY_LEN(fds); i++)
        close(fds[i]);
    stop(&asked);
}

static void nonsense_ends_the_connection(void **state)
{
    struct fl_stats_ask ask = {.magic = FL_STATS_MAGIC + 1, .what = FL_STATS_PROCESS};
    struct asked asked;
    char byte;
    start(&asked, "nonsense");
    for (size_t len = 0; len <= 2 * sizeof(ask); len += sizeof(ask) / 2) {
        char bytes[2 * sizeof(ask)] = {0};
        int fd = fl_hub_unix_connect(asked.address);
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        memcpy(bytes, &ask, sizeof(ask));
        assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
        assert_int_equal(poll(&pfd, 1, 5000), 1);
        assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0);
        close(fd);
    }
    stop(&asked);
}

static void another_user_is_refused(void **state)
{
    struct asked asked;
    int status;
    if (geteuid())
        skip();
    start(&asked, "user");
    pid_t pid = fork();
    if (pid == 0) {
        struct fl_stats_view view;
        if (setgid(65534) || setuid(65534))
            _exit(1);
        for (int i = 0; i < 20; i++) { /* whether the question or the refusal comes first */
            if (fl_stats_view_get(asked.address, &view) != -EPERM || !view.pid)
                _exit(2);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    stop(&asked);
}

/* ---- a process that lies ---- */

struct liar {
    int listen_fd;
    pthread_t thread;
    void (*lie)(const struct fl_stats_ask *ask, struct fl_stats_answer *answer);
};

static void *tell_lies(void *arg)
{
    struct liar *liar = arg;
    struct fl_stats_answer *answer = calloc(1, sizeof(*answer));
    struct fl_stats_ask ask;
    struct pollfd pfd = {.fd = liar->listen_fd, .events = POLLIN};
    poll(&pfd, 1, 5000);
    int fd = accept(liar->listen_fd, NULL, NULL);
    while (recv(fd, &ask, sizeof(ask), 0) == sizeof(ask)) {
        memset(answer, 0, sizeof(*answer));
        *answer = (struct fl_stats_answer){.magic = FL_STATS_MAGIC, .what = ask.what};
        liar->lie(&ask, answer);
        send(fd, answer, sizeof(*answer), MSG_NOSIGNAL);
    }
    close(fd);
    free(answer);
    return NULL;
}

static int ask_liar(void (*lie)(const struct fl_stats_ask *, struct fl_stats_answer *),
                    struct fl_stats_view *view)
{
    char address[FL_STATS_ADDRESS_LEN];
    struct liar liar = {.lie = lie};
    name_of("liar", address);
    liar.listen_fd = fl_hub_unix_listen(address);
    assert_true(liar.listen_fd >= 0);
    assert_int_equal(pthread_create(&liar.thread, NULL, tell_lies, &liar), 0);
    int rc = fl_stats_view_get(address, view);
    pthread_join(liar.thread, NULL);
    close(liar.listen_fd);
    return rc;
}

static void too_many(const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    a->nr = UINT32_MAX;
}

static void no_end(const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    a->next = ask->from ? ask->from : 1;
}

static void many_devices(const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    a->nr = ask->what == FL_STATS_DEVICES ? FL_STATS_DEVICES_MAX : 0;
    a->next = ask->what == FL_STATS_DEVICES ? ask->from + 1 : 0;
}

static void something_else(const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    a->what = ask->what + 1;
}

static void no_errno(const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    a->status = INT32_MIN;
}

static void text_without_end(const struct fl_stats_ask *ask, struct fl_stats_answer *a)
{
    a->nr = 1;
    if (ask->what == FL_STATS_QPS)
        memset(&a->qps[0], 'x', sizeof(a->qps[0]));
    if (ask->what == FL_STATS_DEVICES)
        memset(&a->devices[0], 'x', sizeof(a->devices[0]));
}

static void lies_are_seen(void **state)
{
    struct fl_stats_view view;
    assert_int_equal(ask_liar(too_many, &view), -EPROTO);
    assert_int_equal(ask_liar(no_end, &view), -EPROTO);
    assert_int_equal(ask_liar(many_devices, &view), -EPROTO);
    assert_int_equal(ask_liar(something_else, &view), -EPROTO);
    assert_int_equal(ask_liar(no_errno, &view), -EPROTO);
    assert_int_equal(ask_liar(text_without_end, &view), 0);
    assert_int_equal(strlen(view.qps[0].device), sizeof(view.qps[0].device) - 1);
    assert_int_equal(strlen(view.qps[0].path), sizeof(view.qps[0].path) - 1);
    assert_int_equal(strlen(view.qps[0].how), sizeof(view.qps[0].how) - 1);
    assert_int_equal(strlen(view.qps[0].reason), sizeof(view.qps[0].reason) - 1);
    assert_int_equal(strlen(view.devices[0].name), sizeof(view.devices[0].name) - 1);
    assert_int_equal(strlen(view.devices[0].ifname), sizeof(view.devices[0].ifname) - 1);
    fl_stats_view_free(&view);
}

/* It listens, and is stopped. */
static void a_mute_process_costs_a_moment(void **state)
{
    char address[FL_STATS_ADDRESS_LEN];
    struct fl_stats_view view;
    uint64_t start_ns = fl_now_ns();
    name_of("mute", address);
    int fd = fl_hub_unix_listen(address);
    assert_true(fd >= 0);
    assert_int_equal(fl_stats_view_get(address, &view), -ETIMEDOUT);
    assert_int_equal(view.pid, getpid());
    assert_true(fl_now_ns() - start_ns < 15 * FL_NS_PER_S);
    close(fd);
}

static void no_hub_is_told(void **state)
{
    struct fl_stats_listed *list;
    struct fl_error err = {0};
    char name[FL_STATS_ADDRESS_LEN];
    name_of("none", name);
    assert_int_equal(fl_stats_list(name, 4791, &list, &err), -ENOENT);
    assert_non_null(strstr(err.text, "4791"));
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(all_pages_are_read), cmocka_unit_test(what_changes_is_asked_again),
                       cmocka_unit_test(silent_ones_make_room),
                       cmocka_unit_test(nonsense_ends_the_connection),
                       cmocka_unit_test(another_user_is_refused), cmocka_unit_test(lies_are_seen),
                       cmocka_unit_test(a_mute_process_costs_a_moment), cmocka_unit_test(no_hub_is_told));
}
