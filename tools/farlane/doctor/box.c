/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the container or service that this process runs in: control groups, seccomp, Yama. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The folder of this process in a hierarchy: version 2, or version 1's `controller`; also inside a cgroup
 * namespace */
static bool group_of(const struct sys *sys, const char *controller, char *folder, size_t len)
{
    char *text = sys_read_all(sys, "/proc/self/cgroup"), *save = NULL;
    bool found = false;

    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = 0;
        list++;
        if (!controller ? *list == 0 : !strcmp(list, controller)) {
            int n = controller ? snprintf(folder, len, "/sys/fs/cgroup/%s%s", controller, path)
                               : snprintf(folder, len, "/sys/fs/cgroup%s", path);

            found = n > 0 && (size_t)n < len;
            if (n > 0 && (size_t)n < len && folder[n - 1] == '/')
                folder[n - 1] = 0;
        }
    }
    free(text);
    return found;
}

/*
 * The least value of a limit's file from this group up to the root of what is mounted, INT64_MAX: no limit.
 * The folder where it was found stays in `at`.
 */
static int least(const struct sys *sys, const char *folder, const char *file, int64_t *value, char *at,
                 size_t len)
{
    char path[PATH_MAX];
    int r = -ENOENT;

    *value = INT64_MAX;
    snprintf(path, sizeof(path), "%s", folder);
    while (strlen(path) >= strlen("/sys/fs/cgroup")) {
        char text[64];

        if (sys_read(sys, text, sizeof(text), "%s/%s", path, file) > 0) {
            int64_t v = strncmp(text, "max", 3) ? strtoll(text, NULL, 10) : INT64_MAX;

            r = 0;
            if (v < *value) {
                *value = v;
                snprintf(at, len, "%s", path);
            }
        }
        *strrchr(path, '/') = 0;
    }
    return r;
}

static bool limit_of(const struct sys *sys, const char *file2, const char *controller, const char *file1,
                     int64_t *value, char at[PATH_MAX])
{
    char folder[PATH_MAX - 64];

    at[0] = 0;
    if (group_of(sys, NULL, folder, sizeof(folder)) && !least(sys, folder, file2, value, at, PATH_MAX))
        return true;
    return file1 && group_of(sys, controller, folder, sizeof(folder)) &&
           !least(sys, folder, file1, value, at, PATH_MAX);
}

/* Version 1 tells "no limit" as the largest number of pages */
static bool is_no_limit(int64_t value)
{
    return value >= INT64_MAX / 2;
}

void check_box_memory(struct doctor *d)
{
    char at[PATH_MAX];
    int64_t value;

    if (!limit_of(d->sys, "memory.max", "memory", "memory.limit_in_bytes", &value, at))
        return;
    if (is_no_limit(value))
        report(d, LEVEL_OK, "memory", NULL, "the control group has no limit of memory");
    else
        report(d, (uint64_t)value < d->plan_len ? LEVEL_BAD : LEVEL_OK, "memory", at,
               "%lld MiB allowed by %s, %llu MiB planned (--plan)", (long long)value >> 20, at,
               (unsigned long long)d->plan_len >> 20);
}

void check_box_pids(struct doctor *d)
{
    char at[PATH_MAX];
    int64_t value;

    if (!limit_of(d->sys, "pids.max", "pids", "pids.max", &value, at))
        return;
    if (is_no_limit(value))
        report(d, LEVEL_OK, "tasks", NULL, "the control group has no limit of tasks");
    else
        report(d, value < 64 ? LEVEL_BAD : LEVEL_OK, "tasks", at, "%lld tasks allowed by %s",
               (long long)value, at);
}

void check_box_cpu(struct doctor *d)
{
    char folder[PATH_MAX - 64], text[64];
    int64_t quota = -1, period = 100000, throttled = 0;
    char *stat;

    if (group_of(d->sys, NULL, folder, sizeof(folder)) &&
        sys_read(d->sys, text, sizeof(text), "%s/cpu.max", folder) > 0) {
        long long q, p;

        if (sscanf(text, "%lld %lld", &q, &p) == 2 && p > 0) {
            quota = q;
            period = p;
        }
    } else if (group_of(d->sys, "cpu", folder, sizeof(folder)) ||
               group_of(d->sys, "cpu,cpuacct", folder, sizeof(folder))) {
        sys_number(d->sys, &quota, "%s/cpu.cfs_quota_us", folder);
        sys_number(d->sys, &period, "%s/cpu.cfs_period_us", folder);
    } else {
        return;
    }
    if (quota <= 0 || period <= 0) {
        report(d, LEVEL_OK, "CPU", NULL, "the control group has no quota of CPU time");
        return;
    }
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cpu.stat", folder);
    stat = sys_read_all(d->sys, path);
    if (stat)
        sys_field(stat, "nr_throttled ", &throttled);
    free(stat);
    report(d, throttled ? LEVEL_SLOW : LEVEL_HINT, "CPU", folder,
           "%.2f CPUs allowed; stopped %lld times for having used them up", (double)quota / (double)period,
           (long long)throttled);
}

void check_box_rdma(struct doctor *d)
{
    char folder[PATH_MAX - 64], text[SYS_TEXT_LEN];

    if (!group_of(d->sys, NULL, folder, sizeof(folder)) ||
        sys_read(d->sys, text, sizeof(text), "%s/rdma.max", folder) < 0)
        return;
    for (char *p = text; *p; p++)
        if (*p == '\n')
            *p = ';';
    report(d, strstr(text, "hca_object=0") || strstr(text, "hca_handle=0") ? LEVEL_BAD : LEVEL_OK, "RDMA",
           folder, "rdma.max: %s", text[0] ? text : "no limit");
}

void check_box_uring(struct doctor *d)
{
    int64_t disabled = 0;
    int r;

    sys_number(d->sys, &disabled, "/proc/sys/kernel/io_uring_disabled");
    r = SYS_ASK(d->sys, uring);
    if (r == -EOPNOTSUPP)
        report_unseen(d, "io_uring", r, "a ring");
    else if (r < 0)
        report(d, LEVEL_SLOW, "io_uring", NULL,
               "a ring could not be set up: %s; kernel.io_uring_disabled is %lld", strerror(-r),
               (long long)disabled);
    else
        report(d, LEVEL_OK, "io_uring", NULL, "a ring could be set up");
}

void check_box_ptrace(struct doctor *d)
{
    int64_t scope;

    if (!sys_number(d->sys, &scope, "/proc/sys/kernel/yama/ptrace_scope"))
        report(d, scope ? LEVEL_HINT : LEVEL_OK, "kernel.yama.ptrace_scope", NULL, "it is %lld",
               (long long)scope);
}
