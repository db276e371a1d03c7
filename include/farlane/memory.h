/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that an application does I/O from and to, known to RDMA devices.
 *
 * Over RDMA the target reads and writes the application's memory itself, which has to be registered with the
 * device for that. Memory that is not is registered for each I/O and let go again after it, which costs two
 * system calls with hardware. Whoever uses a buffer again and again registers it once:
 *
 *   fl_mem_register(buffer, len, &err);
 *   ... any number of I/Os on any queue ...
 *   fl_mem_unregister(buffer, len, &err);
 *   free(buffer);
 *
 * I/O that lies in one registered piece, or in several of up to 16 each in one, is moved without a copy. With
 * TCP and local namespaces registering changes nothing. Any thread, except where said.
 */
#ifndef FARLANE_MEMORY_H
#define FARLANE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <farlane/api.h>
#include <farlane/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The memory stays the caller's, mapped and where it is, until it is unregistered. A device learns of it at
 * the first I/O that uses it. From then on the targets of this process's connections may be able to reach all
 * of it, and not only what an I/O names: keep apart what they must not see. len in bytes, not 0. -EINVAL: no
 * memory; -EEXIST: overlaps what is registered already; -ENOMEM.
 */
FL_API int fl_mem_register(void *base, size_t len, struct fl_error *err);
/*
 * What fl_mem_register was given, exactly; no I/O uses it any more. When this returns no device knows the
 * memory, and it may be freed. -ENOENT: it is not registered.
 */
FL_API int fl_mem_unregister(void *base, size_t len, struct fl_error *err);

/*
 * The registration cache: with it, memory that an I/O was done from or to stays registered, as if by
 * fl_mem_register, up to max_len bytes in all; what comes after is registered for its I/O only. 0, which is
 * how it begins: off, and all that it held is let go (no I/O may be in flight on it). A cache cannot know
 * when memory is freed: tell it by fl_mem_forget before, else the targets keep access to whatever is mapped
 * there next, or I/O from there fails.
 */
FL_API void fl_mem_cache(size_t max_len);
/* Lets go of what the cache holds of [base, base + len). No I/O uses it any more. */
FL_API void fl_mem_forget(const void *base, size_t len);

/* To find leaks, and time that is lost on registering. */
struct fl_mem_stats {
    uint64_t nr_registered, registered_len; /* by fl_mem_register, and not unregistered so far */
    uint64_t nr_cached, cached_len;         /* by the cache */
    uint64_t nr_device_regions; /* memory regions that RDMA devices hold for I/O of this process's queues: all
                                   of the above that was used, the library's own buffers, and the next */
    uint64_t nr_temporary;      /* for one I/O, now; 0 while none is in flight */
    uint64_t nr_temporary_ever; /* how often that was */
};
FL_API void fl_mem_stats(struct fl_mem_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
