/* SPDX-License-Identifier: Apache-2.0 */
#include "host/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which provider serves a kind of URL. */
static const struct fl_device_ops *const providers[] = {
    [FL_URL_NVME_TCP] = &fl_remote_device_ops, [FL_URL_NVME_RDMA] = &fl_rdma_device_ops,
    [FL_URL_FILE] = &fl_file_device_ops,       [FL_URL_RAM] = &fl_ram_device_ops,
    [FL_URL_NULL] = &fl_null_device_ops,
};

static char *canonical_text(const struct fl_url *url)
{
    int len = fl_url_format(url, NULL, 0);
    char *text = malloc((size_t)len + 1);

    if (text)
        fl_url_format(url, text, (size_t)len + 1);
    return text;
}

static int open_device(const char *text, const struct fl_device_options *options, bool subsystem,
                       struct fl_device **dev, struct fl_error *err)
{
    static const struct fl_device_options defaults;
    const struct fl_device_ops *ops;
    struct fl_url url;
    char *canonical;
    int r = fl_url_parse(text, &url, err);

    if (r < 0)
        return r;
    if (options && options->require > FL_REQUIRE_HARDWARE)
        return fl_error_set(err, -EINVAL, "%s: options->require is %d, which is none of enum fl_require", text,
                            (int)options->require);
    ops = url.kind < FL_ARRAY_LEN(providers) ? providers[url.kind] : NULL;
    if (!ops)
        return fl_error_set(err, -EOPNOTSUPP,
                            "%s: this build of the library has nothing that serves such URLs", text);
    if (subsystem && !ops->namespaces)
        return fl_error_set(err, -EINVAL, "%s is not a subsystem: give an nvme+tcp:// or nvme+rdma:// URL",
                            text);
    canonical = canonical_text(&url);
    if (!canonical)
        return fl_error_set(err, -ENOMEM, "out of memory");
    r = ops->open(&url, options ? options : &defaults, subsystem, dev, err);
    if (r < 0) {
        free(canonical);
        return fl_error_wrap(err, r, "%s", text);
    }
    (*dev)->url = canonical;
    return 0;
}

int fl_device_open(const char *url, const struct fl_device_options *options, struct fl_device **dev,
                   struct fl_error *err)
{
    return open_device(url, options, false, dev, err);
}

int fl_subsystem_open(const char *url, const struct fl_device_options *options, struct fl_device **dev,
                      struct fl_error *err)
{
    return open_device(url, options, true, dev, err);
}

void fl_device_close(struct fl_device *dev)
{
    char *url;

    if (!dev)
        return;
    url = dev->url;
    dev->ops->close(dev);
    free(url);
}

void fl_device_info(struct fl_device *dev, struct fl_device_info *info)
{
    *info = (struct fl_device_info){
        .block_len = dev->block_len, .len = fl_device_len(dev), .read_only = dev->read_only};
    snprintf(info->url, sizeof(info->url), "%s", dev->url);
    snprintf(info->transport, sizeof(info->transport), "%s", dev->ops->transport);
    snprintf(info->state, sizeof(info->state), "live");
    snprintf(info->path, sizeof(info->path), "local");
    if (info->block_len)
        info->nr_blocks = info->len / info->block_len;
    dev->ops->info(dev, info);
}

void fl_device_on_change(struct fl_device *dev, void (*changed)(struct fl_device *dev, void *arg), void *arg)
{
    if (dev->ops->on_change)
        dev->ops->on_change(dev, changed, arg);
}

int fl_admin_command(struct fl_device *dev, const void *sqe64, void *data, uint32_t data_len, bool to_host,
                     uint64_t *result, uint16_t *nvme_status, struct fl_error *err)
{
    if (!dev->ops->admin)
        return fl_error_set(err, -EOPNOTSUPP, "%s is not an NVMe device: it takes no admin commands",
                            dev->url);
    return dev->ops->admin(dev, sqe64, data, data_len, to_host, result, nvme_status, err);
}

int fl_device_namespaces(struct fl_device *dev, uint32_t *nsids, uint32_t max, struct fl_error *err)
{
    if (!dev->ops->namespaces)
        return fl_error_set(err, -EOPNOTSUPP, "%s is not a subsystem: it has no list of namespaces",
                            dev->url);
    return dev->ops->namespaces(dev, nsids, max, err);
}
