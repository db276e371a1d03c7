/* SPDX-License-Identifier: Apache-2.0 */
/* Polling: ibv_poll_cq() and the one by one way of ibv_create_cq_ex(). */
#include <errno.h>
#include <time.h>

#include "rnic/objects.h"
#include "rnic/verbs.h"

static uint32_t ready(const struct fl_cq *cq)
{
    return __atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE) - cq->head;
}

/* Under cq->lock. 1: cq->now is the next completion. */
static int take(struct fl_cq *cq)
{
    if (!ready(cq))
        return 0;
    cq->now = cq->ring[cq->head & cq->mask];
    __atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELEASE);
    return 1;
}

static int copy_out(struct fl_cq *cq, int max, struct ibv_wc *wc)
{
    int n = 0;
    pthread_mutex_lock(&cq->lock);
    uint32_t head = cq->head, left = ready(cq);
    for (; n < max && left; n++, left--)
        wc[n] = cq->ring[head++ & cq->mask].wc;
    __atomic_store_n(&cq->head, head, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&cq->lock);
    return n;
}

/* Looks without the lock whether there is something; only a hint. */
static bool looks_empty(const struct fl_cq *cq)
{
    return __atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&cq->head, __ATOMIC_RELAXED);
}

int fl_cq_poll(struct ibv_cq *ibv_cq, int max, struct ibv_wc *wc)
{
    struct fl_cq *cq = fl_cq_of(ibv_cq);
    struct fl_rnic *rnic = __atomic_load_n(&cq->rnic, __ATOMIC_RELAXED);
    if (fl_unlikely(rnic->gone))
        return -ENODEV;
    if (looks_empty(cq)) {
        fl_rnic_drive(rnic, fl_cq_is_armed(cq));
        if (looks_empty(cq))
            return fl_unlikely(__atomic_load_n(&cq->failed, __ATOMIC_ACQUIRE)) ? -EOVERFLOW : 0;
    }
    return copy_out(cq, max, wc);
}

static struct fl_cq *of_ex(struct ibv_cq_ex *ex)
{
    return FL_CONTAINER_OF(ex, struct fl_cq, ex);
}

static void show(struct fl_cq *cq)
{
    cq->ex.wr_id = cq->now.wc.wr_id;
    cq->ex.status = cq->now.wc.status;
}

/* The lock is held from a start that found something to the end. */
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct fl_cq *cq = of_ex(ex);
    struct fl_rnic *rnic = __atomic_load_n(&cq->rnic, __ATOMIC_RELAXED);
    if (rnic->gone)
        return ENODEV;
    if (attr->comp_mask)
        return EINVAL;
    if (looks_empty(cq))
        fl_rnic_drive(rnic, fl_cq_is_armed(cq));
    pthread_mutex_lock(&cq->lock);
    if (take(cq)) {
        show(cq);
        return 0;
    }
    pthread_mutex_unlock(&cq->lock);
    return __atomic_load_n(&cq->failed, __ATOMIC_ACQUIRE) ? EOVERFLOW : ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex)
{
    struct fl_cq *cq = of_ex(ex);
    if (!take(cq))
        return ENOENT;
    show(cq);
    return 0;
}

static void end_poll(struct ibv_cq_ex *ex)
{
    pthread_mutex_unlock(&of_ex(ex)->lock);
}

/* What the next completion says: one function a field. */
#define READ(type, field)                          \
    static type read_##field(struct ibv_cq_ex *ex) \
    {                                              \
        return of_ex(ex)->now.wc.field;            \
    }
READ(enum ibv_wc_opcode, opcode)
READ(uint32_t, vendor_err)
READ(uint32_t, byte_len)
READ(__be32, imm_data)
READ(uint32_t, qp_num)
READ(uint32_t, src_qp)
READ(unsigned int, wc_flags)
READ(uint32_t, slid)
READ(uint8_t, sl)
READ(uint8_t, dlid_path_bits)
#undef READ

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
    return of_ex(ex)->now.at;
}

/* The time stamp's age, taken from the wall clock of now */
static uint64_t read_wallclock_ns(struct ibv_cq_ex *ex)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * FL_NS_PER_S + (uint64_t)wall.tv_nsec - (fl_now_ns() - of_ex(ex)->now.at);
}

void fl_cq_set_ex_ops(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
    ex->start_poll = start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
    ex->read_byte_len = read_byte_len;
    ex->read_imm_data = read_imm_data;
    ex->read_qp_num = read_qp_num;
    ex->read_src_qp = read_src_qp;
    ex->read_slid = read_slid;
    ex->read_sl = read_sl;
    ex->read_dlid_path_bits = read_dlid_path_bits;
    if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
        ex->read_completion_ts = read_completion_ts;
    if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
        ex->read_completion_wallclock_ns = read_wallclock_ns;
}
