/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "host/remote.h"

/* ASCII field, padded with blanks, to a C string. */
static void copy_field(char *out, size_t cap, const char *field, size_t len)
{
    size_t n = 0;

    while (n < len && field[n])
        n++;
    while (n && field[n - 1] == ' ')
        n--;
    n = FL_MIN(n, cap - 1);
    for (size_t i = 0; i < n; i++)
        out[i] = field[i] >= ' ' && field[i] <= '~' ? field[i] : '?';
    out[n] = '\0';
}

/* What a host may rely on in any controller that does I/O over fabrics (Fabrics 1.1, 5.1.2; base
 * specification 5.17.2.1). */
static int check_io_ctrl(const struct fl_nvme_id_ctrl *id, uint32_t kato_ms, struct fl_error *err)
{
    uint32_t nn = le32_get(id->nn), mnan = le32_get(id->mnan);

    if (kato_ms && !le16_get(id->kas))
        return fl_error_set(
            err, -EPROTO, "the controller says that it has no keep-alive (KAS is 0), which fabrics require");
    if (!(le32_get(id->sgls) & 3))
        return fl_error_set(err, -EPROTO,
                            "the controller says that it takes no SGLs (SGLS is %xh), which fabrics require",
                            le32_get(id->sgls));
    if (le32_get(id->ioccsz) < sizeof(struct fl_nvme_sqe) / 16)
        return fl_error_set(
            err, -EPROTO,
            "the controller's capsules are too small for a command (IOCCSZ is %u, not at least 4)",
            le32_get(id->ioccsz));
    if (!le32_get(id->iorcsz))
        return fl_error_set(err, -EPROTO,
                            "the controller's responses are too small for a completion (IORCSZ is 0)");
    if (le16_get(id->icdoff))
        return fl_error_set(err, -EPROTO,
                            "the controller wants in-capsule data at an offset (ICDOFF is %u), which this "
                            "host does not support",
                            le16_get(id->icdoff));
    if (!le16_get(id->maxcmd))
        return fl_error_set(err, -EPROTO, "the controller allows no command at all (MAXCMD is 0)");
    if ((id->sqes & 0xf) > 6 || id->sqes >> 4 < 6 || (id->cqes & 0xf) > 4 || id->cqes >> 4 < 4)
        return fl_error_set(err, -EPROTO,
                            "the controller's queue entry sizes are wrong (SQES is %xh, CQES is %xh)",
                            id->sqes, id->cqes);
    if (mnan > nn)
        return fl_error_set(err, -EPROTO,
                            "the controller allows more namespaces (MNAN is %u) than identifiers (NN is %u)",
                            mnan, nn);
    if ((id->cmic & FL_NVME_CMIC_ANA) && !mnan)
        return fl_error_set(err, -EPROTO,
                            "the controller reports ANA but no number of namespaces (MNAN is 0)");
    return 0;
}

static uint32_t max_xfer(uint8_t mdts, uint64_t cap)
{
    uint32_t shift = mdts + fl_nvme_cap_page_shift(cap);

    if (!mdts)
        return FL_REMOTE_DEF_XFER;
    return shift >= 32 ? FL_REMOTE_MAX_XFER : FL_MIN(1u << shift, FL_REMOTE_MAX_XFER);
}

int fl_identify_ctrl(const struct fl_nvme_id_ctrl *id, uint16_t cntlid, const char *subnqn, bool discovery,
                     uint32_t kato_ms, struct fl_remote_facts *f, struct fl_error *err)
{
    char nqn[FL_NQN_LEN];
    int r;

    if (le16_get(id->cntlid) != cntlid)
        return fl_error_set(err, -EPROTO, "the controller has two identifiers: %u in Connect, %u in Identify",
                            cntlid, le16_get(id->cntlid));
    if (id->cntrltype > FL_NVME_CNTRLTYPE_ADMIN ||
        id->cntrltype == (discovery ? FL_NVME_CNTRLTYPE_IO : FL_NVME_CNTRLTYPE_DISCOVERY))
        return fl_error_set(err, -EPROTO, "the controller's type, %u, is not that of a %s controller",
                            id->cntrltype, discovery ? "discovery" : "storage");
    copy_field(nqn, sizeof(nqn), id->subnqn, sizeof(id->subnqn));
    if (!discovery) {
        if (strcmp(nqn, subnqn) != 0)
            return fl_error_set(err, -EPROTO, "the controller belongs to another subsystem, \"%s\"", nqn);
        r = check_io_ctrl(id, kato_ms, err);
        if (r < 0)
            return r;
    }
    f->cntlid = cntlid;
    copy_field(f->model, sizeof(f->model), id->mn, sizeof(id->mn));
    copy_field(f->serial, sizeof(f->serial), id->sn, sizeof(id->sn));
    copy_field(f->firmware, sizeof(f->firmware), id->fr, sizeof(id->fr));
    memcpy(f->subnqn, nqn, sizeof(f->subnqn));
    f->max_xfer = max_xfer(id->mdts, f->cap);
    f->capsule_len = discovery ? 0
                               : (uint32_t)FL_MIN((uint64_t)le32_get(id->ioccsz) * 16 - 64,
                                                  (uint64_t)FL_REMOTE_MAX_XFER);
    f->max_pieces = id->msdbd ? id->msdbd : UINT32_MAX; /* 0: no limit */
    f->nr_entries = fl_nvme_cap_nr_entries(f->cap);
    f->max_cmds = le16_get(id->maxcmd);
    f->oaes = le32_get(id->oaes);
    f->keep_alive = le16_get(id->kas) != 0;
    f->volatile_cache = id->vwc & FL_NVME_VWC_PRESENT;
    f->max_zeroes_len = f->max_verify_len = UINT64_MAX;
    f->max_discard_blocks = UINT32_MAX;
    return 0;
}

void fl_identify_nvm(const struct fl_nvme_id_ctrl_nvm *id, struct fl_remote_facts *f)
{
    uint32_t page = fl_nvme_cap_page_shift(f->cap);

    if (id->wzsl && id->wzsl + page < 63)
        f->max_zeroes_len = UINT64_C(1) << (id->wzsl + page);
    if (id->vsl && id->vsl + page < 63)
        f->max_verify_len = UINT64_C(1) << (id->vsl + page);
    if (le32_get(id->dmrsl))
        f->max_discard_blocks = le32_get(id->dmrsl);
    if (le64_get(id->dmsl))
        f->max_discard_blocks = FL_MIN(f->max_discard_blocks, le64_get(id->dmsl));
}

int fl_identify_ns(const struct fl_nvme_id_ns *id, uint32_t nsid, struct fl_remote_facts *f,
                   struct fl_error *err)
{
    uint8_t index = fl_nvme_flbas_index(id->flbas);
    uint64_t nr_blocks = le64_get(id->nsze);
    const struct fl_nvme_lbaf *lbaf;

    if (!nr_blocks)
        return fl_error_set(err, -ENOENT, "the subsystem has no namespace %u", nsid);
    if (index > id->nlbaf + id->nulbaf || index >= FL_ARRAY_LEN(id->lbaf))
        return fl_error_set(err, -EPROTO, "namespace %u uses format %u, which it does not have", nsid, index);
    lbaf = &id->lbaf[index];
    if (lbaf->lbads < 9 || lbaf->lbads > 20)
        return fl_error_set(err, -EOPNOTSUPP,
                            "namespace %u has blocks of 2^%u bytes; 512 bytes to 1 MiB are supported", nsid,
                            lbaf->lbads);
    if (le16_get(lbaf->ms))
        return fl_error_set(err, -EOPNOTSUPP,
                            "namespace %u has %u bytes of metadata a block, which this host does not support",
                            nsid, le16_get(lbaf->ms));
    if (nr_blocks > (uint64_t)INT64_MAX >> lbaf->lbads)
        return fl_error_set(err, -EPROTO,
                            "namespace %u says that it has %" PRIu64 " blocks, more than can be addressed",
                            nsid, nr_blocks);
    f->nsid = nsid;
    f->block_len = 1u << lbaf->lbads;
    f->len = nr_blocks << lbaf->lbads;
    f->read_only = id->nsattr & FL_NVME_NSATTR_WRITE_PROTECTED;
    return 0;
}
