/* SPDX-License-Identifier: Apache-2.0 */
/* The list of devices, and what a device and its port can do. */
#include "rnic/device.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/objects.h"
#include "rnic/verbs.h"

#define VENDOR_ID      0x666c /* no vendor's OUI: "fl" */
#define QP_WR_MAX      16384
#define CQE_MAX        (1 << 22)
#define LINK_UP        5 /* physical states as IBA's PortInfo has them */
#define LINK_DISABLED  3
#define SPEED_10G      4 /* active_speed times active_width is the rate */
#define SPEED_25G      32
#define SPEED_50G      64
#define SPEED_100G     128
#define LANES_1        1
#define LANES_4        2
#define PAGE_SIZES     0xfffff000u
#define ACK_DELAY_CODE 15 /* 134 ms: a process may not run for as long */

struct ibv_device **fl_device_list_get(int *nr)
{
    struct fl_device *d;
    int n = 0, r = fl_devices_scan();
    if (nr)
        *nr = 0;
    if (r) {
        errno = -r;
        return NULL;
    }
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (d, fl_devices(), link) {
        n += !d->removed;
    }
    struct ibv_device **list = calloc((size_t)n + 1, sizeof(*list));
    if (list) {
        n = 0;
        fl_list_for_each (d, fl_devices(), link) {
            if (!d->removed)
                list[n++] = &d->device;
        }
        if (nr)
            *nr = n;
    }
    pthread_mutex_unlock(&fl_devices_lock);
    return list;
}

void fl_device_list_free(struct ibv_device **list)
{
    free(list); /* the devices stay */
}

bool fl_device_is_soft(const struct ibv_device *device)
{
    struct fl_device *d;
    bool found = false;
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (d, fl_devices(), link) {
        found = found || &d->device == device;
    }
    pthread_mutex_unlock(&fl_devices_lock);
    return found;
}

const char *fl_device_name(struct ibv_device *device)
{
    return device->name;
}

__be64 fl_device_guid_get(struct ibv_device *device)
{
    return fl_device_guid(FL_CONTAINER_OF(device, struct fl_device, device));
}

int fl_device_index(struct ibv_device *device)
{
    return -1; /* the kernel does not know it */
}

int fl_context_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    const struct fl_device *d = fl_context_of(context)->device;
    *attr = (struct ibv_device_attr){
        .node_guid = fl_device_guid(d),
        .sys_image_guid = fl_device_guid(d),
        .max_mr_size = UINT64_MAX,
        .page_size_cap = PAGE_SIZES,
        .vendor_id = VENDOR_ID,
        .vendor_part_id = 1,
        .hw_ver = 1,
        .max_qp = FL_OBJECTS_MAX,
        .max_qp_wr = QP_WR_MAX,
        .device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                            IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                            IBV_DEVICE_MEM_MGT_EXTENSIONS,
        .max_sge = FL_ROCE_SGE_MAX,
        .max_sge_rd = FL_ROCE_SGE_MAX,
        .max_cq = FL_OBJECTS_MAX,
        .max_cqe = CQE_MAX,
        .max_mr = FL_KEY_MAX,
        .max_pd = FL_OBJECTS_MAX,
        .max_qp_rd_atom = FL_ROCE_RD_MAX,
        .max_res_rd_atom = FL_OBJECTS_MAX,
        .max_qp_init_rd_atom = FL_ROCE_RD_MAX,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_mw = FL_KEY_MAX,
        .max_ah = FL_OBJECTS_MAX,
        .max_srq = FL_OBJECTS_MAX,
        .max_srq_wr = QP_WR_MAX,
        .max_srq_sge = FL_ROCE_SGE_MAX,
        .max_pkeys = 1,
        .local_ca_ack_delay = ACK_DELAY_CODE,
        .phys_port_cnt = 1,
    };
    snprintf(attr->fw_ver, sizeof(attr->fw_ver), "farlane");
    return 0;
}

int fl_context_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                               struct ibv_device_attr_ex *attr, size_t len)
{
    struct ibv_device_attr_ex all = {
        .completion_timestamp_mask = UINT64_MAX,
        .hca_core_clock = 1000000, /* kHz: time stamps are nanoseconds */
        .phys_port_cnt_ex = 1,
    };
    if (input && input->comp_mask)
        return EINVAL;
    if (len < sizeof(all.orig_attr))
        return EINVAL;
    fl_context_query_device(context, &all.orig_attr);
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    /* A program built against a newer header has more fields than we know: they are zero. */
    memset(attr, 0, len);
    memcpy(attr, &all, FL_MIN(len, sizeof(all)));
    return 0;
}

static void set_speed(const struct fl_device *d, struct ibv_port_attr *attr)
{
    static const struct {
        uint32_t mbps;
        uint8_t speed, width;
    } rates[] = {{400000, SPEED_100G, LANES_4}, {200000, SPEED_50G, LANES_4}, {100000, SPEED_25G, LANES_4},
                 {50000, SPEED_50G, LANES_1},   {40000, SPEED_10G, LANES_4},  {25000, SPEED_25G, LANES_1}};
    uint32_t mbps = d->loopback ? 100000 : __atomic_load_n(&d->speed_mbps, __ATOMIC_RELAXED);
    attr->active_speed = SPEED_10G; /* slower ones have no code of their own that programs know */
    attr->active_width = LANES_1;
    for (size_t i = 0; i < FL_ARRAY_LEN(rates); i++) {
        if (mbps >= rates[i].mbps) {
            attr->active_speed = rates[i].speed;
            attr->active_width = rates[i].width;
            return;
        }
    }
}

int fl_context_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
    const struct fl_device *d = fl_context_of(context)->device;
    if (port != 1)
        return EINVAL;
    pthread_mutex_lock(&fl_devices_lock);
    struct ibv_port_attr all = {
        .state = d->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = fl_device_mtu(d),
        .gid_tbl_len = FL_GID_MAX,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = FL_ROCE_MSG_MAX,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .phys_state = d->up ? LINK_UP : LINK_DISABLED,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .flags = IBV_QPF_GRH_REQUIRED,
    };
    set_speed(d, &all);
    pthread_mutex_unlock(&fl_devices_lock);
    memset(attr, 0, len);
    memcpy(attr, &all, FL_MIN(len, sizeof(all)));
    return 0;
}

static int gid_entry(struct fl_device *d, uint32_t index, struct ibv_gid_entry *entry, size_t entry_len)
{
    struct fl_gid gid;
    struct ibv_gid_entry all = {.gid_index = index, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
    int r = fl_device_gid(d, (int)index, &gid);
    if (r)
        return r;
    all.ndev_ifindex = d->ifindex;
    memcpy(&all.gid, &gid.addr, sizeof(all.gid));
    memset(entry, 0, entry_len);
    memcpy(entry, &all, FL_MIN(entry_len, sizeof(all)));
    return 0;
}

int fl_context_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    struct fl_gid found;
    int r = port == 1 ? fl_device_gid(fl_context_of(context)->device, index, &found) : EINVAL;
    if (r == EINVAL) {
        errno = EINVAL;
        return -1;
    }
    memcpy(gid, &found.addr, sizeof(*gid)); /* all zero: nothing there */
    return 0;
}

int fl_context_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                            struct ibv_gid_entry *entry, uint32_t flags, size_t entry_len)
{
    if (port != 1 || index >= FL_GID_MAX || flags || entry_len < sizeof(*entry))
        return EINVAL;
    return gid_entry(fl_context_of(context)->device, index, entry, entry_len);
}

ssize_t fl_context_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                                   uint32_t flags, size_t entry_len)
{
    ssize_t n = 0;
    if (flags || entry_len < sizeof(*entries))
        return -EINVAL;
    for (uint32_t i = 0; i < FL_GID_MAX; i++) {
        struct ibv_gid_entry found;
        if (gid_entry(fl_context_of(context)->device, i, &found, sizeof(found)))
            continue;
        if ((size_t)n == max)
            return -EINVAL; /* as the manual page has it: the array is too small */
        struct ibv_gid_entry *to = (struct ibv_gid_entry *)((char *)entries + (size_t)n * entry_len);
        memset(to, 0, entry_len);
        memcpy(to, &found, sizeof(found));
        n++;
    }
    return n;
}

int fl_context_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    if (port != 1 || index) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(FL_IB_PKEY_DEFAULT);
    return 0;
}

int fl_context_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    if (port == 1 && pkey == htobe16(FL_IB_PKEY_DEFAULT))
        return 0;
    errno = ENOENT;
    return -1;
}
