/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system as doctor sees it: files of /sys, /proc, /etc and /dev below a root, and the questions that no
 * file answers, as a table of hooks. A test brings a tree and hooks of its own. Nothing here writes anything.
 */
#ifndef FARLANE_DOCTOR_SYS_H
#define FARLANE_DOCTOR_SYS_H

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <farlane/api.h>

#define SYS_NAME_LEN  64
#define SYS_NAMES_MAX 256
#define SYS_TEXT_LEN  256

struct sys;

struct sys_addr {
    char ifname[SYS_NAME_LEN];
    struct in6_addr addr; /* IPv4 mapped */
    uint8_t prefix_len;   /* of 128 */
};

struct sys_interface {
    char name[SYS_NAME_LEN];
    uint32_t mtu;
    bool up, loopback;
};

/* The way to a peer as the kernel would go. */
struct sys_route {
    char ifname[SYS_NAME_LEN];
    bool gateway; /* over a router */
};

/* Data centre bridging of an interface (IEEE 802.1Qaz, 802.1Qbb) */
struct sys_dcb {
    uint8_t pfc;   /* bit n: priority n is lossless */
    bool has_dscp; /* there is a map from DSCP to priority */
    uint8_t dscp_prio[64];
};

/* A base chain of nftables at the input hook, or INPUT of the old iptables */
struct sys_chain {
    char table[SYS_NAME_LEN], name[SYS_NAME_LEN];
    bool drops;                  /* policy: what no rule takes is dropped */
    bool names_4791, names_4420; /* some rule of the table compares with this port */
    bool unclear; /* some rule looks into a set or uses a match of its own: not understood here */
};

struct sys_counter {
    char name[SYS_NAME_LEN];
    uint64_t value;
};

enum sys_register { SYS_REGISTER_DMABUF, SYS_REGISTER_PEERMEM };

/*
 * 0 or a count, else negative errno: -EOPNOTSUPP: cannot be asked here; -EPERM, -EACCES: not by this user. A
 * missing member answers -EOPNOTSUPP.
 */
struct sys_ops {
    int (*addrs)(const struct sys *sys, struct sys_addr *addrs, int max);
    /* The interfaces of this network namespace: /sys may have been mounted in another. */
    int (*interfaces)(const struct sys *sys, struct sys_interface *interfaces, int max);
    int (*route)(const struct sys *sys, const struct in6_addr *to, struct sys_route *route);
    int (*port_mtu)(const struct sys *sys, const char *dev, int port, uint32_t *active, uint32_t *max);
    int (*dcb)(const struct sys *sys, const char *ifname, struct sys_dcb *dcb);
    int (*pause)(const struct sys *sys, const char *ifname, bool *rx, bool *tx);
    int (*counters)(const struct sys *sys, const char *ifname, struct sys_counter *counters, int max);
    int (*firewall)(const struct sys *sys, struct sys_chain *chains, int max);
    /* The old iptables' chain INPUT. Asked only when the kernel has its table. */
    int (*iptables)(const struct sys *sys, bool ip6, struct sys_chain *chain);
    int (*space)(const struct sys *sys, const char *path, uint64_t *total, uint64_t *free);
    int (*uring)(const struct sys *sys);
    /* Registers memory of GPU number `gpu` with an RDMA device and takes it back. -ENODEV: there is no such
     * pair. */
    int (*gpu_register)(const struct sys *sys, int gpu, const char *dev, enum sys_register how, char *why,
                        size_t len);
};

struct sys {
    const char *root; /* "" on a live system */
    const struct sys_ops *ops;
};

extern const struct sys_ops sys_live_ops;

/* A file's text without blanks at its end. Its length, or negative errno. */
ssize_t sys_read(const struct sys *sys, char *text, size_t len, const char *fmt, ...) FL_PRINTF(4, 5);
/* Bytes as they are, for PCI's configuration. */
ssize_t sys_read_bytes(const struct sys *sys, void *bytes, size_t len, const char *fmt, ...) FL_PRINTF(4, 5);
/* The whole of a file of any length, terminated; NULL and errno. The caller frees it. */
char *sys_read_all(const struct sys *sys, const char *path);
/* A whole number, decimal or 0x. */
int sys_number(const struct sys *sys, int64_t *value, const char *fmt, ...) FL_PRINTF(3, 4);
bool sys_exists(const struct sys *sys, const char *fmt, ...) FL_PRINTF(2, 3);
/* May this user read and write it? 0 or negative errno. */
int sys_may_use(const struct sys *sys, const char *fmt, ...) FL_PRINTF(2, 3);
/* Last part of what a symbolic link points to. */
int sys_link(const struct sys *sys, char name[SYS_NAME_LEN], const char *fmt, ...) FL_PRINTF(3, 4);
/* The path with all links followed, without the root. */
int sys_real(const struct sys *sys, char *path, size_t len, const char *fmt, ...) FL_PRINTF(4, 5);

struct sys_names {
    int nr;
    char name[SYS_NAMES_MAX][SYS_NAME_LEN];
};
/* The names in a folder, numbers within them by value (mlx5_2 before mlx5_10). Their number, or negative
 * errno. */
int sys_list(const struct sys *sys, struct sys_names *names, const char *fmt, ...) FL_PRINTF(3, 4);

/* The number behind `key` in text of lines "Key:   123 kB"; -ENOENT. */
int sys_field(const char *text, const char *key, int64_t *value);

/* The value under `column` of a pair of lines that begin with "ROW:", as in /proc/net/snmp; negative errno. text may be
 * NULL: there is none. */
int64_t sys_pair(const char *text, const char *row, const char *column);

/* Numbers of <linux/capability.h>; of this process, as /proc/self/status has them. */
enum sys_capability { SYS_NET_ADMIN = 12, SYS_IPC_LOCK = 14 };
bool sys_capable(const struct sys *sys, enum sys_capability capability);

/* Hooks, with the default where one is missing */
#define SYS_ASK(sys, member, ...) \
    ((sys)->ops->member ? (sys)->ops->member((sys), ##__VA_ARGS__) : -EOPNOTSUPP)

#endif
