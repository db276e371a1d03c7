/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "bench.h"
#include "machine.h"
#include "term.h"

/* URLs are long: each gets a letter. */
static char letter_of(struct bench_result *const *results, uint32_t at)
{
    char letter = 'A';
    uint32_t i;

    for (i = 1; i <= at; i++)
        letter = (char)(letter + (results[i]->url != results[i - 1]->url));
    return letter;
}

static void add_row(struct table *t, const struct bench_spec *spec, const struct bench_result *r, char letter)
{
    static const double percents[] = {50, 99, 99.9, 99.99};
    const double iops = bench_iops(r), target = bench_target_cores(r);
    size_t i;

    table_cell(t, "%c", letter);
    table_cell(t, "%u", r->depth);
    table_cell(t, "%u", r->nr_jobs);
    if (r->rate > 0)
        table_cell_rate(t, r->rate);
    else
        table_cell(t, "-");
    table_cell_rate(t, iops);
    if (r->nr_rounds > 1)
        table_cell(t, "+-%.0f%%", bench_spread(r) * 100);
    else
        table_cell(t, "-");
    table_cell(t, "%.3f", iops * (double)spec->block_len / 1e9);
    table_cell_us(t, bench_mean_us(r), false);
    for (i = 0; i < FL_ARRAY_LEN(percents); i++)
        table_cell_us(t, bench_percentile_us(r, percents[i]), false);
    table_cell(t, "%.2f", bench_host_cores(r));
    table_cell(t, "%.0f%%", r->busy * 100);
    if (target < 0)
        table_cell(t, "?");
    else
        table_cell(t, "%.2f", target);
    table_cell(t, "%.2f%s", bench_cores_per_miops(r), target < 0 ? "+?" : "");
}

/* What the fabric adds: differences of percentiles of equal jobs, the first URL being local and another one
 * not. */
static void add_difference(struct table *t, const struct bench_result *local,
                           const struct bench_result *remote, char letter)
{
    static const double percents[] = {50, 99, 99.9, 99.99};
    size_t i;

    table_cell(t, "%c-A", letter);
    table_cell(t, "%u", remote->depth);
    table_cell(t, "%u", remote->nr_jobs);
    table_cell(t, "%s", "");
    table_cell(t, "x%.2f", bench_iops(remote) / bench_iops(local));
    table_cell(t, "%s", "");
    table_cell(t, "%s", "");
    table_cell_us(t, bench_mean_us(remote) - bench_mean_us(local), true);
    for (i = 0; i < FL_ARRAY_LEN(percents); i++)
        table_cell_us(t, bench_percentile_us(remote, percents[i]) - bench_percentile_us(local, percents[i]),
                      true);
    for (i = 0; i < 4; i++)
        table_cell(t, "%s", "");
}

static void print_legend(struct bench_result *const *results, uint32_t nr)
{
    uint32_t i;

    for (i = 0; i < nr; i++)
        if (i == 0 || results[i]->url != results[i - 1]->url)
            printf("  %c = %s%s%s%s\n", letter_of(results, i), results[i]->url,
                   bench_is_local(results[i]->url) ? "" : "  (path: ",
                   bench_is_local(results[i]->url) ? "" : results[i]->path,
                   bench_is_local(results[i]->url) ? "" : ")");
}

static void print_head(const struct bench_plan *plan)
{
    const struct bench_spec *spec = &plan->spec;
    char size[FL_SIZE_TEXT_LEN], rounds[32] = "", name[16];

    if (spec->nr_rounds > 1)
        snprintf(rounds, sizeof(rounds), "%u rounds of ", spec->nr_rounds);
    printf("%s of %s, %s%.3g s each after %.3g s of warming up%s\n", spec->rw,
           fl_size_format(spec->block_len, size), rounds, spec->seconds, spec->ramp,
           spec->verify ? ", each read checked" : "");
    if (spec->slo.limit_us > 0)
        printf("the highest rate at which %s is %g us or less, I/Os arriving %s\n",
               bench_slo_name(&spec->slo, name), spec->slo.limit_us, spec->poisson ? "at random" : "evenly");
    else if (spec->rate > 0)
        printf("I/Os arriving %s at the rate asked for; latency counts from when each was due\n",
               spec->poisson ? "at random" : "evenly");
}

static void note(const char *text)
{
    printf("%s%s%s\n", term_on(stdout, TERM_DIM), text, term_off(stdout));
}

static void warn_behind(const struct bench_plan *plan)
{
    uint32_t i;

    for (i = 0; i < plan->nr_results; i++) {
        const struct bench_result *r = plan->results[i];

        if (bench_fell_behind(r))
            printf("%s%c at depth %u, %u job%s: did not follow: %.0f of %.0f I/Os a second; its latency "
                   "grows with the "
                   "time measured.%s\n",
                   term_on(stdout, TERM_YELLOW), letter_of(plan->results, i), r->depth, r->nr_jobs,
                   r->nr_jobs == 1 ? "" : "s", bench_iops(r), r->rate, term_off(stdout));
    }
}

static void warn_disturbed(const struct bench_plan *plan)
{
    struct bench_result *const *results = plan->results;
    uint32_t i, worst = 0;
    char who[32], text[256];

    for (i = 0; i < plan->nr_results; i++)
        if (results[i]->waited > results[worst]->waited)
            worst = i;
    if (!plan->nr_results || !bench_was_disturbed(results[worst]))
        return;
    snprintf(who, sizeof(who), "%c, depth %u", letter_of(results, worst), results[worst]->depth);
    machine_tell_waiting(results[worst]->waited, "run", who, text, sizeof(text));
    printf("%s%s%s\n", term_on(stdout, TERM_YELLOW), text, term_off(stdout));
}

/* True if there were any. */
static bool add_differences(struct table *t, const struct bench_plan *plan)
{
    struct bench_result *const *results = plan->results;
    bool any = false;
    uint32_t i, j;

    for (i = 0; i < plan->nr_results; i++) {
        if (!bench_is_local(results[0]->url) || bench_is_local(results[i]->url))
            continue;
        for (j = 0; j < plan->nr_results && results[j]->url == results[0]->url; j++) {
            if (results[j]->depth != results[i]->depth || results[j]->nr_jobs != results[i]->nr_jobs)
                continue;
            add_difference(t, results[j], results[i], letter_of(results, i));
            any = true;
        }
    }
    return any;
}

static void print_stages(const struct bench_plan *plan)
{
    static const double percents[] = {0, 50, 99, 99.9};
    bool untold = false;
    struct table t;
    uint32_t i;
    size_t k;
    int s;

    table_init(&t, "", ">DEPTH", ">JOBS", "STAGE", ">MEAN us", ">P50 us", ">P99 us", ">P99.9 us", NULL);
    for (i = 0; i < plan->nr_results; i++) {
        const struct bench_result *r = plan->results[i];

        for (s = 0; s < BENCH_NR_STAGES; s++) {
            const bool known = bench_stage_is_known(r, (enum bench_stage)s);

            untold |= !known;
            table_cell(&t, "%c", letter_of(plan->results, i));
            table_cell(&t, "%u", r->depth);
            table_cell(&t, "%u", r->nr_jobs);
            table_cell(&t, "%s", bench_stage_names[s]);
            for (k = 0; k < FL_ARRAY_LEN(percents); k++) {
                if (known)
                    table_cell_us(&t, bench_stage_us(r, (enum bench_stage)s, percents[k]), false);
                else
                    table_cell(&t, "?");
            }
        }
    }
    putchar('\n');
    table_print(&t, stdout, 2);
    putchar('\n');
    note("Submit: until handed to the transport. Wire: until the answer was read, without the back end. Back "
         "end: in the "
         "target, from");
    note("having command and data to answering. Complete: until the application knows. The means add up to "
         "the latency.");
    if (untold)
        note("?: this target does not tell its part (only farlane's does); it is counted as wire.");
}

void bench_report_table(const struct bench_plan *plan)
{
    bool unknown = false, differences;
    struct table t;
    uint32_t i;

    print_head(plan);
    print_legend(plan->results, plan->nr_results);
    putchar('\n');
    table_init(&t, "", ">DEPTH", ">JOBS", ">RATE", ">IOPS", ">SPREAD", ">GB/s", ">MEAN us", ">P50 us",
               ">P99 us", ">P99.9 us", ">P99.99 us", ">HOST", ">BUSY", ">TARGET", ">CORES/MIOPS", NULL);
    for (i = 0; i < plan->nr_results; i++) {
        add_row(&t, &plan->spec, plan->results[i], letter_of(plan->results, i));
        unknown |= bench_target_cores(plan->results[i]) < 0;
    }
    differences = add_differences(&t, plan);
    table_hide_empty(&t);
    table_print(&t, stdout, 2);
    putchar('\n');
    warn_behind(plan);
    warn_disturbed(plan);
    note("HOST and TARGET are cores by CPU time, polling included; BUSY is the host's share without polling "
         "in vain.");
    if (plan->spec.nr_rounds > 1)
        note("IOPS is the median of the rounds, SPREAD half the way from the slowest to the fastest.");
    if (unknown)
        note("?: the target is not a process of this machine that this user can see.");
    if (differences)
        note("-A: what the fabric adds to the same job on A, as a difference of percentiles in us.");
    if (plan->spec.stages)
        print_stages(plan);
}
