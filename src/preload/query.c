/* SPDX-License-Identifier: Apache-2.0 */
/* What devices, ports and their tables are asked for. */
#include <errno.h>
#include <string.h>

#include "preload/preload.h"

#undef ibv_query_port

/* libibverbs' private header has these; its own programs call them. */
enum { GID_TYPE_SYSFS_IB_ROCE_V1, GID_TYPE_SYSFS_ROCE_V2 };
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

FL_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return fl_verbs_of(context)->query_device(context, attr);
}

/* The struct as it was when this function was new; what came later goes through the context. */
#define COMPAT_PORT_ATTR_LEN (offsetof(struct ibv_port_attr, flags) + 1)

FL_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr all;
    if (!fl_is_soft(context)) {
        int (*real)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *) = (int (*)(
            struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *))fl_real_find("ibv_query_port");
        return real(context, port, attr);
    }
    int r = fl_verbs_soft.query_port(context, port, &all);
    if (!r)
        memcpy(attr, &all, COMPAT_PORT_ATTR_LEN);
    return r;
}

FL_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    return fl_verbs_of(context)->query_gid(context, port, index, gid);
}

FL_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                                struct ibv_gid_entry *entry, uint32_t flags, size_t entry_len)
{
    return fl_verbs_of(context)->query_gid_ex(context, port, index, entry, flags, entry_len);
}

FL_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                                       uint32_t flags, size_t entry_len)
{
    return fl_verbs_of(context)->query_gid_table(context, entries, max, flags, entry_len);
}

FL_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
    if (!fl_is_soft(context)) {
        int (*real)(struct ibv_context *, uint8_t, unsigned int, int *) = (int (*)(
            struct ibv_context *, uint8_t, unsigned int, int *))fl_real_find("ibv_query_gid_type");
        if (real)
            return real(context, port, index, type);
        errno = EOPNOTSUPP;
        return -1;
    }
    union ibv_gid gid;
    *type = GID_TYPE_SYSFS_ROCE_V2;
    return fl_verbs_soft.query_gid(context, port, (int)index, &gid);
}

FL_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    return fl_verbs_of(context)->query_pkey(context, port, index, pkey);
}

FL_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    return fl_verbs_of(context)->get_pkey_index(context, port, pkey);
}
