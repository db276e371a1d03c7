/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_log.h"

#include <errno.h>

int fl_nvme_ana_start(struct fl_nvme_ana_walk *walk, const void *page, size_t page_len)
{
    const struct fl_nvme_ana_header *header = page;
    if (page_len < sizeof(*header))
        return -EPROTO;
    *walk = (struct fl_nvme_ana_walk){page, page_len, sizeof(*header), le16_get(header->ngrps)};
    return 0;
}

int fl_nvme_ana_next(struct fl_nvme_ana_walk *walk, const struct fl_nvme_ana_group **group,
                     const le32 **nsids)
{
    if (!walk->nr_left)
        return 0;
    size_t left = walk->len - walk->pos;
    if (left < sizeof(**group))
        return -EPROTO;
    const struct fl_nvme_ana_group *g = (const void *)(walk->page + walk->pos);
    left -= sizeof(*g);
    if (le32_get(g->nnsids) > left / sizeof(le32))
        return -EPROTO;
    *group = g;
    *nsids = (const void *)(walk->page + walk->pos + sizeof(*g));
    walk->pos += sizeof(*g) + le32_get(g->nnsids) * sizeof(le32);
    walk->nr_left--;
    return 1;
}
