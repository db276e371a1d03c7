/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: what may be locked, huge pages, how much can be mapped; open files. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "check.h"

/* Soft and hard of one line of /proc/self/limits; INT64_MAX: unlimited */
static int limit(const struct sys *sys, const char *name, int64_t *soft, int64_t *hard)
{
    char *text = sys_read_all(sys, "/proc/self/limits"), a[32], b[32];
    const char *line = text ? strstr(text, name) : NULL;
    int r = text ? -ENOENT : -errno;

    if (line && sscanf(line + strlen(name), "%31s %31s", a, b) == 2) {
        *soft = strcmp(a, "unlimited") ? strtoll(a, NULL, 10) : INT64_MAX;
        *hard = strcmp(b, "unlimited") ? strtoll(b, NULL, 10) : INT64_MAX;
        r = 0;
    }
    free(text);
    return r;
}

static const char *size_text(int64_t len, char text[FL_SIZE_TEXT_LEN])
{
    if (len != INT64_MAX)
        return fl_size_format((uint64_t)len, text);
    snprintf(text, FL_SIZE_TEXT_LEN, "unlimited");
    return text;
}

void check_mem_lock(struct doctor *d)
{
    char have[FL_SIZE_TEXT_LEN], most[FL_SIZE_TEXT_LEN], plan[FL_SIZE_TEXT_LEN], want[32];
    int64_t soft, hard;
    int r = limit(d->sys, "Max locked memory", &soft, &hard);

    if (r < 0) {
        report_unseen(d, "RLIMIT_MEMLOCK", r, "/proc/self/limits");
        return;
    }
    size_text(soft, have);
    size_text(hard, most);
    size_text((int64_t)d->plan_len, plan);
    snprintf(want, sizeof(want), "%" PRIu64, (d->plan_len + 1023) / 1024);
    if (sys_capable(d->sys, SYS_IPC_LOCK)) {
        report(d, LEVEL_OK, "RLIMIT_MEMLOCK", NULL,
               "this user may lock all memory (CAP_IPC_LOCK); the limit is %s", have);
        return;
    }
    report(d, (uint64_t)soft < d->plan_len ? LEVEL_BAD : LEVEL_OK, "RLIMIT_MEMLOCK", want,
           "%s may be locked (hard limit %s); planned are %s (--plan)", have, most, plan);
}

void check_mem_huge(struct doctor *d)
{
    struct sys_names names;
    char thp[SYS_TEXT_LEN];
    int64_t total = 0;

    sys_list(d->sys, &names, "/sys/kernel/mm/hugepages");
    for (int i = 0; i < names.nr; i++) {
        int64_t nr = 0, idle = 0;

        if (sys_number(d->sys, &nr, "/sys/kernel/mm/hugepages/%s/nr_hugepages", names.name[i]) < 0)
            continue;
        sys_number(d->sys, &idle, "/sys/kernel/mm/hugepages/%s/free_hugepages", names.name[i]);
        total += nr;
        if (nr)
            report(d, LEVEL_OK, names.name[i], NULL, "%lld huge pages, %lld free", (long long)nr,
                   (long long)idle);
    }
    sys_read(d->sys, thp, sizeof(thp), "/sys/kernel/mm/transparent_hugepage/enabled");
    if (!total && names.nr)
        report(d, LEVEL_HINT, "huge pages", NULL, "none are reserved; transparent ones: %s",
               thp[0] ? thp : "not built in");
}

void check_mem_overcommit(struct doctor *d)
{
    int64_t mode;

    if (!sys_number(d->sys, &mode, "/proc/sys/vm/overcommit_memory"))
        report(d, mode == 2 ? LEVEL_HINT : LEVEL_OK, "vm.overcommit_memory", NULL, "it is %lld",
               (long long)mode);
}

void check_mem_maps(struct doctor *d)
{
    int64_t max;

    if (!sys_number(d->sys, &max, "/proc/sys/vm/max_map_count"))
        report(d, max < 65530 ? LEVEL_HINT : LEVEL_OK, "vm.max_map_count", NULL, "it is %lld",
               (long long)max);
}

void check_mem_shm(struct doctor *d)
{
    char have[FL_SIZE_TEXT_LEN], whole[FL_SIZE_TEXT_LEN];
    uint64_t total = 0, left = 0;
    int r = SYS_ASK(d->sys, space, "/dev/shm", &total, &left);

    if (r < 0) {
        report(d, LEVEL_HINT, "/dev/shm", NULL, "not there: %s", strerror(-r));
        return;
    }
    size_text((int64_t)left, have);
    size_text((int64_t)total, whole);
    report(d, left < (64 << 20) ? LEVEL_SLOW : LEVEL_OK, "/dev/shm", NULL, "%s free of %s", have, whole);
}

void check_limit_files(struct doctor *d)
{
    int64_t soft, hard;
    int r = limit(d->sys, "Max open files", &soft, &hard);

    if (r < 0)
        report_unseen(d, "RLIMIT_NOFILE", r, "/proc/self/limits");
    else /* every queue of every host is a socket */
        report(d, soft < 4096 ? LEVEL_HINT : LEVEL_OK, "RLIMIT_NOFILE", NULL, "soft %lld, hard %lld",
               (long long)soft, (long long)hard);
}
