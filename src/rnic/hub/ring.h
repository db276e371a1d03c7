/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets from the hub to one member: a ring of bytes in shared memory, one writer, one reader. Neither
 * believes the other: each keeps its own position to itself, checks the other's, and copies a record before
 * it looks at it. A reader that does not read has a full ring and loses packets, nothing else.
 *
 * How the reader knows that there is something: from the hub by `head`, which is moved on. Between two processes
 * (shm/link.c) by the record itself, whose length is stored last and is 0 until then: so what the reader waits for
 * and what it then reads come in one cache line. Records begin with such a line there.
 */
#ifndef FL_RNIC_HUB_RING_H
#define FL_RNIC_HUB_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define FL_HUB_RING_LEN (1u << 20)

struct fl_hub_ring_shared {
    uint64_t head; /* bytes written since the start */
    uint8_t pad1[56];
    uint64_t tail; /* bytes read */
    uint8_t pad2[56];
    uint32_t
        sleeps; /* the reader sleeps: the next write wakes it. Not beside tail, which changes all the time */
    uint8_t pad3[60];
    uint64_t busy; /* the writer uses the reader's memory while it is odd (shm/direct.c) */
    uint8_t pad4[56];
    uint8_t bytes[FL_HUB_RING_LEN];
};

struct fl_hub_ring {
    struct fl_hub_ring_shared *shared;
    bool by_record;  /* without head */
    uint64_t at;     /* our own position */
    uint64_t other;  /* the other's, as last seen */
    uint32_t peeked; /* reader: bytes that the record looked at takes */
    /* writer without head: */
    uint32_t first_len; /* what the word at `first` will be, when the reader may see it */
    uint64_t first;     /* of what was reserved and not committed; `at`: nothing was */
};

/* Two kinds of records, told apart by the ring so that a reader of the one never takes the other for it */
#define FL_HUB_RING_MESSAGE 0x80000000u

/* A sealed memfd for a new ring, or negative errno; map() at both ends, each with a struct of its own, both in
 * the same way. */
int fl_hub_ring_create(void);
int fl_hub_ring_map(struct fl_hub_ring *ring,
                    int fd); /* -EINVAL: not of the right size, or it could shrink */
int fl_hub_ring_map_by_record(struct fl_hub_ring *ring, int fd);
void fl_hub_ring_unmap(struct fl_hub_ring *ring);

/* Writer. False: full. What is not there to be copied is not written, as if it were lost. wake is set, once, when the reader sleeps and should be told. */
bool fl_hub_ring_write(struct fl_hub_ring *ring, const struct iovec *iov, int nr_iov, bool *wake);

/* Room for a record of len bytes, wherever the ring stands? */
bool fl_hub_ring_has_room(struct fl_hub_ring *ring, size_t len);

/*
 * Writer, in two steps: room for a record of len bytes of this kind (0 or FL_HUB_RING_MESSAGE), to be filled
 * in at once; NULL: full. Nobody sees it before the commit, which publishes all that was reserved and returns
 * as wake above.
 */
uint8_t *fl_hub_ring_reserve(struct fl_hub_ring *ring, uint32_t len, uint32_t kind);
bool fl_hub_ring_commit(struct fl_hub_ring *ring);

/*
 * Reader, without a copy: the length of the next record, its kind and where it lies; 0: none; -EPROTO. The
 * writer may change the bytes at any time: look at each once. They hold until the record is consumed.
 */
int fl_hub_ring_peek(struct fl_hub_ring *ring, const uint8_t **at, uint32_t *kind);
void fl_hub_ring_consume(struct fl_hub_ring *ring);

/* Reader: one record into buf. Its length; 0: none; -EPROTO: the writer is broken. A record longer than max
 * is -EPROTO too. */
int fl_hub_ring_read(struct fl_hub_ring *ring, void *buf, size_t max);
/* Reader: is there a record? */
bool fl_hub_ring_has(struct fl_hub_ring *ring);
/* Before the reader sleeps: the next write wakes it. False: there is something already. */
bool fl_hub_ring_sleep(struct fl_hub_ring *ring);

#endif
