/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe/RDMA's private data, and a command's descriptor with a capsule of any length: what is taken keeps the
 * rules. */
#include "fuzz.h"

#include <string.h>

#include "wire/nvme_rdma.h"

static void private_data(const uint8_t *data, size_t len)
{
    struct fl_nvme_rdma_ask ask, again;
    struct fl_nvme_rdma_req req;
    uint32_t nr_recv;
    uint16_t sts = fl_nvme_rdma_req_decode(data, len, &ask);

    assert(sts <= FL_NVME_RDMA_INVALID_CNTLID);
    if (!sts) {
        assert(len >= sizeof(req) && ask.nr_send >= 2 && ask.nr_send <= 65536);
        assert(ask.nr_recv + 1 >= ask.nr_send && (ask.qid || ask.nr_send <= 32));
        fl_nvme_rdma_req_encode(&req, &ask);
        assert(!fl_nvme_rdma_req_decode(&req, sizeof(req), &again));
        assert(again.qid == ask.qid && again.cntlid == ask.cntlid && again.nr_send == ask.nr_send &&
               again.nr_recv == ask.nr_recv);
    }
    if (fl_nvme_rdma_rep_decode(data, len, &nr_recv) == 0)
        assert(len >= 32 && nr_recv <= 65535);
    if (fl_nvme_rdma_rej_decode(data, len, &sts) == 0)
        assert(len >= 4 && fl_nvme_rdma_sts_text(sts));
}

static void descriptor(const uint8_t *data, size_t len)
{
    struct fl_nvme_rdma_piece pieces[FL_NVME_RDMA_MAX_PIECES];
    struct fl_nvme_rdma_data out;
    struct fl_nvme_sqe sqe;
    uint32_t capsule_len;

    if (len < sizeof(sqe) + sizeof(capsule_len))
        return;
    memcpy(&sqe, data, sizeof(sqe));
    memcpy(&capsule_len, data + sizeof(sqe), sizeof(capsule_len));
    if (!fl_nvme_rdma_data_decode(&sqe, (uint32_t)(len - sizeof(sqe)), &out) && out.nr_pieces) {
        uint64_t sum = 0;

        if (fl_nvme_rdma_pieces_decode(data + sizeof(sqe), FL_NVME_RDMA_MAX_PIECES, &out, pieces))
            return;
        for (uint32_t i = 0; i < out.nr_pieces; i++)
            sum += pieces[i].len;
        assert(out.nr_pieces <= FL_NVME_RDMA_MAX_PIECES && sum == out.len && !out.in_capsule);
    }
    if (fl_nvme_rdma_data_decode(&sqe, capsule_len, &out) || !out.len)
        return;
    if (out.in_capsule)
        assert((uint64_t)out.offset + out.len <= capsule_len && !out.invalidate);
    else
        assert(out.len <= FL_NVME_RDMA_MAX_DATA);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    private_data(data, len);
    descriptor(data, len);
    return 0;
}
