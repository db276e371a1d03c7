/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is registered and then unmapped: hardware has pinned it, we have not, so a peer's key would
 * open whatever is mapped there next. The kernel tells of such ranges (userfaultfd's events for unmapping and
 * moving); the owner of the keys closes them. The registered pages are only watched: no fault is ever taken.
 * Where the kernel or its policy has no userfaultfd, there is no guard, and nothing else changes.
 */
#ifndef FL_RNIC_GUARD_H
#define FL_RNIC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fl_guard;

/*
 * Called by the guard's own thread. begin() locks what gone() needs, and waits only for a short time for
 * that: the thread that unmaps goes on when it has been called, and may hold that lock. If it got the lock,
 * gone() is called for all ranges that are no longer what they were, and end(), before munmap() has returned;
 * else soon after.
 */
struct fl_guard_ops {
    bool (*begin)(void *arg);
    void (*gone)(void *arg, uintptr_t from, uintptr_t to);
    void (*end)(void *arg);
};

/* 0, or negative errno: there is no guard on this system. */
int fl_guard_create(const struct fl_guard_ops *ops, void *arg, struct fl_guard **guard);
void fl_guard_destroy(struct fl_guard *guard); /* NULL: nothing to do */
void fl_guard_forget(struct fl_guard *guard);  /* in the child of a fork: closes the descriptors, no more */

/* Any thread. Ranges may overlap, each del() takes back one add(). False: not watched, and not to be del()ed.
 */
bool fl_guard_add(struct fl_guard *guard, const void *addr, size_t len);
void fl_guard_del(struct fl_guard *guard, const void *addr, size_t len);

#endif
