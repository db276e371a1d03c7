/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from many threads to one, without a lock: the way from loop to loop. Messages of one sender arrive
 * in the order in which they were pushed. The queue holds no memory: a message carries a struct fl_mpsc_node
 * and belongs to the queue between push and pop.
 *
 * Push returns true when the queue was empty for the receiver: only then need it be woken. The receiver may
 * go to sleep after fl_mpsc_empty said true: whoever pushes after that gets true and wakes it.
 */
#ifndef FL_BASE_MPSC_H
#define FL_BASE_MPSC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/util.h"

struct fl_mpsc_node {
    struct fl_mpsc_node *next;
};

struct fl_mpsc {
    struct fl_mpsc_node *incoming; /* newest first; shared by all, atomic */
    /* The receiver's own, on a line that senders do not write to. */
    struct fl_mpsc_node *ready __attribute__((aligned(FL_CACHE_LINE))); /* oldest first */
};

static inline void fl_mpsc_init(struct fl_mpsc *q)
{
    q->incoming = q->ready = NULL;
}

/* Any thread. */
static inline bool fl_mpsc_push(struct fl_mpsc *q, struct fl_mpsc_node *node)
{
    struct fl_mpsc_node *head = __atomic_load_n(&q->incoming, __ATOMIC_RELAXED);

    /* Release: what is in the message, and in those that `next` leads to, is seen by the exchange in pop. */
    do
        node->next = head;
    while (!__atomic_compare_exchange_n(&q->incoming, &head, node, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return !head;
}

/* The receiver. The oldest message, or NULL. */
static inline struct fl_mpsc_node *fl_mpsc_pop(struct fl_mpsc *q)
{
    struct fl_mpsc_node *node = q->ready;

    if (!node) {
        struct fl_mpsc_node *in;

        /* An exchange costs a locked access: not when there is nothing, which is the usual case while
         * polling. */
        if (!__atomic_load_n(&q->incoming, __ATOMIC_RELAXED))
            return NULL;
        /* All are taken at once, hence no ABA: nobody compares with a node that may have come back. */
        in = __atomic_exchange_n(&q->incoming, NULL, __ATOMIC_ACQUIRE);
        while (in) {
            struct fl_mpsc_node *next = in->next;

            in->next = node;
            node = in;
            in = next;
        }
        if (!node)
            return NULL;
    }
    q->ready = node->next;
    return node;
}

/* The receiver. */
static inline bool fl_mpsc_empty(const struct fl_mpsc *q)
{
    return !q->ready && !__atomic_load_n(&q->incoming, __ATOMIC_ACQUIRE);
}

#endif
