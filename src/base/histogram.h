/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of 64-bit values (times in ns, as a rule) in buckets that grow with the value: 64 a power of two, so
 * that a percentile is right to 0.8 %. About 30 KiB; recording is a handful of instructions. One thread;
 * merge for more.
 */
#ifndef FL_BASE_HISTOGRAM_H
#define FL_BASE_HISTOGRAM_H

#include <stdint.h>

#define FL_HISTOGRAM_SUB_BITS 6
#define FL_HISTOGRAM_SUB      (1u << FL_HISTOGRAM_SUB_BITS)
#define FL_HISTOGRAM_BUCKETS  ((64 - FL_HISTOGRAM_SUB_BITS + 1) * FL_HISTOGRAM_SUB)

struct fl_histogram {
    uint64_t count;
    uint64_t sum; /* wraps after 584 years of summed nanoseconds */
    uint64_t min; /* UINT64_MAX while empty */
    uint64_t max;
    uint64_t bucket[FL_HISTOGRAM_BUCKETS];
};

/* Also empties it. */
void fl_histogram_init(struct fl_histogram *h);
void fl_histogram_merge(struct fl_histogram *to, const struct fl_histogram *from);

/* The value that `percent` (0 to 100) of the records do not exceed; 0 when empty. */
uint64_t fl_histogram_percentile(const struct fl_histogram *h, double percent);
double fl_histogram_mean(const struct fl_histogram *h);
/* The middle of a bucket: what its values are taken for, off by half its width at most. */
uint64_t fl_histogram_bucket_value(uint32_t bucket);

/* Values below 64 have a bucket each; above, the 6 bits after the leading one choose within the power of two.
 */
static inline uint32_t fl_histogram_bucket_of(uint64_t v)
{
    uint32_t shift;

    if (v < FL_HISTOGRAM_SUB)
        return (uint32_t)v;
    shift = 63 - FL_HISTOGRAM_SUB_BITS - (uint32_t)__builtin_clzll(v);
    return (shift + 1) * FL_HISTOGRAM_SUB + (uint32_t)(v >> shift) - FL_HISTOGRAM_SUB;
}

static inline void fl_histogram_record(struct fl_histogram *h, uint64_t v)
{
    h->count++;
    h->sum += v;
    if (v < h->min)
        h->min = v;
    if (v > h->max)
        h->max = v;
    h->bucket[fl_histogram_bucket_of(v)]++;
}

#endif
