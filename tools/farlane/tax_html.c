/* SPDX-License-Identifier: Apache-2.0 */
/* One page that stands alone: no script, nothing fetched, plots as SVG. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "machine.h"
#include "tax.h"

#define WIDTH      720.0
#define HEIGHT     360.0
#define LEFT       64.0
#define RIGHT      16.0
#define TOP        16.0
#define BOTTOM     44.0
#define NR_COLOURS 10

/* Distinct also for those who do not see red and green apart, and in print. */
static const char *const colours[NR_COLOURS] = {"#1b6ca8", "#d1495b", "#2a9d8f", "#e09f3e", "#6a4c93",
                                                "#8a5a44", "#5c677d", "#00a5cf", "#9a031e", "#386641"};

static const char style[] =
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:0 "
    "auto;max-width:60rem;padding:1rem;background:#fff;color:#1a1a1a}"
    "h1{font-size:1.5rem;margin:.2em 0}h2{font-size:1.15rem;margin:1.6em 0 .4em}p{margin:.5em 0}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:."
    "9rem}"
    "th,td{padding:.35em .7em;text-align:right;white-space:nowrap;border-bottom:1px solid #ccc}"
    "th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto;display:block}"
    "svg text{font:12px system-ui,sans-serif;fill:currentColor}.axis{stroke:currentColor;opacity:.5}"
    ".grid{stroke:currentColor;opacity:.15}.key{display:inline-block;margin:.1em .9em .1em "
    "0;white-space:nowrap}"
    ".key "
    "i{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.35em;vertical-align:-.1em}"
    "code{font-size:.8rem;overflow-wrap:anywhere}.warn{border-left:4px solid #d1495b;padding-left:.6em}"
    "@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e6e6}th,td{border-color:#444}}"
    "@media print{body{max-width:none;background:#fff;color:#000;font-size:11px}h2{break-after:avoid}"
    "svg,tr{break-inside:avoid}}";

static void put(FILE *f, const char *s)
{
    for (; *s; s++) {
        switch (*s) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc(*s, f);
        }
    }
}

static const char *colour_of(const struct tax *tax, const struct tax_path *p)
{
    return colours[(size_t)(p - tax->paths) % NR_COLOURS];
}

/* ---- axes ---- */

struct scale {
    double least, most; /* least > 0 when it is logarithmic */
    bool log;
};

static double share(const struct scale *s, double v)
{
    if (s->log)
        return (log10(FL_MAX(v, s->least)) - log10(s->least)) / (log10(s->most) - log10(s->least));
    return (v - s->least) / (s->most - s->least);
}

static double x_of(const struct scale *s, double v)
{
    return LEFT + share(s, v) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct scale *s, double v)
{
    return HEIGHT - BOTTOM - share(s, v) * (HEIGHT - TOP - BOTTOM);
}

static void format_short(double v, char buf[24])
{
    if (v >= 1e6)
        snprintf(buf, 24, "%gM", v / 1e6);
    else if (v >= 1e3)
        snprintf(buf, 24, "%gk", v / 1e3);
    else
        snprintf(buf, 24, "%g", v);
}

static void tick(FILE *f, bool x, double at, const char *label)
{
    if (x)
        fprintf(f,
                "<line class=grid x1=%.1f x2=%.1f y1=%.1f y2=%.1f /><text x=%.1f y=%.1f "
                "text-anchor=middle>%s</text>\n",
                at, at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 16, label);
    else
        fprintf(f,
                "<line class=grid x1=%.1f x2=%.1f y1=%.1f y2=%.1f /><text x=%.1f y=%.1f "
                "text-anchor=end>%s</text>\n",
                LEFT, WIDTH - RIGHT, at, at, LEFT - 6, at + 4, label);
}

/* 1, 2 and 5 of each power of ten if it is logarithmic; else about six round numbers. */
static void ticks(FILE *f, bool x, const struct scale *s)
{
    static const double parts[] = {1, 2, 5};
    char label[24];
    double v, step;
    size_t i;
    int e;

    if (s->log) {
        for (e = (int)floor(log10(s->least)); e <= (int)ceil(log10(s->most)); e++) {
            for (i = 0; i < FL_ARRAY_LEN(parts); i++) {
                v = parts[i] * pow(10, e);
                if (v < s->least || v > s->most || (i && log10(s->most / s->least) > 3))
                    continue;
                format_short(v, label);
                tick(f, x, x ? x_of(s, v) : y_of(s, v), label);
            }
        }
        return;
    }
    step = pow(10, floor(log10((s->most - s->least) / 5)));
    while ((s->most - s->least) / step > 8)
        step *= 2;
    for (v = s->least; v <= s->most * 1.0001; v += step) {
        format_short(v, label);
        tick(f, x, x ? x_of(s, v) : y_of(s, v), label);
    }
}

static void open_plot(FILE *f, const struct scale *x, const struct scale *y, const char *x_name,
                      const char *what)
{
    fprintf(f, "<svg viewBox=\"0 0 %.0f %.0f\" role=img aria-label=\"%s\">\n", WIDTH, HEIGHT, what);
    ticks(f, true, x);
    ticks(f, false, y);
    fprintf(f,
            "<line class=axis x1=%.1f x2=%.1f y1=%.1f y2=%.1f /><line class=axis x1=%.1f x2=%.1f y1=%.1f "
            "y2=%.1f />\n",
            LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, HEIGHT - BOTTOM, LEFT, LEFT, TOP, HEIGHT - BOTTOM);
    fprintf(f, "<text x=%.1f y=%.1f text-anchor=middle>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6,
            x_name);
}

static void legend(FILE *f, const struct tax *tax, bool (*shown)(const struct tax_path *))
{
    uint32_t i;

    fputs("<p>", f);
    for (i = 0; i < tax->nr_paths; i++) {
        if (!shown(&tax->paths[i]))
            continue;
        fprintf(f, "<span class=key><i style=\"background:%s\"></i>", colour_of(tax, &tax->paths[i]));
        put(f, tax->paths[i].name);
        fputs("</span> ", f);
    }
    fputs("</p>\n", f);
}

/* ---- distribution of the latency ---- */

struct bar {
    double us, n;
};

static int by_us(const void *a, const void *b)
{
    const struct bar *x = a, *y = b;

    return (x->us > y->us) - (x->us < y->us);
}

static bool has_histogram(const struct tax_path *p)
{
    return p->nr_rounds && json_array_size(p->histogram) > 0;
}

/* Sorted; the caller frees them. */
static struct bar *bars_of(const struct tax_path *p, size_t *nr, double *sum)
{
    struct bar *bars;
    size_t i;

    *nr = json_array_size(p->histogram);
    *sum = 0;
    bars = calloc(*nr + 1, sizeof(*bars));
    for (i = 0; bars && i < *nr; i++) {
        const json_t *pair = json_array_get(p->histogram, i);

        bars[i] = (struct bar){json_number_value(json_array_get(pair, 0)),
                               json_number_value(json_array_get(pair, 1))};
        *sum += bars[i].n;
    }
    if (bars)
        qsort(bars, *nr, sizeof(*bars), by_us);
    return bars;
}

/* How slow the slowest 10 %, 1 %, 0.1 % … are: percentiles over latency. */
static void plot_curve(FILE *f, const struct tax *tax, const struct tax_path *p, const struct scale *x,
                       const struct scale *y)
{
    double sum, seen = 0, last_x = -1, last_y = -1;
    size_t nr, i;
    struct bar *bars = bars_of(p, &nr, &sum);

    if (!bars)
        return;
    fprintf(f, "<polyline fill=none stroke-width=2 stroke=\"%s\" points=\"", colour_of(tax, p));
    for (i = 0; i < nr; i++) {
        const double at_x = x_of(x, FL_MIN(bars[i].us, x->most)),
                     at_y = y_of(y, FL_MAX(sum - seen, 0.5) / sum);

        seen += bars[i].n;
        if (fabs(at_x - last_x) < 0.5 && fabs(at_y - last_y) < 0.5)
            continue;
        fprintf(f, "%.1f,%.1f ", last_x = at_x, last_y = at_y);
        if (at_y > HEIGHT - BOTTOM - 0.5)
            break;
    }
    fputs("\"/>\n", f);
    free(bars);
}

static void plot_latency(FILE *f, const struct tax *tax)
{
    struct scale x = {.least = 1e9, .most = 0, .log = true}, y = {.least = 1e-4, .most = 1, .log = true};
    uint32_t i;

    for (i = 0; i < tax->nr_paths; i++) {
        const struct tax_path *p = &tax->paths[i];

        if (!has_histogram(p))
            continue;
        x.least = FL_MIN(x.least, tax_figure(p, TAX_P50).least / 2);
        x.most = FL_MAX(x.most, tax_figure(p, TAX_P999).most * 2);
    }
    if (x.most <= x.least)
        return;
    x.least = FL_MAX(x.least, 0.01);
    fputs("<h2>Latency at depth 1</h2><p>What share of the 4 KiB random reads took longer than so many "
          "microseconds "
          "(both logarithmic): left is fast, a steep fall is even.</p>\n",
          f);
    open_plot(f, &x, &y, "microseconds", "share of reads that took longer, over microseconds");
    for (i = 0; i < tax->nr_paths; i++)
        if (has_histogram(&tax->paths[i]))
            plot_curve(f, tax, &tax->paths[i], &x, &y);
    fputs("</svg>\n", f);
    legend(f, tax, has_histogram);
}

/* ---- IOPS over cores ---- */

static double cores_of(const struct tax_path *p)
{
    const struct tax_figure host = tax_figure(p, TAX_HOST), target = tax_figure(p, TAX_TARGET);

    return host.known && target.known ? (host.median + target.median) * tax_figure(p, TAX_RATE).median / 1e6
                                      : -1;
}

static bool has_cores(const struct tax_path *p)
{
    return p->nr_rounds && cores_of(p) >= 0;
}

static void plot_cores(FILE *f, const struct tax *tax)
{
    struct scale x = {0}, y = {0};
    uint32_t i;

    for (i = 0; i < tax->nr_paths; i++) {
        if (!has_cores(&tax->paths[i]))
            continue;
        x.most = FL_MAX(x.most, cores_of(&tax->paths[i]) * 1.15);
        y.most = FL_MAX(y.most, tax_figure(&tax->paths[i], TAX_RATE).most * 1.1);
    }
    if (x.most <= 0 || y.most <= 0)
        return;
    fputs("<h2>IOPS over cores</h2><p>4 KiB random reads at depth 32, and the cores that both ends together "
          "spent on them: up "
          "and left is better.</p>\n",
          f);
    open_plot(f, &x, &y, "cores of both ends", "I/Os a second over cores");
    for (i = 0; i < tax->nr_paths; i++) {
        const struct tax_path *p = &tax->paths[i];
        const struct tax_figure rate = tax_figure(p, TAX_RATE);

        if (!has_cores(p))
            continue;
        fprintf(f, "<line stroke=\"%s\" stroke-width=2 x1=%.1f x2=%.1f y1=%.1f y2=%.1f />", colour_of(tax, p),
                x_of(&x, cores_of(p)), x_of(&x, cores_of(p)), y_of(&y, rate.least), y_of(&y, rate.most));
        fprintf(f, "<circle r=6 fill=\"%s\" cx=%.1f cy=%.1f><title>", colour_of(tax, p),
                x_of(&x, cores_of(p)), y_of(&y, rate.median));
        put(f, p->name);
        fputs("</title></circle>\n", f);
    }
    fputs("</svg>\n", f);
    legend(f, tax, has_cores);
}

/* ---- the table ---- */

static void cell(FILE *f, struct tax_figure v, const char *fmt, double unit)
{
    fputs("<td>", f);
    if (!v.known) {
        fputs("&ndash;", f);
    } else {
        fputs("<span title=\"", f);
        fprintf(f, fmt, v.least / unit);
        fputs(" to ", f);
        fprintf(f, fmt, v.most / unit);
        fputs("\">", f);
        fprintf(f, fmt, v.median / unit);
        fputs("</span>", f);
    }
    fputs("</td>", f);
}

static void table(FILE *f, const struct tax *tax)
{
    uint32_t i;
    int c;

    fputs("<div class=scroll><table><tr><th>Path<th>added us, mean<th>p50<th>p99<th>p99.9<th>latency "
          "us<th>kIOPS<th>GB/s"
          "<th>cores per million I/Os, host<th>target<th>copies, by design</tr>\n",
          f);
    for (i = 0; i < tax->nr_paths; i++) {
        const struct tax_path *p = &tax->paths[i];

        if (!p->nr_rounds)
            continue;
        fputs("<tr><td>", f);
        put(f, p->name);
        fputs("</td>", f);
        for (c = TAX_MEAN; c <= TAX_P999; c++)
            cell(f, tax_added(tax, p, (enum tax_column)c), "%+.2f", 1);
        cell(f, tax_figure(p, TAX_MEAN), "%.2f", 1);
        cell(f, tax_figure(p, TAX_RATE), "%.1f", 1e3);
        cell(f, tax_figure(p, TAX_GBPS), "%.2f", 1);
        cell(f, tax_figure(p, TAX_HOST), "%.2f", 1);
        cell(f, tax_figure(p, TAX_TARGET), "%.2f", 1);
        if (p->copies < 0)
            fputs("<td>?</td>", f);
        else
            fprintf(f, "<td>%.0f</td>", p->copies);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void commands(FILE *f, const struct tax *tax)
{
    uint32_t i;

    fputs("<h2>How it was measured</h2>\n", f);
    fprintf(f,
            "<p>%u rounds of %g s over all paths in turn; the figures are medians, and the range of the "
            "rounds shows when "
            "the pointer rests on one. Added latency is the difference to the local device within a round. "
            "Copies are "
            "those by CPUs for each byte read, the kernel's among them, by the design of the path.</p>\n",
            tax->nr_rounds, tax->seconds);
    for (i = 0; i < tax->nr_paths; i++) {
        const struct tax_path *p = &tax->paths[i];

        fputs("<p>", f);
        put(f, p->name);
        fputs(p->nr_rounds ? ": <code>" : ": not measured: ", f);
        put(f, p->nr_rounds ? p->command : p->why_not);
        fputs(p->nr_rounds ? "</code></p>\n" : "</p>\n", f);
    }
}

static void head(FILE *f, const struct tax *tax)
{
    json_t *machine = machine_json(), *date = date_json();
    char size[FL_SIZE_TEXT_LEN], text[320];

    fprintf(f,
            "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
            "content=\"width=device-width,initial-scale=1\"><title>What a fabric costs "
            "here</title><style>%s</style>\n",
            style);
    fputs("<h1>What a fabric costs here</h1>\n<p>", f);
    put(f, json_string_value(json_object_get(machine, "host")));
    fprintf(f, ", %d CPUs, ", (int)json_integer_value(json_object_get(machine, "cpus")));
    put(f, json_string_value(json_object_get(machine, "cpu")));
    fputs(", Linux ", f);
    put(f, json_string_value(json_object_get(machine, "kernel")));
    fprintf(f, "; %s; farlane %s; %s of the device.</p>\n", json_string_value(date), FARLANE_VERSION,
            fl_size_format(tax->size, size));
    if (tax_tell_disturbance(tax, text, sizeof(text))) {
        fputs("<p class=warn>", f);
        put(f, text);
        fputs("</p>\n", f);
    }
    json_decref(machine);
    json_decref(date);
}

int tax_html(const struct tax *tax, const char *file, struct fl_error *err)
{
    FILE *f = fopen(file, "we");
    int rc = 0;

    if (f) {
        head(f, tax);
        table(f, tax);
        plot_latency(f, tax);
        plot_cores(f, tax);
        commands(f, tax);
        fputs("</html>\n", f);
        rc = ferror(f);
    }
    if (!f || fclose(f) != 0 || rc)
        return fl_error_set(err, -errno, "cannot write %s: %s", file, strerror(errno));
    return 0;
}
