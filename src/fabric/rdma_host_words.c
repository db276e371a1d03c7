/* SPDX-License-Identifier: Apache-2.0 */
/* Why a host's connection ended, in words: what the target did, and what may be done about it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/rdma_host_parts.h"
#include "wire/ib_cm.h"

int fl_rdma_host_breach(struct fl_rdma_host *h, const char *what)
{
    if (h->err.code)
        return h->err.code;
    return fl_error_set(&h->err, -EPROTO,
                        "the target broke the NVMe/RDMA protocol: %s; that is a fault of the target's "
                        "software: update it, or tell who made it",
                        what);
}

/* ---- REP ---- */

int fl_rdma_host_check_reply(struct fl_rdma_host *h, const void *private_data, size_t len, uint32_t *nr_recv)
{
    char addr[FL_ADDR_TEXT_LEN];

    if (fl_nvme_rdma_rep_decode(private_data, len, nr_recv) < 0) {
        fl_addr_format(fl_rdma_host_addr(h), addr);
        if (h->err.code)
            return h->err.code;
        return fl_error_set(
            &h->err, -EPROTO,
            "what listens at %s is no NVMe/RDMA target: the reply to the connect has %zu bytes "
            "of private data%s; check address and port",
            addr, private_data ? len : 0,
            private_data && len >= sizeof(struct fl_nvme_rdma_rep) ? " of another format" : "");
    }
    return *nr_recv ? 0 : fl_rdma_host_breach(h, "it says that it has no receives (CRQSIZE is 0)");
}

/* ---- REJ ---- */

static int rejected_by_target(struct fl_rdma_host *h, uint16_t sts)
{
    const char *advice = sts == FL_NVME_RDMA_NO_RESOURCES ? ": fewer or shorter queues may help, or later"
                         : sts == FL_NVME_RDMA_INVALID_HSQSIZE || sts == FL_NVME_RDMA_INVALID_HRQSIZE
                             ? ": shorter queues may help"
                             : "";

    return fl_error_set(&h->err, -ECONNREFUSED, "the target rejected the connection: %s (status %u)%s",
                        fl_nvme_rdma_sts_text(sts), sts, advice);
}

static const char *reason_text(int reason)
{
    switch (reason) {
    case FL_CM_REJ_NO_QP:
    case FL_CM_REJ_NO_RESOURCES:
        return "it has no resources for one more: try again later";
    case FL_CM_REJ_TIMEOUT:
        return "it waited too long for an answer: packets are lost, or a side has no CPU";
    case FL_CM_REJ_UNSUPPORTED:
        return "it does not know this kind of request";
    case FL_CM_REJ_STALE:
        return "it still has an earlier connection of this queue pair: try again";
    case FL_CM_REJ_RESPONDER_RESOURCES:
        return "it cannot do with so few RDMA READs at a time";
    case FL_CM_REJ_CONSUMER:
        return "the program that listens there gives no reason of NVMe/RDMA: check address and port";
    default:
        return "see the InfiniBand specification 12.6.7.2 for the reason";
    }
}

int fl_rdma_host_rejected(struct fl_rdma_host *h, int reason, const void *private_data, size_t len)
{
    char addr[FL_ADDR_TEXT_LEN];
    uint16_t sts;

    if (h->err.code)
        return h->err.code;
    if (reason == FL_CM_REJ_CONSUMER && fl_nvme_rdma_rej_decode(private_data, len, &sts) == 0 && sts)
        return rejected_by_target(h, sts);
    if (reason == FL_CM_REJ_SERVICE_ID)
        return fl_error_set(&h->err, -ECONNREFUSED, "nobody listens for NVMe/RDMA there%s",
                            h->choice.hardware && h->choice.here
                                ? " by hardware; a target on the software RNIC of this host needs dev=soft"
                                : "");
    fl_addr_format(fl_rdma_host_addr(h), addr);
    return fl_error_set(&h->err, -ECONNREFUSED, "%s rejected the connection: %s (CM reason %d)", addr,
                        reason_text(reason), reason);
}

/* ---- completions that failed ---- */

static int recv_failed(struct fl_rdma_host *h, enum ibv_wc_status status)
{
    char text[160];

    if (status == IBV_WC_LOC_LEN_ERR)
        return fl_rdma_host_breach(h, "it sent a response that is longer than 16 bytes");
    snprintf(text, sizeof(text), "a response of the target could not be received: %s",
             fl_rdma_wc_text(status));
    return fl_rdma_host_broken(h, -ECONNRESET, text);
}

static int send_failed(struct fl_rdma_host *h, enum ibv_wc_status status)
{
    char text[240];

    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return fl_rdma_host_broken(
            h, -ECONNRESET, "the target does not answer any more: it, its host or the network is down");
    case IBV_WC_RNR_RETRY_EXC_ERR:
        snprintf(
            text, sizeof(text),
            "the target posts no receives for commands, though it said that it has %u (CRQSIZE): it hangs, "
            "or is at fault",
            h->max_out);
        break;
    case IBV_WC_REM_INV_REQ_ERR:
        snprintf(text, sizeof(text),
                 "the target refused a command capsule: its receives may be shorter than it says "
                 "(IOCCSZ, %u bytes of data)",
                 h->capsule_len);
        break;
    default:
        snprintf(text, sizeof(text), "a command could not be sent to the target: %s",
                 fl_rdma_wc_text(status));
    }
    return fl_rdma_host_broken(h, -ECONNRESET, text);
}

int fl_rdma_host_wc_failed(struct fl_rdma_host *h, const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_WR_FLUSH_ERR)
        return fl_rdma_host_broken(h, -ECONNRESET,
                                   "the queue pair has failed: the target is gone, or used memory that "
                                   "is not open to it");
    if ((wc->wr_id & ((1 << WR_BITS) - 1)) == WR_RECV)
        return recv_failed(h, wc->status);
    return send_failed(h, wc->status);
}
