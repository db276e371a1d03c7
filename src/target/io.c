/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O commands: the checks that all share, Read, Write and Flush. Everything here runs on the queue's own
 * loop and touches only that loop's view of the namespace: no lock, and no atomic but the relaxed stores of
 * counters.
 *
 * A read of memory never leaves fl_io_command: the answer points into the namespace. A write whose data came
 * in the capsule to a back end that never sleeps doesn't either.
 */
#include "base/clock.h"
#include "base/crc.h"
#include "target/core.h"

#define OP_READS  1u  /* reads the namespace: reservations of the exclusive access kind stop it */
#define OP_WRITES 2u  /* changes it, or belongs to that group (base specification 2.0, 8.19: Flush too) */
#define OP_RESV   4u  /* allowed whatever the reservation */
#define OP_ANY_NS 8u  /* NSID FFFFFFFFh is allowed */
#define OP_ALTERS 16u /* refused on a read-only namespace */

struct io_op {
    void (*run)(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
    uint32_t flags;
    uint32_t effects;
};

fl_nvme_status fl_io_errno(struct fl_cmd *cmd, int result, enum fl_nvme_io_kind kind)
{
    fl_nvme_status status = fl_nvme_status_of_errno(result, kind);
    struct fl_tqueue *q = cmd->conn->user;

    if (result < 0) {
        FL_COUNT(fl_tio_of(cmd)->view->io.nr_errors, 1);
        if (fl_log_rate_allow(&q->log_rate, 1, fl_loop_now(cmd->conn->loop), NULL))
            FL_WARN("namespace %u (%s): %s failed: %s", fl_tio_of(cmd)->view->nsid,
                    fl_tio_of(cmd)->view->ns->spec, fl_nvme_opcode_text(false, cmd->sqe.opcode),
                    strerror(-result));
    }
    return status;
}

/* PRINFO must be 0 without protection information; the range must lie within the namespace, computed without
 * wrapping. */
fl_nvme_status fl_io_range(struct fl_ns_view *view, struct fl_cmd *cmd, uint32_t *len)
{
    uint64_t slba = fl_nvme_rw_slba(&cmd->sqe);
    uint32_t cdw12 = le32_get(cmd->sqe.cdw12);
    uint64_t nr = (cdw12 & FL_NVME_RW_NLB_MASK) + 1; /* 0's based: there is no empty range */
    struct fl_tio *tio = fl_tio_of(cmd);

    if (fl_unlikely(cdw12 & FL_NVME_RW_PRINFO_MASK << FL_NVME_RW_PRINFO_SHIFT))
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (fl_unlikely(!fl_nvme_range_ok(slba, nr, view->nr_blocks)))
        return FL_NVME_SC_LBA_RANGE | FL_NVME_DNR;
    tio->off = slba << view->block_shift;
    tio->len = nr << view->block_shift;
    *len = tio->len > UINT32_MAX ? UINT32_MAX : (uint32_t)tio->len;
    return FL_NVME_SC_SUCCESS;
}

/* The same for commands with data, which must be as long as the range and no longer than MDTS (and so than a
 * buffer). */
static inline fl_nvme_status data_range(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd,
                                        uint32_t *len)
{
    fl_nvme_status status = fl_io_range(view, cmd, len);

    if (fl_unlikely(status))
        return status;
    if (fl_unlikely(*len > q->mdts_len))
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (fl_unlikely(cmd->sgl_len != *len))
        return FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR;
    return FL_NVME_SC_SUCCESS;
}

void fl_io_submit(struct fl_cmd *cmd, enum fl_bio_op op, uint32_t flags,
                  void (*done)(struct fl_bio *bio, int result))
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_bio *bio = &tio->bio;

    bio->op = op;
    bio->flags = flags;
    bio->off = tio->off;
    bio->len = tio->len;
    bio->iov = &tio->iov;
    bio->nr_iov = 1;
    bio->done = done;
    bio->again = fl_io_bio_again;
    fl_chan_submit(tio->view->chan, bio);
}

static inline struct fl_cmd *cmd_of_bio(struct fl_bio *bio)
{
    return fl_cmd_of_tio(FL_CONTAINER_OF(bio, struct fl_tio, bio));
}

/* ---- Read ---- */

static inline void count_read(struct fl_tqueue *q, struct fl_ns_view *view, uint32_t len)
{
    FL_COUNT(q->io.nr_reads, 1);
    FL_COUNT(q->io.read_len, len);
    FL_COUNT(view->io.nr_reads, 1);
    FL_COUNT(view->io.read_len, len);
    FL_COUNT(view->io.zero_copy_len, len); /* sent from where it lies, or from the buffer it was read into */
}

static void read_done(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);

    cmd->to_host = !result;
    fl_tqueue_finish(cmd, fl_io_errno(cmd, result, FL_NVME_IO_READ));
}

static void read_into_buffer(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    tio->iov = (struct iovec){cmd->data, tio->len};
    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    fl_io_submit(cmd, FL_BIO_READ, 0, read_done);
}

/* The answer is sent from where it lies, and nobody writes there until it has left. False: somebody does just
 * now; it is read into a buffer, block by block. */
static inline bool read_in_place(struct fl_ns_view *view, struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    if (view->marks) {
        if (fl_unlikely(!fl_marks_read(view->marks, tio->off, tio->len)))
            return false;
        tio->marked = true;
        fl_list_add_tail(&view->reading, &tio->bio.link);
    }
    cmd->data = (void *)(uintptr_t)(view->mem + (tio->off & view->mem_mask));
    cmd->to_host = true;
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
    return true;
}

uint32_t fl_io_digest(struct fl_cmd *cmd)
{
    const struct fl_tio *tio = fl_tio_of(cmd);

    if (fl_likely(tio->marked)) {
        struct fl_backend *be = tio->view->chan->backend;

        if (fl_likely(be->ops->digest))
            return be->ops->digest(be, tio->off, tio->len);
    }
    return fl_crc32c(0, cmd->data, cmd->data_len);
}

static void io_read(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t len;
    fl_nvme_status status = data_range(q, view, cmd, &len);

    if (fl_unlikely(status)) {
        fl_tqueue_finish(cmd, status);
        return;
    }
    cmd->data_len = len;
    count_read(q, view, len);
    if (fl_likely(view->mem)) {
        if (fl_likely(read_in_place(view, cmd)))
            return;
        FL_COUNT(view->io.zero_copy_len, -(uint64_t)len);
        FL_COUNT(view->io.copied_len, len);
    }
    fl_tqueue_with_buffer(cmd, len, read_into_buffer);
}

/* ---- Write ---- */

void fl_io_write_done(struct fl_ns_view *view)
{
    if (--view->nr_writes == 0 && fl_unlikely(view->drain)) {
        struct fl_round_leg *leg = view->drain;

        view->drain = NULL;
        fl_round_ack(leg);
    }
}

static void write_done(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);

    fl_io_write_done(fl_tio_of(cmd)->view);
    fl_tqueue_finish(cmd, fl_io_errno(cmd, result, FL_NVME_IO_WRITE));
}

uint32_t fl_io_fua(const struct fl_cmd *cmd)
{
    const struct fl_tqueue *q = cmd->conn->user;

    return le32_get(cmd->sqe.cdw12) & FL_NVME_RW_FUA || FL_PEEK(q->ctrl->write_through) ? FL_BIO_F_FUA : 0;
}

/*
 * Whole blocks of what is still coming, while they are in the CPU's caches. In order, and as long as the
 * write could go on by itself: what comes after that waits in the buffer for the end of the data.
 */
static bool place_blocks(struct fl_cmd *cmd, uint32_t off, const void *data, uint32_t len)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_ns_view *view = tio->view;

    if (off != tio->u.placed_len || len & (view->block_len - 1) || view->hold || view->resv || tio->abort)
        return false;
    if (!view->chan->ops->write_now(view->chan->backend, tio->off + off, data, len))
        return false;
    tio->u.placed_len += len;
    return true;
}

/* The data is in cmd->data. */
static void write_from_buffer(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_ns_view *view = tio->view;

    if (fl_unlikely(view->hold || view->resv) && fl_io_held(view, cmd, write_from_buffer))
        return;
    tio->iov = (struct iovec){cmd->data, tio->len};
    view->nr_writes++;
    if (!view->sync)
        fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    fl_io_submit(cmd, FL_BIO_WRITE, fl_io_fua(cmd), write_done);
}

static void write_received(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    const uint64_t placed_len = tio->u.placed_len;

    if (placed_len == tio->len) {
        fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
        return;
    }
    tio->off += placed_len;
    tio->len -= placed_len;
    cmd->data = (uint8_t *)cmd->data + placed_len;
    write_from_buffer(cmd);
}

void fl_io_write(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t len;
    fl_nvme_status status = data_range(q, view, cmd, &len);
    struct fl_tio *tio = fl_tio_of(cmd);

    if (fl_unlikely(status)) {
        fl_tqueue_finish(cmd, status);
        return;
    }
    FL_COUNT(q->io.nr_writes, 1);
    FL_COUNT(q->io.write_len, len);
    FL_COUNT(view->io.nr_writes, 1);
    FL_COUNT(view->io.write_len, len);
    if (view->sync || cmd->capsule_data)
        FL_COUNT(view->io.copied_len, len);
    else /* received into the buffer that the back end writes from */
        FL_COUNT(view->io.zero_copy_len, len);
    if (cmd->capsule_data && view->sync && fl_likely(!view->hold)) {
        cmd->data = (void *)(uintptr_t)cmd->capsule_data; /* only read */
        write_from_buffer(cmd);
        return;
    }
    if (view->chan->ops->write_now)
        cmd->place = place_blocks;
    tio->u.placed_len = 0;
    fl_tqueue_receive(cmd, len, write_received);
}

/* ---- Flush ---- */

static void flush_next(struct fl_cmd *cmd);

static void flush_done(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);

    if (result) {
        fl_tqueue_finish(cmd, fl_io_errno(cmd, result, FL_NVME_IO_OTHER));
        return;
    }
    flush_next(cmd);
}

/* NSID FFFFFFFFh: one namespace after the other (VWC says that it flushes all). The view is changed on the
 * way. */
static void flush_next(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_tqueue *q = cmd->conn->user;

    while (++tio->u.walk.index <= tio->u.walk.nr) {
        struct fl_ns_view *view = q->views[tio->u.walk.index], *had = tio->view;

        if (!view)
            continue;
        tio->view = view;
        view->nr_in_flight++;
        if (had && --had->nr_in_flight == 0 && had->removing)
            fl_view_idle(had);
        fl_io_submit(cmd, FL_BIO_FLUSH, 0, flush_done);
        return;
    }
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

static void io_flush(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    FL_COUNT(q->io.nr_other, 1);
    tio->off = tio->len = 0;
    tio->u.walk.index = view ? FL_NSID_MAX : 0;
    tio->u.walk.nr = view ? 0 : FL_NSID_MAX;
    if (view)
        FL_COUNT(view->io.nr_other, 1);
    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    if (view)
        fl_io_submit(cmd, FL_BIO_FLUSH, 0, flush_done);
    else
        flush_next(cmd);
}

/* ---- all ---- */

#define SUPP FL_NVME_EFFECT_CSUPP
#define LBCC FL_NVME_EFFECT_LBCC

static const struct io_op ops[256] = {
    [FL_NVME_CMD_FLUSH] = {io_flush, OP_WRITES | OP_ANY_NS, SUPP},
    [FL_NVME_CMD_WRITE] = {fl_io_write, OP_WRITES | OP_ALTERS, SUPP | LBCC},
    [FL_NVME_CMD_READ] = {io_read, OP_READS, SUPP},
    [FL_NVME_CMD_COMPARE] = {fl_io_compare, OP_READS, SUPP},
    [FL_NVME_CMD_WRITE_ZEROES] = {fl_io_write_zeroes, OP_WRITES | OP_ALTERS, SUPP | LBCC},
    [FL_NVME_CMD_DSM] = {fl_io_dsm, OP_WRITES | OP_ALTERS, SUPP | LBCC},
    [FL_NVME_CMD_VERIFY] = {fl_io_verify, OP_READS, SUPP},
    [FL_NVME_CMD_COPY] = {fl_io_copy, OP_READS | OP_WRITES | OP_ALTERS, SUPP | LBCC},
    [FL_NVME_CMD_RESV_REGISTER] = {fl_io_resv, OP_RESV, SUPP},
    [FL_NVME_CMD_RESV_REPORT] = {fl_io_resv, OP_RESV, SUPP},
    [FL_NVME_CMD_RESV_ACQUIRE] = {fl_io_resv, OP_RESV, SUPP},
    [FL_NVME_CMD_RESV_RELEASE] = {fl_io_resv, OP_RESV, SUPP},
};

uint32_t fl_io_effects(uint8_t opcode)
{
    return ops[opcode].run ? ops[opcode].effects : opcode == FL_NVME_CMD_FABRICS ? SUPP : 0;
}

/* Path related statuses (8.1.3): what a group that this port doesn't serve answers. */
static fl_nvme_status ana_status(uint8_t state)
{
    switch (state) {
    case FL_NVME_ANA_INACCESSIBLE:
        return FL_NVME_SC_ANA_INACCESSIBLE;
    case FL_NVME_ANA_PERSISTENT_LOSS:
        return FL_NVME_SC_ANA_PERSISTENT_LOSS;
    case FL_NVME_ANA_CHANGE:
        return FL_NVME_SC_ANA_TRANSITION;
    default:
        return FL_NVME_SC_SUCCESS;
    }
}

bool fl_io_check_access(const struct fl_ns_view *view, const struct fl_tqueue *q, enum fl_nvme_access access)
{
    const struct fl_resv_view *resv = view->resv;
    struct fl_nvme_resv_role role = {false, false};

    if (fl_likely(!resv))
        return true;
    for (uint32_t i = 0; i < resv->nr; i++) {
        if (memcmp(resv->reg[i].hostid, q->hostid, sizeof(q->hostid)))
            continue;
        role.registered = true;
        role.holder = resv->reg[i].holder;
        break;
    }
    return fl_nvme_resv_allows(resv->type, role, access);
}

static fl_nvme_status check_slow(const struct io_op *op, struct fl_tqueue *q, struct fl_ns_view *view)
{
    fl_nvme_status status = ana_status(q->ana[view->ana_group]);

    if (status)
        return status;
    if (((op->flags & OP_READS) && !fl_io_check_access(view, q, FL_NVME_ACCESS_READ)) ||
        ((op->flags & OP_WRITES) && !fl_io_check_access(view, q, FL_NVME_ACCESS_WRITE)))
        return FL_NVME_SC_RESV_CONFLICT;
    if (view->read_only && op->flags & OP_ALTERS)
        return FL_NVME_SC_NS_WRITE_PROTECTED | FL_NVME_DNR;
    return FL_NVME_SC_SUCCESS;
}

/* Opcode, namespace, ANA, reservation, write protection. 0: *view is set (NULL: all namespaces) and counted.
 */
static inline fl_nvme_status check(const struct io_op *op, struct fl_tqueue *q, struct fl_cmd *cmd,
                                   struct fl_ns_view **out)
{
    uint32_t nsid = le32_get(cmd->sqe.nsid);
    struct fl_ns_view *view;
    fl_nvme_status status;

    *out = NULL;
    if (fl_unlikely(!op->run))
        return FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR;
    if (fl_unlikely(nsid > FL_NSID_MAX || !(view = q->views[nsid]))) /* [0] is always empty */
        return nsid == FL_NVME_NSID_ALL && op->flags & OP_ANY_NS ? FL_NVME_SC_SUCCESS
                                                                 : FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    if (fl_unlikely(q->ana[view->ana_group] > FL_NVME_ANA_NON_OPTIMIZED || view->resv || view->read_only)) {
        status = check_slow(op, q, view);
        if (status)
            return status;
    }
    *out = view;
    fl_tio_of(cmd)->view = view;
    view->nr_in_flight++;
    return FL_NVME_SC_SUCCESS;
}

fl_nvme_status fl_io_check(struct fl_tqueue *q, struct fl_cmd *cmd, struct fl_ns_view **view)
{
    return check(&ops[cmd->sqe.opcode], q, cmd, view);
}

void fl_io_command(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    const struct io_op *op = &ops[cmd->sqe.opcode];
    struct fl_ns_view *view;
    fl_nvme_status status;

    if (fl_unlikely(cmd->sqe.flags != FL_NVME_CMD_PSDT_SGL || q->fused)) {
        if ((cmd->sqe.flags & FL_NVME_CMD_PSDT_MASK) != FL_NVME_CMD_PSDT_SGL && cmd->sgl_len) {
            fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR); /* Fabrics 1.1, 2.2: SGLs only */
            return;
        }
        if (cmd->sqe.flags & FL_NVME_CMD_FUSE_MASK || q->fused) {
            fl_io_fused(q, cmd);
            return;
        }
    }
    if (fl_unlikely(cmd->sqe.opcode == FL_NVMF_OPCODE)) {
        fl_fabrics_command(q, cmd);
        return;
    }
    status = check(op, q, cmd, &view);
    if (fl_unlikely(status)) {
        fl_tqueue_finish(cmd, status);
        return;
    }
    if (fl_unlikely(FL_PEEK(q->ctrl->service_time)))
        cmd->start_ns = fl_now_ns();
    op->run(q, view, cmd);
}
