/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the table of checks and keeps what they report. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

const char *level_name(enum level level)
{
    static const char *const names[NR_LEVELS] = {"bad", "slow", "hint", "unseen", "ok", "absent"};

    return names[level];
}

const char *sure_name(enum sure sure)
{
    static const char *const names[] = {"certain", "likely", "maybe"};

    return names[sure];
}

static const struct check *find_check(const char *id)
{
    for (size_t i = 0; i < nr_doctor_checks; i++)
        if (!strcmp(doctor_checks[i].id, id))
            return &doctor_checks[i];
    return NULL;
}

bool doctor_knows(const char *id)
{
    return find_check(id);
}

/*
 * The text with {0} and {1} filled in. In a command they are shell words: names of interfaces may hold nearly
 * any character.
 */
static char *fill(const char *text, const char *subject, const char *arg)
{
    bool command = text[0] != '#';
    char *out = NULL, *word;
    size_t len;
    FILE *f = open_memstream(&out, &len);

    if (!f)
        return NULL;
    for (const char *p = text; *p; p++) {
        const char *put;

        if (p[0] != '{' || (p[1] != '0' && p[1] != '1') || p[2] != '}') {
            fputc(*p, f);
            continue;
        }
        put = p[1] == '0' ? subject : arg ? arg : "";
        word = command ? shell_word(put) : NULL;
        fputs(word ? word : put, f);
        free(word);
        p += 2;
    }
    fclose(f);
    return out;
}

/* The cause is for people: nothing is quoted. */
static char *fill_plain(const char *text, const char *subject, const char *arg)
{
    char *marked, *out = NULL;

    if (asprintf(&marked, "#%s", text) < 0)
        return NULL;
    out = fill(marked, subject, arg);
    free(marked);
    if (out)
        memmove(out, out + 1, strlen(out));
    return out;
}

static void add(struct doctor *d, const struct check *check, enum level level, const char *subject,
                const char *arg, const char *fmt, va_list args)
{
    struct finding *f;

    if (d->nr_findings == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 64;
        struct finding *more = realloc(d->findings, cap * sizeof(*more));

        if (!more) {
            d->broken = true;
            return;
        }
        d->findings = more;
        d->cap = cap;
    }
    f = &d->findings[d->nr_findings];
    *f = (struct finding){.check = check, .level = level, .sure = check->sure, .subject = strdup(subject)};
    if (vasprintf(&f->evidence, fmt, args) < 0)
        f->evidence = NULL;
    if (level <= LEVEL_HINT) {
        f->cause = fill_plain(check->cause, subject, arg);
        f->remedy = fill(check->remedy, subject, arg);
        d->broken |= !f->cause || !f->remedy;
    }
    d->nr_findings++;
    d->broken |= !f->subject || !f->evidence;
}

void report(struct doctor *d, enum level level, const char *subject, const char *arg, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add(d, d->now, level, subject, arg, fmt, args);
    va_end(args);
}

void report_as(struct doctor *d, const char *id, enum level level, const char *subject, const char *arg,
               const char *fmt, ...)
{
    const struct check *check = find_check(id);
    va_list args;

    assert(check);
    va_start(args, fmt);
    add(d, check, level, subject, arg, fmt, args);
    va_end(args);
}

void report_doubt(struct doctor *d, enum sure sure)
{
    if (d->nr_findings)
        d->findings[d->nr_findings - 1].sure = sure;
}

void report_unseen(struct doctor *d, const char *subject, int code, const char *fmt, ...)
{
    char what[SYS_TEXT_LEN];
    va_list args;
    const char *why = code == -EPERM || code == -EACCES ? "not by this user; root sees it"
                      : code == -EOPNOTSUPP             ? "nothing here can tell it"
                                                        : strerror(-code);

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    report(d, LEVEL_UNSEEN, subject, NULL, "%s could not be seen: %s", what, why);
}

void doctor_run(struct doctor *d, const char *id)
{
    for (size_t i = 0; i < nr_doctor_checks; i++) {
        const struct check *check = &doctor_checks[i];
        size_t before = d->nr_findings;
        bool said = false;

        if (!check->run || (id && strcmp(check->id, id)))
            continue;
        d->now = check;
        check->run(d);
        for (size_t n = before; n < d->nr_findings; n++)
            said |= d->findings[n].check == check;
        if (!said)
            report(d, LEVEL_ABSENT, "", NULL, "there is nothing of this kind here");
    }
}

size_t doctor_count(const struct doctor *d, enum level level)
{
    size_t nr = 0;

    for (size_t i = 0; i < d->nr_findings; i++)
        nr += d->findings[i].level == level;
    return nr;
}

void doctor_free(struct doctor *d)
{
    for (size_t i = 0; i < d->nr_findings; i++) {
        struct finding *f = &d->findings[i];

        free(f->subject);
        free(f->evidence);
        free(f->cause);
        free(f->remedy);
    }
    free(d->findings);
    d->findings = NULL;
    d->nr_findings = d->cap = 0;
}
