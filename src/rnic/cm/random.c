/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that a peer cannot guess from those that it has seen, and communication IDs that come again only
 * when all others had their turn. */
#include "rnic/cm/parts.h"

static uint64_t rotate(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-2-4 of 16 bytes */
uint64_t fl_cm_hash(const struct fl_cm *cm, uint64_t a, uint64_t b)
{
    uint64_t v[4] = {cm->config.seed[0] ^ 0x736f6d6570736575, cm->config.seed[1] ^ 0x646f72616e646f6d,
                     cm->config.seed[0] ^ 0x6c7967656e657261, cm->config.seed[1] ^ 0x7465646279746573};
    const uint64_t words[3] = {a, b, 16ull << 56};
    for (int i = 0; i < 3; i++) {
        v[3] ^= words[i];
        sip_round(v);
        sip_round(v);
        v[0] ^= words[i];
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* What it is for goes into the hash, so that what one kind of number tells says nothing of another. */
enum { FOR_DRAW = 1, FOR_ID };

uint64_t fl_cm_draw(struct fl_cm *cm)
{
    return fl_cm_hash(cm, FOR_DRAW, cm->nr_drawn++);
}

uint32_t fl_cm_random_psn(struct fl_cm *cm)
{
    return fl_cm_draw(cm) & 0xffffff;
}

/* A permutation of the numbers of `bits` bits, which are even: a Feistel network. */
static uint32_t permute(const struct fl_cm *cm, uint32_t v, int bits)
{
    int half = bits / 2;
    uint32_t mask = (1u << half) - 1, left = v >> half, right = v & mask;
    for (uint64_t round = 0; round < 6; round++) {
        uint32_t next = left ^ (uint32_t)(fl_cm_hash(cm, FOR_ID | round << 8, right) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

void fl_cm_set_id_prefix(struct fl_cm *cm, uint32_t id_prefix)
{
    cm->config.id_prefix = id_prefix & cm->config.id_mask;
}

uint32_t fl_cm_new_id(struct fl_cm *cm)
{
    uint32_t room = ~cm->config.id_mask; /* the low bits that are ours to choose */
    int bits = 32 - __builtin_clz(room);
    uint32_t id;
    do {
        uint32_t v = cm->id_count++ & room;
        do /* a permutation of one bit more, walked until it comes back into the room, is one of the room */
            v = permute(cm, v, bits + bits % 2);
        while (v > room);
        id = cm->config.id_prefix | v;
    } while (!id || fl_cm_find_id(cm, id));
    return id;
}
