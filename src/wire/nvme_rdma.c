/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_rdma.h"

#include <errno.h>

const char *fl_nvme_rdma_sts_text(uint16_t sts)
{
    static const char *const texts[] = {
        [FL_NVME_RDMA_INVALID_LEN] = "invalid length of the private data",
        [FL_NVME_RDMA_INVALID_RECFMT] = "invalid format of the private data",
        [FL_NVME_RDMA_INVALID_QID] = "invalid queue identifier",
        [FL_NVME_RDMA_INVALID_HSQSIZE] = "invalid size of the host's submission queue",
        [FL_NVME_RDMA_INVALID_HRQSIZE] = "invalid size of the host's receive queue",
        [FL_NVME_RDMA_NO_RESOURCES] = "no resources",
        [FL_NVME_RDMA_INVALID_IRD] = "invalid number of inbound RDMA READs",
        [FL_NVME_RDMA_INVALID_ORD] = "invalid number of outbound RDMA READs",
        [FL_NVME_RDMA_INVALID_CNTLID] = "invalid controller identifier",
    };

    if (sts >= sizeof(texts) / sizeof(texts[0]) || !texts[sts])
        return "unknown status";
    return texts[sts];
}

void fl_nvme_rdma_req_encode(struct fl_nvme_rdma_req *req, const struct fl_nvme_rdma_ask *ask)
{
    *req = (struct fl_nvme_rdma_req){
        .recfmt = le16_of(FL_NVME_RDMA_RECFMT),
        .qid = le16_of(ask->qid),
        .hrqsize = le16_of((uint16_t)ask->nr_recv),
        .hsqsize = le16_of((uint16_t)(ask->nr_send - 1)),
        .cntlid = le16_of(ask->cntlid),
    };
}

uint16_t fl_nvme_rdma_req_decode(const void *private_data, size_t len, struct fl_nvme_rdma_ask *ask)
{
    const struct fl_nvme_rdma_req *req = private_data;

    if (!private_data || len < sizeof(*req))
        return FL_NVME_RDMA_INVALID_LEN;
    if (le16_get(req->recfmt) != FL_NVME_RDMA_RECFMT)
        return FL_NVME_RDMA_INVALID_RECFMT;
    *ask = (struct fl_nvme_rdma_ask){
        .qid = le16_get(req->qid),
        .cntlid = le16_get(req->cntlid),
        .nr_recv = le16_get(req->hrqsize),
        .nr_send = le16_get(req->hsqsize) + 1u,
    };
    /* A submission queue has at least two entries, and an admin queue no more than 32 here. */
    if (ask->nr_send < 2 || (!ask->qid && ask->nr_send > FL_NVME_RDMA_ADMIN_MAX))
        return FL_NVME_RDMA_INVALID_HSQSIZE;
    /* A command that is out needs a receive for its response. */
    if (ask->nr_recv < ask->nr_send - 1)
        return FL_NVME_RDMA_INVALID_HRQSIZE;
    return 0;
}

void fl_nvme_rdma_rep_encode(struct fl_nvme_rdma_rep *rep, uint32_t nr_recv)
{
    *rep = (struct fl_nvme_rdma_rep){.recfmt = le16_of(FL_NVME_RDMA_RECFMT),
                                     .crqsize = le16_of((uint16_t)nr_recv)};
}

int fl_nvme_rdma_rep_decode(const void *private_data, size_t len, uint32_t *nr_recv)
{
    const struct fl_nvme_rdma_rep *rep = private_data;

    if (!private_data || len < sizeof(*rep) || le16_get(rep->recfmt) != FL_NVME_RDMA_RECFMT)
        return -EPROTO;
    *nr_recv = le16_get(rep->crqsize);
    return 0;
}

void fl_nvme_rdma_rej_encode(struct fl_nvme_rdma_rej *rej, uint16_t sts)
{
    *rej = (struct fl_nvme_rdma_rej){.recfmt = le16_of(FL_NVME_RDMA_RECFMT), .sts = le16_of(sts)};
}

int fl_nvme_rdma_rej_decode(const void *private_data, size_t len, uint16_t *sts)
{
    const struct fl_nvme_rdma_rej *rej = private_data;

    if (!private_data || len < sizeof(*rej) || le16_get(rej->recfmt) != FL_NVME_RDMA_RECFMT)
        return -EPROTO;
    *sts = le16_get(rej->sts);
    return 0;
}

static fl_nvme_status take_offset(const struct fl_nvme_sgl *sgl, uint32_t capsule_len,
                                  struct fl_nvme_rdma_data *data)
{
    uint64_t offset = le64_get(sgl->addr);
    uint32_t len = le32_get(sgl->len);

    if (offset > capsule_len)
        return FL_NVME_SC_SGL_INVALID_OFFSET;
    if (len > capsule_len - offset)
        return FL_NVME_SC_SGL_INVALID_DATA;
    *data = (struct fl_nvme_rdma_data){.len = len, .in_capsule = true, .offset = (uint32_t)offset};
    return 0;
}

static fl_nvme_status take_segment(const struct fl_nvme_sgl *sgl, uint32_t capsule_len,
                                   struct fl_nvme_rdma_data *data)
{
    uint32_t len = le32_get(sgl->len);

    if (le64_get(sgl->addr))
        return FL_NVME_SC_SGL_INVALID_OFFSET;
    if (!len || len % sizeof(struct fl_nvme_keyed_sgl) || len > capsule_len)
        return FL_NVME_SC_SGL_INVALID_SEGMENT;
    data->nr_pieces = len / (uint32_t)sizeof(struct fl_nvme_keyed_sgl);
    return 0;
}

fl_nvme_status fl_nvme_rdma_data_decode(const struct fl_nvme_sqe *sqe, uint32_t capsule_len,
                                        struct fl_nvme_rdma_data *data)
{
    const struct fl_nvme_keyed_sgl *keyed = (const struct fl_nvme_keyed_sgl *)&sqe->sgl;

    *data = (struct fl_nvme_rdma_data){0};
    switch (sqe->sgl.type) {
    case FL_NVME_SGL_OFFSET:
        return take_offset(&sqe->sgl, capsule_len, data);
    case FL_NVME_SGL_KEYED:
    case FL_NVME_SGL_KEYED_INVALIDATE:
        data->len = le24_get(keyed->len);
        data->addr = le64_get(keyed->addr);
        data->key = data->invalidate_key = le32_get(keyed->key);
        data->invalidate = data->len && sqe->sgl.type == FL_NVME_SGL_KEYED_INVALIDATE;
        return 0;
    case FL_NVME_SGL_LAST_SEGMENT_OFFSET:
        return take_segment(&sqe->sgl, capsule_len, data);
    case FL_NVME_SGL_DATA_BLOCK: /* a descriptor that was left zero, with commands that have no data */
        if (!le32_get(sqe->sgl.len))
            return 0;
        break;
    default:
        break;
    }
    return FL_NVME_SC_SGL_INVALID_TYPE;
}

fl_nvme_status fl_nvme_rdma_pieces_decode(const void *behind_sqe, uint32_t max,
                                          struct fl_nvme_rdma_data *data, struct fl_nvme_rdma_piece *pieces)
{
    const struct fl_nvme_keyed_sgl *sgl = behind_sqe;

    if (data->nr_pieces > max)
        return FL_NVME_SC_SGL_INVALID_COUNT;
    for (uint32_t i = 0; i < data->nr_pieces; i++, sgl++) {
        struct fl_nvme_rdma_piece *p = &pieces[i];

        if (sgl->type != FL_NVME_SGL_KEYED && sgl->type != FL_NVME_SGL_KEYED_INVALIDATE)
            return FL_NVME_SC_SGL_INVALID_TYPE;
        *p = (struct fl_nvme_rdma_piece){
            .addr = le64_get(sgl->addr), .len = le24_get(sgl->len), .key = le32_get(sgl->key)};
        if (p->len > UINT32_MAX - data->len)
            return FL_NVME_SC_SGL_INVALID_DATA;
        data->len += p->len;
        if (p->len && sgl->type == FL_NVME_SGL_KEYED_INVALIDATE) { /* of several the last counts (3.6) */
            data->invalidate = true;
            data->invalidate_key = p->key;
        }
    }
    return 0;
}

void fl_nvme_rdma_sgl_none(struct fl_nvme_sqe *sqe)
{
    fl_nvme_rdma_sgl_keyed(sqe, 0, 0, 0);
}

void fl_nvme_rdma_sgl_capsule(struct fl_nvme_sqe *sqe, uint32_t len)
{
    sqe->sgl = (struct fl_nvme_sgl){.len = le32_of(len), .type = FL_NVME_SGL_OFFSET};
}

void fl_nvme_rdma_sgl_piece(struct fl_nvme_keyed_sgl *sgl, uint64_t addr, uint32_t len, uint32_t key)
{
    *sgl = (struct fl_nvme_keyed_sgl){
        .addr = le64_of(addr), .len = le24_of(len), .key = le32_of(key), .type = FL_NVME_SGL_KEYED};
}

void fl_nvme_rdma_sgl_keyed(struct fl_nvme_sqe *sqe, uint64_t addr, uint32_t len, uint32_t key)
{
    fl_nvme_rdma_sgl_piece((struct fl_nvme_keyed_sgl *)&sqe->sgl, addr, len, key);
}

void fl_nvme_rdma_sgl_pieces(struct fl_nvme_sqe *sqe, uint32_t nr)
{
    sqe->sgl = (struct fl_nvme_sgl){.len = le32_of(nr * (uint32_t)sizeof(struct fl_nvme_keyed_sgl)),
                                    .type = FL_NVME_SGL_LAST_SEGMENT_OFFSET};
}
