/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/key_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define GENERATION_MASK 0x3fu /* what 24 bits leave beside the slot */
#define MANY_OTHERS     4096u /* a slot rests while fewer than this are free */
#define NO_SLOT         UINT32_MAX

_Static_assert((GENERATION_MASK + 1) << FL_KEY_SLOT_BITS == 1u << 24, "slot and generation make 24 bits");

static uint32_t half(uint32_t x, uint32_t secret)
{
    uint32_t m = (x + (secret >> 20)) * (secret | 1);
    return (m ^ m >> 13) & 0xfff;
}

/* A permutation of 24 bits (four Feistel rounds): no cipher, but not to be guessed from a few keys seen. */
static uint32_t mix(const uint32_t secret[4], uint32_t v)
{
    uint32_t l = v >> 12, r = v & 0xfff;
    for (int i = 0; i < 4; i++) {
        uint32_t t = l ^ half(r, secret[i]);
        l = r;
        r = t;
    }
    return l << 12 | r;
}

static uint32_t unmix(const uint32_t secret[4], uint32_t v)
{
    uint32_t l = v >> 12, r = v & 0xfff;
    for (int i = 3; i >= 0; i--) {
        uint32_t t = r ^ half(l, secret[i]);
        r = l;
        l = t;
    }
    return l << 12 | r;
}

static int fill_random(void *to, size_t len)
{
    ssize_t n = getrandom(to, len, 0);
    return n == (ssize_t)len ? 0 : -EIO;
}

int fl_key_table_init(struct fl_key_table *table)
{
    int r = -ENOMEM;
    *table = (struct fl_key_table){.fd = -1, .oldest = NO_SLOT, .newest = NO_SLOT, .nr_changes = 1};
    table->fd = memfd_create("farlane-keys", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (table->fd < 0)
        return -errno;
    /* Who maps it must be sure that it stays as long as it is. */
    if (ftruncate(table->fd, sizeof(*table->file)) < 0 ||
        fcntl(table->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        r = -errno;
        goto fail;
    }
    void *file = mmap(NULL, sizeof(*table->file), PROT_READ | PROT_WRITE, MAP_SHARED, table->fd, 0);
    if (file == MAP_FAILED)
        goto fail;
    table->file = file;
    table->next = calloc(FL_KEY_MAX, sizeof(*table->next)); /* pages never touched cost nothing */
    table->generation = calloc(FL_KEY_MAX, 1);
    if (!table->next || !table->generation)
        goto fail;
    r = fill_random(table->file->secret, sizeof(table->file->secret));
    if (r)
        goto fail;
    return 0;

fail:
    fl_key_table_fini(table);
    return r;
}

void fl_key_table_fini(struct fl_key_table *table)
{
    if (table->file)
        munmap(table->file, sizeof(*table->file));
    if (table->fd >= 0)
        close(table->fd);
    free(table->next);
    free(table->generation);
    *table = (struct fl_key_table){.fd = -1};
}

uint32_t fl_key_slot(const struct fl_key_file *file, uint32_t key)
{
    return unmix(file->secret, key >> 8) & (FL_KEY_MAX - 1);
}

uint32_t fl_key_renew(struct fl_key_table *table, uint32_t slot)
{
    uint8_t tag = 0;
    uint32_t generation = ++table->generation[slot] & GENERATION_MASK;
    uint32_t key = mix(table->file->secret, generation << FL_KEY_SLOT_BITS | slot) << 8;
    (void)fill_random(&tag, sizeof(tag)); /* without it the key is no worse than 24 bits */
    key |= tag;
    /* 0 is what programs leave in a field that they do not set. */
    return key ? key : fl_key_renew(table, slot);
}

int fl_key_alloc(struct fl_key_table *table, uint32_t *slot, uint32_t *key)
{
    if (table->nr_fresh < FL_KEY_MAX && table->nr_free < MANY_OTHERS) {
        *slot = table->nr_fresh++;
    } else if (table->nr_free) {
        *slot = table->oldest;
        table->oldest = table->next[*slot];
        table->nr_free--;
    } else {
        return -ENOMEM;
    }
    table->nr_used++;
    *key = fl_key_renew(table, *slot);
    return 0;
}

void fl_key_set(struct fl_key_table *table, uint32_t slot, const struct fl_key_entry *to)
{
    struct fl_key_entry *e = fl_key_at(table, slot);
    uint32_t seq = e->seq;
    table->nr_changes++;
    /* Readers of other processes see either all of the old or all of the new entry. */
    __atomic_store_n(&e->seq, seq + 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_exchange_n(&e->kind, FL_KEY_NONE, __ATOMIC_SEQ_CST);
    e->key = to->key;
    e->pd = to->pd;
    e->access = to->access;
    e->qpn = to->qpn;
    e->addr = to->addr;
    e->len = to->len;
    e->ptr = to->ptr;
    e->parent = to->parent;
    e->region = to->region;
    __atomic_store_n(&e->kind, to->kind, __ATOMIC_RELEASE);
    __atomic_store_n(&e->seq, seq + 2, __ATOMIC_RELEASE);
}

void fl_key_free(struct fl_key_table *table, uint32_t slot)
{
    fl_key_set(table, slot, &(struct fl_key_entry){.kind = FL_KEY_NONE});
    if (table->nr_free)
        table->next[table->newest] = slot;
    else
        table->oldest = slot;
    table->newest = slot;
    table->nr_free++;
    table->nr_used--;
}

static void close_entry(struct fl_key_table *table, uint32_t slot)
{
    struct fl_key_entry closed = *fl_key_at(table, slot);
    closed.kind = FL_KEY_NONE;
    fl_key_set(table, slot, &closed);
}

void fl_key_close_range(struct fl_key_table *table, uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < table->nr_fresh; i++) {
        const struct fl_key_entry *e = fl_key_at(table, i);
        if (e->kind == FL_KEY_MR && e->ptr < to && e->ptr + e->len > from)
            close_entry(table, i);
    }
    for (uint32_t i = 0; i < table->nr_fresh; i++) {
        const struct fl_key_entry *e = fl_key_at(table, i);
        if (e->kind == FL_KEY_WINDOW && fl_key_at(table, e->parent)->kind != FL_KEY_MR) {
            fl_key_at(table, e->parent)->nr_windows--;
            close_entry(table, i);
        }
    }
}

static bool opens(const struct fl_key_entry *e, const struct fl_key_ask *ask)
{
    uint32_t kind = __atomic_load_n(&e->kind, __ATOMIC_ACQUIRE);
    if (kind != FL_KEY_MR && !(kind == FL_KEY_WINDOW && ask->remote))
        return false;
    if (e->key != ask->key || e->pd != ask->pd || (e->qpn && e->qpn != ask->qpn))
        return false;
    if (((uint32_t)ask->access & ~e->access) || ask->addr < e->addr)
        return false;
    return fl_range_fits(ask->addr - e->addr, ask->len, e->len);
}

static uint32_t slot_of(const struct fl_key_file *file, const struct fl_key_ask *ask)
{
    uint32_t i = ask->key >> 8 & (FL_KEY_MEMO - 1);
    if (!ask->memo)
        return fl_key_slot(file, ask->key);
    if (ask->memo->at[i].key != ask->key || !ask->memo->at[i].slot) {
        ask->memo->at[i].key = ask->key;
        ask->memo->at[i].nr_changes = 0;
        ask->memo->at[i].slot = fl_key_slot(file, ask->key) + 1;
    }
    return ask->memo->at[i].slot - 1;
}

int fl_key_find(const struct fl_key_file *file, const struct fl_key_ask *ask, struct fl_key_place *place)
{
    const struct fl_key_entry *e = &file->entries[slot_of(file, ask)];
    for (;;) {
        uint32_t seq = __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE);
        bool ok = opens(e, ask);
        place->ptr = e->ptr + (ask->addr - e->addr);
        place->region = e->region;
        place->access = e->access;
        place->all_addr = e->addr;
        place->all_len = e->len;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (fl_likely(!(seq & 1) && __atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) == seq))
            return ok ? 0 : -EACCES;
        if (seq & 1)
            return -EACCES; /* it changes just now: whoever uses it now cannot know what it opens */
    }
}

int fl_key_check(const struct fl_key_file *file, const struct fl_key_ask *ask, uint64_t *ptr)
{
    struct fl_key_place place = {0};
    int r = fl_key_find(file, ask, &place);
    *ptr = place.ptr;
    return r;
}

int fl_key_check_own(const struct fl_key_table *table, const struct fl_key_ask *ask, uint64_t *ptr)
{
    uint32_t i = ask->key >> 8 & (FL_KEY_MEMO - 1);
    struct fl_key_place place = {0};
    int r = fl_key_find(table->file, ask, &place);
    *ptr = place.ptr;
    if (r)
        return r;
    ask->memo->at[i].nr_changes = table->nr_changes;
    ask->memo->at[i].addr = place.all_addr;
    ask->memo->at[i].len = place.all_len;
    ask->memo->at[i].ptr = place.ptr - (ask->addr - place.all_addr);
    ask->memo->at[i].access = place.access;
    return 0;
}
