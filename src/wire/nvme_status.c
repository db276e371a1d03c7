/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_status.h"

#include <stddef.h>

struct entry {
    uint16_t code;
    const char *text;
};

/* Ascending within each type, for people who read it; looked up only when a person is told. */
static const struct entry texts[] = {
    {FL_NVME_SC_SUCCESS, "success"},
    {FL_NVME_SC_INVALID_OPCODE, "the command is not supported"},
    {FL_NVME_SC_INVALID_FIELD, "a field of the command is invalid"},
    {FL_NVME_SC_CMDID_CONFLICT, "the command identifier is in use already"},
    {FL_NVME_SC_DATA_XFER_ERROR, "the transfer of the command's data failed"},
    {FL_NVME_SC_POWER_LOSS, "aborted, power is about to go"},
    {FL_NVME_SC_INTERNAL, "internal error of the controller"},
    {FL_NVME_SC_ABORT_REQ, "aborted on request"},
    {FL_NVME_SC_ABORT_QUEUE, "aborted, its queue was deleted"},
    {FL_NVME_SC_FUSED_FAIL, "aborted, the other command of the fused pair failed"},
    {FL_NVME_SC_FUSED_MISSING, "aborted, the other command of the fused pair is missing"},
    {FL_NVME_SC_INVALID_NS, "there is no such namespace, or its format does not suit the command"},
    {FL_NVME_SC_CMD_SEQ_ERROR, "the command came out of sequence"},
    {FL_NVME_SC_SGL_INVALID_SEGMENT, "invalid SGL segment descriptor"},
    {FL_NVME_SC_SGL_INVALID_COUNT, "invalid number of SGL descriptors"},
    {FL_NVME_SC_SGL_INVALID_DATA, "the SGL's length does not fit the command's data"},
    {FL_NVME_SC_SGL_INVALID_METADATA, "the SGL's length does not fit the command's metadata"},
    {FL_NVME_SC_SGL_INVALID_TYPE, "invalid SGL descriptor type"},
    {FL_NVME_SC_CMB_INVALID_USE, "invalid use of the controller memory buffer"},
    {FL_NVME_SC_PRP_INVALID_OFFSET, "invalid offset in a PRP entry"},
    {FL_NVME_SC_AWU_EXCEEDED, "larger than the atomic write unit"},
    {FL_NVME_SC_OP_DENIED, "operation denied"},
    {FL_NVME_SC_SGL_INVALID_OFFSET, "invalid offset in an SGL descriptor"},
    {FL_NVME_SC_HOSTID_FORMAT, "the host identifiers' formats do not agree"},
    {FL_NVME_SC_KATO_EXPIRED, "the keep alive timer ran out"},
    {FL_NVME_SC_KATO_INVALID, "invalid keep alive timeout"},
    {FL_NVME_SC_ABORT_PREEMPT, "aborted, its host's reservation was preempted"},
    {FL_NVME_SC_SANITIZE_FAILED, "the last sanitize operation failed"},
    {FL_NVME_SC_SANITIZE_IN_PROGRESS, "a sanitize operation is going on"},
    {FL_NVME_SC_SGL_INVALID_GRANULARITY, "invalid granularity of an SGL data block"},
    {FL_NVME_SC_CMD_IN_CMBQ, "the command does not go with queues in the controller memory buffer"},
    {FL_NVME_SC_NS_WRITE_PROTECTED, "the namespace is write protected"},
    {FL_NVME_SC_CMD_INTERRUPTED, "interrupted, the command may be sent again"},
    {FL_NVME_SC_TRANSIENT_TRANSPORT, "transient transport error, the command may be sent again"},
    {FL_NVME_SC_LOCKDOWN, "prohibited by lockdown"},
    {FL_NVME_SC_MEDIA_NOT_READY, "the media are not ready for this admin command"},

    {FL_NVME_SC_LBA_RANGE, "beyond the end of the namespace"},
    {FL_NVME_SC_CAP_EXCEEDED, "the namespace's capacity is used up"},
    {FL_NVME_SC_NS_NOT_READY, "the namespace is not ready"},
    {FL_NVME_SC_RESV_CONFLICT, "another host's reservation forbids it"},
    {FL_NVME_SC_FORMAT_IN_PROGRESS, "the namespace is being formatted"},

    {FL_NVME_SC_CQ_INVALID, "invalid completion queue"},
    {FL_NVME_SC_QID_INVALID, "invalid queue identifier"},
    {FL_NVME_SC_QUEUE_SIZE, "invalid queue size"},
    {FL_NVME_SC_ABORT_LIMIT, "too many aborts at once"},
    {FL_NVME_SC_ASYNC_LIMIT, "too many asynchronous event requests"},
    {FL_NVME_SC_FW_SLOT, "invalid firmware slot"},
    {FL_NVME_SC_FW_IMAGE, "invalid firmware image"},
    {FL_NVME_SC_INVALID_VECTOR, "invalid interrupt vector"},
    {FL_NVME_SC_INVALID_LOG_PAGE, "there is no such log page"},
    {FL_NVME_SC_INVALID_FORMAT, "invalid format"},
    {FL_NVME_SC_FW_NEEDS_CONV_RESET, "the firmware needs a conventional reset"},
    {FL_NVME_SC_INVALID_QUEUE, "the queue cannot be deleted now"},
    {FL_NVME_SC_FEATURE_NOT_SAVEABLE, "the feature cannot be saved"},
    {FL_NVME_SC_FEATURE_NOT_CHANGEABLE, "the feature cannot be changed"},
    {FL_NVME_SC_FEATURE_NOT_PER_NS, "the feature does not belong to one namespace"},
    {FL_NVME_SC_FW_NEEDS_SUBSYS_RESET, "the firmware needs a reset of the subsystem"},
    {FL_NVME_SC_FW_NEEDS_RESET, "the firmware needs a reset of the controller"},
    {FL_NVME_SC_FW_NEEDS_MAX_TIME, "the firmware would take longer than is allowed"},
    {FL_NVME_SC_FW_PROHIBITED, "the firmware may not be activated"},
    {FL_NVME_SC_OVERLAPPING_RANGE, "overlapping range"},
    {FL_NVME_SC_NS_INSUFFICIENT_CAP, "not enough capacity for the namespace"},
    {FL_NVME_SC_NS_ID_UNAVAILABLE, "no namespace identifier is free"},
    {FL_NVME_SC_NS_ALREADY_ATTACHED, "the namespace is attached already"},
    {FL_NVME_SC_NS_IS_PRIVATE, "the namespace is private to another controller"},
    {FL_NVME_SC_NS_NOT_ATTACHED, "the namespace is not attached"},
    {FL_NVME_SC_THIN_PROV_NOT_SUPP, "thin provisioning is not supported"},
    {FL_NVME_SC_CTRL_LIST_INVALID, "invalid list of controllers"},
    {FL_NVME_SC_SELF_TEST_IN_PROGRESS, "a self-test is going on"},
    {FL_NVME_SC_BP_WRITE_PROHIBITED, "the boot partition is write protected"},
    {FL_NVME_SC_INVALID_CTRL_ID, "invalid controller identifier"},
    {FL_NVME_SC_INVALID_SEC_CTRL_STATE, "invalid state of the secondary controller"},
    {FL_NVME_SC_INVALID_CTRL_RESOURCES, "invalid number of controller resources"},
    {FL_NVME_SC_INVALID_RESOURCE_ID, "invalid resource identifier"},
    {FL_NVME_SC_PMR_SANITIZE, "no sanitize while persistent memory is in use"},
    {FL_NVME_SC_ANA_GROUP_ID_INVALID, "invalid ANA group"},
    {FL_NVME_SC_ANA_ATTACH_FAILED, "not attached, the ANA state forbids it"},
    {FL_NVME_SC_INSUFFICIENT_CAP, "not enough capacity"},
    {FL_NVME_SC_NS_ATTACH_LIMIT, "too many namespaces are attached"},
    {FL_NVME_SC_LOCKDOWN_NOT_SUPP, "this lockdown is not supported"},
    {FL_NVME_SC_CMD_SET_NOT_SUPP, "the I/O command set is not supported"},
    {FL_NVME_SC_CMD_SET_NOT_ENABLED, "the I/O command set is not enabled"},
    {FL_NVME_SC_CMD_SET_COMBINATION, "the combination of I/O command sets was refused"},
    {FL_NVME_SC_INVALID_CMD_SET, "invalid I/O command set"},
    {FL_NVME_SC_ID_UNAVAILABLE, "no identifier is free"},

    {FL_NVME_SC_DISCONNECT_INVALID_QTYPE, "this kind of queue cannot be disconnected alone"},
    {FL_NVME_SC_DISCOVERY_RESTART, "the discovery log changed, read it again from its start"},
    {FL_NVME_SC_AUTH_REQUIRED, "the host must authenticate itself first"},

    {FL_NVME_SC_WRITE_FAULT, "the media could not be written"},
    {FL_NVME_SC_READ_ERROR, "the media could not be read"},
    {FL_NVME_SC_GUARD_CHECK, "end-to-end guard check failed"},
    {FL_NVME_SC_APPTAG_CHECK, "end-to-end application tag check failed"},
    {FL_NVME_SC_REFTAG_CHECK, "end-to-end reference tag check failed"},
    {FL_NVME_SC_COMPARE_FAILED, "the data compared differ"},
    {FL_NVME_SC_ACCESS_DENIED, "access denied"},
    {FL_NVME_SC_UNWRITTEN_BLOCK, "deallocated or unwritten block"},
    {FL_NVME_SC_STORAGE_TAG_CHECK, "end-to-end storage tag check failed"},

    {FL_NVME_SC_PATH_INTERNAL, "internal error of this path"},
    {FL_NVME_SC_ANA_PERSISTENT_LOSS, "this path to the namespace is lost for good"},
    {FL_NVME_SC_ANA_INACCESSIBLE, "the namespace cannot be reached by this path now"},
    {FL_NVME_SC_ANA_TRANSITION, "this path to the namespace is changing its state"},
    {FL_NVME_SC_CTRL_PATH_ERROR, "the controller reports an error of this path"},
    {FL_NVME_SC_HOST_PATH_ERROR, "the path to the controller failed"},
    {FL_NVME_SC_HOST_ABORTED, "aborted by the host"},
};

static const struct entry connect_texts[] = {
    {FL_NVME_SC_CONNECT_FORMAT, "the record format of Connect is not supported"},
    {FL_NVME_SC_CONNECT_CTRL_BUSY, "the controller is busy with another host or association"},
    {FL_NVME_SC_CONNECT_INVALID_PARAM, "a parameter of Connect is invalid"},
    {FL_NVME_SC_CONNECT_RESTART_DISC, "restart discovery, the subsystem is to be reached elsewhere"},
    {FL_NVME_SC_CONNECT_INVALID_HOST, "the subsystem does not allow this host"},
};

static const struct entry io_texts[] = {
    {FL_NVME_SC_BAD_ATTRIBUTES, "conflicting attributes"},
    {FL_NVME_SC_INVALID_PI, "invalid protection information"},
    {FL_NVME_SC_READ_ONLY, "the range is read only"},
    {FL_NVME_SC_CMD_SIZE_LIMIT, "larger than the command's size limit"},
};

static const char *find(const struct entry *table, size_t nr, uint16_t code)
{
    for (size_t i = 0; i < nr; i++)
        if (table[i].code == code)
            return table[i].text;
    return NULL;
}

static const char *text_of(fl_nvme_status status, const struct entry *first, size_t nr)
{
    uint16_t code = fl_nvme_status_code(status);
    const char *text = find(first, nr, code);
    if (!text)
        text = find(texts, sizeof(texts) / sizeof(texts[0]), code);
    if (text)
        return text;
    switch ((unsigned)fl_nvme_status_type(status)) {
    case FL_NVME_SCT_GENERIC:
        return "unknown generic status";
    case FL_NVME_SCT_CMD_SPECIFIC:
        return "unknown command specific status";
    case FL_NVME_SCT_MEDIA:
        return "unknown media error";
    case FL_NVME_SCT_PATH:
        return "unknown path error";
    case FL_NVME_SCT_VENDOR:
        return "vendor specific status";
    default:
        return "unknown status";
    }
}

const char *fl_nvme_status_text(fl_nvme_status status)
{
    return text_of(status, connect_texts, sizeof(connect_texts) / sizeof(connect_texts[0]));
}

const char *fl_nvme_io_status_text(fl_nvme_status status)
{
    return text_of(status, io_texts, sizeof(io_texts) / sizeof(io_texts[0]));
}
