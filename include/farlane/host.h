/* SPDX-License-Identifier: Apache-2.0 */
/*
 * farlane's host side: namespaces, remote over NVMe over Fabrics or local, behind one interface.
 *
 *   struct fl_device *dev; struct fl_queue *q; struct fl_error err = {0};
 *   fl_device_open("nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1", NULL, &dev, &err);
 *   fl_queue_create(dev, 128, &q, &err);
 *   fl_read(q, buf, 0, 65536, &err);
 *
 * Threads: a device may be used from any thread. A queue belongs to one thread at a time: its submissions, polling
 * and destruction. Devices keep themselves alive (keep-alive, events, reconnect) by one service thread of the library.
 *
 * Log: the library writes what nobody asked for (a lost target, a reconnect, a file that is read along with another process) to
 * standard error, a line each. FARLANE_LOG=error|warn|info|debug in the environment says from which level on; default warn.
 *
 * Memory: buffers must be memory of this process that stays what it is until the I/O has ended. NULL is refused, -EFAULT. What is
 * not mapped, or is read-only and read into, is -EFAULT of that I/O alone where it is found by the kernel: over RDMA, in what a
 * socket or a file takes and gives. It is SIGSEGV, as with memcpy, where the library itself copies or computes: ram: and null:, data digests,
 * and over TCP a part of what is read that came with its header. A write over TCP for which it is found costs a reconnect, over which all other I/Os are sent again.
 */
#ifndef FARLANE_HOST_H
#define FARLANE_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <farlane/api.h>
#include <farlane/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fl_device;
struct fl_queue;

/* The least that a path to a remote namespace must be; less is an error, -EPFNOSUPPORT. Local namespaces are not asked. */
enum fl_require {
    FL_REQUIRE_NOTHING,
    FL_REQUIRE_RDMA,     /* by hardware or by the software RNIC */
    FL_REQUIRE_HARDWARE, /* an RNIC, or a driver of the kernel that passes for one */
};

/* All times in milliseconds; 0 means the default that is named. */
struct fl_device_options {
    const char *hostnqn;            /* NULL: the machine's (/etc/nvme/hostnqn), else one that is made and kept for this user */
    const uint8_t *hostid;          /* 16 bytes; NULL: belongs to the NQN */
    uint32_t kato_ms;               /* keep-alive time-out; default 15000 */
    uint32_t connect_timeout_ms;    /* how long the target may leave TCP connect, Connect or a command of the set-up unanswered; default 5000 */
    uint32_t fast_fail_ms;          /* I/O waiting for a lost target fails after it, with -ENOLINK; default: never before loss_timeout */
    uint32_t loss_timeout_ms;       /* give the target up after it: -ENODEV from then on; default 600000; UINT32_MAX: never. At once when it refuses
                                       Connect with Do Not Retry */
    uint32_t reconnect_delay_ms;    /* between attempts; default 2000 */
    uint32_t io_timeout_ms;         /* an I/O without answer makes the queue reconnect; default 30000 */
    bool hdgst, ddgst;              /* as ?hdgst=1&ddgst=1 in the URL */
    bool no_reconnect;              /* the first loss is final */
    enum fl_require require;        /* any other value: -EINVAL */
};

struct fl_device_info {
    char url[1024];      /* can be pasted back */
    char transport[16];  /* "tcp", "rdma", "file", "ram", "null" */
    char subnqn[224], model[41], serial[21], firmware[9];
    uint32_t nsid, block_len;
    uint64_t len;             /* bytes */
    uint64_t nr_blocks;
    uint32_t max_transfer_len; /* bytes of one command; larger I/O is split */
    uint32_t max_queues;       /* granted by the target; 0: no limit */
    uint32_t max_depth;        /* commands of a queue that the target has at a time at most, by its limits and the URL's depth=; local: the deepest queue */
    bool volatile_cache, read_only, hdgst, ddgst;
    uint8_t uuid[16];
    char state[64];            /* "live", "reconnecting: attempt 3 of 30, next in 2 s", "lost" */
    char reason[480];          /* why it is reconnecting or lost; "" while it is live */
    char path[16];             /* by which its bytes go: "hardware", "shm", "udp" (both by the software RNIC), "tcp"; "local". The least of its queues' */
    char path_why[512];        /* why it is no better one, as far as there is more to say than its name; else "". Of a file: how it is read: "direct, io_uring" */
    char rdma_device[64];      /* "mlx5_0", "farlane0"; "": none is used */
    bool path_settling;        /* a better path is being set up: ask again in some milliseconds */
    int reason_code;           /* negative errno of that reason: -EACCES when the target does not allow this host any more; 0 while it is live */
    int target_pid;            /* RDMA: the target, where it is a process of this host that the RNIC knows; else 0 */
};

/*
 * Opens a namespace by URL: nvme+tcp://HOST[:4420]/NQN[?ns=1&hdgst=1&ddgst=1], nvme+rdma://HOST[:4420]/NQN[?ns=1&dev=auto|soft|
 * hardware|NAME&fallback=tcp], file:PATH, ram:SIZE, null:SIZE. fallback=tcp: by TCP, at the same port, if there is no RDMA to the
 * target, which is said in the log and in fl_device_info; it stays so until the device is closed. Without ns= the subsystem's only active namespace is taken. Blocks until connected or failed (connect_timeout_ms). The device is the caller's:
 * fl_device_close, after its queues. Any thread. Errors: -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT, -EACCES (host not
 * allowed), -ENOENT (no such subsystem or namespace), -ENODEV (no RDMA device leads there), -EPFNOSUPPORT (options->require),
 * -EPROTO, -EINVAL, -EFBIG (a size beyond what the back end takes, or beyond ulimit -f), any errno of opening a file. NVMe over Fabrics 1.1, 3.3 (Connect).
 *
 * More options of URLs, all optional. Remote: queues=N (I/O queues to ask the target for, 128), depth=N (entries of each at most, so
 * that it has N - 1 commands at a time), kato=MS (unless kato_ms is given), host=NQN (the name to connect under, unless
 * hostnqn is given). After file:PATH, ram:SIZE and null:SIZE, each after a comma: bs=512|4096 (the block; 512), ro=1. Of files: size=SIZE (the
 * file is made, or made longer, to that), prealloc=1 (and has its space at once), direct=0|1, uring=0|1 (default: where it can be had), lock=0 (do not
 * lock it). ram: huge=0|1. SIZE takes K, M, G, T. %XX in names and paths is the byte XX.
 *
 * A file is locked against other processes that use it as a namespace. One that is locked already is opened all the same, without
 * error, but to be read only: fl_device_info.read_only tells, and the log. With ro=1 or
 * lock=1 in the URL that is -EBUSY instead.
 */
FL_API int fl_device_open(const char *url, const struct fl_device_options *options, struct fl_device **dev, struct fl_error *err);
FL_API void fl_device_close(struct fl_device *dev);
FL_API void fl_device_info(struct fl_device *dev, struct fl_device_info *info);
/* Called on the service thread when size, state or the set of namespaces changed. It must not wait: no fl_device_open, _close, admin
 * command or queue creation in it. */
FL_API void fl_device_on_change(struct fl_device *dev, void (*changed)(struct fl_device *dev, void *arg), void *arg);

/*
 * depth: I/Os in flight at most. Remote: any number; what is more than the target takes at a time (fl_device_info.max_depth commands, of
 * which an I/O larger than max_transfer_len takes several) waits in the queue. Local: at most max_depth. Blocks while connecting.
 * Errors: -EINVAL (depth 0, or too deep for a local queue; a device of fl_subsystem_open), -EMFILE (all of max_queues are in use),
 * -ENOMEM, -ENOLINK (the target cannot be reached now), -ENODEV (it was given up), and of connecting as fl_device_open.
 */
FL_API int fl_queue_create(struct fl_device *dev, uint32_t depth, struct fl_queue **queue, struct fl_error *err);
/* Cuts off what is in flight: those completions run with -ECANCELED inside this call. */
FL_API void fl_queue_destroy(struct fl_queue *queue);

enum fl_io_op {
    FL_IO_READ,
    FL_IO_WRITE,
    FL_IO_FLUSH,
    FL_IO_WRITE_ZEROES,
    FL_IO_DISCARD,
    FL_IO_COMPARE, /* result -EILSEQ: not equal */
    FL_IO_VERIFY,
};
#define FL_IO_FUA 1u

/*
 * When what happened to an I/O, in ns of CLOCK_MONOTONIC. For measuring: it costs three looks at the clock for each I/O, and a target
 * of farlane's tells service_ns only after Set Features D0h (wire/nvme.h). Of an I/O that was split: the last part sent, the last
 * answer, and the longest service.
 */
struct fl_io_times {
    uint64_t sent_ns;     /* handed to the transport (remote) or to the back end (local) */
    uint64_t answered_ns; /* its answer was read */
    uint64_t service_ns;  /* in the target, from having the command and its data to answering; 0: not told */
};

/*
 * One I/O. The caller's memory, untouched by the caller from submission until done() has run. Offset and length are bytes and
 * multiples of block_len. iov (READ, WRITE, COMPARE) may have any number of pieces of any alignment; data go straight from and to
 * them.
 */
struct fl_io {
    enum fl_io_op op;
    uint32_t flags;
    uint64_t off;
    uint64_t len;
    const struct iovec *iov;
    uint32_t nr_iov;
    /* Runs inside fl_queue_poll (or fl_queue_destroy); may submit, must not poll or destroy. result: 0 or negative errno; nvme_status: 0 or the NVMe status field without phase.
     * -EFAULT: iov names memory that is not mapped, or that a read cannot be put into ("Memory", above). */
    void (*done)(struct fl_io *io, int result);
    void *user;
    uint16_t nvme_status;
    struct fl_io_times *times; /* NULL: not wanted; else valid until done(), and set by then if the I/O succeeded */
    uint64_t priv[14]; /* the library's */
};

/* -EAGAIN: the queue is full, poll first. -EINVAL: range or alignment, a length of 0 (but FLUSH has none), iov is not of that length, an operation or a flag
 * that is not known. -EFAULT: a piece of iov is NULL. done() does not run then. Gathered submissions leave with the next fl_queue_poll. */
FL_API int fl_submit(struct fl_queue *queue, struct fl_io *io);
/* Sends what was submitted, runs completions: returns how many I/Os completed; negative errno when the queue is lost for good. Never sleeps. */
FL_API int fl_queue_poll(struct fl_queue *queue);
/* Sends what was submitted and sleeps until fl_queue_poll would find something, at most timeout_ms (-1: no limit). 1: poll now (it may
 * find nothing after all); 0: the time is over. */
FL_API int fl_queue_wait(struct fl_queue *queue, int timeout_ms);
/* A descriptor that is readable when fl_queue_poll would find something. Call fl_queue_poll until it returns 0 before sleeping on it. */
FL_API int fl_queue_fd(struct fl_queue *queue);

/* Synchronous, on the caller's thread, for a queue with nothing in flight. Return 0 or negative errno. A length of 0 is
 * nothing to do: 0. */
FL_API int fl_read(struct fl_queue *queue, void *buf, uint64_t off, uint64_t len, struct fl_error *err);
FL_API int fl_write(struct fl_queue *queue, const void *buf, uint64_t off, uint64_t len, struct fl_error *err);
FL_API int fl_flush(struct fl_queue *queue, struct fl_error *err);

/* ---- discovery ---- */
struct fl_discovered {
    char transport[16], adrfam[8], address[257], port[33], subnqn[224];
    char type[16];     /* "nvm", "discovery", "current" */
    bool tls_required; /* case: SECTYPE 0 and not required means plain */
    uint16_t portid;
    char url[1024];    /* for fl_device_open */
};
/* Reads the discovery log of nvme+tcp://HOST[:8009|:4420] or nvme+rdma://...; again while it changes under the read (up to 10 times). entries: free() it. */
FL_API int fl_discover(const char *url, const struct fl_device_options *options, struct fl_discovered **entries, uint32_t *nr,
                       struct fl_error *err);

/* ---- administration: raw admin commands, for tools ---- */
/* data_len up to max_transfer_len; to_host tells the direction. Returns 0, negative errno, or -EREMOTEIO with *nvme_status set. */
FL_API int fl_admin_command(struct fl_device *dev, const void *sqe64, void *data, uint32_t data_len, bool to_host, uint64_t *result,
                            uint16_t *nvme_status, struct fl_error *err);
/* Opens a subsystem without a namespace (info, admin commands only); nsid list by fl_device_namespaces. */
FL_API int fl_subsystem_open(const char *url, const struct fl_device_options *options, struct fl_device **dev, struct fl_error *err);
/* The identifiers of the active namespaces, ascending, into nsids[0..max). Returns how many: max when there are that many or more, so ask again
 * with more room then; else negative errno. */
FL_API int fl_device_namespaces(struct fl_device *dev, uint32_t *nsids, uint32_t max, struct fl_error *err);

#ifdef __cplusplus
}
#endif
#endif
