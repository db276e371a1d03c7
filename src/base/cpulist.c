/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpulist.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/util.h"

static int malformed(const char *text, const char *at, struct fl_error *err)
{
    return fl_error_set(err, -EINVAL,
                        "CPU list \"%.80s\" is not understood at character %td: write it like 0-3,8", text,
                        at - text + 1);
}

static const char *parse_cpu(const char *s, uint32_t *cpu)
{
    uint32_t v = 0;

    if (!isdigit((unsigned char)*s))
        return NULL;
    for (; isdigit((unsigned char)*s) && v < FL_CPULIST_MAX; s++)
        v = v * 10 + (uint32_t)(*s - '0');
    *cpu = v;
    return s;
}

int fl_cpulist_parse(const char *text, struct fl_cpulist *list, struct fl_error *err)
{
    bool seen[FL_CPULIST_MAX] = {false};
    const char *s = text;

    list->nr = 0;
    for (;;) {
        uint32_t first, last;
        const char *end = parse_cpu(s, &first);

        if (!end)
            return malformed(text, s, err);
        last = first;
        if (*end == '-') {
            const char *second = end + 1;

            end = parse_cpu(second, &last);
            if (!end)
                return malformed(text, second, err);
        }
        if (first >= FL_CPULIST_MAX || last >= FL_CPULIST_MAX)
            return fl_error_set(err, -ERANGE, "CPU list \"%.80s\": CPUs go up to %d", text,
                                FL_CPULIST_MAX - 1);
        if (last < first)
            return fl_error_set(err, -EINVAL, "CPU list \"%.80s\": %u-%u runs backwards", text, first, last);
        for (uint32_t cpu = first; cpu <= last; cpu++) {
            if (seen[cpu])
                return fl_error_set(err, -EINVAL, "CPU list \"%.80s\" names CPU %u twice", text, cpu);
            seen[cpu] = true;
            list->cpu[list->nr++] = (uint16_t)cpu;
        }
        if (!*end)
            return 0;
        if (*end != ',')
            return malformed(text, end, err);
        s = end + 1;
    }
}

int fl_cpulist_format(const struct fl_cpulist *list, char *buf, size_t len)
{
    size_t at = 0;

    if (len)
        buf[0] = '\0';
    for (uint32_t i = 0; i < list->nr;) {
        uint32_t run = 1;
        int n;

        while (i + run < list->nr && list->cpu[i + run] == list->cpu[i] + run)
            run++;
        if (run > 2) {
            n = snprintf(at < len ? buf + at : NULL, at < len ? len - at : 0, "%s%u-%u", i ? "," : "",
                         list->cpu[i], list->cpu[i + run - 1]);
        } else {
            run = 1;
            n = snprintf(at < len ? buf + at : NULL, at < len ? len - at : 0, "%s%u", i ? "," : "",
                         list->cpu[i]);
        }
        at += (size_t)n;
        i += run;
    }
    return (int)at;
}
