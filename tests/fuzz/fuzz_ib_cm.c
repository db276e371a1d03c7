/* SPDX-License-Identifier: Apache-2.0 */
/* One MAD of the connection manager. */
#include "fuzz.h"

#include <string.h>

#include "wire/ib_cm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct fl_cm_mad *mad = fl_cm_view(data, len);
    if (!mad) {
        (void)fl_cm_version_wrong(data, len);
        return 0;
    }
    assert(!fl_cm_version_wrong(data, len));
    struct fl_cm_mad copy = *mad;
    uint16_t attr = be16_get(copy.hdr.attr_id);
    size_t private_len;
    uint8_t *at = fl_cm_private(&copy, &private_len);
    assert(at >= copy.bytes && at + private_len <= copy.bytes + sizeof(copy.bytes));
    assert(strcmp(fl_cm_attr_text(attr), "unknown CM message"));
    const struct fl_cm_ip_hdr *ip = fl_cm_ip_view(at, private_len);
    if (ip)
        assert(ip->ip >> 4 == 4 || ip->ip >> 4 == 6);
    if (attr == FL_CM_REJ)
        assert(fl_cm_rej_ari_len(&copy.rej) <= FL_CM_REJ_ARI_LEN &&
               fl_cm_reason_text(be16_get(copy.rej.reason)));
    if (attr == FL_CM_SIDR_REP)
        assert(copy.sidr_rep.info_len <= FL_CM_SIDR_REP_INFO_LEN &&
               fl_cm_sidr_status_text(copy.sidr_rep.status));
    uint8_t space;
    uint16_t port;
    if (attr == FL_CM_REQ && fl_cm_service_id_parse(be64_get(copy.req.service_id), &space, &port))
        assert(fl_cm_service_id((enum fl_cm_port_space)space, port) == be64_get(copy.req.service_id));
    return 0;
}
