/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mpsc.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/unit.h"

#define NR_SENDERS  3
#define NR_MESSAGES 20000

struct message {
    struct fl_mpsc_node node;
    int sender, number;
};

struct sender {
    struct fl_mpsc *q;
    struct message *messages;
    int index, wake_fd;
    uint64_t nr_wakes;
};

static void one_thread_keeps_order(void **state)
{
    struct message m[5];
    struct fl_mpsc q;

    fl_mpsc_init(&q);
    assert_true(fl_mpsc_empty(&q));
    assert_null(fl_mpsc_pop(&q));
    assert_true(fl_mpsc_push(&q, &m[0].node));
    assert_false(fl_mpsc_push(&q, &m[1].node));
    assert_ptr_equal(fl_mpsc_pop(&q), &m[0].node);
    assert_false(fl_mpsc_empty(&q));
    assert_true(fl_mpsc_push(&q, &m[2].node)); /* everything before has been taken over */
    assert_ptr_equal(fl_mpsc_pop(&q), &m[1].node);
    assert_ptr_equal(fl_mpsc_pop(&q), &m[2].node);
    assert_null(fl_mpsc_pop(&q));
    assert_true(fl_mpsc_empty(&q));
}

static void *send_all(void *arg)
{
    struct sender *s = arg;

    for (int i = 0; i < NR_MESSAGES; i++) {
        s->messages[i].sender = s->index;
        s->messages[i].number = i;
        if (fl_mpsc_push(s->q, &s->messages[i].node)) {
            uint64_t one = 1;

            s->nr_wakes++;
            if (write(s->wake_fd, &one, sizeof(one)) != sizeof(one))
                abort();
        }
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

/* The receiver sleeps whenever the queue is empty: a wake that is missed would leave it asleep for ever. */
static void senders_wake_a_receiver_that_sleeps(void **state)
{
    int wake_fd = eventfd(0, 0), next[NR_SENDERS] = {0}, got = 0;
    pthread_t threads[NR_SENDERS];
    struct sender senders[NR_SENDERS];
    struct fl_mpsc q;

    fl_mpsc_init(&q);
    for (int i = 0; i < NR_SENDERS; i++) {
        senders[i] = (struct sender){.q = &q, .index = i, .wake_fd = wake_fd};
        senders[i].messages = calloc(NR_MESSAGES, sizeof(struct message));
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    while (got < NR_SENDERS * NR_MESSAGES) {
        struct fl_mpsc_node *node = fl_mpsc_pop(&q);
        struct message *m = FL_CONTAINER_OF(node, struct message, node);
        uint64_t n;

        if (!node) {
            if (fl_mpsc_empty(&q))
                assert_int_equal(read(wake_fd, &n, sizeof(n)), sizeof(n));
            continue;
        }
        assert_int_equal(m->number, next[m->sender]++);
        got++;
    }
    for (int i = 0; i < NR_SENDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(senders[i].nr_wakes <= NR_MESSAGES);
        free(senders[i].messages);
    }
    assert_true(fl_mpsc_empty(&q));
    close(wake_fd);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(one_thread_keeps_order),
                       cmocka_unit_test(senders_wake_a_receiver_that_sleeps));
}
