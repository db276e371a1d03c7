/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at the target: for the control socket, metrics and tests. Runs on the control loop. */
#include "target/core.h"

static void visit_queue(struct fl_tctrl *ctrl, struct fl_tqueue *q, const struct fl_target_visitor *v,
                        void *arg)
{
    struct fl_queue_info info = {
        .cntlid = ctrl->cntlid,
        .qid = q->qid,
        .loop = q->worker->index,
        .depth_asked = q->depth_asked,
        .depth = q->depth,
        .in_flight = FL_PEEK(q->nr_in_flight),
    };

    fl_io_counters_add(&info.io, &q->io);

    /* The connection belongs to another loop, which takes this lock before it lets it go. */
    pthread_mutex_lock(&q->lock);
    if (q->conn)
        fl_conn_info(q->conn, &info.conn);
    pthread_mutex_unlock(&q->lock);
    v->queue(arg, &info);
}

static void visit_controller(struct fl_tctrl *ctrl, const struct fl_target_visitor *v, void *arg)
{
    struct fl_controller_info info = {
        .cntlid = ctrl->cntlid,
        .ss_nqn = ctrl->ss->nqn,
        .hostnqn = ctrl->hostnqn,
        .state = ctrl->dying                     ? "ending"
                 : ctrl->csts & FL_NVME_CSTS_CFS ? "failed"
                 : fl_tctrl_ready(ctrl)          ? "ready"
                                                 : "disabled",
        .kato_ms = ctrl->kato_ms,
        .nr_io_queues = ctrl->nr_io_queues,
        .queues_asked = ctrl->queues_asked,
        .queues_granted = ctrl->queues_granted,
        .discovery = ctrl->ss->discovery,
    };

    memcpy(info.hostid, ctrl->hostid, sizeof(info.hostid));
    if (v->controller)
        v->controller(arg, &info);
    if (!v->queue)
        return;
    if (ctrl->admin)
        visit_queue(ctrl, ctrl->admin, v, arg);
    for (uint32_t qid = 1; qid <= ctrl->target->options.max_queues; qid++)
        if (ctrl->queues[qid])
            visit_queue(ctrl, ctrl->queues[qid], v, arg);
}

static void visit_namespaces(struct fl_subsystem *ss, const struct fl_target_visitor *v, void *arg)
{
    for (uint32_t nsid = 1; ss->nr_ns && nsid <= FL_NSID_MAX; nsid++) {
        struct fl_tns *ns = ss->ns[nsid];
        struct fl_namespace_info info;

        if (!ns)
            continue;
        info = (struct fl_namespace_info){
            .ss_nqn = ss->nqn,
            .spec = ns->spec,
            .backend = ns->be->ops->kind,
            .state = ns->state == FL_NS_ACTIVE    ? "active"
                     : ns->state == FL_NS_OPENING ? "opening"
                                                  : "removing",
            .nsid = nsid,
            .block_len = ns->be->block_len,
            .ana_group = ns->ana_group,
            .len = ns->len,
            .reserved = ns->resv.type != FL_NVME_RESV_NONE,
        };
        memcpy(info.uuid, ns->uuid, sizeof(info.uuid));
        fl_tns_counters(ns, &info.io);
        v->ns(arg, &info);
    }
}

static void visit_subsystem(struct fl_subsystem *ss, const struct fl_target_visitor *v, void *arg)
{
    struct fl_subsystem_info info = {
        .nqn = ss->nqn,
        .serial = ss->serial,
        .model = ss->model,
        .allow_any_host = ss->allow_any_host,
        .discovery = ss->discovery,
    };
    struct fl_host_entry *host;

    if (v->subsystem)
        v->subsystem(arg, &info);
    if (v->ns)
        visit_namespaces(ss, v, arg);
    if (v->host)
        fl_list_for_each (host, &ss->hosts, link)
            v->host(arg, ss->nqn, host->nqn);
}

void fl_target_visit(struct fl_target *target, const struct fl_target_visitor *v, void *arg)
{
    struct fl_subsystem *ss;
    struct fl_tport *port;
    struct fl_tctrl *ctrl;

    fl_list_for_each (ss, &target->subsystems, link)
        if (!ss->removing)
            visit_subsystem(ss, v, arg);
    fl_list_for_each (port, &target->ports, link) {
        struct fl_listener_info info;

        if (!v->listener || port->state == FL_PORT_CLOSED)
            continue;
        fl_tport_info(port, &info);
        v->listener(arg, &info);
    }
    if (v->controller || v->queue)
        fl_list_for_each (ctrl, &target->controllers, link)
            visit_controller(ctrl, v, arg);
    for (uint32_t i = 0; v->loop && i < target->nr_workers; i++) {
        struct fl_loop_info info = {
            .index = i,
            .busy_ns = fl_loop_busy_ns(target->workers[i].loop),
            .nr_connections = target->workers[i].nr_queues,
        };

        fl_pool_stats(target->workers[i].pool, &info.pool);
        v->loop(arg, &info);
    }
}
