/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/stats.h"

#include <string.h>

#include "base/log.h"
#include "rnic/shm/direct.h"
#include "rnic/stats/server.h"

#define LOOK_MAX (1u << 14) /* queue pair numbers looked at under one lock */

static struct {
    bool any;
    uint64_t counters[FL_NR_PROCESS_COUNTERS];
} past; /* the process's lock */

/* ---- counters ---- */

static void qp_counters(const struct fl_qp *qp, uint64_t to[FL_NR_QP_COUNTERS])
{
#define TAKE(id, where, help) to[FL_QP_COUNTER_##id] = qp->where;
    FL_QP_COUNTERS(TAKE)
#undef TAKE
}

void fl_stats_process(const struct fl_rnic *of, uint64_t counters[FL_NR_PROCESS_COUNTERS])
{
    const struct fl_port_stats *port = fl_port_stats(of->port);
    const struct fl_rnic_stats *rnic = &of->stats;
#define TAKE(id, where, help) counters[FL_PROCESS_COUNTER_##id] = where;
    FL_PROCESS_COUNTERS(TAKE)
#undef TAKE
}

/* ---- the path, and why ---- */

static bool is_connected(const struct fl_qp *qp)
{
    return qp->qp.qp_type != IBV_QPT_UD && qp->roce.state >= IBV_QPS_RTR && qp->attr.dest_qp_num;
}

static bool is_selective(const struct fl_qp *qp)
{
    return qp->roce.sel && qp->roce.attr.selective;
}

static void join(char *to, size_t size, const char *word)
{
    size_t len = strlen(to);
    snprintf(to + len, size - len, "%s%s", len ? "+" : "", word);
}

/* By what means requests went so far */
static void shm_how(const struct fl_qp *qp, struct fl_stats_qp *to)
{
    if (qp->nr_mapped)
        join(to->how, sizeof(to->how), "mapped");
    if (qp->nr_vm)
        join(to->how, sizeof(to->how), "process_vm");
    if (qp->nr_messages_tx)
        join(to->how, sizeof(to->how), "message");
    if (qp->nr_ring)
        join(to->how, sizeof(to->how), "engine");
}

/* What kept some requests from the peer's memory: all of it that there is room for */
static void not_direct(const struct fl_qp *qp, char *to, size_t size)
{
    static const struct {
        enum fl_shm_why why;
        const char *text;
    } reasons[] = {
        {FL_SHM_ATOMIC, "atomics in memory that is not mapped here go by the peer's engine"},
        {FL_SHM_ODD, "atomics across words, or with a result in pieces, go by the peer's engine"},
        {FL_SHM_NOT_OPEN,
         "the peer's engine has to see to requests whose key, rights or state do not open its memory"},
        {FL_SHM_BEHIND, "what could overtake SENDs that the peer has not taken goes by its engine"},
        {FL_SHM_HOLE, "what met memory that was not there goes by the peer's engine"},
    };
    for (size_t i = 0; i < FL_ARRAY_LEN(reasons); i++) {
        size_t len = strlen(to);
        if ((qp->not_direct_why & reasons[i].why) && len + 2 + strlen(reasons[i].text) < size)
            snprintf(to + len, size - len, "%s%s", len ? "; " : "", reasons[i].text);
    }
}

/* Why the peer's memory is not mapped here, where it is not */
static void not_mapped(const struct fl_qp *qp, char *to, size_t size)
{
    if (qp->link->vm_error)
        snprintf(to, size,
                 "memory outside farlane's pools goes by the peer's engine: process_vm_readv/writev is not "
                 "permitted (%s)",
                 strerrorname_np(qp->link->vm_error));
    else if (qp->not_direct_why & FL_SHM_FAR)
        snprintf(to, size,
                 "memory outside farlane's pools goes by the peer's engine: the peer is in another namespace "
                 "of processes, where process_vm_readv/writev does not reach it");
    else if (qp->nr_vm)
        snprintf(to, size, "some of the peer's memory is not from farlane's pools, so it is not mapped here");
}

static void shm_reason(const struct fl_qp *qp, char *to, size_t size)
{
    const struct fl_shm_link *link = qp->link;
    if (link->dead || link->left || !link->up) {
        snprintf(to, size, "%s",
                 link->dead || link->left
                     ? fl_shm_link_end(link)
                     : "the connection to the peer's process is not up yet: by UDP until then");
        return;
    }
    not_mapped(qp, to, size);
    not_direct(qp, to, size);
    if (!*to && qp->nr_ring)
        snprintf(
            to, size,
            "WRITEs with immediate go by the peer's engine, and SENDs for which it has told of no receive");
    else if (!*to)
        snprintf(to, size, "%s", qp->path_reason);
}

static void udp_reason(const struct fl_qp *qp, char *to, size_t size)
{
    snprintf(to, size, "%s%s", qp->path_reason,
             qp->qp.qp_type != IBV_QPT_RC || is_selective(qp)
                 ? ""
                 : "; go-back-N, since the two ends have not agreed on selective retransmission");
}

static void tell_path(const struct fl_qp *qp, struct fl_stats_qp *to)
{
    const char *name = qp->path->name;
    if (qp->link) {
        shm_how(qp, to);
        shm_reason(qp, to->reason, sizeof(to->reason));
    } else if (qp->qp.qp_type == IBV_QPT_UD ? qp->roce.state >= IBV_QPS_RTR : is_connected(qp)) {
        if (qp->qp.qp_type == IBV_QPT_RC)
            snprintf(to->how, sizeof(to->how), is_selective(qp) ? "selective" : "go-back-N");
        udp_reason(qp, to->reason, sizeof(to->reason));
    } else {
        name = "none";
        snprintf(to->reason, sizeof(to->reason), "not connected yet");
    }
    snprintf(to->path, sizeof(to->path), "%s", name);
}

void fl_stats_qp(const struct fl_qp *qp, struct fl_stats_qp *to)
{
    const struct fl_roce_qp *roce = &qp->roce;
    *to = (struct fl_stats_qp){
        .qpn = qp->qp.qp_num,
        .type = (uint32_t)qp->qp.qp_type,
        .state = (uint32_t)roce->state,
        .mtu = roce->mtu,
        .nr_sends = roce->req.tail - roce->req.head,
        .nr_recvs = qp->srq ? 0 : fl_roce_rq_left(roce->rq),
        .nr_ports = FL_MAX(roce->attr.nr_paths, 1),
        .rate = roce->cc.limited ? roce->cc.rate : 0,
    };
    snprintf(to->device, sizeof(to->device), "%s", qp->qp.context->device->name);
    if (is_connected(qp)) {
        to->peer_qpn = qp->attr.dest_qp_num;
        to->gid = qp->flow.sgid;
        to->peer_gid = qp->flow.dgid;
    }
    tell_path(qp, to);
    qp_counters(qp, to->counters);
}

/* It may have left shared memory since, but that is how its data went. */
static void tell_last_path(const struct fl_qp *qp, struct fl_stats_qp *to)
{
    if (qp->link || !qp->was_shm)
        return;
    strcpy(to->path, "shm");
    to->how[0] = 0;
    shm_how(qp, to);
    snprintf(to->reason, sizeof(to->reason), "no longer, since %s", qp->was_shm);
}

void fl_stats_qp_gone(struct fl_qp *qp)
{
    struct fl_device *device = fl_context_of(qp->qp.context)->device;
    struct fl_stats_qp last;
    fl_stats_qp(qp, &last);
    tell_last_path(qp, &last);
    fl_stats_gone_add(&last);
    for (int i = 0; i < FL_NR_QP_COUNTERS; i++)
        device->gone[i] += last.counters[i];
    qp->rnic->nr_qps_gone++;
}

/* ---- answers ---- */

static void answer_process(const struct fl_rnic *rnic, struct fl_stats_answer *answer)
{
    answer->nr = 1;
    answer->process.is_hub = fl_port_stats(rnic->port)->is_hub;
    answer->process.nr_qps = rnic->nr_qps;
    fl_stats_process(rnic, answer->process.counters);
}

static void answer_devices(uint32_t from, struct fl_stats_answer *answer)
{
    const struct fl_device *device;
    uint32_t index = 0;
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (device, fl_devices(), link) {
        struct fl_stats_device *to = &answer->devices[answer->nr];
        if (index++ < from)
            continue;
        if (answer->nr == FL_STATS_DEVICES_MAX) {
            answer->next = index - 1;
            break;
        }
        memcpy(to->name, device->device.name, sizeof(to->name));
        memcpy(to->ifname, device->ifname, sizeof(to->ifname));
        memcpy(to->gone, device->gone, sizeof(to->gone));
        answer->nr++;
    }
    pthread_mutex_unlock(&fl_devices_lock);
}

static void answer_qps(const struct fl_rnic *rnic, uint32_t from, struct fl_stats_answer *answer)
{
    uint32_t qpn = from, nr_looks = 0;
    while (qpn <= FL_IB_QPN_MASK && answer->nr < FL_STATS_QPS_MAX && nr_looks < LOOK_MAX) {
        struct fl_qp *const *row = rnic->qps.at[qpn >> 12];
        const struct fl_qp *qp = row ? row[qpn & 0xfff] : NULL;
        if (qp)
            fl_stats_qp(qp, &answer->qps[answer->nr++]);
        qpn = row ? qpn + 1 : (qpn | 0xfff) + 1;
        nr_looks++;
    }
    answer->next = qpn <= FL_IB_QPN_MASK ? qpn : 0;
}

void fl_stats_answer(void *arg, const struct fl_stats_ask *ask, struct fl_stats_answer *answer)
{
    struct fl_rnic *rnic = arg;
    fl_rnic_lock(rnic);
    switch (ask->what) {
    case FL_STATS_PROCESS:
        answer_process(rnic, answer);
        break;
    case FL_STATS_DEVICES:
        answer_devices(ask->from, answer);
        break;
    case FL_STATS_QPS:
        answer_qps(rnic, ask->from, answer);
        break;
    default:
        answer->status = -EOPNOTSUPP;
    }
    answer->nr_gone = rnic->nr_qps_gone;
    fl_rnic_unlock(rnic);
}

/* ---- start and end ---- */

void fl_stats_start(struct fl_rnic *rnic)
{
    char address[FL_STATS_ADDRESS_LEN];
    fl_stats_address(fl_port_address(rnic->port), address);
    int r = fl_stats_server_open(address, fl_stats_answer, rnic, &rnic->asked);
    if (r)
        FL_DEBUG("farlane rnic will not see this process's queue pairs: %s", strerror(-r));
}

void fl_stats_stop(struct fl_rnic *rnic)
{
    uint64_t counters[FL_NR_PROCESS_COUNTERS];
    fl_stats_server_close(rnic->asked);
    rnic->asked = NULL;
    fl_stats_process(rnic, counters);
    for (int i = 0; i < FL_NR_PROCESS_COUNTERS; i++)
        past.counters[i] += counters[i];
    past.any = true;
}

void fl_stats_forget(struct fl_rnic *rnic)
{
    fl_stats_server_forget(rnic->asked);
}

void fl_stats_forget_past(void)
{
    memset(&past, 0, sizeof(past));
    fl_stats_gone_forget();
}

bool fl_stats_past(uint64_t counters[FL_NR_PROCESS_COUNTERS])
{
    memcpy(counters, past.counters, sizeof(past.counters));
    return past.any;
}
