/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

void fl_histogram_init(struct fl_histogram *h)
{
    memset(h, 0, sizeof(*h));
    h->min = UINT64_MAX;
}

void fl_histogram_merge(struct fl_histogram *to, const struct fl_histogram *from)
{
    to->count += from->count;
    to->sum += from->sum;
    to->min = FL_MIN(to->min, from->min);
    to->max = FL_MAX(to->max, from->max);
    for (uint32_t i = 0; i < FL_HISTOGRAM_BUCKETS; i++)
        to->bucket[i] += from->bucket[i];
}

uint64_t fl_histogram_bucket_value(uint32_t i)
{
    uint32_t shift;

    if (i < 2 * FL_HISTOGRAM_SUB)
        return i;
    shift = i / FL_HISTOGRAM_SUB - 1;
    return ((uint64_t)(FL_HISTOGRAM_SUB + i % FL_HISTOGRAM_SUB) << shift) + (UINT64_C(1) << (shift - 1));
}

uint64_t fl_histogram_percentile(const struct fl_histogram *h, double percent)
{
    uint64_t rank, seen = 0;

    if (!h->count)
        return 0;
    rank = (uint64_t)ceil(percent / 100.0 * (double)h->count);
    if (rank >= h->count)
        return h->max;
    for (uint32_t i = 0; i < FL_HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (h->bucket[i] && seen >= rank)
            return FL_MIN(FL_MAX(fl_histogram_bucket_value(i), h->min), h->max);
    }
    return h->max;
}

double fl_histogram_mean(const struct fl_histogram *h)
{
    return h->count ? (double)h->sum / (double)h->count : 0.0;
}
