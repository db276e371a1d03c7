/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager engine on the RNIC's turns: management packets in and out, its clock, its events. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "rnic/cma/parts.h"

static struct {
    pthread_mutex_t lock;
    struct fl_cma *cma;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct fl_cma *cma_of(struct fl_rnic_client *client)
{
    return FL_CONTAINER_OF(client, struct fl_cma, client);
}

/* The interface of a link-local address; 0: none. */
static uint32_t scope_of(const struct in6_addr *local)
{
    struct fl_device *device = IN6_IS_ADDR_LINKLOCAL(local) ? fl_cma_device_of(local) : NULL;
    return device ? device->ifindex : 0;
}

static bool take_management(struct fl_rnic_client *client, const struct fl_port_packet *packet, uint64_t now)
{
    struct fl_cma *cma = cma_of(client);
    const struct fl_deth *deth = fl_ib_deth(&packet->packet);
    const uint8_t *grh = packet->meta.grh;
    if (!deth || be32_get(deth->qkey) != FL_IB_QP1_QKEY)
        return false;
    struct fl_cm_meta meta = {.local = packet->dgid,
                              .remote = packet->sgid,
                              .scope_id = scope_of(&packet->dgid),
                              .src_qpn = be24_get(deth->src_qpn),
                              .hop_limit = 64};
    if (grh && IN6_IS_ADDR_V4MAPPED(&packet->dgid)) {
        meta.traffic_class = grh[21];
    } else if (grh) {
        meta.traffic_class = (uint8_t)(grh[0] << 4 | grh[1] >> 4);
    }
    fl_cm_rx(cma->cm, &meta, packet->packet.payload, packet->packet.payload_len, now);
    return true;
}

static void send_mad(struct fl_cma *cma, const struct fl_cm_tx *mad)
{
    struct fl_port_flow flow = {.sgid = mad->local,
                                .dgid = mad->remote,
                                .scope_id = mad->scope_id,
                                .tos = mad->traffic_class,
                                .hop_limit = mad->hop_limit};
    struct fl_roce_tx tx;
    fl_port_mad(&tx, cma->psn++, &mad->mad);
    fl_rnic_transmit(cma->rnic, &flow, &tx); /* what the port has no room for is lost, and repeated */
}

static int pump(struct fl_cma *cma)
{
    struct fl_cm_event event;
    struct fl_cm_tx tx;
    int n = 0;
    for (; fl_cm_next_event(cma->cm, &event); n++)
        fl_cma_dispatch(cma, &event);
    for (; !cma->rnic->held.full && fl_cm_tx(cma->cm, &tx); n++)
        send_mad(cma, &tx);
    return n;
}

static int progress(struct fl_rnic_client *client, uint64_t now)
{
    struct fl_cma *cma = cma_of(client);
    uint32_t mask;
    fl_cm_set_id_prefix(cma->cm,
                        fl_port_comm_id_prefix(cma->rnic->port, &mask)); /* a new hub may give another */
    if (now >= fl_cm_deadline(cma->cm))
        fl_cm_tick(cma->cm, now);
    fl_cma_ports_tick(cma, now);
    int nr_told = fl_cma_tell_removals(cma);
    fl_cma_look_for_absent(cma, now);
    nr_told += fl_cma_look_at_leaving(cma, now);
    return nr_told + pump(cma);
}

static uint64_t deadline(struct fl_rnic_client *client)
{
    struct fl_cma *cma = cma_of(client);
    uint64_t at = FL_MIN(fl_cm_deadline(cma->cm), fl_cma_ports_deadline(cma));
    at = FL_MIN(at, fl_cma_leaving_deadline(cma));
    return FL_MIN(at, fl_cma_absent_deadline(cma));
}

/* The first packet on a queue pair: whoever sent it has got our REP. */
static void first_packet(struct fl_rnic_client *client, struct fl_qp *qp, uint64_t now)
{
    struct fl_cma_id *id = qp->cm_id;
    if (id && id->conn)
        fl_cm_established(cma_of(client)->cm, id->conn, now);
}

static void leave(struct fl_rnic_client *client, uint64_t now)
{
    struct fl_cma *cma = cma_of(client);
    fl_cm_leave(cma->cm, now);
    pump(cma);
}

int fl_cma_lock(struct fl_cma *cma)
{
    if (fl_unlikely(cma->rnic->gone))
        return -ENODEV;
    fl_rnic_lock(cma->rnic);
    cma->rnic->now = fl_now_ns();
    return 0;
}

void fl_cma_unlock(struct fl_cma *cma)
{
    if (pump(cma)) {
        fl_port_flush(cma->rnic->port);
        /* Where this process is the hub, what it sends within the host comes to its own socket: it is passed
         * on now, as the program may end the next moment by _exit(). */
        if (fl_port_stats(cma->rnic->port)->is_hub)
            fl_rnic_progress_locked(cma->rnic, 0);
    }
    fl_rnic_wake_by(cma->rnic, deadline(&cma->client));
    fl_rnic_unlock(cma->rnic);
}

static int make_engine(struct fl_cma *cma)
{
    struct fl_cm_config config = {0};
    if (getrandom(config.seed, sizeof(config.seed), 0) != sizeof(config.seed))
        return -EIO;
    pthread_mutex_lock(&fl_devices_lock);
    struct fl_device *first = FL_LIST_FIRST(fl_devices(), struct fl_device, link);
    config.guid = first ? be64toh(fl_device_guid(first)) : 1;
    pthread_mutex_unlock(&fl_devices_lock);
    config.id_prefix = fl_port_comm_id_prefix(cma->rnic->port, &config.id_mask);
    int r = fl_cm_create(&config, &cma->cm);
    if (!r)
        cma->next_ephemeral = fl_cm_random_psn(cma->cm);
    return r;
}

static int create(struct fl_cma **made)
{
    struct fl_error err = {0};
    struct fl_cma *cma = calloc(1, sizeof(*cma));
    if (!cma)
        return -ENOMEM;
    int r = fl_devices_scan();
    cma->rnic = r ? NULL : fl_rnic_get(&err);
    if (!r && !cma->rnic) {
        r = -errno;
        fl_rnic_log_failure("connection manager", &err);
    }
    if (r)
        goto free_cma;
    fl_list_init(&cma->ids);
    cma->nr_removals = __atomic_load_n(&fl_devices_nr_removals, __ATOMIC_ACQUIRE);
    fl_cma_absent_init(cma);
    fl_list_init(&cma->kept_ports);
    fl_cma_leaving_init(cma);
    for (size_t i = 0; i < FL_CMA_PORT_BUCKETS; i++)
        fl_list_init(&cma->ports[i]);
    cma->client = (struct fl_rnic_client){.management = take_management,
                                          .progress = progress,
                                          .deadline = deadline,
                                          .first_packet = first_packet,
                                          .leave = leave,
                                          .wait_fd = -1};
    fl_rnic_lock(cma->rnic);
    r = make_engine(cma);
    if (!r)
        fl_rnic_add_client(cma->rnic, &cma->client);
    fl_rnic_unlock(cma->rnic);
    if (r) {
        fl_rnic_put(cma->rnic);
        goto free_cma;
    }
    *made = cma;
    return 0;

free_cma:
    free(cma);
    return r;
}

/* Its connections are the parent's; it may begin anew. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&process.lock, NULL);
    process.cma = NULL;
    fl_cma_devices_forget();
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

struct fl_cma *fl_cma_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int r = 0;
    pthread_once(&once, register_fork_handler);
    pthread_mutex_lock(&process.lock);
    if (!process.cma)
        r = create(&process.cma);
    struct fl_cma *cma = process.cma;
    pthread_mutex_unlock(&process.lock);
    if (!cma)
        errno = -r;
    return cma;
}
