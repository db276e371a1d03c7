/* SPDX-License-Identifier: Apache-2.0 */
#include "term.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/utf8.h"
#include "base/util.h"

bool term_is_tty(FILE *f)
{
    return isatty(fileno(f)) == 1;
}

static bool coloured(FILE *f)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

    return term_is_tty(f) && !(no && no[0]) && !(term && !strcmp(term, "dumb"));
}

const char *term_on(FILE *f, enum term_style style)
{
    static const char *const sequence[] = {
        [TERM_BOLD] = "\033[1m",   [TERM_DIM] = "\033[2m",     [TERM_RED] = "\033[31m",
        [TERM_GREEN] = "\033[32m", [TERM_YELLOW] = "\033[33m",
    };

    return coloured(f) ? sequence[style] : "";
}

const char *term_off(FILE *f)
{
    return coloured(f) ? "\033[0m" : "";
}

int term_width(FILE *f)
{
    struct winsize ws;

    if (term_is_tty(f) && ioctl(fileno(f), TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 40)
        return ws.ws_col;
    return 100;
}

/* ---- tables ---- */

static void add_cell(struct table *t, char *text)
{
    if (t->nr_cells == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->cell = realloc(t->cell, t->cap * sizeof(*t->cell));
        if (!t->cell)
            abort();
    }
    t->cell[t->nr_cells++] = text;
}

void table_init(struct table *t, ...)
{
    const char *name;
    va_list args;

    memset(t, 0, sizeof(*t));
    va_start(args, t);
    while ((name = va_arg(args, const char *)) && t->nr_columns < TABLE_MAX_COLUMNS) {
        t->right[t->nr_columns++] = name[0] == '>';
        add_cell(t, strdup(name + (name[0] == '>')));
    }
    va_end(args);
}

char *term_text(const char *fmt, va_list args)
{
    char *text = NULL;

    if (vasprintf(&text, fmt, args) < 0)
        abort();
    return fl_utf8_make_harmless(text); /* a target's discovery log is full of names of its choice */
}

void table_cell(struct table *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add_cell(t, term_text(fmt, args));
    va_end(args);
}

/* Columns that a text takes: UTF-8 continuation bytes take none. */
static int visible_width(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void table_cell_rate(struct table *t, double per_s)
{
    if (per_s < 10000)
        table_cell(t, "%.0f", per_s);
    else if (per_s < 1e6)
        table_cell(t, "%.1fk", per_s / 1e3);
    else
        table_cell(t, "%.3fM", per_s / 1e6);
}

void table_cell_us(struct table *t, double us, bool difference)
{
    const double size = us < 0 ? -us : us;
    const int digits = size < 100 ? 2 : size < 10000 ? 1 : 0;

    if (difference)
        table_cell(t, "%+.*f", digits, us);
    else
        table_cell(t, "%.*f", digits, us);
}

static bool column_is_empty(const struct table *t, uint32_t column)
{
    uint32_t i;

    for (i = t->nr_columns + column; i < t->nr_cells; i += t->nr_columns)
        if (t->cell[i][0] && strcmp(t->cell[i], "-"))
            return false;
    return true;
}

void table_hide_empty(struct table *t)
{
    uint32_t i, out = 0, kept = 0;
    bool hide[TABLE_MAX_COLUMNS];

    if (t->nr_cells <= t->nr_columns)
        return;
    for (i = 0; i < t->nr_columns; i++) {
        hide[i] = column_is_empty(t, i);
        if (!hide[i])
            t->right[kept++] = t->right[i];
    }
    for (i = 0; i < t->nr_cells; i++) {
        if (hide[i % t->nr_columns])
            free(t->cell[i]);
        else
            t->cell[out++] = t->cell[i];
    }
    t->nr_cells = out;
    t->nr_columns = kept;
}

static void print_row(const struct table *t, char *const *row, const int *width, FILE *f)
{
    uint32_t column, last = t->nr_columns;

    while (last > 1 && !row[last - 1][0]) /* no blanks at the end of a line */
        last--;
    for (column = 0; column < last; column++) {
        int pad = width[column] - visible_width(row[column]);

        if (t->right[column])
            fprintf(f, "%*s%s", pad, "", row[column]);
        else
            fprintf(f, "%s%*s", row[column], column + 1 < last ? pad : 0, "");
        if (column + 1 < last)
            fputs("  ", f);
    }
}

void table_free(struct table *t)
{
    uint32_t i;

    for (i = 0; i < t->nr_cells; i++)
        free(t->cell[i]);
    free(t->cell);
    memset(t, 0, sizeof(*t));
}

void table_print(struct table *t, FILE *f, int indent)
{
    int width[TABLE_MAX_COLUMNS] = {0};
    uint32_t i;

    for (i = 0; i < t->nr_cells; i++)
        width[i % t->nr_columns] = FL_MAX(width[i % t->nr_columns], visible_width(t->cell[i]));
    for (i = 0; i < t->nr_cells; i += t->nr_columns) {
        fprintf(f, "%*s%s", indent, "", i == 0 ? term_on(f, TERM_BOLD) : "");
        print_row(t, t->cell + i, width, f);
        fprintf(f, "%s\n", i == 0 ? term_off(f) : "");
    }
    table_free(t);
}

/* ---- progress ---- */

void progress_start(struct progress *p, const char *what, uint64_t total_len, bool quiet)
{
    *p = (struct progress){.total_len = total_len, .what = what, .on = !quiet && term_is_tty(stderr)};
    p->start_ns = fl_now_ns();
    /* Short transfers need no bar. */
    p->last_ns = p->start_ns;
}

static void print_time_left(double seconds)
{
    if (seconds < 100)
        fprintf(stderr, "  %2.0f s left", seconds);
    else if (seconds < 6000)
        fprintf(stderr, "  %2.0f min left", seconds / 60);
    else
        fprintf(stderr, "  %.1f h left", seconds / 3600);
}

void progress_update(struct progress *p, uint64_t done_len)
{
    char rate[FL_SIZE_TEXT_LEN], done[FL_SIZE_TEXT_LEN], total[FL_SIZE_TEXT_LEN];
    uint64_t now;
    double elapsed, speed;
    int bar, i;

    if (!p->on)
        return;
    now = fl_now_ns();
    if (now - p->last_ns < 100 * FL_NS_PER_MS)
        return;
    p->last_ns = now;
    elapsed = (double)(now - p->start_ns) / 1e9;
    speed = (double)done_len / elapsed;
    fprintf(stderr, "\r\033[K%s ", p->what);
    if (p->total_len) {
        bar = (int)(30.0 * (double)done_len / (double)p->total_len);
        fprintf(stderr, "[%s", term_on(stderr, TERM_GREEN));
        for (i = 0; i < 30; i++)
            fputc(i < bar ? '#' : '.', stderr);
        fprintf(stderr, "%s] %3.0f %%  ", term_off(stderr), 100.0 * (double)done_len / (double)p->total_len);
        fprintf(stderr, "%s of %s  %s", fl_size_format(done_len, done), fl_size_format(p->total_len, total),
                fl_rate_format(speed, rate));
        if (speed > 0)
            print_time_left((double)(p->total_len - FL_MIN(done_len, p->total_len)) / speed);
    } else {
        fprintf(stderr, "%s  %s", fl_size_format(done_len, done), fl_rate_format(speed, rate));
    }
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->on)
        fputs("\r\033[K", stderr);
    p->on = false;
}
