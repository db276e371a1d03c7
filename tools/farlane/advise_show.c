/* SPDX-License-Identifier: Apache-2.0 */
/* One screen: verdicts, the figures behind them, what was lost, and what would change it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advise.h"
#include "base/size.h"
#include "base/utf8.h"
#include "base/util.h"
#include "term.h"

#define MAX_WIDTH 100
#define MAX_LINES 24

/* ---- lines ---- */

struct page {
    uint32_t nr_lines;
    int width;
};

static void end_line(struct page *page)
{
    putchar('\n');
    page->nr_lines++;
}

/* Words wrapped at the width; the first line begins at `at`, which has been printed, the others at `indent`.
 */
static void wrap(struct page *page, const char *text, int at, int indent)
{
    bool first = true;

    while (*text) {
        const int len = (int)strcspn(text, " ");

        if (!first && at + 1 + len > page->width) {
            end_line(page);
            at = printf("%*s", indent, "");
            first = true;
        }
        at += printf("%s%.*s", first ? "" : " ", len, text);
        first = false;
        text += len + (text[len] == ' ');
    }
    end_line(page);
}

static void FL_PRINTF(3, 4) say(struct page *page, int indent, const char *fmt, ...)
{
    char *text;
    va_list args;

    va_start(args, fmt);
    text = term_text(fmt, args);
    va_end(args);
    wrap(page, text, printf("%*s", indent, ""), indent);
    free(text);
}

/* ---- parts ---- */

static const char *device_name(const struct advise *a, char buf[FL_SIZE_TEXT_LEN + 64])
{
    const char *spec = a->tax.spec;

    if (!spec[0])
        snprintf(buf, FL_SIZE_TEXT_LEN + 64, "the peer's device");
    else if (a->tax.nr_urls && spec[0])
        snprintf(buf, FL_SIZE_TEXT_LEN + 64, "%.*s", (int)FL_MIN(strcspn(spec, ","), (size_t)60), spec);
    else
        snprintf(buf, FL_SIZE_TEXT_LEN + 64, "a file in %.50s", a->tax.folder);
    return buf;
}

static void show_verdict(struct page *page, const struct advise_case *c, int widest)
{
    char why[ADVISE_TEXT], *text = NULL;
    const char *not = c->rdma_why_not[0] ? c->rdma_why_not : c->tcp_why_not;
    const int indent = 2 + widest + 2;
    int at;

    at = printf("  %s:%*s", c->where, widest - (int)strlen(c->where) + 1, "");
    at += printf("%s%s%s", term_on(stdout, TERM_BOLD), advise_verdict_text(c->advice.verdict),
                 term_off(stdout));
    at -= (int)(strlen(term_on(stdout, TERM_BOLD)) + strlen(term_off(stdout)));
    advise_why(&c->facts, &c->advice, why);
    if (asprintf(&text, ". %s%s%.*s%s%s", why, not [0] ? " (" : "", 120, not, not [0] ? ")" : "",
                 c->advice.tail_disagrees ? ". The slowest hundredth says the opposite: see P99" : "") < 0)
        abort();
    fl_utf8_make_harmless(text);
    wrap(page, text, at, indent);
    free(text);
}

static void cell_figure(struct table *t, struct tax_figure f)
{
    if (f.known)
        table_cell_us(t, f.median, false);
    else
        table_cell(t, "-");
}

/* As the verdict has it: a difference of medians. Of a peer's device only the median is told. */
static void cell_added(struct table *t, const struct advise *a, const struct tax_path *p,
                       enum tax_column column)
{
    const struct tax_path *base = tax_base(&a->tax);
    const struct tax_figure path = tax_figure(p, column);

    if (base == p || !path.known || (!base && (column != TAX_P50 || a->service_us < 0)))
        table_cell(t, "-");
    else
        table_cell_us(t, path.median - (base ? tax_figure(base, column).median : a->service_us), true);
}

static void show_table(struct page *page, const struct advise *a)
{
    const struct tax *tax = &a->tax;
    struct table t;
    uint32_t i;

    table_init(&t, "PATH", ">LATENCY us P50", ">P99 us", ">ADDED us P50", ">P99 us", ">IOPS", ">CORES HERE",
               ">THERE", NULL);
    for (i = 0; i < tax->nr_paths; i++) {
        const struct tax_path *p = &tax->paths[i];
        const struct tax_figure rate = tax_figure(p, TAX_RATE), host = tax_figure(p, TAX_HOST),
                                target = tax_figure(p, TAX_TARGET);

        if (!p->nr_rounds)
            continue;
        table_cell(&t, "%.40s", p->name);
        cell_figure(&t, tax_figure(p, TAX_P50));
        cell_figure(&t, tax_figure(p, TAX_P99));
        cell_added(&t, a, p, TAX_P50);
        cell_added(&t, a, p, TAX_P99);
        table_cell_rate(&t, rate.median);
        table_cell(&t, "%.2f", host.median * rate.median / 1e6);
        if (p->local || !target.known)
            table_cell(&t, "-");
        else
            table_cell(&t, "%.2f", target.median * rate.median / 1e6);
        page->nr_lines++;
    }
    table_hide_empty(&t);
    table_print(&t, stdout, 2);
    page->nr_lines++;
}

static void again(char *buf, size_t size, const char *who, bool known, uint64_t nr, uint64_t sent)
{
    if (!known)
        snprintf(buf, size, "%s not known", who);
    else
        snprintf(buf, size, "%s %" PRIu64 " of %" PRIu64 " (%.3f %%)", who, nr, sent,
                 sent ? 100.0 * (double)nr / (double)sent : 0.0);
}

static void show_seen(struct page *page, const struct advise *a)
{
    const struct advise_seen *s = &a->seen;
    char tcp[120], boot[160] = "", rnic[120], more[200] = "", cpu[80];
    size_t at = 0;

    again(tcp, sizeof(tcp), "TCP", s->tcp_known, s->tcp_again, s->tcp_sent);
    if (!a->host && s->tcp_known)
        snprintf(boot, sizeof(boot), " (since the start %" PRIu64 " of %" PRIu64 ")", s->boot_again,
                 s->boot_sent);
    again(rnic, sizeof(rnic), "software RNIC", s->rnic_known, s->rnic_again, s->rnic_sent);
    if (s->tcp_out_of_order)
        at += (size_t)snprintf(more, sizeof(more), "; %" PRIu64 " TCP segments came out of order",
                               s->tcp_out_of_order);
    if (s->udp_full && at < sizeof(more))
        at += (size_t)snprintf(more + at, sizeof(more) - at, "; %" PRIu64 " datagrams found a full buffer",
                               s->udp_full);
    if (s->rnic_marked && at < sizeof(more))
        snprintf(more + at, sizeof(more) - at, "; congestion was told %" PRIu64 " times", s->rnic_marked);
    say(page, 2, "Sent again: %s%s, %s%s%s%s", tcp, boot, rnic, more, s->counter[0] ? "; " : "", s->counter);
    if (a->cores_free < 0)
        snprintf(cpu, sizeof(cpu), "not known");
    else
        snprintf(cpu, sizeof(cpu), "%.1f of %ld cores were free before", a->cores_free,
                 sysconf(_SC_NPROCESSORS_ONLN));
    say(page, 2, "CPU: %s; CORES and IOPS are of depth 32, polling counted.%s", cpu,
        a->host ? "" : " Both ends were on this machine: no wire.");
}

static void show_changes(struct page *page, const struct advise *a)
{
    char seen[FL_ARRAY_LEN(a->cases) * FL_ARRAY_LEN(a->cases[0].advice.change)][ADVISE_TEXT];
    uint32_t nr = 0, i, n, k;

    for (i = 0; i < a->nr_cases; i++) {
        for (n = 0; n < a->cases[i].advice.nr_changes; n++) {
            char text[ADVISE_TEXT];

            advise_change_text(&a->cases[i].facts, &a->cases[i].advice.change[n], text);
            for (k = 0; k < nr && strcmp(seen[k], text); k++)
                ;
            if (k < nr || page->nr_lines + 1 >= MAX_LINES)
                continue;
            if (!nr) {
                say(page, 0, "What would change it:");
            }
            strcpy(seen[nr++], text);
            if (a->nr_cases > 1)
                say(page, 2, "- %s: %s", a->cases[i].where, text);
            else
                say(page, 2, "- %s", text);
        }
    }
}

void advise_show(const struct advise *a)
{
    struct page page = {.width = FL_MIN(term_width(stdout), MAX_WIDTH)};
    char size[FL_SIZE_TEXT_LEN], device[FL_SIZE_TEXT_LEN + 64], text[320];
    int widest = 0;
    uint32_t i;

    say(&page, 0, "RDMA or TCP? Measured with %s, %s%s of it, %u rounds in turn, %.0f s in all",
        device_name(a, device), a->tax.spec[0] ? "" : "up to ", fl_size_format(a->tax.size, size),
        a->tax.nr_rounds, a->tax.took);
    end_line(&page);
    for (i = 0; i < a->nr_cases; i++)
        widest = FL_MAX(widest, (int)strlen(a->cases[i].where));
    for (i = 0; i < a->nr_cases; i++)
        show_verdict(&page, &a->cases[i], FL_MIN(widest, 30));
    end_line(&page);
    show_table(&page, a);
    if (tax_tell_disturbance(&a->tax, text, sizeof(text))) {
        fputs(term_on(stdout, TERM_YELLOW), stdout);
        say(&page, 2, "%s On a quiet machine the verdict may be another.", text);
        fputs(term_off(stdout), stdout);
    }
    end_line(&page);
    show_seen(&page, a);
    show_changes(&page, a);
}

/* ---- JSON ---- */

static json_t *number_or_null(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *case_json(const struct advise_case *c)
{
    char text[ADVISE_TEXT];
    json_t *changes = json_array();
    uint32_t i;

    for (i = 0; i < c->advice.nr_changes; i++) {
        const struct advise_change *change = &c->advice.change[i];

        json_array_append_new(
            changes, json_pack("{s:s, s:o, s:f}", "text", advise_change_text(&c->facts, change, text), "to",
                               change->to == ADVISE_UNKNOWN ? json_null()
                                                            : json_string(advise_verdict_name(change->to)),
                               "value", change->value));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:s, s:s, s:o}", "where", c->where, "verdict",
                     advise_verdict_name(c->advice.verdict), "reason", advise_reason_name(c->advice.reason),
                     "text", advise_why(&c->facts, &c->advice, text), "device_us",
                     number_or_null(c->facts.device_us), "added_rdma_us",
                     c->facts.rdma.known ? json_real(c->advice.added_rdma) : json_null(), "added_tcp_us",
                     c->facts.tcp.known ? json_real(c->advice.added_tcp) : json_null(), "tail_disagrees",
                     c->advice.tail_disagrees, "rdma_not_measured", c->rdma_why_not, "tcp_not_measured",
                     c->tcp_why_not, "changes", changes);
}

json_t *advise_json(const struct advise *a)
{
    const struct advise_seen *s = &a->seen;
    json_t *json = tax_json(&a->tax), *cases = json_array();
    uint32_t i;

    for (i = 0; i < a->nr_cases; i++)
        json_array_append_new(cases, case_json(&a->cases[i]));
    json_object_set_new(json, "peer", a->host ? json_string(a->host) : json_null());
    json_object_set_new(json, "budget_us", a->budget_us > 0 ? json_real(a->budget_us) : json_null());
    json_object_set_new(json, "cores_free", number_or_null(a->cores_free));
    json_object_set_new(json, "advice", cases);
    json_object_set_new(
        json, "seen",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:s}", "tcp_sent",
                  (json_int_t)s->tcp_sent, "tcp_sent_again", (json_int_t)s->tcp_again, "tcp_out_of_order",
                  (json_int_t)s->tcp_out_of_order, "tcp_sent_since_start", (json_int_t)s->boot_sent,
                  "tcp_sent_again_since_start", (json_int_t)s->boot_again, "udp_full",
                  (json_int_t)s->udp_full, "rnic_known", s->rnic_known, "rnic_sent", (json_int_t)s->rnic_sent,
                  "rnic_sent_again", (json_int_t)s->rnic_again, "rnic_marked", (json_int_t)s->rnic_marked,
                  "nr_counters", (json_int_t)s->nr_counters, "counter", s->counter));
    return json;
}
