/* SPDX-License-Identifier: Apache-2.0 */
/* Every verdict and every border of advise_judge(), and that each has its words. */
#include <string.h>

#include "advise.h"
#include "base/unit.h"
#include "base/util.h"

/* Median, spread, I/Os a second, cores for them */
#define FULL(us, spread, rate, cores)      \
    {                                      \
        true, us, 200, spread, rate, cores \
    }
#define PATH(us) FULL(us, 0, 100000, 0.5)
#define NONE    \
    {           \
        .us = 0 \
    }

static const struct row {
    const char *what;
    struct advise_facts f;
    enum advise_verdict verdict;
    enum advise_reason reason;
} rows[] = {
    {"nothing measured", {NONE, NONE, ADVISE_UDP, 80, 0, 0, 2}, ADVISE_UNKNOWN, ADVISE_NOTHING},
    {"only TCP", {NONE, PATH(105), ADVISE_HARDWARE, 80, 0, 0, 2}, ADVISE_TCP, ADVISE_ONLY},
    {"only RDMA", {PATH(85), NONE, ADVISE_UDP, 80, 0, 0, 2}, ADVISE_RDMA, ADVISE_ONLY},
    {"only TCP, which may be paid to the last",
     {NONE, PATH(105), ADVISE_HARDWARE, 80, 25, 0, 2},
     ADVISE_TCP,
     ADVISE_ONLY},
    {"only TCP, too dear", {NONE, PATH(105.1), ADVISE_HARDWARE, 80, 25, 0, 2}, ADVISE_NEITHER, ADVISE_OVER},
    {"only RDMA, too dear", {PATH(85), NONE, ADVISE_UDP, 80, 4.9, 0, 2}, ADVISE_NEITHER, ADVISE_OVER},

    {"budget: neither", {PATH(81), PATH(105), ADVISE_SHM, 80, 0.9, 0, 2}, ADVISE_NEITHER, ADVISE_OVER},
    {"budget: RDMA, at the border",
     {PATH(81), PATH(105), ADVISE_SHM, 80, 1, 0, 2},
     ADVISE_RDMA,
     ADVISE_KEEPS},
    {"budget: RDMA, below TCP's",
     {PATH(81), PATH(105), ADVISE_SHM, 80, 24.9, 0, 2},
     ADVISE_RDMA,
     ADVISE_KEEPS},
    {"budget: both, at the border",
     {PATH(81), PATH(105), ADVISE_SHM, 80, 25, 0, 2},
     ADVISE_BOTH,
     ADVISE_BOTH_KEEP},
    {"budget: TCP, where RDMA is slower",
     {PATH(140), PATH(105), ADVISE_UDP, 80, 30, 0, 2},
     ADVISE_TCP,
     ADVISE_KEEPS},
    {"budget, device not known: the whole",
     {PATH(81), PATH(105), ADVISE_HARDWARE, -1, 90, 0, 2},
     ADVISE_RDMA,
     ADVISE_KEEPS},
    {"budget: both, and loss", {PATH(81), PATH(105), ADVISE_UDP, 80, 25, 0.01, 2}, ADVISE_TCP, ADVISE_LOSSY},
    {"budget: RDMA alone keeps it, though there is loss",
     {PATH(81), PATH(105), ADVISE_UDP, 80, 5, 0.01, 2},
     ADVISE_RDMA,
     ADVISE_KEEPS},

    {"loss at the border", {PATH(81), PATH(105), ADVISE_HARDWARE, 80, 0, 0.001, 2}, ADVISE_TCP, ADVISE_LOSSY},
    {"loss below it", {PATH(81), PATH(105), ADVISE_HARDWARE, 80, 0, 0.00099, 2}, ADVISE_RDMA, ADVISE_FASTER},
    {"loss not known", {PATH(81), PATH(105), ADVISE_HARDWARE, 80, 0, -1, 2}, ADVISE_RDMA, ADVISE_FASTER},
    {"loss, by shared memory", {PATH(81), PATH(105), ADVISE_SHM, 80, 0, 0.5, 2}, ADVISE_RDMA, ADVISE_FASTER},
    {"loss, and cores",
     {FULL(81, 0, 100000, 1.5), PATH(105), ADVISE_UDP, 80, 0, 0.5, 1},
     ADVISE_TCP,
     ADVISE_LOSSY},
    {"loss, where TCP is faster anyway",
     {PATH(140), PATH(105), ADVISE_UDP, 80, 0, 0.5, 2},
     ADVISE_TCP,
     ADVISE_LOSSY},

    {"RDMA needs more cores than are free",
     {FULL(81, 0, 100000, 1.5), PATH(105), ADVISE_UDP, 80, 0, 0, 1},
     ADVISE_TCP,
     ADVISE_CORES},
    {"so does TCP",
     {FULL(81, 0, 100000, 1.5), FULL(105, 0, 100000, 1.2), ADVISE_UDP, 80, 0, 0, 1},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"just enough cores",
     {FULL(81, 0, 100000, 1), PATH(105), ADVISE_UDP, 80, 0, 0, 1},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"more cores since it does more",
     {FULL(81, 0, 300000, 1.5), PATH(105), ADVISE_UDP, 80, 0, 0, 1},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"free cores not known",
     {FULL(81, 0, 100000, 9), PATH(105), ADVISE_UDP, 80, 0, 0, -1},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"needed cores not known",
     {FULL(81, 0, 100000, -1), PATH(105), ADVISE_UDP, 80, 0, 0, 1},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"TCP needs more than are free",
     {PATH(140), FULL(105, 0, 100000, 1.5), ADVISE_UDP, 80, 0, 0, 1},
     ADVISE_RDMA,
     ADVISE_CORES},

    {"little to a slow device",
     {PATH(5002), PATH(5030), ADVISE_HARDWARE, 5000, 0, 0, 2},
     ADVISE_BOTH,
     ADVISE_SMALL},
    {"little at the border",
     {PATH(1001), PATH(1100), ADVISE_HARDWARE, 1000, 0, 0, 2},
     ADVISE_BOTH,
     ADVISE_SMALL},
    {"more than little, but alike",
     {PATH(1040), PATH(1101), ADVISE_HARDWARE, 1000, 0, 0, 2},
     ADVISE_BOTH,
     ADVISE_ALIKE},
    {"alike at the border", {PATH(180), PATH(200), ADVISE_HARDWARE, 100, 0, 0, 2}, ADVISE_BOTH, ADVISE_ALIKE},
    {"not alike any more",
     {PATH(179.9), PATH(200), ADVISE_HARDWARE, 100, 0, 0, 2},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"less than the rounds differ",
     {FULL(100, 60, 100000, 0.5), PATH(150), ADVISE_HARDWARE, 80, 0, 0, 2},
     ADVISE_UNKNOWN,
     ADVISE_UNSURE},
    {"as much as the rounds differ",
     {FULL(100, 50, 100000, 0.5), PATH(150), ADVISE_HARDWARE, 80, 0, 0, 2},
     ADVISE_UNKNOWN,
     ADVISE_UNSURE},
    {"a little more",
     {FULL(100, 49.9, 100000, 0.5), PATH(150), ADVISE_HARDWARE, 80, 0, 0, 2},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"alike, and the rounds differ",
     {FULL(100, 49.9, 100000, 0.5), PATH(105), ADVISE_HARDWARE, 80, 0, 0, 2},
     ADVISE_BOTH,
     ADVISE_ALIKE},
    {"alike, device not known",
     {PATH(100), PATH(105), ADVISE_HARDWARE, -1, 0, 0, 2},
     ADVISE_BOTH,
     ADVISE_ALIKE},
    {"RDMA, device not known",
     {PATH(10), PATH(105), ADVISE_HARDWARE, -1, 0, 0, 2},
     ADVISE_RDMA,
     ADVISE_FASTER},
    {"RDMA, device of no time", {PATH(1), PATH(13), ADVISE_SHM, 0, 0, 0, 2}, ADVISE_RDMA, ADVISE_FASTER},
    {"TCP is faster", {PATH(140), PATH(105), ADVISE_UDP, 80, 0, 0, 2}, ADVISE_TCP, ADVISE_FASTER},
    {"a path seems faster than the device",
     {PATH(79), PATH(81), ADVISE_SHM, 80, 0, 0, 2},
     ADVISE_BOTH,
     ADVISE_SMALL},
};

static const struct row *row(const char *what)
{
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(rows); i++)
        if (!strcmp(rows[i].what, what))
            return &rows[i];
    fail_msg("no row %s", what);
    return NULL;
}

static void verdicts(void **state)
{
    bool verdict[ADVISE_NEITHER + 1] = {0}, reason[ADVISE_FASTER + 1] = {0};
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(rows); i++) {
        const struct advice a = advise_judge(&rows[i].f);

        if (a.verdict != rows[i].verdict || a.reason != rows[i].reason)
            fail_msg("%s: %s, %s", rows[i].what, advise_verdict_name(a.verdict),
                     advise_reason_name(a.reason));
        verdict[a.verdict] = reason[a.reason] = true;
    }
    for (i = 0; i < FL_ARRAY_LEN(verdict); i++)
        assert_true(verdict[i]);
    for (i = 0; i < FL_ARRAY_LEN(reason); i++)
        assert_true(reason[i]);
}

/* With what a change asks for, the verdict is what it says. */
static void follow(const struct row *r, const struct advise_change *c)
{
    struct advise_facts f = r->f;
    struct advice a;
    double by;

    switch (c->turn) {
    case ADVISE_TURN_DEVICE_OVER:
    case ADVISE_TURN_DEVICE_UNDER:
        by = c->value * (c->turn == ADVISE_TURN_DEVICE_OVER ? 1.01 : 0.99) - f.device_us;
        f.device_us += by;
        f.rdma.us += by;
        f.tcp.us += by;
        break;
    case ADVISE_TURN_BUDGET:
        f.budget_us = c->value;
        break;
    case ADVISE_TURN_BUDGET_UNDER:
        f.budget_us = c->value * 0.99;
        break;
    case ADVISE_TURN_LOSS:
        f.loss = c->value;
        break;
    case ADVISE_TURN_NO_LOSS:
        f.loss = c->value * 0.99;
        break;
    case ADVISE_TURN_CORES:
        f.cores_free = c->value;
        break;
    default:
        assert_int_equal(c->to, ADVISE_UNKNOWN);
        return;
    }
    a = advise_judge(&f);
    if (a.verdict != c->to)
        fail_msg("%s: change %d to %g: %s instead of %s", r->what, c->turn, c->value,
                 advise_verdict_name(a.verdict), advise_verdict_name(c->to));
}

static void changes_are_true(void **state)
{
    bool turn[ADVISE_TURN_OTHER + 1] = {0};
    size_t i, n;

    for (i = 0; i < FL_ARRAY_LEN(rows); i++) {
        const struct advice a = advise_judge(&rows[i].f);

        assert_true(a.nr_changes <= FL_ARRAY_LEN(a.change));
        for (n = 0; n < a.nr_changes; n++) {
            assert_int_not_equal(a.change[n].to, a.verdict);
            follow(&rows[i], &a.change[n]);
            turn[a.change[n].turn] = true;
        }
    }
    for (i = 0; i < FL_ARRAY_LEN(turn); i++)
        if (!turn[i])
            fail_msg("no row has the change %zu", i);
}

static void tail(void **state)
{
    struct advise_facts f = row("RDMA, device of no time")->f;

    assert_false(advise_judge(&f).tail_disagrees);
    f.rdma.p99 = 223;
    assert_true(advise_judge(&f).tail_disagrees);
    f.rdma.p99 = 222; /* a tenth */
    assert_false(advise_judge(&f).tail_disagrees);
    f = row("TCP is faster")->f;
    assert_false(advise_judge(&f).tail_disagrees);
    f.tcp.p99 = 300;
    assert_true(advise_judge(&f).tail_disagrees);
}

static void words(void **state)
{
    char buf[ADVISE_TEXT];
    size_t i, n;

    for (i = 0; i < FL_ARRAY_LEN(rows); i++) {
        const struct advice a = advise_judge(&rows[i].f);

        assert_true(strlen(advise_why(&rows[i].f, &a, buf)) > 10);
        assert_null(strstr(buf, "nan"));
        assert_null(strstr(buf, "inf"));
        for (n = 0; n < a.nr_changes; n++)
            assert_true(strlen(advise_change_text(&rows[i].f, &a.change[n], buf)) > 10);
    }
    {
        const struct row *r = row("RDMA, device of no time");
        const struct advice a = advise_judge(&r->f);

        assert_string_equal(
            advise_why(&r->f, &a, buf),
            "RDMA by shared memory adds 1.0 us, TCP 13 us: 92 % of the 13 us that an application sees");
        assert_string_equal(advise_verdict_text(a.verdict), "RDMA");
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(verdicts), cmocka_unit_test(changes_are_true), cmocka_unit_test(tail),
                       cmocka_unit_test(words));
}
