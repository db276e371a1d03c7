/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Port numbers of the port spaces. Among the ids of this process the rules are those of the kernel's
 * connection manager; between processes the hub gives each port to one.
 */
#include <stdlib.h>
#include <time.h>

#include "rnic/cma/parts.h"

#define EPHEMERAL_FIRST 32768u
#define KEPT_NS         (2 * FL_NS_PER_S) /* as long as the engine waits for a listener to come back */
#define EPHEMERAL_NR    28232u            /* up to 60999, as the kernel's default for TCP */

static uint64_t service_of(const struct fl_cma_id *id, uint16_t port)
{
    return fl_cm_service_id((enum fl_cm_port_space)(id->id.ps & 0xff), port);
}

static struct fl_list *bucket_of(struct fl_cma *cma, uint64_t service_id)
{
    return &cma->ports[service_id % FL_CMA_PORT_BUCKETS];
}

static struct fl_cma_port *find(struct fl_cma *cma, uint64_t service_id)
{
    struct fl_cma_port *port;
    fl_list_for_each (port, bucket_of(cma, service_id), link) {
        if (port->service_id == service_id)
            return port;
    }
    return NULL;
}

enum { IP4 = 1, IP6 = 2 };

/* :: is every address of either kind, unless it is told not to be. */
static int kinds_of(const struct sockaddr *addr, bool afonly)
{
    struct in6_addr gid;
    fl_cma_gid_of(addr, &gid);
    if (IN6_IS_ADDR_V4MAPPED(&gid))
        return IP4;
    return fl_cma_is_any(addr) && !afonly ? IP4 | IP6 : IP6;
}

static bool conflict(const struct fl_cma_id *id, const struct sockaddr *addr, const struct fl_cma_id *other)
{
    const struct sockaddr *theirs = &other->id.route.addr.src_addr;
    struct in6_addr a, b;
    if (id->reuseaddr && other->reuseaddr && other->state != FL_CMA_LISTENING)
        return false;
    if (fl_cma_is_any(addr) || fl_cma_is_any(theirs))
        return kinds_of(addr, id->afonly) & kinds_of(theirs, other->afonly);
    return fl_cma_gid_of(addr, &a) && fl_cma_gid_of(theirs, &b) && IN6_ARE_ADDR_EQUAL(&a, &b);
}

static int check(const struct fl_cma_id *id, const struct sockaddr *addr, const struct fl_cma_port *port)
{
    struct fl_cma_id *other;
    fl_list_for_each (other, &port->ids, port_link) {
        if (conflict(id, addr, other))
            return -EADDRINUSE;
    }
    return 0;
}

static int claim(struct fl_cma *cma, struct fl_cma_port *port)
{
    if (port->claimed)
        return 0;
    int r = fl_port_listen(cma->rnic->port, port->service_id);
    port->claimed = !r;
    return r;
}

static void drop(struct fl_cma *cma, struct fl_cma_port *port)
{
    if (port->claimed || port->asked)
        fl_port_unlisten(cma->rnic->port, port->service_id);
    fl_list_del(&port->kept_link);
    fl_list_del(&port->link);
    free(port);
}

static struct fl_cma_port *new_port(struct fl_cma *cma, uint64_t service_id)
{
    struct fl_cma_port *port = calloc(1, sizeof(*port));
    if (!port)
        return NULL;
    port->service_id = service_id;
    fl_list_init(&port->ids);
    fl_list_init(&port->kept_link);
    fl_list_add_tail(bucket_of(cma, service_id), &port->link);
    return port;
}

static void keep(struct fl_cma *cma, struct fl_cma_port *port)
{
    port->listened = false;
    port->kept_till = cma->rnic->now + KEPT_NS;
    fl_list_add_tail(&cma->kept_ports, &port->kept_link);
}

/* A program may go on with datagrams after it exchanged its parameters by a connection. */
static void keep_for_datagrams(struct fl_cma *cma, uint64_t service_id)
{
    uint8_t space;
    uint16_t number;
    if (!fl_cm_service_id_parse(service_id, &space, &number) || space != FL_CM_PS_TCP)
        return;
    service_id = fl_cm_service_id(FL_CM_PS_UDP, number);
    struct fl_cma_port *port = find(cma, service_id) ? NULL : new_port(cma, service_id);
    if (!port)
        return;
    port->asked = true;
    fl_port_listen_later(cma->rnic->port, service_id);
    keep(cma, port);
}

/* Requests for a listener that may come back must come here, and not to the hub, which would reject them. */
static void drop_unused(struct fl_cma *cma, struct fl_cma_port *port)
{
    if (!fl_list_empty(&port->ids))
        return;
    if (!port->listened || !port->claimed) {
        drop(cma, port);
        return;
    }
    keep(cma, port);
    keep_for_datagrams(cma, port->service_id);
}

void fl_cma_ports_tick(struct fl_cma *cma, uint64_t now)
{
    while (fl_cma_ports_deadline(cma) <= now)
        drop(cma, FL_LIST_FIRST(&cma->kept_ports, struct fl_cma_port, kept_link));
}

uint64_t fl_cma_ports_deadline(const struct fl_cma *cma)
{
    const struct fl_cma_port *first = FL_LIST_FIRST(&cma->kept_ports, struct fl_cma_port, kept_link);
    return first ? first->kept_till : FL_CM_NEVER;
}

static int bind_to(struct fl_cma_id *id, const struct sockaddr *addr, uint64_t service_id, bool to_claim)
{
    struct fl_cma *cma = id->cma;
    struct fl_cma_port *port = find(cma, service_id);
    int r = port ? check(id, addr, port) : 0;
    if (r)
        return r;
    if (!port)
        port = new_port(cma, service_id);
    if (!port)
        return -ENOMEM;
    if (to_claim)
        r = claim(cma, port);
    if (r == -EADDRINUSE && id->reuseaddr)
        r = 0; /* another process is bound to it; who listens first has it */
    if (r) {
        drop_unused(cma, port);
        return r;
    }
    if (to_claim) /* qperf tells its peer the port before it listens */
        fl_cm_await(cma->cm, service_id, cma->rnic->now);
    id->port = port;
    fl_list_del(&port->kept_link);
    fl_list_add_tail(&port->ids, &id->port_link);
    return 0;
}

int fl_cma_port_bind(struct fl_cma_id *id, const struct sockaddr *addr, uint16_t *number, bool to_claim)
{
    struct fl_cma *cma = id->cma;
    if (*number)
        return bind_to(id, addr, service_of(id, *number), to_claim);
    for (uint32_t n = 0; n < EPHEMERAL_NR; n++) {
        uint16_t port = (uint16_t)(EPHEMERAL_FIRST + cma->next_ephemeral++ % EPHEMERAL_NR);
        if (find(cma, service_of(id, port)))
            continue;
        int r = bind_to(id, addr, service_of(id, port), to_claim);
        if (!r)
            *number = port;
        if (r == -EINPROGRESS)
            cma->next_ephemeral--; /* the same once more */
        if (r != -EADDRINUSE)
            return r;
    }
    return -EADDRNOTAVAIL;
}

bool fl_cma_port_again(int *r, struct fl_port_patience *patience)
{
    const struct timespec moment = {.tv_nsec = *r == -EINPROGRESS ? 50000 : 5000000};
    if (*r != -EAGAIN && *r != -EINPROGRESS)
        return false;
    if (!fl_port_is_patient(patience, fl_now_ns())) {
        *r = *r == -EINPROGRESS ? -ETIMEDOUT : *r;
        return false;
    }
    nanosleep(&moment, NULL);
    return true;
}

int fl_cma_port_claim(struct fl_cma_id *id)
{
    return claim(id->cma, id->port);
}

void fl_cma_port_release(struct fl_cma_id *id)
{
    struct fl_cma_port *port = id->port;
    if (!port)
        return;
    fl_list_del(&id->port_link);
    id->port = NULL;
    drop_unused(id->cma, port);
}
