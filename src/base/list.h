/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A doubly linked list through a member of its objects. The list owns nothing. An object that is on no list
 * points at itself, so fl_list_del may be called twice.
 */
#ifndef FL_BASE_LIST_H
#define FL_BASE_LIST_H

#include <stdbool.h>

#include "base/util.h"

struct fl_list {
    struct fl_list *next, *prev;
};

#define FL_LIST_INIT(name) \
    {                      \
        &(name), &(name)   \
    }

/* For the head and for each member, before first use. */
static inline void fl_list_init(struct fl_list *l)
{
    l->next = l->prev = l;
}

static inline bool fl_list_empty(const struct fl_list *head)
{
    return head->next == head;
}

/* True if the member is on some list. */
static inline bool fl_list_linked(const struct fl_list *member)
{
    return member->next != member;
}

static inline void fl_list_insert_between_(struct fl_list *m, struct fl_list *prev, struct fl_list *next)
{
    m->prev = prev;
    m->next = next;
    prev->next = m;
    next->prev = m;
}

static inline void fl_list_add_tail(struct fl_list *head, struct fl_list *member)
{
    fl_list_insert_between_(member, head->prev, head);
}

static inline void fl_list_add_head(struct fl_list *head, struct fl_list *member)
{
    fl_list_insert_between_(member, head, head->next);
}

static inline void fl_list_del(struct fl_list *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    fl_list_init(member);
}

/* Takes off the first member; NULL: empty. */
static inline struct fl_list *fl_list_pop(struct fl_list *head)
{
    struct fl_list *m = head->next;

    if (m == head)
        return NULL;
    fl_list_del(m);
    return m;
}

/* Appends all of `from` to `to`; `from` is empty afterwards. */
static inline void fl_list_splice(struct fl_list *to, struct fl_list *from)
{
    if (fl_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    fl_list_init(from);
}

#define FL_LIST_ENTRY(ptr, type, member) FL_CONTAINER_OF(ptr, type, member)

/* First object, or NULL. */
#define FL_LIST_FIRST(head, type, member) \
    (fl_list_empty(head) ? NULL : FL_LIST_ENTRY((head)->next, type, member))

/* `pos` is a pointer to the object; the body must not take it off the list. */
#define fl_list_for_each(pos, head, member)                                                         \
    for ((pos) = FL_LIST_ENTRY((head)->next, __typeof__(*(pos)), member); &(pos)->member != (head); \
         (pos) = FL_LIST_ENTRY((pos)->member.next, __typeof__(*(pos)), member))

/* The same when the body may take off or free `pos` (and nothing else). */
#define fl_list_for_each_safe(pos, tmp, head, member)                          \
    for ((pos) = FL_LIST_ENTRY((head)->next, __typeof__(*(pos)), member),      \
        (tmp) = FL_LIST_ENTRY((pos)->member.next, __typeof__(*(pos)), member); \
         &(pos)->member != (head);                                             \
         (pos) = (tmp), (tmp) = FL_LIST_ENTRY((tmp)->member.next, __typeof__(*(tmp)), member))

#endif
