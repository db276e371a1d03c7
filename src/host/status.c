/* SPDX-License-Identifier: Apache-2.0 */
#include "host/status.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct status_errno {
    uint16_t code;
    int err;
};

/* What is not listed is -EIO. */
static const struct status_errno io_errnos[] = {
    {FL_NVME_SC_SUCCESS, 0},
    {FL_NVME_SC_INVALID_OPCODE, -EOPNOTSUPP},
    {FL_NVME_SC_INVALID_FIELD, -EINVAL},
    {FL_NVME_SC_ABORT_REQ, -ECANCELED},
    {FL_NVME_SC_ABORT_QUEUE, -ECANCELED},
    {FL_NVME_SC_INVALID_NS, -ENXIO},
    {FL_NVME_SC_OP_DENIED, -EACCES},
    {FL_NVME_SC_NS_WRITE_PROTECTED, -EROFS},
    {FL_NVME_SC_CMD_INTERRUPTED, -EAGAIN},
    {FL_NVME_SC_TRANSIENT_TRANSPORT, -EIO},
    {FL_NVME_SC_LBA_RANGE, -ERANGE},
    {FL_NVME_SC_CAP_EXCEEDED, -ENOSPC},
    {FL_NVME_SC_NS_NOT_READY, -EBUSY},
    {FL_NVME_SC_FORMAT_IN_PROGRESS, -EBUSY},
    {FL_NVME_SC_RESV_CONFLICT, -EBADE},
    {FL_NVME_SC_BAD_ATTRIBUTES, -EINVAL},
    {FL_NVME_SC_READ_ONLY, -EROFS},
    {FL_NVME_SC_CMD_SIZE_LIMIT, -EMSGSIZE},
    {FL_NVME_SC_WRITE_FAULT, -EIO},
    {FL_NVME_SC_READ_ERROR, -EIO},
    {FL_NVME_SC_COMPARE_FAILED, -EILSEQ},
    {FL_NVME_SC_ACCESS_DENIED, -EACCES},
    {FL_NVME_SC_UNWRITTEN_BLOCK, -ENODATA},
    {FL_NVME_SC_ANA_PERSISTENT_LOSS, -ENOLINK},
    {FL_NVME_SC_ANA_INACCESSIBLE, -ENOLINK},
    {FL_NVME_SC_ANA_TRANSITION, -ENOLINK},
    {FL_NVME_SC_PATH_INTERNAL, -ENOLINK},
    {FL_NVME_SC_HOST_ABORTED, -ECANCELED},
};

static const struct status_errno connect_errnos[] = {
    {FL_NVME_SC_SUCCESS, 0},
    {FL_NVME_SC_INVALID_OPCODE, -EPROTO},
    {FL_NVME_SC_INVALID_FIELD, -EPROTO},
    {FL_NVME_SC_CONNECT_FORMAT, -EPROTO},
    {FL_NVME_SC_CONNECT_CTRL_BUSY, -EBUSY},
    {FL_NVME_SC_CONNECT_INVALID_PARAM, -ENOENT}, /* the caller looks at which parameter */
    {FL_NVME_SC_CONNECT_RESTART_DISC, -ESTALE},
    {FL_NVME_SC_CONNECT_INVALID_HOST, -EACCES},
    {FL_NVME_SC_AUTH_REQUIRED, -EACCES},
};

static int find(const struct status_errno *table, size_t nr, fl_nvme_status status)
{
    for (size_t i = 0; i < nr; i++)
        if (table[i].code == fl_nvme_status_code(status))
            return table[i].err;
    return -EIO;
}

int fl_io_status_errno(fl_nvme_status status)
{
    return find(io_errnos, sizeof(io_errnos) / sizeof(io_errnos[0]), status);
}

int fl_connect_status_errno(fl_nvme_status status)
{
    return find(connect_errnos, sizeof(connect_errnos) / sizeof(connect_errnos[0]), status);
}

enum fl_retry fl_io_status_retry(fl_nvme_status status)
{
    if (status & FL_NVME_DNR)
        return FL_RETRY_NEVER;
    switch (fl_nvme_status_code(status)) {
    case FL_NVME_SC_TRANSIENT_TRANSPORT:
        return FL_RETRY_NOW;
    case FL_NVME_SC_ABORT_QUEUE:
    case FL_NVME_SC_CMD_INTERRUPTED:
    case FL_NVME_SC_NS_NOT_READY:
    case FL_NVME_SC_ANA_TRANSITION:
    case FL_NVME_SC_PATH_INTERNAL:
        return FL_RETRY_LATER;
    default:
        return FL_RETRY_NEVER;
    }
}

char *fl_io_result_text(int result, fl_nvme_status status, char buf[FL_STATUS_TEXT_LEN])
{
    if (status)
        snprintf(buf, FL_STATUS_TEXT_LEN, "%s (status %xh)", fl_nvme_io_status_text(status),
                 fl_nvme_status_code(status));
    else if (result == -ENOLINK)
        snprintf(buf, FL_STATUS_TEXT_LEN, "the target cannot be reached and the time to wait for it is over");
    else if (result == -ENODEV)
        snprintf(buf, FL_STATUS_TEXT_LEN, "the target was given up as lost");
    else if (result == -EFAULT)
        snprintf(buf, FL_STATUS_TEXT_LEN, "memory that was given for it is not mapped, or may not be used for it");
    else
        snprintf(buf, FL_STATUS_TEXT_LEN, "%s", strerror(-result));
    return buf;
}
