/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ib_cm.h"

static bool is_cm_but_for_version(const struct fl_mad_hdr *hdr, size_t len)
{
    return len == FL_MAD_LEN && hdr->base_version == FL_MAD_BASE_VERSION &&
           hdr->mgmt_class == FL_MAD_CLASS_CM && hdr->method == FL_MAD_METHOD_SEND;
}

const struct fl_cm_mad *fl_cm_view(const void *bytes, size_t len)
{
    const struct fl_cm_mad *mad = bytes;
    if (!is_cm_but_for_version(&mad->hdr, len) || mad->hdr.class_version != FL_MAD_CM_VERSION)
        return NULL;
    uint16_t attr = be16_get(mad->hdr.attr_id);
    if (attr < FL_CM_REQ || attr > FL_CM_APR)
        return NULL;
    if (attr == FL_CM_REJ && fl_cm_rej_ari_len(&mad->rej) > FL_CM_REJ_ARI_LEN)
        return NULL;
    if (attr == FL_CM_SIDR_REP && mad->sidr_rep.info_len > FL_CM_SIDR_REP_INFO_LEN)
        return NULL;
    return mad;
}

bool fl_cm_version_wrong(const void *bytes, size_t len)
{
    const struct fl_mad_hdr *hdr = bytes;
    return is_cm_but_for_version(hdr, len) && hdr->class_version != FL_MAD_CM_VERSION;
}

void fl_cm_init(struct fl_cm_mad *mad, enum fl_cm_attr attr, uint64_t tid)
{
    memset(mad, 0, sizeof(*mad));
    mad->hdr.base_version = FL_MAD_BASE_VERSION;
    mad->hdr.mgmt_class = FL_MAD_CLASS_CM;
    mad->hdr.class_version = FL_MAD_CM_VERSION;
    mad->hdr.method = FL_MAD_METHOD_SEND;
    mad->hdr.tid = be64_of(tid);
    mad->hdr.attr_id = be16_of((uint16_t)attr);
}

uint8_t *fl_cm_private(struct fl_cm_mad *mad, size_t *len)
{
    static const struct {
        uint8_t at, len;
    } places[] = {
        [FL_CM_REQ - FL_CM_REQ] = {offsetof(struct fl_cm_req, private_data), FL_CM_REQ_PRIVATE_LEN},
        [FL_CM_MRA - FL_CM_REQ] = {offsetof(struct fl_cm_mra, private_data), FL_CM_MRA_PRIVATE_LEN},
        [FL_CM_REJ - FL_CM_REQ] = {offsetof(struct fl_cm_rej, private_data), FL_CM_REJ_PRIVATE_LEN},
        [FL_CM_REP - FL_CM_REQ] = {offsetof(struct fl_cm_rep, private_data), FL_CM_REP_PRIVATE_LEN},
        [FL_CM_RTU - FL_CM_REQ] = {offsetof(struct fl_cm_rtu, private_data), FL_CM_RTU_PRIVATE_LEN},
        [FL_CM_DREQ - FL_CM_REQ] = {offsetof(struct fl_cm_dreq, private_data), FL_CM_DREQ_PRIVATE_LEN},
        [FL_CM_DREP - FL_CM_REQ] = {offsetof(struct fl_cm_drep, private_data), FL_CM_DREP_PRIVATE_LEN},
        [FL_CM_SIDR_REQ -
            FL_CM_REQ] = {offsetof(struct fl_cm_sidr_req, private_data), FL_CM_SIDR_REQ_PRIVATE_LEN},
        [FL_CM_SIDR_REP -
            FL_CM_REQ] = {offsetof(struct fl_cm_sidr_rep, private_data), FL_CM_SIDR_REP_PRIVATE_LEN},
    };
    unsigned i = be16_get(mad->hdr.attr_id) - FL_CM_REQ;
    if (i >= sizeof(places) / sizeof(places[0])) {
        *len = 0;
        return mad->bytes;
    }
    *len = places[i].len;
    return mad->bytes + places[i].at;
}

const char *fl_cm_attr_text(uint16_t attr)
{
    static const char *const names[] = {
        "ConnectRequest",      "MsgRcptAck",        "ConnectReject",         "ConnectReply",
        "ReadyToUse",          "DisconnectRequest", "DisconnectReply",       "ServiceIDResReq",
        "ServiceIDResReqResp", "LoadAlternatePath", "AlternatePathResponse",
    };
    unsigned i = (unsigned)attr - FL_CM_REQ;
    return i < sizeof(names) / sizeof(names[0]) ? names[i] : "unknown CM message";
}

const char *fl_cm_reason_text(uint16_t reason)
{
    static const char *const texts[] = {
        [FL_CM_REJ_NO_QP] = "no queue pair available",
        [FL_CM_REJ_NO_EEC] = "no end-to-end context available",
        [FL_CM_REJ_NO_RESOURCES] = "no resources available",
        [FL_CM_REJ_TIMEOUT] = "time-out",
        [FL_CM_REJ_UNSUPPORTED] = "request not supported",
        [FL_CM_REJ_COMM_ID] = "unknown communication ID",
        [FL_CM_REJ_COMM_INSTANCE] = "unknown communication instance",
        [FL_CM_REJ_SERVICE_ID] = "nobody listens on this service ID",
        [FL_CM_REJ_TRANSPORT] = "transport service type not supported",
        [FL_CM_REJ_STALE] = "stale connection",
        [11] = "reliable datagram channel does not exist",
        [FL_CM_REJ_PRIMARY_GID] = "primary remote GID rejected",
        [13] = "primary remote LID rejected",
        [14] = "primary service level not supported",
        [15] = "primary traffic class not supported",
        [16] = "primary hop limit not supported",
        [17] = "primary packet rate not supported",
        [18] = "alternate remote GID rejected",
        [19] = "alternate remote LID rejected",
        [20] = "alternate service level not supported",
        [21] = "alternate traffic class not supported",
        [22] = "alternate hop limit not supported",
        [23] = "alternate packet rate not supported",
        [24] = "connection manager and port are elsewhere",
        [25] = "port is elsewhere",
        [FL_CM_REJ_PATH_MTU] = "path MTU not supported",
        [FL_CM_REJ_RESPONDER_RESOURCES] = "not enough responder resources",
        [FL_CM_REJ_CONSUMER] = "rejected by the program that listens",
        [FL_CM_REJ_RNR_RETRY] = "RNR retry count not acceptable",
        [FL_CM_REJ_DUPLICATE_ID] = "communication ID in use already",
        [FL_CM_REJ_CLASS_VERSION] = "version of the message not supported",
        [32] = "flow label not supported",
        [33] = "alternate flow label not supported",
        [35] = "vendor option not supported",
    };
    const char *text = reason < sizeof(texts) / sizeof(texts[0]) ? texts[reason] : NULL;
    return text ? text : "unknown reason";
}

const char *fl_cm_sidr_status_text(uint8_t status)
{
    static const char *const texts[] = {
        [FL_CM_SIDR_OK] = "success",
        [FL_CM_SIDR_UNSUPPORTED] = "nobody listens on this service ID",
        [FL_CM_SIDR_REJECT] = "rejected by the program that listens",
        [FL_CM_SIDR_NO_QP] = "no queue pair available",
        [FL_CM_SIDR_REDIRECT] = "the service is elsewhere",
        [FL_CM_SIDR_VERSION] = "version not supported",
    };
    return status < sizeof(texts) / sizeof(texts[0]) ? texts[status] : "unknown status";
}

#define SERVICE_PREFIX 0x0000000001ull

uint64_t fl_cm_service_id(enum fl_cm_port_space space, uint16_t port)
{
    return SERVICE_PREFIX << 24 | (uint64_t)space << 16 | port;
}

bool fl_cm_service_id_parse(uint64_t service_id, uint8_t *space, uint16_t *port)
{
    if (service_id >> 24 != SERVICE_PREFIX)
        return false;
    *space = (uint8_t)(service_id >> 16);
    *port = (uint16_t)service_id;
    return true;
}

const struct fl_cm_ip_hdr *fl_cm_ip_view(const void *private_data, size_t len)
{
    const struct fl_cm_ip_hdr *hdr = private_data;
    if (len < sizeof(*hdr) || hdr->version >> 4 || (hdr->ip >> 4 != 4 && hdr->ip >> 4 != 6))
        return NULL;
    return hdr;
}

void fl_cm_ip_set(struct fl_cm_ip_hdr *hdr, int ip_version, uint16_t src_port, const void *src,
                  const void *dst)
{
    size_t len = ip_version == 4 ? 4 : 16;
    memset(hdr, 0, sizeof(*hdr));
    hdr->ip = (uint8_t)(ip_version << 4);
    hdr->src_port = be16_of(src_port);
    memcpy(hdr->src + sizeof(hdr->src) - len, src, len);
    memcpy(hdr->dst + sizeof(hdr->dst) - len, dst, len);
}
