/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#include <math.h>
#include <stdlib.h>

#include "base/unit.h"

static struct fl_histogram h, other;

static void buckets_are_dense_and_in_order(void **state)
{
    uint32_t last = 0;

    for (uint64_t v = 0; v < 100000; v++) {
        uint32_t b = fl_histogram_bucket_of(v);

        assert_true(b == last || b == last + 1);
        last = b;
    }
    for (int bit = 1; bit < 64; bit++) {
        uint64_t v = UINT64_C(1) << bit;

        assert_int_equal(fl_histogram_bucket_of(v), fl_histogram_bucket_of(v - 1) + 1);
    }
    assert_int_equal(fl_histogram_bucket_of(UINT64_MAX), FL_HISTOGRAM_BUCKETS - 1);
}

static void is_small(void **state)
{
    assert_true(sizeof(struct fl_histogram) <= 32 * 1024);
}

static void empty(void **state)
{
    fl_histogram_init(&h);
    assert_int_equal(fl_histogram_percentile(&h, 50), 0);
    assert_true(fl_histogram_mean(&h) == 0.0);
}

static void one_value_is_exact(void **state)
{
    static const uint64_t values[] = {0, 1, 63, 64, 7213, 123456789, UINT64_MAX};

    for (size_t i = 0; i < FL_ARRAY_LEN(values); i++) {
        fl_histogram_init(&h);
        fl_histogram_record(&h, values[i]);
        for (int p = 0; p <= 100; p += 10)
            assert_true(fl_histogram_percentile(&h, p) == values[i]);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Against the exact answer from the sorted values, recorded in two halves and merged. */
static void percentiles_are_within_one_percent(void **state)
{
    enum { N = 50000 };
    static const double percents[] = {0.001, 1, 25, 50, 75, 90, 99, 99.9, 99.99, 100};
    uint64_t *v = malloc(N * sizeof(*v)), sum = 0;

    srand(3);
    fl_histogram_init(&h);
    fl_histogram_init(&other);
    for (int i = 0; i < N; i++) {
        v[i] = (uint64_t)exp(4.0 + 14.0 * rand() / RAND_MAX); /* 55 ns to 66 ms */
        sum += v[i];
        fl_histogram_record(i % 2 ? &h : &other, v[i]);
    }
    fl_histogram_merge(&h, &other);
    qsort(v, N, sizeof(*v), compare);
    assert_int_equal(h.count, N);
    assert_int_equal(h.min, v[0]);
    assert_int_equal(h.max, v[N - 1]);
    assert_true(fl_histogram_mean(&h) == (double)sum / N);
    for (size_t i = 0; i < FL_ARRAY_LEN(percents); i++) {
        size_t rank = (size_t)ceil(percents[i] / 100 * N);
        double exact = (double)v[rank ? rank - 1 : 0];
        double got = (double)fl_histogram_percentile(&h, percents[i]);

        if (fabs(got - exact) > exact * 0.01)
            fail_msg("p%g: %g, not %g", percents[i], got, exact);
    }
    free(v);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(buckets_are_dense_and_in_order), cmocka_unit_test(is_small),
                       cmocka_unit_test(empty), cmocka_unit_test(one_value_is_exact),
                       cmocka_unit_test(percentiles_are_within_one_percent));
}
