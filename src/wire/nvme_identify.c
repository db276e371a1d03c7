/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_identify.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static uint8_t nid_len(uint8_t type)
{
    static const uint8_t lens[] = {
        [FL_NVME_NIDT_EUI64] = 8,
        [FL_NVME_NIDT_NGUID] = 16,
        [FL_NVME_NIDT_UUID] = 16,
        [FL_NVME_NIDT_CSI] = 1,
    };
    return type < sizeof(lens) ? lens[type] : 0; /* 0: not a type that we know */
}

int fl_nvme_ns_desc_next(const void *list, size_t len, size_t *pos, const struct fl_nvme_ns_desc **desc,
                         const uint8_t **nid)
{
    const uint8_t *bytes = list;
    if (*pos >= len || len - *pos < sizeof(**desc))
        return 0;
    const struct fl_nvme_ns_desc *d = (const void *)(bytes + *pos);
    if (!d->nidl)
        return 0;
    uint8_t want = nid_len(d->nidt);
    if (d->nidl > len - *pos - sizeof(*d) || (want && d->nidl != want))
        return -EPROTO;
    *desc = d;
    *nid = bytes + *pos + sizeof(*d);
    *pos += sizeof(*d) + d->nidl;
    return 1;
}

int fl_nvme_ns_desc_add(void *list, size_t len, size_t *pos, enum fl_nvme_nidt type, const void *nid)
{
    uint8_t *bytes = list;
    struct fl_nvme_ns_desc d = {.nidt = (uint8_t)type, .nidl = nid_len((uint8_t)type)};
    assert(d.nidl);
    if (*pos > len || len - *pos < sizeof(d) + d.nidl)
        return -ENOSPC;
    memcpy(bytes + *pos, &d, sizeof(d));
    memcpy(bytes + *pos + sizeof(d), nid, d.nidl);
    *pos += sizeof(d) + d.nidl;
    return 0;
}

void fl_nvme_text_set(char *field, size_t len, const char *text)
{
    size_t n = strnlen(text, len);
    memset(field, ' ', len);
    memcpy(field, text, n);
}

void fl_nvme_text_get(char *out, const char *field, size_t len)
{
    while (len && (field[len - 1] == ' ' || !field[len - 1]))
        len--;
    for (size_t i = 0; i < len; i++)
        out[i] = field[i] < ' ' || field[i] > '~' ? '?' : field[i];
    out[len] = '\0';
}
