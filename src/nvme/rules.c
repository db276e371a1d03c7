/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/rules.h"

#include <errno.h>

#include "wire/nvmf.h"

fl_nvme_status fl_nvme_status_of_errno(int error, enum fl_nvme_io_kind kind)
{
    switch (error < 0 ? -error : error) {
    case 0:
        return FL_NVME_SC_SUCCESS;
    case EIO:
    case EILSEQ:
    case EBADMSG:
        if (kind == FL_NVME_IO_READ)
            return FL_NVME_SC_READ_ERROR;
        return kind == FL_NVME_IO_WRITE ? FL_NVME_SC_WRITE_FAULT : FL_NVME_SC_INTERNAL;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return FL_NVME_SC_CAP_EXCEEDED | FL_NVME_DNR;
    case EROFS:
    case EPERM:
    case EACCES:
        return FL_NVME_SC_NS_WRITE_PROTECTED | FL_NVME_DNR;
    case EOPNOTSUPP:
        return FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR;
    case EINVAL:
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    case ERANGE:
        return FL_NVME_SC_LBA_RANGE | FL_NVME_DNR;
    case ECANCELED:
        return FL_NVME_SC_ABORT_REQ;
    case ENODEV:
    case ENXIO:
        return FL_NVME_SC_NS_NOT_READY;
    default: /* ENOMEM, EAGAIN and other passing troubles: the host may try again */
        return FL_NVME_SC_INTERNAL;
    }
}

static int bad(struct fl_error *err, const char *field, uint64_t value, const char *why)
{
    return fl_error_set(err, -EPROTO, "the controller says %s %llu, %s", field, (unsigned long long)value,
                        why);
}

int fl_nvme_check_id_ctrl(const struct fl_nvme_id_ctrl *id, struct fl_error *err)
{
    uint32_t nn = le32_get(id->nn), mnan = le32_get(id->mnan), ctratt = le32_get(id->ctratt);
    uint8_t type = id->cntrltype;
    bool io = type == FL_NVME_CNTRLTYPE_IO || type == FL_NVME_CNTRLTYPE_NOT_REPORTED;

    if (type > FL_NVME_CNTRLTYPE_ADMIN)
        return bad(err, "CNTRLTYPE", type, "which is reserved");
    if (!le16_get(id->maxcmd)) /* Fabrics 1.1, 4.1: mandatory over fabrics */
        return bad(err, "MAXCMD", 0, "but a fabrics controller must tell how many commands it takes");
    if (!(le32_get(id->sgls) & 3))
        return bad(err, "SGLS", le32_get(id->sgls), "but fabrics need SGLs");
    if (io && !le16_get(id->kas))
        return bad(err, "KAS", 0, "but fabrics need keep alive");
    if ((ctratt & FL_NVME_CTRATT_TBKAS) && !le16_get(id->kas))
        return bad(err, "KAS", 0, "but CTRATT promises traffic based keep alive");
    if (!fl_nvmf_nqn_field_ok(id->subnqn, sizeof(id->subnqn)))
        return fl_error_set(err, -EPROTO, "the controller's SUBNQN is empty or not terminated");
    if (!io)
        return 0;
    if (le32_get(id->ioccsz) < 4)
        return bad(err, "IOCCSZ", le32_get(id->ioccsz), "less than the 4 units that a command takes");
    if (!le32_get(id->iorcsz))
        return bad(err, "IORCSZ", 0, "less than the unit that a response takes");
    if ((id->sqes & 0xf) > 6 || id->sqes >> 4 < 6)
        return bad(err, "SQES", id->sqes, "which leaves out 64-byte commands");
    if ((id->cqes & 0xf) > 4 || id->cqes >> 4 < 4)
        return bad(err, "CQES", id->cqes, "which leaves out 16-byte completions");
    if (mnan > nn)
        return bad(err, "MNAN", mnan, "more than NN");
    if ((id->cmic & FL_NVME_CMIC_ANA) && !mnan)
        return bad(err, "MNAN", 0, "but a controller with ANA must tell how many namespaces there may be");
    if ((id->cmic & FL_NVME_CMIC_ANA) && (!le32_get(id->nanagrpid) || !le32_get(id->anagrpmax)))
        return bad(err, "NANAGRPID", le32_get(id->nanagrpid), "but CMIC promises ANA groups");
    return 0;
}

int fl_nvme_check_id_ns(const struct fl_nvme_id_ns *id, struct fl_error *err)
{
    uint8_t index = fl_nvme_flbas_index(id->flbas);
    const struct fl_nvme_lbaf *f = &id->lbaf[index];

    if (index > id->nlbaf + id->nulbaf)
        return fl_error_set(err, -EPROTO, "the namespace is in LBA format %u of %u", index, id->nlbaf + 1u);
    if (f->lbads < 9 || f->lbads > 20)
        return fl_error_set(err, -EPROTO, "the namespace has blocks of 2^%u bytes; 2^9 to 2^20 can be used",
                            f->lbads);
    if (le16_get(f->ms))
        return fl_error_set(err, -EPROTO,
                            "the namespace carries %u bytes of metadata a block, which cannot be used",
                            le16_get(f->ms));
    if (le64_get(id->nsze) > UINT64_MAX >> f->lbads)
        return fl_error_set(err, -EPROTO, "the namespace's size does not fit into 64 bits");
    if (le64_get(id->ncap) > le64_get(id->nsze))
        return fl_error_set(err, -EPROTO, "the namespace has a capacity above its size");
    return 0;
}

bool fl_nvme_resv_allows(enum fl_nvme_resv_type type, struct fl_nvme_resv_role role,
                         enum fl_nvme_access access)
{
    switch (type) {
    case FL_NVME_RESV_NONE:
        return true;
    case FL_NVME_RESV_WRITE_EXCL:
        return role.holder || access == FL_NVME_ACCESS_READ;
    case FL_NVME_RESV_EXCL_ACCESS:
        return role.holder;
    case FL_NVME_RESV_WRITE_EXCL_REG_ONLY:
    case FL_NVME_RESV_WRITE_EXCL_ALL_REGS:
        return role.registered || access == FL_NVME_ACCESS_READ;
    case FL_NVME_RESV_EXCL_ACCESS_REG_ONLY:
    case FL_NVME_RESV_EXCL_ACCESS_ALL_REGS:
        return role.registered;
    }
    return false;
}
