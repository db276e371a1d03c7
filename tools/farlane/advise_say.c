/* SPDX-License-Identifier: Apache-2.0 */
/* A verdict in words. */
#include <math.h>
#include <stdio.h>

#include "advise.h"

static const struct {
    const char *name, *text;
} verdicts[] = {
    [ADVISE_UNKNOWN] = {"unknown", "cannot be told"},
    [ADVISE_RDMA] = {"rdma", "RDMA"},
    [ADVISE_TCP] = {"tcp", "TCP"},
    [ADVISE_BOTH] = {"both", "both are noise here"},
    [ADVISE_NEITHER] = {"neither", "neither"},
};

static const char *const reasons[] = {
    [ADVISE_NOTHING] = "nothing-measured",
    [ADVISE_ONLY] = "only-one-measured",
    [ADVISE_OVER] = "over-budget",
    [ADVISE_KEEPS] = "keeps-budget",
    [ADVISE_BOTH_KEEP] = "both-keep-budget",
    [ADVISE_LOSSY] = "loss",
    [ADVISE_CORES] = "cores",
    [ADVISE_SMALL] = "little-to-the-device",
    [ADVISE_ALIKE] = "alike",
    [ADVISE_UNSURE] = "rounds-differ",
    [ADVISE_FASTER] = "faster",
};

const char *advise_verdict_name(enum advise_verdict verdict)
{
    return verdicts[verdict].name;
}

const char *advise_verdict_text(enum advise_verdict verdict)
{
    return verdicts[verdict].text;
}

const char *advise_reason_name(enum advise_reason reason)
{
    return reasons[reason];
}

/* "12.3 us", with as many digits as say something. */
struct us_text {
    char text[32];
};

static struct us_text us(double v)
{
    struct us_text t;

    snprintf(t.text, sizeof(t.text), "%.*f us", fabs(v) < 10 ? 1 : 0, v);
    return t;
}

static const char *rdma_name(enum advise_kind kind)
{
    return kind == ADVISE_SHM ? "RDMA by shared memory" : kind == ADVISE_UDP ? "RDMA in software" : "RDMA";
}

/* "RDMA adds 1.2 us, TCP 24 us"; where the device is not known, it takes them. */
static int both(const struct advise_facts *f, const struct advice *a, char *buf)
{
    return snprintf(buf, ADVISE_TEXT, "%s %s %s, TCP %s", rdma_name(f->kind),
                    f->device_us < 0 ? "takes" : "adds", us(a->added_rdma).text, us(a->added_tcp).text);
}

static const char *measured_name(const struct advise_facts *f)
{
    return f->rdma.known ? rdma_name(f->kind) : "TCP";
}

char *advise_why(const struct advise_facts *f, const struct advice *a, char *buf)
{
    const double most = fmax(a->added_rdma, a->added_tcp), all = fmax(f->rdma.us, f->tcp.us);
    int at = 0;

    if (a->reason == ADVISE_NOTHING) {
        snprintf(buf, ADVISE_TEXT, "neither path could be measured");
        return buf;
    }
    if (f->rdma.known && f->tcp.known)
        at = both(f, a, buf);
    else
        at = snprintf(buf, ADVISE_TEXT, "%s %s %s, %s could not be measured", measured_name(f),
                      f->device_us < 0 ? "takes" : "adds",
                      us(f->rdma.known ? a->added_rdma : a->added_tcp).text, f->rdma.known ? "TCP" : "RDMA");
    buf += at;
    switch (a->reason) {
    case ADVISE_OVER:
        snprintf(buf, (size_t)(ADVISE_TEXT - at), ": more than the %s that may be paid",
                 us(f->budget_us).text);
        break;
    case ADVISE_KEEPS:
        snprintf(buf, (size_t)(ADVISE_TEXT - at), "; %s may be paid", us(f->budget_us).text);
        break;
    case ADVISE_BOTH_KEEP:
        snprintf(buf, (size_t)(ADVISE_TEXT - at), "; %s may be paid: take TCP, which needs nothing",
                 us(f->budget_us).text);
        break;
    case ADVISE_LOSSY:
        snprintf(buf, (size_t)(ADVISE_TEXT - at),
                 "; but %.2f %% of the packets are sent again, of which RDMA suffers more", f->loss * 100);
        break;
    case ADVISE_CORES:
        snprintf(buf, (size_t)(ADVISE_TEXT - at), "; but %s needs more than the %.1f cores that are free",
                 a->verdict == ADVISE_TCP ? "RDMA" : "TCP", f->cores_free);
        break;
    case ADVISE_SMALL:
        snprintf(buf, (size_t)(ADVISE_TEXT - at), ": at most %.0f %% of the device's %s",
                 fmax(most, 0) / f->device_us * 100, us(f->device_us).text);
        break;
    case ADVISE_ALIKE:
        snprintf(buf, (size_t)(ADVISE_TEXT - at),
                 ": the difference is %.0f %% of the %s that an application sees", fabs(a->gap) / all * 100,
                 us(all).text);
        break;
    case ADVISE_UNSURE:
        snprintf(buf, (size_t)(ADVISE_TEXT - at),
                 "; but the rounds differ by more than that: repeat it on a quiet machine, or with longer "
                 "--seconds");
        break;
    case ADVISE_FASTER:
        snprintf(buf, (size_t)(ADVISE_TEXT - at), ": %.0f %% of the %s that an application sees",
                 fabs(a->gap) / all * 100, us(all).text);
        break;
    default:
        break;
    }
    return buf - at;
}

/* "then TCP": what it turns to. */
static const char *to_text(enum advise_verdict to)
{
    return to == ADVISE_BOTH ? "both are noise" : verdicts[to].text;
}

char *advise_change_text(const struct advise_facts *f, const struct advise_change *c, char *buf)
{
    const char *to = to_text(c->to);

    switch (c->turn) {
    case ADVISE_TURN_DEVICE_OVER:
        snprintf(buf, ADVISE_TEXT, "a device slower than %s: then %s", us(c->value).text, to);
        break;
    case ADVISE_TURN_DEVICE_UNDER:
        snprintf(buf, ADVISE_TEXT, "a device faster than %s: then %s", us(c->value).text, to);
        break;
    case ADVISE_TURN_BUDGET:
        snprintf(buf, ADVISE_TEXT, "%s that may be paid (--budget-us): then %s", us(c->value).text, to);
        break;
    case ADVISE_TURN_BUDGET_UNDER:
        snprintf(buf, ADVISE_TEXT, "less than %s that may be paid: then %s", us(c->value).text, to);
        break;
    case ADVISE_TURN_LOSS:
        snprintf(buf, ADVISE_TEXT, "a network that loses more than %.1f %% of the packets: then %s",
                 c->value * 100, to);
        break;
    case ADVISE_TURN_NO_LOSS:
        snprintf(buf, ADVISE_TEXT, "less than %.1f %% of the packets sent again: then %s", c->value * 100,
                 to);
        break;
    case ADVISE_TURN_CORES:
        snprintf(buf, ADVISE_TEXT, "%.1f free cores instead of %.1f: then %s", c->value, f->cores_free, to);
        break;
    case ADVISE_TURN_HARDWARE:
        snprintf(buf, ADVISE_TEXT,
                 "RDMA hardware at both ends, which only a measurement to there tells (--peer)");
        break;
    case ADVISE_TURN_OTHER:
        snprintf(buf, ADVISE_TEXT, "%s, once it can be had and measured", f->rdma.known ? "TCP" : "RDMA");
        break;
    }
    return buf;
}
