/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands behind struct fl_device and struct fl_queue: one ops table per kind of device (a remote
 * controller, a local back end). device.c and queue.c check what the caller asks once, for all kinds; a
 * provider sees only valid I/O.
 *
 * A provider embeds struct fl_device and struct fl_queue in its own structs, sets the fields named below in
 * open() and queue_create(), and is one line in the table of device.c.
 */
#ifndef FL_HOST_DEVICE_H
#define FL_HOST_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/host.h>

#include "base/url.h"
#include "base/util.h"

struct fl_device_ops {
    const char *transport;
    /* options is never NULL and lives only during the call. subsystem: no namespace is wanted
     * (fl_subsystem_open). */
    int (*open)(const struct fl_url *url, const struct fl_device_options *options, bool subsystem,
                struct fl_device **dev, struct fl_error *err);
    void (*close)(struct fl_device *dev); /* no queue is left; frees dev */
    void (*info)(struct fl_device *dev,
                 struct fl_device_info *info); /* info is zeroed; url and transport are set */
    /* May be NULL: nothing ever changes. */
    void (*on_change)(struct fl_device *dev, void (*changed)(struct fl_device *dev, void *arg), void *arg);
    /* depth is at least 1. Sets *queue with ops; the rest of struct fl_queue is filled in by the caller. */
    int (*queue_create)(struct fl_device *dev, uint32_t depth, struct fl_queue **queue, struct fl_error *err);
    /* NULL: -EOPNOTSUPP. */
    int (*admin)(struct fl_device *dev, const void *sqe64, void *data, uint32_t data_len, bool to_host,
                 uint64_t *result, uint16_t *nvme_status, struct fl_error *err);
    int (*namespaces)(struct fl_device *dev, uint32_t *nsids, uint32_t max, struct fl_error *err);
};

struct fl_device {
    const struct fl_device_ops *ops;
    char *url;          /* canonical text; set and freed by device.c */
    uint32_t block_len; /* a power of two; 0: no namespace, no I/O */
    bool read_only;
    uint64_t len; /* bytes; relaxed atomics */
};

struct fl_queue_ops {
    void (*destroy)(struct fl_queue *queue); /* completes what is in flight with -ECANCELED; frees queue */
    /* io is valid and the queue has room for it. The provider ends it by fl_queue_complete, never inside this
     * call. */
    void (*submit)(struct fl_queue *queue, struct fl_io *io);
    int (*poll)(struct fl_queue
                    *queue); /* as fl_queue_poll, but returns only 0 or errno: completions count themselves */
    int (*wait)(struct fl_queue *queue, int timeout_ms);
    int (*fd)(struct fl_queue *queue);
};

struct fl_queue {
    const struct fl_queue_ops *ops;
    struct fl_device *dev;
    uint32_t depth, nr_ios; /* I/Os accepted and not completed */
    uint32_t nr_done;       /* completed since fl_queue_poll began */
};

static inline uint64_t fl_device_len(const struct fl_device *dev)
{
    return __atomic_load_n(&dev->len, __ATOMIC_RELAXED);
}

/* Ends an I/O: exactly once for each submitted one, from poll or destroy. */
static inline void fl_queue_complete(struct fl_queue *queue, struct fl_io *io, int result)
{
    queue->nr_ios--;
    queue->nr_done++;
    io->done(io, result);
}

/* "write of 8 blocks at 1234" */
#define FL_IO_TEXT_LEN 96
char *fl_io_text(const struct fl_io *io, uint32_t block_len, char buf[FL_IO_TEXT_LEN]);

/* One of these per kind of device; the table is in device.c. */
extern const struct fl_device_ops fl_remote_device_ops, fl_rdma_device_ops;                  /* remote.c */
extern const struct fl_device_ops fl_file_device_ops, fl_ram_device_ops, fl_null_device_ops; /* local.c */

#endif
