/* SPDX-License-Identifier: Apache-2.0 */
/* A list of namespace identification descriptors (Identify, CNS 03h), and text fields. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/nvme_identify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct fl_nvme_ns_desc *desc;
    const uint8_t *nid;
    size_t pos = 0, before = 0;
    volatile uint8_t sum = 0; /* so that every byte is read */
    char text[41];
    int r;

    while ((r = fl_nvme_ns_desc_next(data, len, &pos, &desc, &nid)) > 0) {
        assert(pos > before && pos <= len && desc->nidl && nid + desc->nidl == data + pos);
        assert(desc->nidt != FL_NVME_NIDT_UUID || desc->nidl == 16);
        for (unsigned i = 0; i < desc->nidl; i++)
            sum = sum ^ nid[i];
        before = pos;
    }
    assert(r == 0 || r == -EPROTO);
    fl_nvme_text_get(text, (const char *)data, len < 40 ? len : 40);
    for (const char *c = text; *c; c++)
        assert(*c >= ' ' && *c <= '~');
    return 0;
}
