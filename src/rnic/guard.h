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
 * [from, to) is no longer what it was. Called by the guard's own thread, with no lock held. False: not now (a
 * lock is taken); then it is called again soon. It must not wait: the thread that unmaps may hold the lock.
 */
typedef bool fl_guard_gone(void *arg, uintptr_t from, uintptr_t to);

/* 0, or negative errno: there is no guard on this system. */
int fl_guard_create(fl_guard_gone *gone, void *arg, struct fl_guard **guard);
void fl_guard_destroy(struct fl_guard *guard); /* NULL: nothing to do */
void fl_guard_forget(struct fl_guard *guard);  /* in the child of a fork: closes the descriptors, no more */

/* Any thread. Ranges may overlap, each del() takes back one add(). False: not watched, and not to be del()ed.
 */
bool fl_guard_add(struct fl_guard *guard, const void *addr, size_t len);
void fl_guard_del(struct fl_guard *guard, const void *addr, size_t len);

#endif
