/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before a test forks: the RNIC's threads run under their names, and so are past what the C library and a
 * sanitizer do for a new thread. libasan does not hold its allocator's locks across a fork (GCC 12): a child
 * that is made while another thread is in there finds a lock that nobody gives back, and its own new threads
 * wait for it for ever. Later these threads allocate with locks held that a fork takes.
 */
#ifndef FL_RNIC_TEST_THREADS_H
#define FL_RNIC_TEST_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define THREADS_NS (20 * FL_NS_PER_S)

static inline bool has_name(int tid)
{
    char path[64], text[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
    FILE *f = fopen(path, "re");
    if (!f)
        return true; /* it has ended */
    if (!fgets(text, sizeof(text), f))
        text[0] = 0;
    fclose(f);
    return !strncmp(text, "farlane-", strlen("farlane-"));
}

#ifdef __SANITIZE_THREAD__ /* which has a thread of its own, without such a name */
#define HAS_STRANGERS true
#else
#define HAS_STRANGERS false
#endif

static inline bool are_threads_up(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    bool up = true;
    while (dir && up && (entry = readdir(dir))) {
        int tid = atoi(entry->d_name);
        up = tid <= 0 || tid == gettid() || has_name(tid);
    }
    if (dir)
        closedir(dir);
    return up;
}

/* In a process whose other threads are the RNIC's. False: not in time. */
static inline bool wait_for_threads(void)
{
    uint64_t end = fl_now_ns() + THREADS_NS;
    bool up;
    while (!(up = HAS_STRANGERS || are_threads_up()) && fl_now_ns() < end)
        usleep(1000);
    return up;
}

#endif
