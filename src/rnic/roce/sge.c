/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/try.h"
#include "rnic/roce/parts.h"

uint64_t fl_roce_sge_len(const struct ibv_sge *sge, uint32_t nr)
{
    uint64_t len = 0;
    for (uint32_t i = 0; i < nr; i++)
        len += sge[i].length;
    return len;
}

/* The part of one SGE that [*offset, *offset + *len) touches; both move on. 0: none of it. */
static uint32_t part_of(const struct ibv_sge *sge, uint64_t *offset, uint32_t len, uint64_t *addr)
{
    if (*offset >= sge->length) {
        *offset -= sge->length;
        return 0;
    }
    uint32_t n = sge->length - (uint32_t)*offset;
    *addr = sge->addr + *offset;
    *offset = 0;
    return n < len ? n : len;
}

int fl_roce_gather(struct fl_roce_qp *qp, const struct ibv_sge *sge, uint32_t nr, uint64_t offset,
                   uint32_t len, struct iovec *iov)
{
    int nr_iov = 0;
    for (uint32_t i = 0; i < nr && len; i++) {
        uint64_t addr = 0;
        uint32_t n = part_of(&sge[i], &offset, len, &addr);
        void *ptr;
        if (!n)
            continue;
        int r = qp->ops->local(qp, sge[i].lkey, addr, n, 0, &ptr);
        if (r)
            return r;
        iov[nr_iov++] = (struct iovec){ptr, n};
        len -= n;
    }
    return len ? -EMSGSIZE : nr_iov;
}

int fl_roce_scatter(struct fl_roce_qp *qp, const struct ibv_sge *sge, uint32_t nr, uint64_t offset,
                    const void *src, uint32_t len)
{
    const uint8_t *from = src;
    for (uint32_t i = 0; i < nr && len; i++) {
        uint64_t addr = 0;
        uint32_t n = part_of(&sge[i], &offset, len, &addr);
        void *ptr;
        if (!n)
            continue;
        int r = qp->ops->local(qp, sge[i].lkey, addr, n, IBV_ACCESS_LOCAL_WRITE, &ptr);
        if (r)
            return r;
        if (!fl_try_copy(ptr, from, n))
            return -EFAULT;
        from += n;
        len -= n;
    }
    return len ? -EMSGSIZE : 0;
}

int fl_roce_place(struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t offset, const void *src,
                  uint32_t len)
{
    if (qp->ops->place && len && qp->ops->place(qp, wqe->wr.wr_id, offset, src, len))
        return 0;
    return fl_roce_scatter(qp, wqe->sge, wqe->nr_sge, offset, src, len);
}
