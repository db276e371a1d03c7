/* SPDX-License-Identifier: Apache-2.0 */
/* The report for programs; the schema stands in farlane-doctor(1). */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* Text of a device may be anything; JSON is UTF-8 */
static json_t *text_json(const char *text)
{
    json_t *j = json_string(text);
    char *plain;

    if (j)
        return j;
    plain = strdup(text);
    for (char *p = plain; p && *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    j = plain ? json_string(plain) : NULL;
    free(plain);
    return j;
}

static json_t *or_null(const char *text)
{
    return text ? text_json(text) : json_null();
}

json_t *doctor_json(const struct doctor *d)
{
    json_t *all = json_array(), *counts = json_object();
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    for (size_t i = 0; i < d->nr_findings; i++) {
        const struct finding *f = &d->findings[i];

        json_array_append_new(
            all, json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:s, s:s}", "check", f->check->id, "level",
                           level_name(f->level), "sure", sure_name(f->sure), "subject", text_json(f->subject),
                           "evidence", text_json(f->evidence), "cause", or_null(f->cause), "remedy",
                           or_null(f->remedy), "what", f->check->what, "how", f->check->how));
    }
    for (int level = 0; level < NR_LEVELS; level++)
        json_object_set_new(counts, level_name((enum level)level),
                            json_integer((json_int_t)doctor_count(d, (enum level)level)));
    return json_pack("{s:i, s:o, s:s, s:I, s:o, s:o, s:o}", "version", 1, "host", text_json(host), "farlane",
                     FARLANE_VERSION, "time", (json_int_t)time(NULL), "peer", or_null(d->peer), "counts",
                     counts, "findings", all);
}
