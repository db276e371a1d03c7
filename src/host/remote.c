/* SPDX-License-Identifier: Apache-2.0 */
/* Remote namespaces and subsystems as devices: opening, closing, looking at them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/remote.h"
#include "host/service.h"
#include "host/status.h"
#include "wire/nvme.h"

#define DEF_QUEUES 128

static uint32_t or_default(uint32_t value, uint32_t dflt)
{
    return value ? value : dflt;
}

static void take_options(struct fl_remote *r, const struct fl_url *url, const struct fl_device_options *o)
{
    r->hdgst = o->hdgst || url->hdgst;
    r->ddgst = o->ddgst || url->ddgst;
    r->no_reconnect = o->no_reconnect;
    r->connect_timeout_ms = or_default(o->connect_timeout_ms, 5000);
    r->loss_timeout_ms = or_default(o->loss_timeout_ms, 600000);
    r->fast_fail_ms = or_default(o->fast_fail_ms, UINT32_MAX);
    r->reconnect_delay_ms = or_default(o->reconnect_delay_ms, 2000);
    r->io_timeout_ms = or_default(o->io_timeout_ms, 30000);
    r->kato_ms = or_default(o->kato_ms, url->kato_ms);
    if (!r->kato_ms && !r->discovery)
        r->kato_ms = 15000;
    r->want_nsid = url->nsid;
    r->want_queues = FL_MIN(or_default(url->nr_queues, DEF_QUEUES), (uint32_t)FL_REMOTE_MAX_QUEUES);
    r->want_entries = url->depth;
}

static int resolve(struct fl_remote *r, const struct fl_url *url, struct fl_error *err)
{
    char text[FL_HOST_LEN + 16];
    uint16_t port = (uint16_t)atoi(url->port);
    int n;

    snprintf(text, sizeof(text), strchr(url->host, ':') ? "[%s]" : "%s", url->host);
    n = fl_addr_resolve(text, port, r->addrs, FL_DIAL_MAX_ADDRS, err);
    if (n < 0)
        return n;
    r->nr_addrs = (uint32_t)n;
    return 0;
}

static struct fl_remote *create(const struct fl_url *url, const struct fl_device_options *o, bool subsystem)
{
    struct fl_remote *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->subsystem = subsystem;
    snprintf(r->subnqn, sizeof(r->subnqn), "%s", url->nqn[0] ? url->nqn : FL_NQN_DISCOVERY);
    r->discovery = fl_nqn_is_discovery(r->subnqn);
    snprintf(r->name, sizeof(r->name), "%s at %s port %s", r->subnqn, url->host, url->port);
    take_options(r, url, o);
    pthread_mutex_init(&r->lock, NULL);
    fl_list_init(&r->queues);
    fl_list_init(&r->calls_waiting);
    sem_init(&r->opened, 0, 0);
    sem_init(&r->closed, 0, 0);
    r->seq_again_ns = r->seq_deadline_ns = r->keep_alive_ns = UINT64_MAX;
    r->link.fd = -1;
    for (uint32_t i = 0; i < FL_ADMIN_NR; i++)
        fl_list_init(&r->reqs[i].link);
    return r;
}

static void destroy(struct fl_remote *r)
{
    fl_pollset_fini(&r->pollset);
    sem_destroy(&r->opened);
    sem_destroy(&r->closed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) < 0)
        ;
}

/* What RDMA does not have. */
static int check_rdma(const struct fl_url *url, const struct fl_device_options *o, struct fl_error *err)
{
    if (url->hdgst || url->ddgst || o->hdgst || o->ddgst)
        return fl_error_set(err, -EINVAL, "digests are TCP's: RDMA has checksums of its own");
    return 0;
}

/* What an attempt to open goes by, and what is told of it. */
struct way {
    bool rdma;
    const char *dev;
    bool reached; /* it failed, but not for want of a connection */
    const char *fallback_why;
};

static void set_way(struct fl_remote *r, const struct way *way)
{
    r->rdma = way->rdma;
    r->base.ops = r->rdma ? &fl_rdma_device_ops : &fl_remote_device_ops;
    snprintf(r->dev, sizeof(r->dev), "%s", way->dev ? way->dev : "");
    snprintf(r->fallback_why, sizeof(r->fallback_why), "%s", way->fallback_why ? way->fallback_why : "");
}

static int open_by(struct way *way, const struct fl_url *url, const struct fl_device_options *o,
                   bool subsystem, struct fl_device **dev, struct fl_error *err)
{
    struct fl_remote *r = create(url, o, subsystem);
    int code;

    way->reached = true;
    if (!r)
        return fl_error_set(err, -ENOMEM, "out of memory");
    set_way(r, way);
    code = fl_pollset_init(&r->pollset);
    if (code < 0)
        fl_error_set(err, code, "epoll: %s", strerror(-code));
    if (code == 0)
        code = fl_host_identity(o->hostnqn ? o->hostnqn : url->hostnqn, o->hostid, &r->who, err);
    if (code == 0)
        code = resolve(r, url, err);
    if (code < 0)
        goto destroy_remote;
    code = fl_service_get(&r->loop);
    if (code < 0) {
        fl_error_set(err, code, "the service thread: %s", strerror(-code));
        goto destroy_remote;
    }
    r->open_err = err;
    r->open_msg.run = fl_remote_start_open;
    fl_loop_post(r->loop, &r->open_msg);
    wait_for(&r->opened);
    if (r->open_code < 0) {
        code = r->open_code;
        way->reached = r->reached;
        goto put_service;
    }
    *dev = &r->base;
    return 0;

put_service:
    fl_service_put();
destroy_remote:
    destroy(r);
    return code;
}

static void remote_close(struct fl_device *dev)
{
    struct fl_remote *r = fl_remote_of(dev);

    r->close_msg.run = fl_remote_start_close;
    fl_loop_post(r->loop, &r->close_msg);
    wait_for(&r->closed);
    fl_service_put();
    destroy(r);
}

static const char *required_text(enum fl_require require)
{
    return require == FL_REQUIRE_HARDWARE ? "RDMA by hardware" : "RDMA";
}

/* Not where no packet of any kind gets there, nor where the user named a device that is not there. */
static bool tcp_may_help(const struct fl_url *url, int code)
{
    return code != -ENETUNREACH && code != -EADDRNOTAVAIL && !(url->dev[0] && code == -ENODEV);
}

/* There is no RDMA to the target, and nothing else was tried yet. */
static int without_rdma(const struct fl_url *url, const struct fl_device_options *o, bool subsystem, int code,
                        const struct fl_error *why, struct fl_device **dev, struct fl_error *err)
{
    struct way way = {.fallback_why = why->text};

    if (o->require)
        return fl_error_set(err, -EPFNOSUPPORT, "%s is required and cannot be had: %s%s",
                            required_text(o->require), why->text,
                            url->fallback_tcp ? "; the TCP that fallback=tcp allows is less than that" : "");
    if (!url->fallback_tcp && !tcp_may_help(url, code))
        return fl_error_set(err, code, "%s", why->text);
    if (!url->fallback_tcp)
        return fl_error_set(err, code,
                            "%s; if the target serves TCP, write nvme+tcp://, or allow it by fallback=tcp in "
                            "the URL",
                            why->text);
    FL_WARN("%s: going by TCP, as fallback=tcp allows, since RDMA cannot be had: %s", url->host, why->text);
    return open_by(&way, url, o, subsystem, dev, err);
}

static int open_by_rdma(const struct fl_url *url, const struct fl_device_options *o, bool subsystem,
                        struct fl_device **dev, struct fl_error *err)
{
    bool any = !url->dev[0] || !strcmp(url->dev, "auto");
    struct way way = {.rdma = true, .dev = any && o->require == FL_REQUIRE_HARDWARE ? "hardware" : url->dev};
    struct fl_error why = {0};
    int code = check_rdma(url, o, err);

    if (code < 0)
        return code;
    code = open_by(&way, url, o, subsystem, dev, &why);
    if (code < 0 && way.reached)
        return fl_error_set(err, code, "%s", why.text);
    if (code < 0)
        return without_rdma(url, o, subsystem, code, &why, dev, err);
    if (o->require == FL_REQUIRE_HARDWARE && fl_remote_of(*dev)->taken.path != FL_PATH_HARDWARE) {
        remote_close(*dev);
        return fl_error_set(err, -EPFNOSUPPORT,
                            "RDMA by hardware is required, and dev=%s is the software RNIC: leave dev away",
                            url->dev);
    }
    return 0;
}

static int remote_open(const struct fl_url *url, const struct fl_device_options *o, bool subsystem,
                       struct fl_device **dev, struct fl_error *err)
{
    struct way tcp = {0};

    if (!subsystem && (!url->nqn[0] || fl_nqn_is_discovery(url->nqn)))
        return fl_error_set(err, -EINVAL,
                            "the URL names a discovery service, not a namespace: add /NQN, or use discover");
    if (url->kind == FL_URL_NVME_RDMA)
        return open_by_rdma(url, o, subsystem, dev, err);
    if (o->require)
        return fl_error_set(
            err, -EPFNOSUPPORT,
            "%s is required, and this URL goes by TCP: write nvme+rdma:// if the target serves "
            "that, or require less",
            required_text(o->require));
    return open_by(&tcp, url, o, subsystem, dev, err);
}

/* "reconnecting: attempt 3 of 30, next in 2 s" */
static void state_text(const struct fl_remote *r, char *text, size_t cap)
{
    uint64_t now = fl_now_ns();
    uint32_t next_s = r->next_attempt_ns > now ? (uint32_t)((r->next_attempt_ns - now) / FL_NS_PER_S) + 1 : 0;
    char of[24] = "", next[32] = "";

    switch (r->state) {
    case FL_REMOTE_OPENING:
        snprintf(text, cap, "connecting");
        break;
    case FL_REMOTE_LIVE:
        snprintf(text, cap, "live");
        break;
    case FL_REMOTE_LOST:
        snprintf(text, cap, "lost");
        break;
    case FL_REMOTE_DOWN:
        if (r->loss_timeout_ms != UINT32_MAX)
            snprintf(of, sizeof(of), " of %u", r->loss_timeout_ms / r->reconnect_delay_ms + 1);
        if (next_s)
            snprintf(next, sizeof(next), ", next in %u s", next_s);
        snprintf(text, cap, "reconnecting: attempt %u%s%s", r->attempt, of, next);
        break;
    }
}

static void path_info(const struct fl_remote *r, struct fl_taken *taken, struct fl_device_info *info)
{
    snprintf(info->path, sizeof(info->path), "%s", fl_path_name(taken->path));
    snprintf(info->rdma_device, sizeof(info->rdma_device), "%s", taken->device);
    info->path_settling = taken->settling;
    info->target_pid = taken->peer_pid;
    if (r->rdma)
        snprintf(info->path_why, sizeof(info->path_why), "%s", taken->why);
    else if (*r->fallback_why)
        snprintf(info->path_why, sizeof(info->path_why), "RDMA cannot be had: %s", r->fallback_why);
    else
        snprintf(info->path_why, sizeof(info->path_why), "the URL asks for TCP");
}

static void remote_info(struct fl_device *dev, struct fl_device_info *info)
{
    struct fl_remote *r = fl_remote_of(dev);
    const struct fl_remote_facts *f = &r->facts;
    struct fl_taken taken;

    pthread_mutex_lock(&r->lock);
    snprintf(info->subnqn, sizeof(info->subnqn), "%s", r->subnqn);
    memcpy(info->model, f->model, sizeof(info->model));
    memcpy(info->serial, f->serial, sizeof(info->serial));
    memcpy(info->firmware, f->firmware, sizeof(info->firmware));
    info->nsid = f->nsid;
    info->read_only = f->read_only;
    info->max_transfer_len = f->max_xfer;
    info->max_queues = f->nr_queues;
    info->max_depth = f->nr_entries - 1;
    if (f->max_cmds)
        info->max_depth = FL_MIN(info->max_depth, f->max_cmds);
    if (r->want_entries > 1) /* as the URL has it */
        info->max_depth = FL_MIN(info->max_depth, r->want_entries - 1);
    info->volatile_cache = f->volatile_cache;
    info->hdgst = r->hdgst;
    info->ddgst = r->ddgst;
    memcpy(info->uuid, f->uuid, sizeof(info->uuid));
    state_text(r, info->state, sizeof(info->state));
    memcpy(info->reason, r->reason, sizeof(info->reason));
    info->reason_code = r->reason_code;
    taken = r->taken;
    fl_taken_again(&taken);
    fl_remote_queues_taken(r, &taken);
    pthread_mutex_unlock(&r->lock);
    path_info(r, &taken, info);
}

static void remote_on_change(struct fl_device *dev, void (*changed)(struct fl_device *dev, void *arg),
                             void *arg)
{
    struct fl_remote *r = fl_remote_of(dev);

    pthread_mutex_lock(&r->lock);
    r->changed = changed;
    r->changed_arg = arg;
    pthread_mutex_unlock(&r->lock);
}

static int remote_admin(struct fl_device *dev, const void *sqe64, void *data, uint32_t data_len, bool to_host,
                        uint64_t *result, uint16_t *nvme_status, struct fl_error *err)
{
    struct fl_remote *r = fl_remote_of(dev);
    struct fl_nvme_cqe cqe;
    struct fl_nvme_sqe sqe;
    fl_nvme_status status;
    uint32_t max;
    int code;

    pthread_mutex_lock(&r->lock);
    max = r->facts.max_xfer;
    pthread_mutex_unlock(&r->lock);
    if (data_len > max)
        return fl_error_set(err, -EMSGSIZE,
                            "admin command with %u bytes of data: the controller takes %u at most", data_len,
                            max);
    memcpy(&sqe, sqe64, sizeof(sqe));
    code = fl_admin_call(r, &sqe, data, data_len, to_host, &cqe, err);
    if (code < 0)
        return code;
    status = fl_nvme_cqe_status(&cqe);
    if (result)
        *result = le32_get(cqe.dw0) | (uint64_t)le32_get(cqe.dw1) << 32;
    if (nvme_status)
        *nvme_status = status;
    if (status)
        return fl_error_set(err, -EREMOTEIO, "%s: %s (status %xh)", fl_nvme_opcode_text(true, sqe.opcode),
                            fl_nvme_status_text(status), fl_nvme_status_code(status));
    return 0;
}

static int remote_namespaces(struct fl_device *dev, uint32_t *nsids, uint32_t max, struct fl_error *err)
{
    struct fl_nvme_ns_list *list = malloc(sizeof(*list));
    struct fl_nvme_sqe sqe = {.opcode = FL_NVME_ADM_IDENTIFY, .cdw10 = le32_of(FL_NVME_CNS_NS_ACTIVE_LIST)};
    uint32_t nr = 0, last = 0;
    bool more = true;
    int r = 0;

    if (!list)
        return fl_error_set(err, -ENOMEM, "out of memory");
    while (more && nr < max) {
        uint32_t i;

        sqe.nsid = le32_of(last);
        r = remote_admin(dev, &sqe, list, sizeof(*list), true, NULL, NULL, err);
        if (r < 0)
            break;
        for (i = 0; i < FL_NVME_NS_LIST_MAX && nr < max && le32_get(list->nsid[i]); i++) {
            if (le32_get(list->nsid[i]) <= last) { /* else a wrong list could keep us here for ever */
                r = fl_error_set(err, -EPROTO,
                                 "the controller's list of namespaces is not in ascending order");
                break;
            }
            nsids[nr++] = last = le32_get(list->nsid[i]);
        }
        more = i == FL_NVME_NS_LIST_MAX;
        if (r < 0)
            break;
    }
    free(list);
    return r < 0 ? r : (int)nr;
}

#define REMOTE_OPS(name)                                                                              \
    {                                                                                                 \
        .transport = (name), .open = remote_open, .close = remote_close, .info = remote_info,         \
        .on_change = remote_on_change, .queue_create = fl_remote_queue_create, .admin = remote_admin, \
        .namespaces = remote_namespaces,                                                              \
    }

const struct fl_device_ops fl_remote_device_ops = REMOTE_OPS("tcp");
const struct fl_device_ops fl_rdma_device_ops = REMOTE_OPS("rdma");
