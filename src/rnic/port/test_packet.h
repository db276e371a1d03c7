/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of this folder: packets to send, and GIDs. */
#ifndef FL_RNIC_PORT_TEST_PACKET_H
#define FL_RNIC_PORT_TEST_PACKET_H

#include <arpa/inet.h>
#include <string.h>

#include "base/unit.h"
#include "rnic/port.h"

static inline struct in6_addr gid_of(const char *text)
{
    struct in6_addr gid;
    char mapped[64] = "::ffff:";
    if (inet_pton(AF_INET6, strchr(text, ':') ? text : strcat(mapped, text), &gid) != 1)
        memset(&gid, 0, sizeof(gid));
    return gid;
}

static inline struct fl_port_flow flow_of(const char *from, const char *to)
{
    return (struct fl_port_flow){.sgid = gid_of(from), .dgid = gid_of(to)};
}

/* RC SEND only, or UD SEND only, of len bytes (a multiple of 4) that must hold. */
static inline void packet_of(struct fl_roce_tx *tx, uint8_t service, uint32_t qpn, uint32_t psn,
                             const void *payload, uint32_t len)
{
    uint32_t hdr_len = sizeof(struct fl_bth);
    memset(tx, 0, sizeof(*tx));
    fl_bth_set((struct fl_bth *)tx->hdr, FL_IB_OPCODE(service, FL_IB_SEND_ONLY), FL_IB_PKEY_DEFAULT, qpn, psn,
               0);
    if (service == FL_IB_UD)
        hdr_len += sizeof(struct fl_deth);
    tx->iov[0] = (struct iovec){tx->hdr, hdr_len};
    tx->iov[1] = (struct iovec){(void *)payload, len};
    tx->nr_iov = 2;
    tx->len = hdr_len + len;
}

#endif
