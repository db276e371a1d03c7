/* SPDX-License-Identifier: Apache-2.0 */
/* Each end of a bench on a CPU and, where asked for, in a network namespace of its own: then packets cross a
 * veth pair, as between hosts. */
#ifndef FL_BENCH_APART_H
#define FL_BENCH_APART_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct apart { /* [0] client, [1] server */
    int cpus[2];
    const char *netns[2];   /* names as `ip netns` has them; NULL: where we are */
    const char *address[2]; /* IP address */
};

static inline void die(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* "A,B" into two strings; the text is changed. */
static inline int split_pair(char *text, const char *pair[2])
{
    char *comma = strchr(text, ',');

    if (!comma)
        return 0;
    *comma = 0;
    pair[0] = text;
    pair[1] = comma + 1;
    return 1;
}

static inline void stand_apart(const struct apart *a, int end)
{
    cpu_set_t set;
    char path[128];
    int fd;

    CPU_ZERO(&set);
    CPU_SET(a->cpus[end], &set);
    if (a->cpus[end] >= 0 && sched_setaffinity(0, sizeof(set), &set) < 0)
        die("sched_setaffinity");
    if (!a->netns[end])
        return;
    snprintf(path, sizeof(path), "/run/netns/%s", a->netns[end]);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        die(path);
    close(fd);
}

#endif
