/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/discovery.h"

#include <errno.h>
#include <string.h>

#include "wire/nvmf.h"

static int fault_at(uint32_t *offset, size_t at)
{
    if (offset)
        *offset = (uint32_t)at;
    return -EPROTO;
}

int fl_disc_header_decode(const void *page, size_t page_len, uint64_t *genctr, uint64_t *numrec,
                          uint32_t *offset)
{
    const struct fl_disc_header *header = page;
    if (page_len < sizeof(*header))
        return fault_at(offset, 0);
    if (le16_get(header->recfmt))
        return fault_at(offset, offsetof(struct fl_disc_header, recfmt));
    *genctr = le64_get(header->genctr);
    *numrec = le64_get(header->numrec);
    return 0;
}

/* A field of printable ASCII padded with spaces, NULs, or NULs and then anything (some targets leave rubbish
 * behind the first NUL). out has room for len + 1. */
static bool text_decode(char *out, const char *field, size_t len)
{
    size_t n = strnlen(field, len);
    while (n && field[n - 1] == ' ')
        n--;
    for (size_t i = 0; i < n; i++)
        if (field[i] < ' ' || field[i] > '~')
            return false;
    memcpy(out, field, n);
    out[n] = '\0';
    return true;
}

static bool text_encode(char *field, size_t len, const char *text)
{
    size_t n = strlen(text);
    if (n > len)
        return false;
    memset(field, ' ', len);
    memcpy(field, text, n);
    return true;
}

int fl_disc_entry_decode(const struct fl_disc_entry *entry, struct fl_disc_record *record, uint32_t *offset)
{
    memset(record, 0, sizeof(*record));
    record->trtype = entry->trtype;
    record->adrfam = entry->adrfam;
    record->subtype = entry->subtype;
    record->treq = entry->treq;
    record->portid = le16_get(entry->portid);
    record->cntlid = le16_get(entry->cntlid);
    record->asqsz = le16_get(entry->asqsz);
    record->eflags = le16_get(entry->eflags);
    if (!text_decode(record->trsvcid, entry->trsvcid, sizeof(entry->trsvcid)))
        return fault_at(offset, offsetof(struct fl_disc_entry, trsvcid));
    if (!fl_nvmf_nqn_field_ok(entry->subnqn, sizeof(entry->subnqn)))
        return fault_at(offset, offsetof(struct fl_disc_entry, subnqn));
    memcpy(record->subnqn, entry->subnqn, strlen(entry->subnqn));
    if (!text_decode(record->traddr, entry->traddr, sizeof(entry->traddr)))
        return fault_at(offset, offsetof(struct fl_disc_entry, traddr));

    if (entry->trtype == FL_DISC_TRTYPE_TCP) {
        const struct fl_disc_tsas_tcp *tcp = (const void *)entry->tsas;
        record->sectype = tcp->sectype;
    } else if (entry->trtype == FL_DISC_TRTYPE_RDMA) {
        const struct fl_disc_tsas_rdma *rdma = (const void *)entry->tsas;
        record->rdma_qptype = rdma->qptype;
        record->rdma_prtype = rdma->prtype;
        record->rdma_cms = rdma->cms;
        record->rdma_pkey = le16_get(rdma->pkey);
    }
    return 0;
}

void fl_disc_header_encode(struct fl_disc_header *header, uint64_t genctr, uint64_t numrec)
{
    memset(header, 0, sizeof(*header));
    header->genctr = le64_of(genctr);
    header->numrec = le64_of(numrec);
}

int fl_disc_entry_encode(struct fl_disc_entry *entry, const struct fl_disc_record *record)
{
    size_t nqn_len = strnlen(record->subnqn, sizeof(record->subnqn));

    memset(entry, 0, sizeof(*entry));
    if (!nqn_len || nqn_len > FL_NVME_NQN_MAX ||
        !text_encode(entry->trsvcid, sizeof(entry->trsvcid), record->trsvcid) ||
        !text_encode(entry->traddr, sizeof(entry->traddr), record->traddr))
        return -EINVAL;
    memcpy(entry->subnqn, record->subnqn, nqn_len);
    entry->trtype = record->trtype;
    entry->adrfam = record->adrfam;
    entry->subtype = record->subtype;
    entry->treq = record->treq;
    entry->portid = le16_of(record->portid);
    entry->cntlid = le16_of(record->cntlid);
    entry->asqsz = le16_of(record->asqsz);
    entry->eflags = le16_of(record->eflags);
    if (record->trtype == FL_DISC_TRTYPE_TCP) {
        struct fl_disc_tsas_tcp *tcp = (void *)entry->tsas;
        tcp->sectype = record->sectype;
    } else if (record->trtype == FL_DISC_TRTYPE_RDMA) {
        struct fl_disc_tsas_rdma *rdma = (void *)entry->tsas;
        rdma->qptype = record->rdma_qptype;
        rdma->prtype = record->rdma_prtype;
        rdma->cms = record->rdma_cms;
        rdma->pkey = le16_of(record->rdma_pkey);
    }
    return 0;
}
