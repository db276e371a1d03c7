/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"

#define CHUNK_LEN (1u << 20)
#define MAGIC     UINT64_C(0x6661726c616e6521)

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void fill_sector(uint64_t *word, uint64_t off, uint32_t sector, uint64_t generation)
{
    const uint64_t step = mix(off ^ generation << 40) | 1;
    uint32_t i;

    word[0] = off ^ MAGIC;
    word[1] = generation;
    for (i = 2; i < sector / 8; i++)
        word[i] = word[0] + step * i;
}

void bench_pattern_fill(void *buf, uint64_t off, uint64_t len, uint32_t sector, uint64_t generation)
{
    uint64_t at;

    for (at = 0; at < len; at += sector)
        fill_sector((uint64_t *)((char *)buf + at), off + at, sector, generation);
}

static bool sector_is_right(const uint64_t *word, uint64_t off, uint32_t sector)
{
    const uint64_t step = mix(off ^ word[1] << 40) | 1;
    uint64_t wrong = word[0] ^ off ^ MAGIC;
    uint32_t i;

    for (i = 2; i < sector / 8; i++)
        wrong |= word[i] ^ (word[0] + step * i);
    return wrong == 0;
}

bool bench_pattern_check(const void *buf, uint64_t off, uint64_t len, uint32_t sector, uint64_t *bad)
{
    uint64_t at;

    for (at = 0; at < len; at += sector) {
        if (!sector_is_right((const uint64_t *)((const char *)buf + at), off + at, sector)) {
            *bad = off + at;
            return false;
        }
    }
    return true;
}

int bench_pattern_lay(struct fl_device *dev, uint64_t len, uint32_t sector, struct fl_error *err)
{
    void *buf = aligned_alloc(4096, CHUNK_LEN);
    struct fl_queue *queue = NULL;
    uint64_t at;
    int rc = buf ? fl_queue_create(dev, 32, &queue, err) : -ENOMEM;

    for (at = 0; rc == 0 && at < len; at += CHUNK_LEN) {
        const uint64_t part = FL_MIN(len - at, (uint64_t)CHUNK_LEN);

        bench_pattern_fill(buf, at, part, sector, 1);
        rc = fl_write(queue, buf, at, part, err);
    }
    if (queue)
        fl_queue_destroy(queue);
    free(buf);
    return rc;
}
