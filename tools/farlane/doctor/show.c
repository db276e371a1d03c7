/* SPDX-License-Identifier: Apache-2.0 */
/* What people read: the worst first, each with evidence, cause, remedy; then what was right, a line each. */
#include <stdlib.h>
#include <string.h>

#include "../term.h"
#include "check.h"

/* Bytes that a terminal would obey become ? */
static void put_bytes(FILE *f, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        fputc((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i], f);
}

/* Text broken at blanks to the width, each line after the first indented */
static void put(FILE *f, const char *text, int indent, int width)
{
    int room = width - indent > 20 ? width - indent : 20, left = room;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (left != room && (int)len + 1 > left) {
            fprintf(f, "\n%*s", indent, "");
            left = room;
        } else if (left != room) {
            fputc(' ', f);
            left--;
        }
        put_bytes(f, text, len);
        left -= (int)len;
        text += len;
        text += *text == ' ';
        if (left == room)
            left--;
    }
}

static void line(FILE *f, const char *name, const char *text, int width)
{
    enum { INDENT = 6, NAME = 10 };

    fprintf(f, "%*s%s%-*s%s", INDENT, "", term_on(f, TERM_DIM), NAME, name, term_off(f));
    put(f, text, INDENT + NAME, width);
    fputc('\n', f);
}

static void show_fault(const struct finding *x, FILE *f, int width)
{
    static const enum term_style styles[] = {TERM_RED, TERM_YELLOW, TERM_BOLD};

    fprintf(f, "%s%-5s%s %s%s%s  ", term_on(f, styles[x->level]), level_name(x->level), term_off(f),
            term_on(f, TERM_BOLD), x->check->id, term_off(f));
    put(f, x->subject, 0, width);
    fputc('\n', f);
    line(f, "evidence", x->evidence, width);
    line(f, "cause", x->cause, width);
    line(f, "remedy", x->remedy, width);
    line(f, "sure", sure_name(x->sure), width);
}

static int widest(const struct doctor *d, enum level from, enum level to, bool subject)
{
    int max = 0;

    for (size_t i = 0; i < d->nr_findings; i++) {
        const struct finding *x = &d->findings[i];
        int len = (int)strlen(subject ? x->subject : x->check->id);

        if (x->level >= from && x->level <= to && len > max)
            max = len;
    }
    return max > 40 ? 40 : max;
}

/* One line each */
static void show_rest(const struct doctor *d, enum level level, FILE *f, int width)
{
    int id = widest(d, LEVEL_UNSEEN, LEVEL_OK, false), subject = widest(d, LEVEL_UNSEEN, LEVEL_OK, true);

    for (size_t i = 0; i < d->nr_findings; i++) {
        const struct finding *x = &d->findings[i];

        if (x->level != level)
            continue;
        int gap = subject - (int)strlen(x->subject);

        fprintf(f, "%s%-6s%s %-*s  ", term_on(f, level == LEVEL_OK ? TERM_GREEN : TERM_DIM),
                level_name(level), term_off(f), id, x->check->id);
        put_bytes(f, x->subject, strlen(x->subject));
        fprintf(f, "%*s", gap > 0 ? gap + 2 : 2, "");
        put(f, x->evidence, 7 + id + 2 + subject + 2, width);
        fputc('\n', f);
    }
}

static void show_absent(const struct doctor *d, FILE *f, int width)
{
    char *text = NULL;
    size_t len;
    FILE *m = open_memstream(&text, &len);
    bool any = false;

    for (size_t i = 0; m && i < d->nr_findings; i++) {
        if (d->findings[i].level != LEVEL_ABSENT)
            continue;
        fprintf(m, "%s%s", any ? " " : "", d->findings[i].check->id);
        any = true;
    }
    if (m)
        fclose(m);
    if (any && text) {
        fputs("absent ", f);
        put(f, text, 7, width);
        fputc('\n', f);
    }
    free(text);
}

void doctor_show(const struct doctor *d, FILE *f, bool all)
{
    int width = term_width(f);

    for (int level = LEVEL_BAD; level <= LEVEL_HINT; level++)
        for (size_t i = 0; i < d->nr_findings; i++)
            if (d->findings[i].level == (enum level)level)
                show_fault(&d->findings[i], f, width);
    show_rest(d, LEVEL_UNSEEN, f, width);
    if (all) {
        show_rest(d, LEVEL_OK, f, width);
        show_absent(d, f, width);
    }
    fprintf(f, "%zu bad, %zu slow, %zu hints, %zu could not be seen, %zu right, %zu of nothing here%s\n",
            doctor_count(d, LEVEL_BAD), doctor_count(d, LEVEL_SLOW), doctor_count(d, LEVEL_HINT),
            doctor_count(d, LEVEL_UNSEEN), doctor_count(d, LEVEL_OK), doctor_count(d, LEVEL_ABSENT),
            all ? "" : " (--all shows them)");
}

void doctor_show_table(FILE *f)
{
    struct table t;

    table_init(&t, "check", "sure", "question", "seen by", NULL);
    for (size_t i = 0; i < nr_doctor_checks; i++) {
        const struct check *c = &doctor_checks[i];

        table_cell(&t, "%s", c->id);
        table_cell(&t, "%s", sure_name(c->sure));
        table_cell(&t, "%s", c->what);
        table_cell(&t, "%s", c->how);
    }
    table_print(&t, f, 0);
}
