/* SPDX-License-Identifier: Apache-2.0 */
#include "advise.h"

#include <math.h>

#include "base/util.h"

static void add_change(struct advice *a, enum advise_turn turn, enum advise_verdict to, double value)
{
    if (a->nr_changes < FL_ARRAY_LEN(a->change))
        a->change[a->nr_changes++] = (struct advise_change){turn, to, value};
}

static void decide(struct advice *a, enum advise_verdict verdict, enum advise_reason reason)
{
    a->verdict = verdict;
    a->reason = reason;
}

/* A loss that could come matters to what goes over a wire only. */
static bool crosses_wire(const struct advise_facts *f)
{
    return f->kind != ADVISE_SHM;
}

static bool loses(const struct advise_facts *f)
{
    return crosses_wire(f) && f->loss >= ADVISE_LOSS;
}

static bool fits(const struct advise_facts *f, const struct advise_path *path, double added)
{
    return path->known && (f->budget_us <= 0 || added <= f->budget_us);
}

/* Cores that the path needs at the rate that both can do. */
static double cores_at(const struct advise_path *path, double rate)
{
    return path->cores < 0 || path->rate <= 0 ? -1 : path->cores * rate / path->rate;
}

/* The faster one needs more than there is, and the other does not. */
static double cores_missing(const struct advise_facts *f, const struct advise_path *faster,
                            const struct advise_path *slower)
{
    const double rate = fmin(faster->rate, slower->rate);
    const double needs = cores_at(faster, rate), other = cores_at(slower, rate);

    if (f->cores_free < 0 || needs < 0 || other < 0 || needs <= f->cores_free || other > f->cores_free)
        return 0;
    return needs;
}

static void judge_one(const struct advise_facts *f, struct advice *a)
{
    const bool rdma = f->rdma.known;
    const double added = rdma ? a->added_rdma : a->added_tcp;
    const enum advise_verdict one = rdma ? ADVISE_RDMA : ADVISE_TCP;

    if (!fits(f, rdma ? &f->rdma : &f->tcp, added)) {
        decide(a, ADVISE_NEITHER, ADVISE_OVER);
        add_change(a, ADVISE_TURN_BUDGET, one, added);
    } else {
        decide(a, one, ADVISE_ONLY);
    }
    add_change(a, ADVISE_TURN_OTHER, ADVISE_UNKNOWN, 0);
}

static bool judge_budget(const struct advise_facts *f, struct advice *a)
{
    const bool rdma = fits(f, &f->rdma, a->added_rdma), tcp = fits(f, &f->tcp, a->added_tcp);

    if (!rdma && !tcp) {
        decide(a, ADVISE_NEITHER, ADVISE_OVER);
        add_change(a, ADVISE_TURN_BUDGET, a->added_rdma < a->added_tcp ? ADVISE_RDMA : ADVISE_TCP,
                   fmin(a->added_rdma, a->added_tcp));
        return true;
    }
    if (rdma && tcp)
        return false;
    decide(a, rdma ? ADVISE_RDMA : ADVISE_TCP, ADVISE_KEEPS);
    add_change(a, ADVISE_TURN_BUDGET, loses(f) ? ADVISE_TCP : ADVISE_BOTH,
               rdma ? a->added_tcp : a->added_rdma);
    add_change(a, ADVISE_TURN_BUDGET_UNDER, ADVISE_NEITHER, rdma ? a->added_rdma : a->added_tcp);
    return true;
}

/* By latency alone; both keep the budget, or none was told. */
static enum advise_reason compare(const struct advise_facts *f, const struct advice *a)
{
    const double most = fmax(a->added_rdma, a->added_tcp);

    if (f->budget_us > 0)
        return ADVISE_BOTH_KEEP;
    if (f->device_us >= 0 && most <= ADVISE_NOISE * f->device_us)
        return ADVISE_SMALL;
    if (fabs(a->gap) <= a->noise_us)
        return ADVISE_ALIKE;
    return fabs(a->gap) <= fmax(f->rdma.spread, f->tcp.spread) ? ADVISE_UNSURE : ADVISE_FASTER;
}

/* What other devices and budgets would make of it. */
static void add_changes(const struct advise_facts *f, struct advice *a, enum advise_verdict first)
{
    const double gap = fabs(a->gap), most = fmax(a->added_rdma, a->added_tcp);
    /* It is noise as soon as what is added is a tenth of the device, or the gap a tenth of both together. */
    const double border = fmin(gap / ADVISE_NOISE - most, most / ADVISE_NOISE);

    if (a->reason == ADVISE_BOTH_KEEP)
        add_change(a, ADVISE_TURN_BUDGET_UNDER, first, most);
    if (a->reason == ADVISE_FASTER)
        add_change(a, ADVISE_TURN_BUDGET, ADVISE_BOTH, most);
    if (f->device_us < 0 || f->budget_us > 0 || gap <= fmax(f->rdma.spread, f->tcp.spread))
        return; /* of any device the rounds would differ by more */
    if (a->verdict == ADVISE_BOTH && border > 0 && border < f->device_us)
        add_change(a, ADVISE_TURN_DEVICE_UNDER, first, border);
    if (a->reason == ADVISE_FASTER && border > f->device_us)
        add_change(a, ADVISE_TURN_DEVICE_OVER, ADVISE_BOTH, border);
}

static void judge_two(const struct advise_facts *f, struct advice *a)
{
    const bool rdma_first = a->gap >= 0;
    const enum advise_verdict first = rdma_first ? ADVISE_RDMA : ADVISE_TCP;
    const enum advise_reason reason = compare(f, a);
    const enum advise_verdict by_latency = reason == ADVISE_FASTER   ? first
                                           : reason == ADVISE_UNSURE ? ADVISE_UNKNOWN
                                                                     : ADVISE_BOTH;
    const double needs = rdma_first ? cores_missing(f, &f->rdma, &f->tcp)
                                    : cores_missing(f, &f->tcp, &f->rdma);

    const bool no_cores = needs > 0 && by_latency == first;
    const enum advise_verdict second = rdma_first ? ADVISE_TCP : ADVISE_RDMA;

    const enum advise_verdict lossless = no_cores ? second : by_latency;

    if (loses(f)) {
        decide(a, ADVISE_TCP, ADVISE_LOSSY);
        if (lossless != ADVISE_TCP)
            add_change(a, ADVISE_TURN_NO_LOSS, lossless, ADVISE_LOSS);
        return;
    }
    if (no_cores) {
        decide(a, second, ADVISE_CORES);
        add_change(a, ADVISE_TURN_CORES, first, needs);
    } else {
        decide(a, by_latency, reason);
        add_changes(f, a, first);
    }
    if (crosses_wire(f) && a->verdict != ADVISE_TCP)
        add_change(a, ADVISE_TURN_LOSS, ADVISE_TCP, ADVISE_LOSS);
}

static bool tail_disagrees(const struct advise_facts *f, const struct advice *a)
{
    const double gap = f->tcp.p99 - f->rdma.p99;

    if (!f->rdma.known || !f->tcp.known || fabs(gap) <= ADVISE_NOISE * fmax(f->tcp.p99, f->rdma.p99))
        return false;
    return (a->verdict == ADVISE_RDMA && gap < 0) ||
           (a->verdict == ADVISE_TCP && gap > 0 && a->reason == ADVISE_FASTER);
}

struct advice advise_judge(const struct advise_facts *f)
{
    const double device = fmax(f->device_us, 0);
    struct advice a = {
        .added_rdma = f->rdma.us - device, .added_tcp = f->tcp.us - device, .gap = f->tcp.us - f->rdma.us};

    a.noise_us = ADVISE_NOISE * fmax(f->rdma.us, f->tcp.us);
    if (!f->rdma.known && !f->tcp.known) {
        decide(&a, ADVISE_UNKNOWN, ADVISE_NOTHING);
        return a;
    }
    if (!f->rdma.known || !f->tcp.known)
        judge_one(f, &a);
    else if (!judge_budget(f, &a))
        judge_two(f, &a);
    if (f->kind == ADVISE_UDP)
        add_change(&a, ADVISE_TURN_HARDWARE, ADVISE_UNKNOWN, 0);
    a.tail_disagrees = tail_disagrees(f, &a);
    return a;
}
