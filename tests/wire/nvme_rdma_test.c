/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every NVMe/RDMA capture of tests/captures, decoded whole: private data of the connection manager's
 * messages, command and response capsules of each queue, and each RDMA READ and WRITE held against the
 * descriptor of a command that is out. The numbers expected here are tshark's. Argument: the folder.
 */
#include <stdio.h>
#include <string.h>

#include "base/unit.h"
#include "pcap.h"
#include "wire/ib.h"
#include "wire/ib_cm.h"
#include "wire/nvme_rdma.h"
#include "wire/nvmf.h"

#define QUEUES_MAX  16
#define OUT_MAX     128
#define CAPSULE_MAX (64 + 16384)

static const struct expected {
    const char *name;
    unsigned nr_cmds, nr_resps, nr_inv, nr_reads, nr_writes, nr_in_capsule, nr_reqs, nr_reps, nr_rejs;
} captures[] = {
    {"rdma-ana.pcap", 82, 30, 50, 2, 48, 4, 4, 4, 0},
    {"rdma-basic.pcap", 52, 22, 28, 3, 25, 2, 3, 3, 0},
    {"rdma-cmds-events.pcap", 81, 24, 55, 2, 53, 2, 4, 4, 0},
    {"rdma-cmds-io.pcap", 62, 20, 41, 2, 36, 5, 2, 2, 0},
    {"rdma-disc.pcap", 23, 14, 8, 1, 7, 0, 1, 1, 0},
    {"rdma-large.pcap.gz", 33, 12, 20, 9, 25, 1, 2, 2, 0},
    {"rdma-mtu4096.pcap", 37, 13, 23, 2, 21, 2, 2, 2, 0},
    {"rdma-refused.pcap", 32, 11, 20, 3, 17, 1, 5, 4, 1},
};

struct out { /* a command without a response so far */
    bool used;
    uint16_t cid;
    enum fl_nvme_xfer xfer;
    struct fl_nvme_rdma_data data;
    uint32_t moved; /* bytes of it that READs or WRITEs named */
};

struct queue {
    uint32_t host_id, host_qpn, target_qpn;
    struct fl_nvme_rdma_ask ask;
    uint8_t capsule[CAPSULE_MAX];
    uint32_t capsule_len, nr_out;
    struct out out[OUT_MAX];
};

static const char *folder;
static struct queue queues[QUEUES_MAX];
static unsigned nr_queues;
static struct expected got;

static bool packet_of(const struct pcap_frame *frame, struct fl_ib_packet *packet)
{
    const uint8_t *ip = frame->bytes + 14, *udp = ip + 20;
    uint32_t len;

    if (frame->len < 14 + 20 + 8 || frame->bytes[12] != 0x08 || frame->bytes[13] || ip[0] != 0x45 ||
        ip[9] != 17 || (udp[2] << 8 | udp[3]) != FL_ROCE_PORT)
        return false;
    len = (uint32_t)(udp[4] << 8 | udp[5]) - 8;
    assert_true(len >= FL_IB_ICRC_LEN && len <= frame->len - 42);
    assert_int_equal(fl_ib_packet_view(packet, udp + 8, len - FL_IB_ICRC_LEN), 0);
    return true;
}

/* ---- connection manager ---- */

static void take_req(const struct fl_cm_req *req)
{
    struct queue *q = &queues[nr_queues++];
    struct fl_nvme_rdma_req again;
    const uint8_t *data = req->private_data + sizeof(struct fl_cm_ip_hdr);

    assert_true(nr_queues <= QUEUES_MAX);
    *q = (struct queue){.host_id = be32_get(req->local_id), .host_qpn = be24_get(req->qpn)};
    assert_int_equal(
        fl_nvme_rdma_req_decode(data, sizeof(req->private_data) - sizeof(struct fl_cm_ip_hdr), &q->ask), 0);
    fl_nvme_rdma_req_encode(&again, &q->ask);
    assert_memory_equal(&again, data, sizeof(again));
    assert_true(q->ask.qid || q->ask.nr_send == FL_NVME_RDMA_ADMIN_MAX);
    got.nr_reqs++;
}

static struct queue *queue_of_id(uint32_t host_id)
{
    for (unsigned i = nr_queues; i--;)
        if (queues[i].host_id == host_id)
            return &queues[i];
    fail_msg("a reply to nobody");
    return NULL;
}

static void take_mad(const struct fl_ib_packet *packet)
{
    const struct fl_cm_mad *mad = fl_cm_view(packet->payload, packet->payload_len);
    struct fl_nvme_rdma_rep again;
    struct queue *q;
    uint32_t nr_recv;
    uint16_t sts;

    assert_non_null(mad);
    switch (be16_get(mad->hdr.attr_id)) {
    case FL_CM_REQ:
        take_req(&mad->req);
        break;
    case FL_CM_REP:
        q = queue_of_id(be32_get(mad->rep.remote_id));
        q->target_qpn = be24_get(mad->rep.qpn);
        assert_int_equal(
            fl_nvme_rdma_rep_decode(mad->rep.private_data, sizeof(mad->rep.private_data), &nr_recv), 0);
        assert_true(nr_recv >= q->ask.nr_send);
        fl_nvme_rdma_rep_encode(&again, nr_recv);
        assert_memory_equal(&again, mad->rep.private_data, sizeof(again));
        got.nr_reps++;
        break;
    case FL_CM_REJ: /* nobody listens: not the controller's, and zeroes say no status that there is */
        assert_int_equal(be16_get(mad->rej.reason), 8);
        assert_int_equal(fl_nvme_rdma_rej_decode(mad->rej.private_data, 4, &sts), 0);
        assert_int_equal(sts, 0);
        got.nr_rejs++;
        break;
    default:
        break;
    }
}

/* ---- capsules ---- */

static struct out *find(struct queue *q, uint16_t cid)
{
    for (unsigned i = 0; i < OUT_MAX; i++)
        if (q->out[i].used && q->out[i].cid == cid)
            return &q->out[i];
    return NULL;
}

static void take_command(struct queue *q)
{
    const struct fl_nvme_sqe *sqe = (const struct fl_nvme_sqe *)q->capsule;
    struct out *out = q->out;

    assert_true(q->capsule_len >= sizeof(*sqe));
    assert_int_equal(sqe->flags & FL_NVME_CMD_PSDT_MASK, FL_NVME_CMD_PSDT_SGL);
    assert_null(find(q, le16_get(sqe->cid)));
    while (out->used)
        out++;
    *out = (struct out){.used = true, .cid = le16_get(sqe->cid), .xfer = fl_nvmf_xfer(sqe)};
    assert_int_equal(fl_nvme_rdma_data_decode(sqe, q->capsule_len - (uint32_t)sizeof(*sqe), &out->data), 0);
    if (out->data.in_capsule) {
        assert_int_equal(out->data.offset, 0);
        assert_int_equal(out->data.len, q->capsule_len - sizeof(*sqe));
        got.nr_in_capsule++;
    } else {
        assert_int_equal(q->capsule_len, sizeof(*sqe));
    }
    assert_true(++q->nr_out < q->ask.nr_send);
    got.nr_cmds++;
}

static void take_response(struct queue *q, const struct fl_ib_packet *packet)
{
    const struct fl_nvme_cqe *cqe = (const struct fl_nvme_cqe *)packet->payload;
    const struct fl_ieth *ieth = fl_ib_ieth(packet);
    struct out *out;

    assert_int_equal(packet->payload_len, sizeof(*cqe));
    out = find(q, le16_get(cqe->cid));
    assert_non_null(out);
    if (ieth) {
        assert_true(out->data.invalidate);
        assert_int_equal(be32_get(ieth->rkey), out->data.key);
        got.nr_inv++;
    } else {
        assert_false(out->data.invalidate);
        got.nr_resps++;
    }
    if (!fl_nvme_cqe_status(cqe) && !out->data.in_capsule && out->xfer == FL_NVME_XFER_TO_CTRL)
        assert_int_equal(out->moved, out->data.len);
    out->used = false;
    q->nr_out--;
}

/* All that a READ or WRITE names is what one command that is out described. */
static void take_rdma(struct queue *q, const struct fl_ib_packet *packet, bool read)
{
    const struct fl_reth *reth = fl_ib_reth(packet);
    uint64_t va = be64_get(reth->va);
    uint32_t len = be32_get(reth->dma_len);

    for (unsigned i = 0; i < OUT_MAX; i++) {
        struct out *out = &q->out[i];

        if (!out->used || out->data.in_capsule || out->data.key != be32_get(reth->rkey) ||
            va < out->data.addr || va + len > out->data.addr + out->data.len)
            continue;
        assert_int_equal(out->xfer, read ? FL_NVME_XFER_TO_CTRL : FL_NVME_XFER_TO_HOST);
        out->moved += len;
        assert_true(out->moved <= out->data.len);
        *(read ? &got.nr_reads : &got.nr_writes) += 1;
        return;
    }
    fail_msg("a transfer that no command described");
}

static void take_from_host(struct queue *q, const struct fl_ib_packet *packet)
{
    if (!(packet->op->attr & FL_IB_SEND))
        return; /* responses to READs, acknowledgements */
    if (packet->op->attr & FL_IB_STARTS)
        q->capsule_len = 0;
    assert_true(q->capsule_len + packet->payload_len <= CAPSULE_MAX);
    memcpy(q->capsule + q->capsule_len, packet->payload, packet->payload_len);
    q->capsule_len += packet->payload_len;
    if (packet->op->attr & FL_IB_ENDS)
        take_command(q);
}

static void take_from_target(struct queue *q, const struct fl_ib_packet *packet)
{
    if (packet->op->attr & FL_IB_SEND)
        take_response(q, packet);
    else if (fl_ib_reth(packet))
        take_rdma(q, packet, packet->op->attr & FL_IB_READ);
}

static void take(const struct pcap_frame *frame)
{
    struct fl_ib_packet packet;
    bool from_host = frame->bytes[14 + 15] == 12; /* last byte of the IPv4 source */

    if (!packet_of(frame, &packet))
        return;
    if (packet.qpn == FL_IB_QP1) {
        take_mad(&packet);
        return;
    }
    for (unsigned i = nr_queues; i--;) {
        if (from_host && queues[i].target_qpn == packet.qpn) {
            take_from_host(&queues[i], &packet);
            return;
        }
        if (!from_host && queues[i].host_qpn == packet.qpn) {
            take_from_target(&queues[i], &packet);
            return;
        }
    }
    fail_msg("a packet of no connection");
}

static void decodes_whole(void **state)
{
    const struct expected *e = *state;
    struct pcap pcap;
    char path[4096];

    nr_queues = 0;
    got = (struct expected){.name = e->name};
    snprintf(path, sizeof(path), "%s/%s", folder, e->name);
    assert_int_equal(pcap_load(&pcap, path), 0);
    for (size_t i = 0; i < pcap.nr_frames; i++)
        take(&pcap.frames[i]);
    pcap_free(&pcap);
    assert_int_equal(got.nr_cmds, e->nr_cmds);
    assert_int_equal(got.nr_resps, e->nr_resps);
    assert_int_equal(got.nr_inv, e->nr_inv);
    assert_int_equal(got.nr_reads, e->nr_reads);
    assert_int_equal(got.nr_writes, e->nr_writes);
    assert_int_equal(got.nr_in_capsule, e->nr_in_capsule);
    assert_int_equal(got.nr_reqs, e->nr_reqs);
    assert_int_equal(got.nr_reps, e->nr_reps);
    assert_int_equal(got.nr_rejs, e->nr_rejs);
}

int main(int argc, char **argv)
{
    enum { NR = sizeof(captures) / sizeof(captures[0]) };
    struct CMUnitTest tests[NR];

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < NR; i++)
        tests[i] = (struct CMUnitTest){captures[i].name, decodes_whole, NULL, NULL, (void *)&captures[i]};
    return cmocka_run_group_tests_name("NVMe/RDMA captures", tests, NULL, NULL);
}
