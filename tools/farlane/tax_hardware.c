/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA hardware of this machine, and what the kernel drives like it: where a target can listen so that bytes
 * go out of the device and in again. */
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/util.h"
#include "tax.h"
#include "verbs/choose.h"

static bool has_device(char device[FL_RDMA_NAME_LEN])
{
    const char *root = secure_getenv("FARLANE_ROOT");
    struct fl_hw hw;
    bool any = fl_hw_read(root ? root : "", &hw) == 0 && hw.nr_ports > 0;

    if (any)
        snprintf(device, FL_RDMA_NAME_LEN, "%s", hw.ports[0].device);
    fl_hw_free(&hw);
    return any;
}

/* At this address, if hardware has it. Addresses of IPv4 are tried first, which every device has, then those
 * of IPv6. */
static bool listen_at(const struct ifaddrs *ifa, int family, char *listen, size_t len, char *device,
                      struct fl_error *err)
{
    char ip[FL_ADDR_IP_LEN];
    struct fl_choice choice;
    struct fl_addr at;

    if (!ifa->ifa_addr || ifa->ifa_addr->sa_family != family || (ifa->ifa_flags & IFF_LOOPBACK) ||
        fl_addr_from(&at, ifa->ifa_addr,
                     family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) < 0)
        return false;
    if (fl_choose_at(&at, "hardware", &choice, err) < 0)
        return false;
    snprintf(listen, len, family == AF_INET ? "rdma://%s:0?dev=%s" : "rdma://[%s]:0?dev=%s",
             fl_addr_format_ip(&at, ip), choice.device);
    snprintf(device, FL_RDMA_NAME_LEN, "%s", choice.device);
    return true;
}

int tax_hardware(char *listen, size_t len, char device[FL_RDMA_NAME_LEN], struct fl_error *err)
{
    const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *list = NULL, *ifa;
    bool found = false;
    size_t i;

    if (!has_device(device))
        return 0;
    if (getifaddrs(&list) < 0)
        return fl_error_set(err, -errno, "the addresses of this machine cannot be read: %s", strerror(errno));
    for (i = 0; i < FL_ARRAY_LEN(families) && !found; i++)
        for (ifa = list; ifa && !found; ifa = ifa->ifa_next)
            found = listen_at(ifa, families[i], listen, len, device, err);
    freeifaddrs(list);
    if (found)
        return 1;
    fl_error_set(err, -EADDRNOTAVAIL,
                 "no interface of this machine has an address"); /* unless one has, and says why not */
    return err->code;
}
