/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvmf.h"

#include <errno.h>
#include <string.h>

bool fl_nvmf_nqn_field_ok(const char *field, size_t len)
{
    size_t n = strnlen(field, len);
    return n >= 1 && n < len && n <= FL_NVME_NQN_MAX;
}

int fl_nvmf_connect_data_check(const struct fl_nvmf_connect_data *data, uint32_t *offset)
{
    if (!fl_nvmf_nqn_field_ok(data->subnqn, sizeof(data->subnqn)))
        *offset = offsetof(struct fl_nvmf_connect_data, subnqn);
    else if (!fl_nvmf_nqn_field_ok(data->hostnqn, sizeof(data->hostnqn)))
        *offset = offsetof(struct fl_nvmf_connect_data, hostnqn);
    else
        return 0;
    return -EPROTO;
}

int fl_nvmf_connect_data_encode(struct fl_nvmf_connect_data *data, const uint8_t hostid[16], uint16_t cntlid,
                                const char *subnqn, const char *hostnqn)
{
    size_t sub_len = strlen(subnqn), host_len = strlen(hostnqn);
    if (!sub_len || sub_len > FL_NVME_NQN_MAX || !host_len || host_len > FL_NVME_NQN_MAX)
        return -EINVAL;
    memset(data, 0, sizeof(*data));
    memcpy(data->hostid, hostid, sizeof(data->hostid));
    data->cntlid = le16_of(cntlid);
    memcpy(data->subnqn, subnqn, sub_len);
    memcpy(data->hostnqn, hostnqn, host_len);
    return 0;
}
