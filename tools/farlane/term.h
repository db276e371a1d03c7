/* SPDX-License-Identifier: Apache-2.0 */
/* What people see: colours (on a terminal only), aligned tables, a progress line. */
#ifndef FARLANE_TERM_H
#define FARLANE_TERM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <farlane/api.h>

enum term_style { TERM_BOLD, TERM_DIM, TERM_RED, TERM_GREEN, TERM_YELLOW };

bool term_is_tty(FILE *f);
/* Escape sequences, or "" where they would disturb: not a terminal, NO_COLOR set, TERM=dumb. */
const char *term_on(FILE *f, enum term_style style);
const char *term_off(FILE *f);
int term_width(FILE *f); /* columns; 100 when it is no terminal */
/* Of malloc, the caller's; without what a terminal would take for a command. */
char *term_text(const char *fmt, va_list args);

/* ---- tables ---- */
#define TABLE_MAX_COLUMNS 20

struct table {
    uint32_t nr_columns;
    bool right[TABLE_MAX_COLUMNS]; /* numbers */
    char **cell;                   /* row by row; row 0 is the heading */
    uint32_t nr_cells, cap;
};

/* Columns as "name" (left) or ">name" (right), ended by NULL. */
void table_init(struct table *t, ...) __attribute__((sentinel));
void table_cell(struct table *t, const char *fmt, ...) FL_PRINTF(2, 3);
/* A rate as 9876, 12.3k or 1.234M; microseconds with as many digits as say something, with + or - if they are
 * a difference. */
void table_cell_rate(struct table *t, double per_s);
void table_cell_us(struct table *t, double us, bool difference);
/* Prints with two blanks between columns, `indent` before each line, and frees the table. */
void table_print(struct table *t, FILE *f, int indent);
/* Frees one that is not printed. */
void table_free(struct table *t);
/* Leaves out a column in which every cell is empty or "-". */
void table_hide_empty(struct table *t);

/* ---- progress ---- */
struct progress {
    uint64_t total_len; /* 0: not known */
    uint64_t start_ns, last_ns;
    const char *what;
    bool on;
};

/* Shows something only when standard error is a terminal and quiet is not asked for. */
void progress_start(struct progress *p, const char *what, uint64_t total_len, bool quiet);
void progress_update(struct progress *p, uint64_t done_len); /* at most ten lines a second */
void progress_end(struct progress *p);

#endif
