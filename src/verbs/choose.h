/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which RDMA device, port and GID lead to a peer, and why not by a better way: from the route to it, the
 * hardware of this machine, and what the user wants (dev=). docs/design/choose.md tells the rules.
 */
#ifndef FL_VERBS_CHOOSE_H
#define FL_VERBS_CHOOSE_H

#include <stdbool.h>

#include <farlane/error.h>

#include "verbs/devices.h"
#include "verbs/route.h"

/* Ways for bytes to another process, the best first. */
enum fl_path {
    FL_PATH_HARDWARE, /* an RNIC, or a driver of the kernel that passes for one */
    FL_PATH_SHM,      /* the software RNIC, within this host */
    FL_PATH_UDP,      /* the software RNIC: RoCE v2 in UDP datagrams */
    FL_PATH_TCP,
    FL_NR_PATHS,
};

/* "hardware", "shm", "udp", "tcp", as in JSON */
const char *fl_path_name(enum fl_path path);
/* "RDMA by hardware", "RDMA on shared memory", "RDMA by RoCE v2 over UDP", "TCP" */
const char *fl_path_text(enum fl_path path);

#define FL_WHY_LEN 320

/* An address of the software RNIC's. */
struct fl_soft_gid {
    char device[FL_RDMA_NAME_LEN], ifname[IF_NAMESIZE];
    int index;
    struct in6_addr gid;
    bool up;
};

/* All that the choice stands on; fl_choose_look() fills it, tests make it up. */
struct fl_choose_facts {
    struct fl_addr to;
    struct fl_route route;
    struct fl_error no_route; /* code 0: there is one */
    char ifname[IF_NAMESIZE]; /* which has the source address; "": none has */
    struct in6_addr ipoib;    /* the GID that it stands for, where it is IP over InfiniBand; else zero */
    struct fl_hw hw;
    struct fl_error no_library; /* libibverbs, librdmacm; looked for only where there is a device */
    struct fl_soft_gid *soft;
    uint32_t nr_soft;
    bool shm_off; /* FARLANE_SHM=0 */
};

struct fl_choice {
    enum fl_path path; /* SHM: if the peer turns out to be a process of this user */
    bool hardware;     /* whose functions: fl_verbs_hardware() or fl_verbs_soft */
    bool here;         /* the peer's address is one of this host */
    bool bind;         /* the source has to be bound to: by itself the route would take another device */
    char device[FL_RDMA_NAME_LEN], ifname[IF_NAMESIZE];
    uint8_t port;
    int gid_index;
    struct in6_addr gid;
    struct fl_addr source;                 /* port 0; len 0: any */
    char why_not[FL_NR_PATHS][FL_WHY_LEN]; /* of each way that is not open; "": it is */
};

/*
 * dev: "" or "auto" (hardware before software), "soft", "hardware", or the name of a device of either kind.
 * Pure. 0, or with text: -ENODEV: there is no such device, or none that leads there; -ENETUNREACH and other
 * codes of the route; -EADDRNOTAVAIL: the device has no address of that family. why_not is filled in both
 * cases.
 */
int fl_choose(const struct fl_choose_facts *facts, const char *dev, struct fl_choice *choice,
              struct fl_error *err);

/* The same for listening on facts->to, which may be any address (0.0.0.0, ::). -ENXIO: the address is there,
 * and the device that is named does not exist or is another's: waiting does not help. */
int fl_choose_listen(const struct fl_choose_facts *facts, const char *dev, struct fl_choice *choice,
                     struct fl_error *err);

/*
 * Looks at this machine: routes, interfaces, /sys, libraries. Asks no other process or host. listen: the
 * address is this host's own, or any. 0 or -ENOMEM; what is missing stands in the facts. FARLANE_ROOT in the
 * environment stands for / where hardware is looked for. Any thread.
 */
int fl_choose_look(const struct fl_addr *to, bool listen, struct fl_choose_facts *facts);
void fl_choose_forget(struct fl_choose_facts *facts);

/* look and choose in one. */
int fl_choose_to(const struct fl_addr *to, const char *dev, struct fl_choice *choice, struct fl_error *err);
int fl_choose_at(const struct fl_addr *at, const char *dev, struct fl_choice *choice, struct fl_error *err);

#endif
