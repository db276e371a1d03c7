/* SPDX-License-Identifier: Apache-2.0 */
/* Connect data: accepted NQNs are strings that end in their fields, and are written the same again. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/nvmf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct fl_nvmf_connect_data *given = (const void *)data;
    struct fl_nvmf_connect_data again;
    uint32_t offset = 0;
    if (len < sizeof(*given))
        return 0;
    if (fl_nvmf_connect_data_check(given, &offset)) {
        assert(offset == 256 || offset == 512);
        return 0;
    }
    assert(strlen(given->subnqn) <= FL_NVME_NQN_MAX && strlen(given->hostnqn) <= FL_NVME_NQN_MAX);
    assert(!fl_nvmf_connect_data_encode(&again, given->hostid, le16_get(given->cntlid), given->subnqn,
                                        given->hostnqn));
    assert(!fl_nvmf_connect_data_check(&again, &offset));
    assert(!memcmp(again.hostid, given->hostid, 16) && !strcmp(again.subnqn, given->subnqn) &&
           !strcmp(again.hostnqn, given->hostnqn) && le16_get(again.cntlid) == le16_get(given->cntlid));
    return 0;
}
