/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of one NVMe/TCP PDU. Input: a byte of what was agreed (bit 0 receiver is the host, 1
 * established, 2 header digest, 3 data digest), one of the alignment in dwords, 0's based, four of the
 * longest PDU, then the PDU's header, which may be cut.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/nvme_tcp.h"

static void use_ic(const uint8_t bytes[128], uint8_t type, bool ask)
{
    struct fl_tcp_ic asked = {.hdgst = ask, .ddgst = ask, .pda = 4, .nr_r2t = 1}, ic, again;
    struct fl_tcp_fault fault = {0, 0};
    uint8_t out[128];
    int r = type == FL_TCP_IC_REQ ? fl_tcp_ic_req_decode((const void *)bytes, &ic, &fault)
                                  : fl_tcp_ic_resp_decode((const void *)bytes, &asked, &ic, &fault);
    if (r) {
        assert(r == -EPROTO && fault.fes && fault.offset >= 8 && fault.offset < 16);
        return;
    }
    assert(ic.pda >= FL_TCP_PDA_MIN && ic.pda <= FL_TCP_PDA_MAX && ic.pda % 4 == 0);
    if (type == FL_TCP_IC_REQ) {
        assert(ic.nr_r2t);
        fl_tcp_ic_req_encode((void *)out, &ic);
        assert(fl_tcp_ic_req_decode((const void *)out, &again, &fault) == 0);
    } else {
        assert(ic.maxh2cdata >= FL_TCP_MAXH2CDATA_MIN && (ask || (!ic.hdgst && !ic.ddgst)));
        fl_tcp_ic_resp_encode((void *)out, &ic);
        assert(fl_tcp_ic_resp_decode((const void *)out, &asked, &again, &fault) == 0);
    }
    assert(again.hdgst == ic.hdgst && again.ddgst == ic.ddgst && again.pda == ic.pda &&
           again.nr_r2t == ic.nr_r2t && again.maxh2cdata == ic.maxh2cdata);
}

static void accepted(const struct fl_tcp_hdr *hdr, const struct fl_tcp_limits *limits)
{
    uint64_t plen = le32_get(hdr->plen), offset = fl_tcp_data_offset(hdr), len = fl_tcp_data_len(hdr);
    assert(hdr->hlen && hdr->hlen == fl_tcp_hlen(hdr->type));
    assert(offset >= hdr->hlen + fl_tcp_hdgst_len(hdr));
    assert(offset + len + fl_tcp_ddgst_len(hdr) == plen);
    assert(!fl_tcp_ddgst_len(hdr) || (len && limits->ddgst));
    assert(!fl_tcp_hdgst_len(hdr) || limits->hdgst);
    if (hdr->type == FL_TCP_CMD || hdr->type == FL_TCP_H2C_DATA || hdr->type == FL_TCP_C2H_DATA)
        assert(!len || (plen <= limits->max_plen && offset % limits->pda == 0));
    else
        assert(plen <= FL_TCP_TERM_PLEN_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t bytes[128] = {0}, term[FL_TCP_TERM_PLEN_MAX];
    struct fl_tcp_fault fault = {0, 0};
    struct fl_tcp_hdr hdr;
    le32 max_plen;
    if (len < 6 + sizeof(hdr))
        return 0;
    memcpy(&max_plen, data + 2, sizeof(max_plen));
    struct fl_tcp_limits limits = {
        .established = data[0] & 2,
        .hdgst = data[0] & 4,
        .ddgst = data[0] & 8,
        .pda = (uint8_t)((data[1] % 32 + 1) * 4),
        .max_plen = le32_get(max_plen),
    };
    enum fl_tcp_role role = data[0] & 1 ? FL_TCP_HOST : FL_TCP_TARGET;
    memcpy(bytes, data + 6, len - 6 < sizeof(bytes) ? len - 6 : sizeof(bytes));
    memcpy(&hdr, bytes, sizeof(hdr));

    if (fl_tcp_hdr_check(&hdr, role, &limits, &fault)) {
        assert(fault.fes >= FL_TCP_FES_HEADER && fault.fes <= FL_TCP_FES_UNSUPPORTED &&
               fault.offset < sizeof(hdr));
        uint32_t n = fl_tcp_term_encode(term, role, &fault, bytes, (uint32_t)len);
        struct fl_tcp_limits peer = {.pda = 4, .established = true};
        memcpy(&hdr, term, sizeof(hdr));
        assert(n <= sizeof(term) && n == le32_get(hdr.plen));
        assert(!fl_tcp_hdr_check(&hdr, role == FL_TCP_HOST ? FL_TCP_TARGET : FL_TCP_HOST, &peer, &fault));
        return 0;
    }
    accepted(&hdr, &limits);
    if (hdr.type == FL_TCP_IC_REQ || hdr.type == FL_TCP_IC_RESP)
        use_ic(bytes, hdr.type, data[0] & 4);
    if ((hdr.type == FL_TCP_H2C_DATA || hdr.type == FL_TCP_C2H_DATA) &&
        !fl_tcp_data_check((const void *)bytes, &fault))
        assert(le32_get(((const struct fl_tcp_data *)bytes)->datal) == fl_tcp_data_len(&hdr) &&
               fl_tcp_data_len(&hdr));
    if (hdr.type == FL_TCP_R2T && !fl_tcp_r2t_check((const void *)bytes, &fault))
        assert(le32_get(((const struct fl_tcp_r2t *)bytes)->r2tl));
    return 0;
}
