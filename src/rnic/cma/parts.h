/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the librdmacm face share. The connection manager engine (cm/) lives under rnic->lock like
 * the queue pairs; so do the fields of ids for which nothing else is said. Order of locks: rnic->lock,
 * channel, id->mutex. Devices are opened under no lock.
 */
#ifndef FL_RNIC_CMA_PARTS_H
#define FL_RNIC_CMA_PARTS_H

#include <errno.h>
#include <pthread.h>

#include "rnic/cm/cm.h"
#include "rnic/cma/vigil.h"
#include "rnic/objects.h"
#include "rnic/port/patience.h"
#include "rnic/rdmacm.h"

#define FL_CMA_PORT_BUCKETS 256u
#define FL_CMA_LATE_NS      (3 * FL_NS_PER_S)

struct fl_cma_id;

/* One for the process, once something of the connection manager was used, and until its end. */
struct fl_cma {
    struct fl_rnic_client client;
    struct fl_rnic *rnic;
    struct fl_cm *cm;
    struct fl_list ids;        /* all, but those that a removed device took along: fl_cma_id.all_link */
    uint32_t nr_removals;      /* of devices, that ids were looked through for */
    struct fl_list watched;    /* connected ids whose peer is on this host: fl_cma_id.watch_link */
    uint64_t next_look;        /* for those that died */
    struct fl_vigil vigil;     /* over peers on other hosts */
    struct fl_list leaving;    /* ids whose DISCONNECTED waits: fl_cma_id.leave.link */
    uint64_t next_leave_look;  /* at those */
    uint64_t leave_latest_ns;  /* so long at most */
    uint32_t psn;              /* of our packets from QP1 */
    struct fl_list kept_ports; /* the one that goes first is first */
    uint32_t next_ephemeral;   /* where to look for a free port */
    struct fl_list ports[FL_CMA_PORT_BUCKETS];
};

/* A port in its space that at least one id is bound to */
struct fl_cma_port {
    struct fl_list link;
    uint64_t service_id;
    bool claimed; /* this process's at the hub */
    bool asked;   /* it may be, or become so */
    struct fl_list ids;
    bool listened;            /* on: then it is kept for a while after its last id */
    struct fl_list kept_link; /* cma->kept_ports */
    uint64_t kept_till;
};

struct fl_cma_channel {
    struct rdma_event_channel channel; /* fd: an eventfd that counts events (EFD_SEMAPHORE) */
    pthread_mutex_t lock;
    struct fl_list events; /* lock, and the next two, which count once fd is negative: */
    pthread_t ended_by;
    uint64_t late_till; /* until then who comes late waits; 0: not at all */
};

struct fl_cma_event {
    struct rdma_cm_event event;
    struct fl_list link;         /* channel's lock */
    struct fl_cma_id *counts_at; /* the id that waits for its ack: of a request, the listener's */
    struct fl_device *device;    /* of a request */
    uint8_t private_data[FL_CM_RTU_PRIVATE_LEN];
};

enum fl_cma_state {
    FL_CMA_IDLE,
    FL_CMA_BOUND,
    FL_CMA_ADDR_RESOLVED,
    FL_CMA_ROUTE_RESOLVED,
    FL_CMA_LISTENING,
    FL_CMA_CONNECTING, /* a connection was begun, by either side; the engine knows how far it is */
    FL_CMA_REMOVED,    /* its device was: it can only be destroyed */
};

struct fl_cma_id {
    struct rdma_cm_id id;
    /* librdmacm's sockets (rsocket.c) take any identifier for its own, and read two of the fields that its
     * own have here: its device, for the size of queue pairs (NULL: as all devices have), and sync. */
    struct {
        void *device;
        void *unread[2];
        int unread_too[2];
    } rsocket;
    int sync; /* the channel is its own */
    struct fl_cma *cma;
    struct fl_cma_channel *channel; /* where its events go */
    struct fl_list all_link;
    struct fl_device *device; /* NULL: not bound to one */
    uint32_t nr_removals;     /* of the device, when it was bound to it */
    enum fl_cma_state state;
    bool passive;
    struct fl_cma_port *port;
    struct fl_list port_link;
    struct fl_list watch_link;
    struct fl_vigil_peer vigil;
    int bond;           /* fl_port_connected(); negative: none */
    uint8_t nr_missing; /* looks that found no process of the peer */
    struct {
        struct fl_list link;        /* cma->leaving */
        struct fl_cma_event *event; /* that waits; NULL: none */
        uint64_t till;
        uint32_t cq_end; /* the end of the completion queue when it came */
    } leave;
    struct fl_cm_conn *conn;
    struct fl_cm_listener *listener;
    struct fl_cm_route route;
    struct ibv_sa_path_rec path;
    uint32_t qpn, psn; /* of this side; qpn: the program's if the queue pair is not ours */
    bool srq;
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
    uint8_t tos, ack_timeout; /* options */
    bool reuseaddr, afonly;
    struct ibv_ece local_ece, remote_ece;
    struct ibv_qp_init_attr *ep_attr; /* of a listening endpoint: for the queue pairs of requests */

    pthread_mutex_t mutex; /* the next three */
    pthread_cond_t cond;
    uint32_t nr_told, nr_acked; /* events given out, and acknowledged */
};

_Static_assert(offsetof(struct fl_cma_id, sync) ==
                   sizeof(struct rdma_cm_id) + 3 * sizeof(void *) + 2 * sizeof(int),
               "where librdmacm's sockets look for it");

static inline struct fl_cma_id *fl_cma_id_of(struct rdma_cm_id *id)
{
    return FL_CONTAINER_OF(id, struct fl_cma_id, id);
}
static inline struct fl_cma_channel *fl_cma_channel_of(struct rdma_event_channel *channel)
{
    return FL_CONTAINER_OF(channel, struct fl_cma_channel, channel);
}

/* From negative errno to the way of librdmacm */
static inline int fl_cma_result(int r)
{
    if (r >= 0)
        return 0;
    errno = -r;
    return -1;
}

/* Without rnic->lock, under which it may become REMOVED at any time */
static inline enum fl_cma_state fl_cma_state_of(const struct fl_cma_id *id)
{
    return __atomic_load_n(&id->state, __ATOMIC_RELAXED);
}

static inline bool fl_cma_is_datagram(const struct fl_cma_id *id)
{
    return id->id.qp_type == IBV_QPT_UD;
}

/* cma.c */
struct fl_cma *fl_cma_get(void); /* NULL and errno */
/* -ENODEV in a child of fork(), else 0 and rnic->lock is held */
int fl_cma_lock(struct fl_cma *cma);
/* Sends what there is to be sent, tells what there is to tell, and lets go. */
void fl_cma_unlock(struct fl_cma *cma);

/* dispatch.c, under rnic->lock */
void fl_cma_dispatch(struct fl_cma *cma, const struct fl_cm_event *event);

/* From now on the peer counts on us, and hears of it if this process is killed. */
void fl_cma_connected(struct fl_cma_id *id);
/* The connection is over, whatever the cause. */
void fl_cma_parted(struct fl_cma_id *id);

/* absent.c, under rnic->lock */
void fl_cma_absent_init(struct fl_cma *cma);
/* From now on it is noticed when the peer dies; of another host's from when the connection is established. */
void fl_cma_watch(struct fl_cma_id *id, bool established);
void fl_cma_unwatch(struct fl_cma_id *id);
void fl_cma_look_for_absent(struct fl_cma *cma, uint64_t now);
uint64_t fl_cma_absent_deadline(const struct fl_cma *cma);

/* leaving.c, under rnic->lock */
void fl_cma_leaving_init(struct fl_cma *cma);
/* The connection has ended: tells DISCONNECTED once the program has taken what the peer had sent, or soon. */
void fl_cma_disconnected(struct fl_cma_id *id, const struct fl_cm_event *event);
void fl_cma_leaving_tell(struct fl_cma_id *id);   /* what waits, now */
void fl_cma_leaving_forget(struct fl_cma_id *id); /* what waits is told to nobody */
int fl_cma_look_at_leaving(struct fl_cma *cma, uint64_t now);
uint64_t fl_cma_leaving_deadline(const struct fl_cma *cma);

/* event.c. status: 0, a reason, or negative errno. from: NULL, or what brings private data. Under rnic->lock.
 */
struct fl_cma_event *fl_cma_event_new(struct fl_cma_id *id, enum rdma_cm_event_type type, int status,
                                      const struct fl_cm_event *from);
void fl_cma_tell(struct fl_cma_id *id, enum rdma_cm_event_type type, int status,
                 const struct fl_cm_event *from);
/* Synchronous ids: waits for the next event and says how it went; others: 0. As librdmacm: -1 and errno. */
int fl_cma_complete(struct fl_cma_id *id);

/* channel.c */
void fl_cma_push(struct fl_cma_channel *channel, struct fl_cma_event *event);
/* Blocks unless the descriptor says not to. NULL and errno. It is counted as given out. */
struct fl_cma_event *fl_cma_pop(struct fl_cma_channel *channel);
/* Events about an id, or that it waits for, go from its channel to a list. */
void fl_cma_take_events(struct fl_cma_channel *channel, struct fl_cma_id *id, struct fl_list *to);

/* id.c */
struct fl_cma_id *fl_cma_id_new(struct fl_cma *cma, enum rdma_port_space ps, void *context);
void fl_cma_id_free(struct fl_cma_id *id); /* nothing refers to it any more */
void fl_cma_count_ack(struct fl_cma_id *id);
void fl_cma_leave(struct fl_cma_id *id); /* under rnic->lock: from the engine; no event comes after this */

/* port.c, under rnic->lock. port 0: any; claim: at the hub, too. 0 or negative errno */
int fl_cma_port_bind(struct fl_cma_id *id, const struct sockaddr *addr, uint16_t *port, bool claim);
int fl_cma_port_claim(struct fl_cma_id *id);
/* Without the lock: *r is of one of those. True, after a moment: try again. */
bool fl_cma_port_again(int *r, struct fl_port_patience *patience);
void fl_cma_port_release(struct fl_cma_id *id);
/* Ports whose listener did not come back; when the next one is due, FL_CM_NEVER: none */
void fl_cma_ports_tick(struct fl_cma *cma, uint64_t now);
uint64_t fl_cma_ports_deadline(const struct fl_cma *cma);

/* address.c */
bool fl_cma_gid_of(const struct sockaddr *addr, struct in6_addr *gid); /* false: not an IP address */
uint16_t fl_cma_port_of(const struct sockaddr *addr);
bool fl_cma_is_any(const struct sockaddr *addr);
bool fl_cma_is_loopback(const struct sockaddr *addr);
void fl_cma_set_addr(struct sockaddr_storage *to, const struct in6_addr *gid, uint16_t port,
                     uint32_t scope_id);
void fl_cma_fill_path(struct fl_cma_id *id); /* of its route */

/* device.c */
struct fl_device *fl_cma_device_of(const struct in6_addr *gid); /* that has this address, or NULL */
void fl_cma_devices_forget(void); /* in the child of a fork: what is open is the parent's */
int fl_cma_attach(struct fl_cma_id *id, struct fl_device *device); /* 0 or negative errno */
/* Under rnic->lock: the id is the device's. -ENODEV: that one, or the one it had, is gone. */
int fl_cma_set_device(struct fl_cma_id *id, struct fl_device *device);
/* Under rnic->lock: ids of devices that were removed are told. Returns how many. */
int fl_cma_tell_removals(struct fl_cma *cma);

/* qp_attr.c: 0 or negative errno */
int fl_cma_qp_to_init(struct fl_cma_id *id, struct ibv_qp *qp);
int fl_cma_qp_to_rts(struct fl_cma_id *id);
void fl_cma_qp_to_error(struct fl_cma_id *id);

/* passive.c, active.c: what both sides say of their queue pair. 0 or -EINVAL */
int fl_cma_take_param(struct fl_cma_id *id, const struct rdma_conn_param *param);
struct fl_cm_terms fl_cma_terms(const struct fl_cma_id *id);

#endif
