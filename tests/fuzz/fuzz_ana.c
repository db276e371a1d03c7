/* SPDX-License-Identifier: Apache-2.0 */
/* The asymmetric namespace access log page. */
#include "fuzz.h"

#include <errno.h>

#include "wire/nvme_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct fl_nvme_ana_group *group;
    struct fl_nvme_ana_walk walk;
    const le32 *nsids;
    volatile uint32_t sum = 0; /* so that every byte is read */
    unsigned nr = 0;
    int r;

    if (fl_nvme_ana_start(&walk, data, len)) {
        assert(len < sizeof(struct fl_nvme_ana_header));
        return 0;
    }
    while ((r = fl_nvme_ana_next(&walk, &group, &nsids)) > 0) {
        assert((const uint8_t *)(nsids + le32_get(group->nnsids)) <= data + len);
        for (uint32_t i = 0; i < le32_get(group->nnsids); i++)
            sum = sum + le32_get(nsids[i]);
        nr++;
    }
    assert(r == 0 ? nr == le16_get(((const struct fl_nvme_ana_header *)data)->ngrps) : r == -EPROTO);
    return 0;
}
