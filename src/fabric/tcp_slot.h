/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a target's connection: their memory, tags, and a place for in-capsule data that has to
 * wait. */
#ifndef FL_FABRIC_TCP_SLOT_H
#define FL_FABRIC_TCP_SLOT_H

#include <assert.h>
#include <errno.h>

#include "base/util.h"
#include "fabric/tcp_target.h"

enum fl_tcp_slot_state {
    FL_TCP_SLOT_FREE,
    FL_TCP_SLOT_TARGET,
    FL_TCP_SLOT_CAPSULE,  /* with the target, which waits for in-capsule data that is on its way */
    FL_TCP_SLOT_FETCHING, /* with the target, and R2Ts are outstanding */
    FL_TCP_SLOT_ENDED,    /* completed while its in-capsule data is on its way: answered after that */
    FL_TCP_SLOT_SENDING,  /* completed; its data is queued */
};

/* One R2T and the H2CData PDUs that answer it. */
struct fl_tcp_window {
    uint32_t next, end; /* bytes of the command's data; next == end: not in use */
    uint16_t tag, generation;
};

struct fl_tcp_slot {
    struct fl_cmd cmd;
    struct fl_tcp_slot *next_free;
    uint32_t index;
    uint8_t state;
    uint8_t *stash;          /* where its in-capsule data waits, or NULL */
    bool digest_bad;         /* of some H2CData */
    uint32_t asked, arrived; /* bytes of data_len that R2Ts were sent for, and that are there */
    struct fl_tcp_window windows[FL_TCP_TARGET_MAX_R2T]; /* the first nr_r2t */
};

static inline struct fl_tcp_slot *fl_tcp_slot_of(struct fl_cmd *cmd)
{
    return FL_CONTAINER_OF(cmd, struct fl_tcp_slot, cmd);
}

static inline struct fl_tcp_target *fl_tcp_target_of(struct fl_conn *conn)
{
    return FL_CONTAINER_OF(conn, struct fl_tcp_target, conn);
}

/* NULL when the host sent more commands than there may be. */
static inline struct fl_tcp_slot *fl_tcp_slot_get(struct fl_tcp_target *t)
{
    struct fl_tcp_slot *slot = t->free;

    if (slot)
        t->free = slot->next_free;
    return slot;
}

static inline void fl_tcp_slot_put(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    slot->state = FL_TCP_SLOT_FREE;
    slot->next_free = t->free;
    t->free = slot;
}

/* Makes a tag that tells slot and window, and that differs from the last ones given for them. */
static inline uint16_t fl_tcp_slot_new_tag(const struct fl_tcp_target *t, struct fl_tcp_slot *slot,
                                           uint32_t window)
{
    struct fl_tcp_window *w = &slot->windows[window];
    uint32_t number = slot->index * FL_TCP_TARGET_MAX_R2T + window;

    w->tag = (uint16_t)((uint32_t)++w->generation << t->tag_bits | number);
    return w->tag;
}

/* The slot and window that wait for data with this tag, or NULL. */
static inline struct fl_tcp_slot *fl_tcp_slot_find(const struct fl_tcp_target *t, uint16_t tag,
                                                   uint32_t *window)
{
    uint32_t number = tag & ((1u << t->tag_bits) - 1);
    struct fl_tcp_slot *slot;
    struct fl_tcp_window *w;

    if (number / FL_TCP_TARGET_MAX_R2T >= t->nr_slots)
        return NULL;
    slot = t->slots[number / FL_TCP_TARGET_MAX_R2T];
    *window = number % FL_TCP_TARGET_MAX_R2T;
    w = &slot->windows[*window];
    if (slot->state != FL_TCP_SLOT_FETCHING || w->next == w->end || w->tag != tag)
        return NULL;
    return slot;
}

/* More slots; those that there are stay where they are. */
int fl_tcp_slots_grow(struct fl_tcp_target *t, uint32_t nr);
/* Room for capsule_len bytes in each slot's stash. */
int fl_tcp_stash_reserve(struct fl_tcp_target *t);
/* For the sgl_len bytes of its command. */
uint8_t *fl_tcp_stash_get(struct fl_tcp_target *t, struct fl_tcp_slot *slot);
void fl_tcp_stash_put(struct fl_tcp_target *t, struct fl_tcp_slot *slot);
void fl_tcp_slots_fini(struct fl_tcp_target *t);

static inline int fl_tcp_fault_at(struct fl_tcp_fault *fault, enum fl_tcp_fes fes, size_t offset)
{
    *fault = (struct fl_tcp_fault){.fes = (uint16_t)fes, .offset = (uint32_t)offset};
    return -EPROTO;
}

/* ---- between tcp_target.c (the connection) and tcp_command.c ---- */

/* Inside a call of the driver's it looks itself; else it is told, once. */
void fl_tcp_target_want_driver(struct fl_tcp_target *t);
/* No further command is to be taken now: too much is queued, or put aside. */
bool fl_tcp_target_must_wait(const struct fl_tcp_target *t);
/* PDUs, as struct fl_tcp_stream_ops has them. */
int fl_tcp_target_take_cmd(struct fl_tcp_target *t, const union fl_tcp_pdu *pdu, uint32_t data_len,
                           struct fl_tcp_fault *fault);
int fl_tcp_target_take_capsule(struct fl_tcp_target *t, const union fl_tcp_pdu *pdu, const void *data,
                               bool digest_ok, struct fl_tcp_fault *fault);
int fl_tcp_target_take_data(struct fl_tcp_target *t, const struct fl_tcp_data *pdu,
                            struct fl_tcp_fault *fault);
void fl_tcp_target_take_data_payload(struct fl_tcp_target *t, const struct fl_tcp_data *pdu, bool digest_ok);
void fl_tcp_target_on_sent(struct fl_tcp_stream *s, void *token);
uint32_t fl_tcp_target_digest(struct fl_tcp_stream *s, void *token, const void *data, uint32_t len);
/* Data that was on its way will not come any more. */
void fl_tcp_target_drop_early(struct fl_tcp_target *t);
void fl_tcp_target_drop_fetches(struct fl_tcp_target *t);

#endif
