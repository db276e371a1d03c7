/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners, each of them a port of the NVM subsystems:
 *     waiting    for an address, its name or an RDMA device that is not here yet: tried again each second
 *     listening
 *     failed     another reason, which may pass (somebody else has the port): tried again every 2 seconds
 *     closed     taken away; freed when its last connection has ended
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "target/core.h"

#define WAIT_NS         FL_NS_PER_S
#define FAIL_NS         (5 * FL_NS_PER_S)
#define MAX_PORTS       256u
#define DEFAULT_CAPSULE 8192u

/* What may follow ADDR[:PORT]: "?dev=NAME", of RDMA only. */
static int parse_query(const char *text, const char *query, struct fl_listener_spec *spec,
                       struct fl_error *err)
{
    if (strcmp(spec->transport, "rdma"))
        return fl_error_set(err, -EINVAL, "'%s': %s listeners take no options", text, spec->transport);
    if (strncmp(query, "?dev=", 5) || !query[5] || query[5 + strcspn(query + 5, "?&=,")])
        return fl_error_set(err, -EINVAL, "'%s': the one option is ?dev=auto|soft|hardware|NAME", text);
    if ((size_t)snprintf(spec->dev, sizeof(spec->dev), "%s", query + 5) >= sizeof(spec->dev))
        return fl_error_set(err, -EINVAL, "'%s': no device has so long a name", text);
    return 0;
}

int fl_listener_spec_parse(const char *text, struct fl_listener_spec *spec, struct fl_error *err)
{
    const char *sep = strstr(text, "://"), *query = strchrnul(text, '?');
    char address[FL_HOST_LEN + 16], host[FL_HOST_LEN];
    int port, r;

    memset(spec, 0, sizeof(*spec));
    spec->hdgst = spec->ddgst = true;
    if (!sep || sep == text || (size_t)(sep - text) >= sizeof(spec->transport))
        return fl_error_set(err, -EINVAL,
                            "'%s' is not a listener: write tcp://ADDRESS[:PORT] or rdma://ADDRESS[:PORT]",
                            text);
    memcpy(spec->transport, text, (size_t)(sep - text));
    if (!fl_transport_find(spec->transport))
        return fl_error_set(err, -EPROTONOSUPPORT, "'%s': there is no transport '%s', only tcp and rdma",
                            text, spec->transport);
    if (query - (sep + 3) < 0 || (size_t)(query - (sep + 3)) >= sizeof(address))
        return fl_error_set(err, -EINVAL, "'%s': the address is too long", text);
    snprintf(address, sizeof(address), "%.*s", (int)(query - (sep + 3)), sep + 3);
    r = *query ? parse_query(text, query, spec, err) : 0;
    if (r == 0)
        r = fl_addr_split(address, host, sizeof(host), &port, err);
    if (r < 0)
        return r;
    snprintf(spec->host, sizeof(spec->host), "%s", host);
    snprintf(spec->port, sizeof(spec->port), "%u",
             (uint16_t)(port < 0 ? FL_URL_DEFAULT_PORT : port)); /* 0: any that is free */
    return 0;
}

static const char *state_text(enum fl_tport_state state, bool for_device)
{
    switch (state) {
    case FL_PORT_WAITING:
        return for_device ? "waiting for device" : "waiting for address";
    case FL_PORT_LISTENING:
        return "listening";
    case FL_PORT_FAILED:
        return "failed";
    case FL_PORT_CLOSED:
        break;
    }
    return "closed";
}

void fl_tport_info(const struct fl_tport *port, struct fl_listener_info *info)
{
    char addr[FL_ADDR_TEXT_LEN];

    memset(info, 0, sizeof(*info));
    info->id = port->id;
    info->state = state_text(port->state, port->for_device);
    info->reason = port->reason;
    info->nr_connections = port->nr_queues;
    if (port->addr.len)
        snprintf(info->url, sizeof(info->url), "%s://%s", port->spec.transport,
                 fl_addr_format(&port->addr, addr));
    else
        snprintf(info->url, sizeof(info->url), strchr(port->spec.host, ':') ? "%s://[%s]:%s" : "%s://%s:%s",
                 port->spec.transport, port->spec.host, port->spec.port);
}

static int resolve(struct fl_tport *port, struct fl_error *err)
{
    char text[FL_HOST_LEN + 16];
    int r;

    if (port->addr.len)
        return 0;
    snprintf(text, sizeof(text), strchr(port->spec.host, ':') ? "[%s]:%s" : "%s:%s", port->spec.host,
             port->spec.port);
    r = fl_addr_resolve(text, FL_URL_DEFAULT_PORT, &port->addr, 1, err);
    if (r < 1) {
        memset(&port->addr, 0, sizeof(port->addr));
        return r < 0 ? r : -EADDRNOTAVAIL;
    }
    fl_addr_set_port(&port->addr, (uint16_t)atoi(port->spec.port));
    return 0;
}

uint32_t fl_tport_capsule_len(const struct fl_tport *port)
{
    const struct fl_transport *t = port->transport;
    int64_t len = port->target->options.capsule_len;

    if (len < 0)
        len = FL_MIN(t->capsule_len ? t->capsule_len : DEFAULT_CAPSULE, port->target->options.mdts_len);
    return t->most_capsule_len ? (uint32_t)FL_MIN(len, (int64_t)t->most_capsule_len) : (uint32_t)len;
}

static int try_listen(struct fl_tport *port, struct fl_error *err)
{
    struct fl_target *target = port->target;
    struct fl_listen_options o = {
        .loop = target->loop,
        .pool = target->admin_pool,
        .handler = &fl_target_handler,
        .listener_user = port,
        .hdgst = port->spec.hdgst,
        .ddgst = port->spec.ddgst,
        .capsule_len = fl_tport_capsule_len(port),
        .dev = port->spec.dev,
        .shared_recv = target->options.shared_recv,
    };
    int r = resolve(port, err);

    if (r < 0)
        return r;
    o.addr = port->addr;
    r = port->transport->listen(&o, &port->listener, err);
    if (r < 0)
        return r;
    port->transport->listener_addr(port->listener, &port->addr);
    port->state = FL_PORT_LISTENING;
    port->reason[0] = 0;
    fl_aer_discovery_changed(target);
    return 0;
}

/* Whether an interface has it: only such an address can be bound. */
static bool is_here(const struct fl_addr *addr)
{
    struct fl_addr any_port = *addr;
    bool here;
    int fd;

    if (!addr->len)
        return false;
    fl_addr_set_port(&any_port, 0);
    fd = socket(addr->ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    here = fd >= 0 && bind(fd, (const struct sockaddr *)&any_port.ss, any_port.len) == 0;
    if (fd >= 0)
        close(fd);
    return here;
}

static void set_retry(struct fl_tport *port, int error, const struct fl_error *err)
{
    bool waiting = error == -EADDRNOTAVAIL || error == -ENODEV || error == -EAGAIN;
    bool for_device = waiting && !strcmp(port->spec.transport, "rdma") && is_here(&port->addr);
    enum fl_tport_state state = waiting ? FL_PORT_WAITING : FL_PORT_FAILED;

    if (port->state != state || port->for_device != for_device || strcmp(port->reason, err->text))
        FL_WARN("listener %s://%s:%s: %s (%s; tried again)", port->spec.transport, port->spec.host,
                port->spec.port, err->text, state_text(state, for_device));
    port->state = state;
    port->for_device = for_device;
    snprintf(port->reason, sizeof(port->reason), "%.*s", (int)sizeof(port->reason) - 1, err->text);
    fl_timer_set(port->target->loop, &port->retry,
                 fl_loop_now(port->target->loop) + (waiting ? WAIT_NS : FAIL_NS));
}

static void retry(struct fl_timer *timer)
{
    struct fl_tport *port = FL_CONTAINER_OF(timer, struct fl_tport, retry);
    struct fl_error err = {0};
    int r = try_listen(port, &err);

    if (r < 0)
        set_retry(port, r, &err);
}

/* ---- clashes ---- */

static bool same_spec(const struct fl_tport *port, const struct fl_listener_spec *spec)
{
    return !strcmp(port->spec.transport, spec->transport) && !strcmp(port->spec.host, spec->host) &&
           !strcmp(port->spec.port, spec->port);
}

/* TCP and RDMA may share a number: they are different protocols. Port 0 is a new one each time. */
static int check_clash(struct fl_target *target, const struct fl_listener_spec *spec,
                       const struct fl_addr *addr, struct fl_error *err)
{
    struct fl_tport *port;
    struct fl_listener_info info;

    if (!strcmp(spec->port, "0"))
        return 0;
    fl_list_for_each (port, &target->ports, link) {
        bool same = same_spec(port, spec) ||
                    (addr->len && port->addr.len && fl_addr_equal(&port->addr, addr));

        if (port->state == FL_PORT_CLOSED || strcmp(port->spec.transport, spec->transport))
            continue;
        fl_tport_info(port, &info);
        if (same && port->spec.hdgst == spec->hdgst && port->spec.ddgst == spec->ddgst &&
            !strcmp(port->spec.dev, spec->dev))
            return fl_error_set(err, -EEXIST, "%s is there already (listener %u)", info.url, port->id);
        if (same)
            return fl_error_set(err, -EADDRINUSE,
                                "%s is there already (listener %u) with other options; remove it first",
                                info.url, port->id);
        if (addr->len && port->addr.len && fl_addr_port(addr) == fl_addr_port(&port->addr) &&
            addr->ss.ss_family == port->addr.ss.ss_family &&
            (fl_addr_is_any(addr) || fl_addr_is_any(&port->addr)))
            return fl_error_set(err, -EADDRINUSE, "listener %u (%s) has port %u on %s; take another port",
                                port->id, info.url, fl_addr_port(addr),
                                fl_addr_is_any(addr) ? "an address of this machine" : "all addresses");
    }
    return 0;
}

int fl_target_listen(struct fl_target *target, const struct fl_listener_spec *spec, uint32_t *id,
                     struct fl_error *err)
{
    const struct fl_transport *transport = target->transport ? target->transport
                                                             : fl_transport_find(spec->transport);
    struct fl_error why = {0};
    struct fl_tport *port;
    uint32_t ana_len = FL_ANA_GROUPS + 1, nr = 0;
    int r;

    fl_list_for_each (port, &target->ports, link)
        nr++;
    if (nr >= MAX_PORTS)
        return fl_error_set(err, -ENOSPC, "there are %u listeners, the most that there can be", nr);
    if (!transport)
        return fl_error_set(err, -EPROTONOSUPPORT, "there is no transport '%s'", spec->transport);
    port = calloc(1, sizeof(*port));
    if (!port)
        return fl_error_set(err, -ENOMEM, "no memory for a listener");
    port->worker_ana = malloc(ana_len * target->nr_workers);
    if (!port->worker_ana) {
        free(port);
        return fl_error_set(err, -ENOMEM, "no memory for a listener");
    }
    port->target = target;
    port->spec = *spec;
    port->transport = transport;
    port->retry.expired = retry;
    memset(port->ana, FL_NVME_ANA_OPTIMIZED, sizeof(port->ana));
    memset(port->worker_ana, FL_NVME_ANA_OPTIMIZED, ana_len * target->nr_workers);
    r = resolve(port, &why);
    if (!r || !spec->strict) {
        int clash = check_clash(target, spec, &port->addr, err);

        if (clash < 0) {
            r = clash;
            goto free;
        }
    }
    if (!r)
        r = try_listen(port, &why);
    if (r < 0 && (spec->strict || target->stopping || (r == -EADDRINUSE && spec->exclusive) ||
                  (r != -EADDRNOTAVAIL && r != -EAGAIN && r != -EADDRINUSE && r != -ENODEV))) {
        fl_error_set(err, r, "%s", why.text);
        goto free;
    }
    port->id = ++target->last_port_id;
    fl_list_init(&port->link);
    fl_list_add_tail(&target->ports, &port->link);
    if (r < 0)
        set_retry(port, r, &why);
    if (id)
        *id = port->id;
    return 0;

free:
    free(port->worker_ana);
    free(port);
    return r;
}

static void port_freed(struct fl_round *round)
{
    struct fl_tport *port = round->arg[0];

    free(port->worker_ana);
    free(port);
}

static void ack_only(struct fl_round_leg *leg)
{
    fl_round_ack(leg);
}

/* Behind whatever was sent to the workers about the port before. */
void fl_tport_put(struct fl_tport *port)
{
    struct fl_round *round;

    if (port->nr_queues || port->state != FL_PORT_CLOSED)
        return;
    round = fl_round_new(port->target, ack_only, port_freed);
    if (!round)
        return;
    fl_list_del(&port->link);
    round->arg[0] = port;
    fl_round_start(round);
}

static void close_port(struct fl_tport *port)
{
    fl_timer_cancel(&port->retry);
    if (port->listener)
        port->transport->unlisten(port->listener);
    port->listener = NULL;
    port->state = FL_PORT_CLOSED;
    fl_tport_put(port);
}

void fl_tport_close_all(struct fl_target *target)
{
    struct fl_tport *port, *next;

    fl_list_for_each_safe (port, next, &target->ports, link)
        if (port->state != FL_PORT_CLOSED)
            close_port(port);
}

static struct fl_tport *find_port(struct fl_target *target, uint32_t id, struct fl_error *err)
{
    struct fl_tport *port;

    fl_list_for_each (port, &target->ports, link)
        if (port->id == id && port->state != FL_PORT_CLOSED)
            return port;
    fl_error_set(err, -ENOENT, "there is no listener %u", id);
    return NULL;
}

int fl_target_unlisten(struct fl_target *target, uint32_t id, struct fl_error *err)
{
    struct fl_tport *port = find_port(target, id, err);

    if (!port)
        return -ENOENT;
    close_port(port);
    fl_aer_discovery_changed(target);
    return 0;
}
