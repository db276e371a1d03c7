/* SPDX-License-Identifier: Apache-2.0 */
/* One run of `farlane bench` from inside: what its threads share, and what each has for itself. */
#ifndef FARLANE_BENCH_JOB_H
#define FARLANE_BENCH_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/util.h"
#include "bench.h"

enum bench_phase { BENCH_PREPARE, BENCH_RAMP, BENCH_MEASURE, BENCH_STOP };

/* What threads share is read-only but for phase, failure and the counts. */
struct bench {
    struct fl_device *dev;
    const struct fl_device_info *info;
    const struct bench_spec *spec;
    uint32_t sector, depth;
    uint32_t queue_depth; /* commands: an I/O that is split takes several */
    uint32_t nr_jobs;
    uint64_t nr_blocks; /* I/Os of block_len that fit into the part that is used */
    double gap;         /* open loop: ticks between two I/Os of a job, in the mean; 0: closed loop */
    _Atomic enum bench_phase phase;
    _Atomic int failed;
    _Atomic int lost; /* what was measured stands, but I/Os that were in flight at its end failed */
    _Atomic uint32_t nr_ready;
    struct fl_error err; /* of the first that failed */
    pthread_mutex_t err_lock;
};

struct bench_op;

struct bench_job {
    struct bench *b;
    pthread_t thread;
    uint32_t index;
    struct fl_queue *queue;
    struct bench_op *ops;
    struct bench_op **spare; /* open loop: those that are not in flight, as a stack */
    uint32_t nr_spare;
    double due; /* open loop: ticks at which the next I/O should start, whatever became of those before it */
    char *memory;
    size_t memory_len;
    uint64_t first_block, nr_blocks, next_block; /* its part of the blocks; sequential: where it is */
    uint64_t random, arrival, generation;
    uint64_t stamp;      /* time of the batch that is completing; 0: not read yet */
    uint64_t idle_since; /* first poll in vain of a row; 0: none */
    uint64_t idle;       /* ticks */
    uint32_t in_flight;
    bool measuring, stopping;
    bool cut_off; /* what is in flight now ends with the queue */
    uint64_t nr_reads, nr_writes;
    uint64_t nr_behind;  /* open loop: I/Os that were due at the end and could not start */
    uint64_t start, end; /* ticks */
    struct fl_histogram latency;
    struct bench_stages *stages; /* NULL: not asked for */
} __attribute__((aligned(2 * FL_CACHE_LINE)));

void bench_job_init(struct bench_job *j, struct bench *b, uint32_t index);
/* The thread; arg is the job. It waits for BENCH_RAMP and ends after BENCH_STOP, or after a failure of any
 * job. */
void *bench_job_run(void *arg);
/* After the thread has ended. */
void bench_job_fini(struct bench_job *j);

/* The first failure of any thread is the run's, one within the measured time before one behind it. err may be
 * NULL: then `what` and the code say it. */
void bench_fail(struct bench *b, int code, const struct fl_error *err, const char *what);

#endif
