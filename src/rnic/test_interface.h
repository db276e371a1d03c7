/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that a test changes, in a network namespace of its own. */
#ifndef FL_RNIC_TEST_INTERFACE_H
#define FL_RNIC_TEST_INTERFACE_H

#include "base/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

/* As root of a user namespace, so that programs that are run have its rights too */
static inline bool own_network_as_user(void)
{
    char uid[32], gid[32];
    snprintf(uid, sizeof(uid), "0 %u 1", (unsigned int)geteuid());
    snprintf(gid, sizeof(gid), "0 %u 1", (unsigned int)getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return false;
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", uid);
    write_text("/proc/self/gid_map", gid);
    return true;
}

/* Before there are threads. It has a loopback alone, which is down. */
static inline bool own_network(void)
{
    if (unshare(CLONE_NEWNET) == 0 || own_network_as_user())
        return true;
    fprintf(stderr, "no network namespace of our own: %s\n", strerror(errno));
    return false;
}

static inline void configure(unsigned long request, const char *name, const struct ifreq *values)
{
    struct ifreq req = *values;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
    if (ioctl(fd, request, &req) < 0)
        fail_msg("ioctl(%lx) of %s: %s", request, name, strerror(errno));
    close(fd);
}

static inline void set_up(bool up)
{
    configure(SIOCSIFFLAGS, "lo", &(struct ifreq){.ifr_flags = (short)(IFF_LOOPBACK | (up ? IFF_UP : 0))});
}

static inline void add_address(const char *alias, const char *text)
{
    struct ifreq req = {0};
    struct sockaddr_in *sin = (struct sockaddr_in *)&req.ifr_addr;
    sin->sin_family = AF_INET;
    inet_pton(AF_INET, text, &sin->sin_addr);
    configure(SIOCSIFADDR, alias, &req);
}

/* An alias that is taken down loses its address. */
static inline void remove_address(const char *alias)
{
    configure(SIOCSIFFLAGS, alias, &(struct ifreq){.ifr_flags = 0});
}

/* An interface that lives as long as a descriptor; -1: none can be made here. */
static inline int make_interface(const char *name, const char *address)
{
    struct ifreq req = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &req) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    add_address(name, address);
    configure(SIOCSIFFLAGS, name, &(struct ifreq){.ifr_flags = IFF_UP});
    return fd;
}

#endif
