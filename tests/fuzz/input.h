/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer's input, read as records from front to back: what is missing at its end is zero. */
#ifndef FL_FUZZ_INPUT_H
#define FL_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
    const uint8_t *at, *end;
};

static inline uint8_t byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* Returns how many bytes there were. */
static inline size_t take(struct input *in, void *p, size_t len)
{
    size_t n = (size_t)(in->end - in->at) < len ? (size_t)(in->end - in->at) : len;
    memset(p, 0, len);
    memcpy(p, in->at, n);
    in->at += n;
    return n;
}

#endif
