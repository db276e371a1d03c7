/* SPDX-License-Identifier: Apache-2.0 */
/* The remedies as a script for people to read, and then perhaps to run. Nothing here runs it. */
#include <string.h>

#include "check.h"

static void comment(FILE *f, const char *name, const char *text)
{
    fprintf(f, "# %s", name);
    for (; *text; text++) /* what came from a device must not end the comment */
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, f);
    fputc('\n', f);
}

static bool is_first(const struct doctor *d, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (d->findings[i].level <= LEVEL_SLOW && !strcmp(d->findings[i].remedy, d->findings[at].remedy))
            return false;
    return true;
}

void doctor_script(const struct doctor *d, FILE *f)
{
    size_t nr = 0;

    fputs("#!/bin/sh\n# Remedies of `farlane doctor --fix`, for you to read first. Most need root. sysctl "
          "and ip last until the\n"
          "# next boot: /etc/sysctl.d and the network's configuration keep them. Then run farlane doctor "
          "again.\n",
          f);
    for (size_t i = 0; i < d->nr_findings; i++) {
        const struct finding *x = &d->findings[i];

        if (x->level > LEVEL_SLOW)
            continue;
        fputc('\n', f);
        fprintf(f, "# %s, %s, %s\n", x->check->id, level_name(x->level), sure_name(x->sure));
        comment(f, "of ", x->subject);
        comment(f, "seen: ", x->evidence);
        if (x->remedy[0] == '#') {
            comment(f, "to do: ", x->remedy + 1 + strspn(x->remedy + 1, " "));
        } else if (!is_first(d, i)) {
            fputs("# the remedy is above\n", f);
        } else {
            fprintf(f, "%s\n", x->remedy);
            nr++;
        }
    }
    if (!nr)
        fputs("\n# there is no command to run\n", f);
}
