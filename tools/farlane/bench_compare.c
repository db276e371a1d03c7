/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/size.h"
#include "base/util.h"
#include "bench.h"
#include "term.h"

#define NOISE_OF_ONE 0.20 /* what two single runs of the same thing differ by on an ordinary machine */
#define NUMBER_MAX   1e15

struct saved {
    const char *path;
    json_t *root, *results;
};

/* All that a row is made of, and in the range that it can be shown in: files are cut, mended by hand, or of
 * something else. */
static bool is_result(const json_t *r)
{
    static const char *const numbers[] = {"bs", "depth", "jobs", "iops", "mean_us", "p99_us"};
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(numbers); i++) {
        const json_t *n = json_object_get(r, numbers[i]);

        if (!json_is_number(n) || !(json_number_value(n) >= 0 && json_number_value(n) < NUMBER_MAX))
            return false;
    }
    return json_is_string(json_object_get(r, "rw")) && json_is_string(json_object_get(r, "url"));
}

static bool are_results(const json_t *results)
{
    const json_t *r;
    size_t i;

    json_array_foreach((json_t *)results, i, r) if (!is_result(r)) return false;
    return json_array_size(results) > 0;
}

static int load(struct saved *s, const char *path, struct fl_error *err)
{
    json_error_t why;

    s->path = path;
    s->root = json_load_file(path, 0, &why);
    if (!s->root)
        return fl_error_set(err, access(path, R_OK) < 0 ? -errno : -EBADMSG, "cannot read %s: %s", path,
                            why.text);
    s->results = json_is_array(s->root) ? s->root : json_object_get(s->root, "results");
    if (!are_results(s->results))
        return fl_error_set(err, -EBADMSG,
                            "%s holds no results: it should be written by farlane bench --save or --json",
                            path);
    return 0;
}

bool bench_is_saved(const char *path)
{
    struct saved s = {0};
    const bool is_one = load(&s, path, NULL) == 0;

    json_decref(s.root);
    return is_one;
}

static double number(const json_t *r, const char *key)
{
    return json_number_value(json_object_get(r, key));
}

static const char *text(const json_t *r, const char *key)
{
    const char *s = json_string_value(json_object_get(r, key));

    return s ? s : "";
}

/* URLs may differ, as those of a target on another port do: then the place in the file decides. */
static bool same_job(const json_t *a, const json_t *b)
{
    return !strcmp(text(a, "rw"), text(b, "rw")) && number(a, "bs") == number(b, "bs") &&
           number(a, "depth") == number(b, "depth") && number(a, "jobs") == number(b, "jobs") &&
           !json_object_get(a, "rate") == !json_object_get(b, "rate");
}

static const json_t *partner(const json_t *a, size_t at, const struct saved *in)
{
    const json_t *there = json_array_get(in->results, at), *b;
    size_t i;

    json_array_foreach(in->results, i,
                       b) if (same_job(a, b) && !strcmp(text(a, "url"), text(b, "url"))) return b;
    return there && same_job(a, there) ? there : NULL;
}

/* Several rounds tell how far apart two runs of the same thing are; one does not. */
static double noise_of(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "spread"), *y = json_object_get(b, "spread");

    if (!x || !y)
        return NOISE_OF_ONE;
    return json_number_value(x) + json_number_value(y);
}

static void add_row(struct table *t, const json_t *a, const json_t *b, uint32_t place)
{
    const double was = number(a, "iops"), is = number(b, "iops"), ratio = was ? is / was : is ? HUGE_VAL : 1,
                 noise = noise_of(a, b);
    char size[FL_SIZE_TEXT_LEN];

    table_cell(t, "%u", place);
    table_cell(t, "%s", text(a, "rw"));
    table_cell(t, "%s", fl_size_format((uint64_t)number(a, "bs"), size));
    table_cell(t, "%.0f", number(a, "depth"));
    table_cell(t, "%.0f", number(a, "jobs"));
    table_cell_rate(t, number(a, "iops"));
    table_cell_rate(t, number(b, "iops"));
    table_cell(t, was ? "x%.2f" : "-", ratio);
    table_cell(t, "%.2f", number(a, "mean_us"));
    table_cell(t, "%.2f", number(b, "mean_us"));
    table_cell(t, "%.2f", number(a, "p99_us"));
    table_cell(t, "%.2f", number(b, "p99_us"));
    table_cell(t, "+-%.0f%%", noise * 100);
    table_cell(t, "%s", fabs(ratio - 1) <= noise ? "same" : ratio > 1 ? "faster" : "slower");
}

static void print_origin(const struct saved *s, const char *which)
{
    const json_t *machine = json_object_get(s->root, "machine");

    printf("  %s = %s", which, s->path);
    if (json_is_object(machine))
        printf(": %s, %s, %.0f x %s, Linux %s", text(s->root, "date"), text(machine, "host"),
               number(machine, "cpus"), text(machine, "cpu"), text(machine, "kernel"));
    putchar('\n');
}

static void print_urls(const json_t *const *rows, uint32_t nr)
{
    uint32_t i;

    for (i = 0; i < nr; i++)
        if (i == 0 || strcmp(text(rows[i], "url"), text(rows[i - 1], "url")))
            printf("  %u = %s\n", i + 1, text(rows[i], "url"));
}

static int print(const struct saved *old, const struct saved *new, struct fl_error *err)
{
    const size_t nr = json_array_size(old->results);
    const json_t **rows = calloc(nr, sizeof(json_t *)), *a;
    bool single = false;
    uint32_t shown = 0;
    struct table t;
    size_t i;

    if (!rows)
        return fl_error_set(err, -ENOMEM, "out of memory");
    table_init(&t, ">ROW", "RW", ">BS", ">DEPTH", ">JOBS", ">IOPS OLD", ">NEW", ">RATIO", ">MEAN us OLD",
               ">NEW us", ">P99 us OLD", ">NEW us", ">NOISE", "VERDICT", NULL);
    json_array_foreach(old->results, i, a)
    {
        const json_t *b = partner(a, i, new);

        if (!b)
            continue;
        rows[shown++] = a;
        add_row(&t, a, b, shown);
        single |= !json_object_get(a, "spread") || !json_object_get(b, "spread");
    }
    if (shown) {
        print_origin(old, "OLD");
        print_origin(new, "NEW");
        print_urls(rows, shown);
        putchar('\n');
        table_print(&t, stdout, 2);
        if (shown < nr || shown < json_array_size(new->results))
            printf("\nOnly the jobs that both files have: %u of %zu and %zu.\n", shown, nr,
                   json_array_size(new->results));
        if (single)
            printf("\n%sResults of a single round: differences up to %.0f %% are taken for noise; --rounds 5 "
                   "tells "
                   "more.%s\n",
                   term_on(stdout, TERM_DIM), NOISE_OF_ONE * 100, term_off(stdout));
    } else {
        table_free(&t);
    }
    free(rows);
    return shown ? 0 : fl_error_set(err, -ENOENT, "%s and %s have no job in common", old->path, new->path);
}

int bench_compare(const char *old_path, const char *new_path, struct fl_error *err)
{
    struct saved old = {0}, new = {0};
    int rc = load(&old, old_path, err);

    if (rc == 0)
        rc = load(&new, new_path, err);
    if (rc == 0)
        rc = print(&old, &new, err);
    json_decref(old.root);
    json_decref(new.root);
    return rc;
}
