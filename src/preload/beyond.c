/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that only hardware can do: the software RNIC's objects get what the manual pages have for that.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"

/* Calls the real one; it is there, as an object came from there, or its library is too old for it. */
#define REAL(name, type) ((type)fl_real_find(name))

int ibv_dontfork_range(void *base, size_t len);
int ibv_dofork_range(void *base, size_t len);

static void *not_supported(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

/* The real one takes any other descriptor for one, and falls over it. */
static bool is_uverbs(int fd)
{
    static const char folder[] = "/dev/infiniband/";
    char link[64], path[sizeof(folder)] = {0};
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof(path) - 1) == sizeof(path) - 1 && !strcmp(path, folder);
}

/* A context is shared by the kernel's descriptor of it; the software RNIC has none. */
FL_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    struct ibv_context *(*real)(int) = REAL("ibv_import_device", struct ibv_context * (*)(int));
    return real && is_uverbs(cmd_fd) ? real(cmd_fd) : not_supported();
}

FL_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    typedef struct ibv_pd *(*import)(struct ibv_context *, uint32_t);
import real = fl_is_soft(context) ? NULL:REAL("ibv_import_pd", import);
    return real ? real(context, handle) : not_supported();
}

FL_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    typedef void (*unimport)(struct ibv_pd *);
    unimport real = fl_is_soft(pd->context) ? NULL : REAL("ibv_unimport_pd", unimport);
    if (real)
        real(pd);
}

FL_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    typedef struct ibv_mr *(*import)(struct ibv_pd *, uint32_t);
import real = fl_is_soft(pd->context) ? NULL:REAL("ibv_import_mr", import);
    return real ? real(pd, handle) : not_supported();
}

FL_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    typedef void (*unimport)(struct ibv_mr *);
    unimport real = fl_is_soft(mr->context) ? NULL : REAL("ibv_unimport_mr", unimport);
    if (real)
        real(mr);
}

FL_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    typedef struct ibv_dm *(*import)(struct ibv_context *, uint32_t);
import real = fl_is_soft(context) ? NULL:REAL("ibv_import_dm", import);
    return real ? real(context, handle) : not_supported();
}

FL_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    typedef void (*unimport)(struct ibv_dm *);
    unimport real = fl_is_soft(dm->context) ? NULL : REAL("ibv_unimport_dm", unimport);
    if (real)
        real(dm);
}

FL_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    typedef int (*ece_call)(struct ibv_qp *, struct ibv_ece *);
    ece_call real = fl_is_soft(qp->context) ? NULL : REAL("ibv_query_ece", ece_call);
    if (real)
        return real(qp, ece);
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

FL_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    typedef int (*ece_call)(struct ibv_qp *, struct ibv_ece *);
    ece_call real = fl_is_soft(qp->context) ? NULL : REAL("ibv_set_ece", ece_call);
    if (real)
        return real(qp, ece);
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

/* The software RNIC does not know the peers' link-layer addresses: its packets are the kernel's UDP. */
FL_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                          uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    typedef int (*resolve)(struct ibv_context *, struct ibv_ah_attr *, uint8_t *, uint16_t *);
    resolve real = fl_is_soft(context) ? NULL : REAL("ibv_resolve_eth_l2_from_gid", resolve);
    if (real)
        return real(context, attr, eth_mac, vid);
    errno = EOPNOTSUPP;
    return -EOPNOTSUPP;
}

/* Forking matters to hardware alone, which reads pinned pages. */
FL_EXPORT int ibv_fork_init(void)
{
    const struct fl_verbs *real = fl_real_verbs();
    return (real ? real : &fl_verbs_soft)->fork_init();
}

FL_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    const struct fl_verbs *real = fl_real_verbs();
    return (real ? real : &fl_verbs_soft)->is_fork_initialized();
}

FL_EXPORT int ibv_dontfork_range(void *base, size_t len)
{
    int (*real)(void *, size_t) = REAL("ibv_dontfork_range", int (*)(void *, size_t));
    return real ? real(base, len) : 0;
}

FL_EXPORT int ibv_dofork_range(void *base, size_t len)
{
    int (*real)(void *, size_t) = REAL("ibv_dofork_range", int (*)(void *, size_t));
    return real ? real(base, len) : 0;
}
