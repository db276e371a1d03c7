/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "tax.h"
#include "term.h"

#define WIDE 156 /* columns of both halves side by side */

static void cell_us(struct table *t, struct tax_figure f, bool difference)
{
    if (f.known)
        table_cell_us(t, f.median, difference);
    else
        table_cell(t, "-");
}

static void cell_cores(struct table *t, struct tax_figure f)
{
    if (!f.known)
        table_cell(t, "?");
    else
        table_cell(t, "%.2f", f.median);
}

/* Half the way from the least to the most, as a share of the median: of the figure that varied most. */
static double spread(const struct tax_path *p)
{
    static const enum tax_column columns[] = {TAX_MEAN, TAX_RATE, TAX_GBPS};
    double most = 0;
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(columns); i++) {
        const struct tax_figure f = tax_figure(p, columns[i]);

        if (f.known && f.median > 0)
            most = FL_MAX(most, (f.most - f.least) / 2 / f.median);
    }
    return most;
}

static void add_latency(struct table *t, const struct tax *tax, const struct tax_path *p)
{
    int c;

    for (c = TAX_MEAN; c <= TAX_P999; c++)
        cell_us(t, tax_added(tax, p, (enum tax_column)c), true);
    cell_us(t, tax_figure(p, TAX_MEAN), false);
}

static void add_rates(struct table *t, const struct tax_path *p)
{
    table_cell_rate(t, tax_figure(p, TAX_RATE).median);
    table_cell(t, "%.2f", tax_figure(p, TAX_GBPS).median);
    cell_cores(t, tax_figure(p, TAX_HOST));
    if (p->local)
        table_cell(t, "-");
    else
        cell_cores(t, tax_figure(p, TAX_TARGET));
    if (p->copies < 0)
        table_cell(t, "?");
    else
        table_cell(t, "%.0f", p->copies);
    table_cell(t, "+-%.0f%%", spread(p) * 100);
}

#define LATENCY ">ADDED us MEAN", ">P50 us", ">P99 us", ">P99.9 us", ">LATENCY us"
#define RATES   ">IOPS", ">GB/s", ">CORES/MIOPS HOST", ">TARGET", ">COPIES BY DESIGN", ">SPREAD"

static void print_table(const struct tax *tax, bool latency, bool rates)
{
    struct table t;
    uint32_t i;

    if (latency && rates)
        table_init(&t, "PATH", LATENCY, RATES, NULL);
    else if (latency)
        table_init(&t, "PATH", LATENCY, NULL);
    else
        table_init(&t, "PATH", RATES, NULL);
    for (i = 0; i < tax->nr_paths; i++) {
        const struct tax_path *p = &tax->paths[i];

        if (!p->nr_rounds)
            continue;
        table_cell(&t, "%s", p->name);
        if (latency)
            add_latency(&t, tax, p);
        if (rates)
            add_rates(&t, p);
    }
    table_hide_empty(&t);
    table_print(&t, stdout, 2);
    putchar('\n');
}

static void note(const char *text)
{
    printf("%s%s%s\n", term_on(stdout, TERM_DIM), text, term_off(stdout));
}

void tax_report(const struct tax *tax)
{
    const struct tax_path *base = tax_base(tax);
    char size[FL_SIZE_TEXT_LEN], text[320];
    uint32_t i;

    printf(
        "What each way to %s costs here: %s%s of it, %u rounds of %g s in turn, medians; %.0f s in all\n\n",
        tax->spec[0] ? "the same device" : "these namespaces", tax->spec[0] ? "" : "up to ",
        fl_size_format(tax->size, size), tax->nr_rounds, tax->seconds, tax->took);
    if (term_is_tty(stdout) && term_width(stdout) < WIDE) {
        print_table(tax, true, false);
        print_table(tax, false, true);
    } else {
        print_table(tax, true, true);
    }
    for (i = 0; i < tax->nr_paths; i++)
        if (!tax->paths[i].nr_rounds)
            printf("  not measured: %s: %s\n", tax->paths[i].name, tax->paths[i].why_not);
    if (tax_tell_disturbance(tax, text, sizeof(text)))
        printf("%s%s%s\n", term_on(stdout, TERM_YELLOW), text, term_off(stdout));
    if (base)
        note("ADDED: what the path adds to the local device at depth 1, 4 KiB random reads, as differences "
             "of the same round.");
    note("LATENCY: mean at depth 1. IOPS and CORES: 4 KiB random reads at depth 32, polling counted. GB/s: "
         "128 KiB reads at "
         "depth 8.");
    note("COPIES BY DESIGN: what CPUs copy for each byte read, those of the kernel too, as the path is made: "
         "not "
         "counted. ?: not known.");
}
