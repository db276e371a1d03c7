/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process listens on. The hub gives each service to one process; where that is another one it is
 * asked, and nobody waits for its answer here, since that would be with the RNIC's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rnic/port/impl.h"

#define WANTED_NS FL_NS_PER_S /* who waits for an answer asks more often */

static int remember(struct fl_port *port, uint64_t service_id)
{
    if (port->nr_services == port->cap_services) {
        uint32_t cap = port->cap_services ? port->cap_services * 2 : 16;
        uint64_t *more = realloc(port->services, cap * sizeof(*more));
        if (!more)
            return -ENOMEM;
        port->services = more;
        port->cap_services = cap;
    }
    port->services[port->nr_services++] = service_id;
    return 0;
}

static bool has(const struct fl_port *port, uint64_t service_id)
{
    for (uint32_t i = 0; i < port->nr_services; i++) {
        if (port->services[i] == service_id)
            return true;
    }
    return false;
}

static bool forget(struct fl_port *port, uint64_t service_id)
{
    for (uint32_t i = 0; i < port->nr_services; i++) {
        if (port->services[i] == service_id) {
            port->services[i] = port->services[--port->nr_services];
            return true;
        }
    }
    return false;
}

static void tell_unlisten(struct fl_port *port, uint64_t service_id)
{
    struct fl_hub_msg msg = {.type = FL_HUB_UNLISTEN, .nr = 1, .values = {service_id}};
    if (port->role == FL_ROLE_HUB)
        fl_hub_unlisten(fl_hub_server_table(port->server), port->slot, service_id);
    else if (port->role == FL_ROLE_MEMBER && fl_hub_link_send(&port->link, &msg) < 0)
        fl_port_lost_hub(port, fl_now_ns()); /* it comes back without the service */
}

static struct fl_listen_ask *find(struct fl_port *port, uint64_t service_id)
{
    for (uint32_t i = 0; i < port->nr_asks; i++) {
        if (port->asks[i].service_id == service_id)
            return &port->asks[i];
    }
    return NULL;
}

static void drop(struct fl_port *port, struct fl_listen_ask *ask)
{
    *ask = port->asks[--port->nr_asks];
}

/* The service is ours, or is refused. */
static int settle(struct fl_port *port, uint64_t service_id, int status)
{
    int rc = status ? status : remember(port, service_id);
    if (!status && rc < 0)
        tell_unlisten(port, service_id);
    return rc;
}

static int ask_hub(struct fl_port *port, uint64_t service_id, enum fl_ask_state state)
{
    struct fl_hub_msg msg = {.type = FL_HUB_LISTEN, .nr = 1, .is_new = 1, .values = {service_id}}, reply;
    bool broken;
    if (port->role == FL_ROLE_HUB) {
        msg.magic = FL_HUB_MAGIC;
        fl_hub_handle(fl_hub_server_table(port->server), port->slot, &msg, sizeof(msg), &reply, &broken);
        return settle(port, service_id, reply.status);
    }
    if (port->role != FL_ROLE_MEMBER || port->nr_asks == FL_PORT_ASKS)
        return -EAGAIN;
    if (fl_hub_link_send(&port->link, &msg) < 0) {
        fl_port_lost_hub(port, fl_now_ns());
        return -EAGAIN;
    }
    port->asks[port->nr_asks++] = (struct fl_listen_ask){
        .service_id = service_id, .seq = msg.seq, .state = state, .wanted_at = fl_now_ns()};
    return -EINPROGRESS;
}

int fl_port_listen(struct fl_port *port, uint64_t service_id)
{
    struct fl_listen_ask *ask;
    if (has(port, service_id))
        return 0;
    fl_port_look_at_hub(port);
    ask = find(port, service_id);
    if (!ask)
        return has(port, service_id) ? 0 : ask_hub(port, service_id, FL_ASK_WAITS);
    ask->wanted_at = fl_now_ns();
    if (ask->state != FL_ASK_ANSWERED) {
        ask->state = FL_ASK_WAITS; /* also what nobody wanted any more */
        return -EINPROGRESS;
    }
    int status = ask->status;
    drop(port, ask);
    return settle(port, service_id, status);
}

void fl_port_listen_later(struct fl_port *port, uint64_t service_id)
{
    struct fl_listen_ask *ask = find(port, service_id);
    if (!ask && !has(port, service_id))
        ask_hub(port, service_id, FL_ASK_NOBODY_WAITS);
    else if (ask && ask->state == FL_ASK_UNWANTED)
        ask->state = FL_ASK_NOBODY_WAITS;
}

void fl_port_unlisten(struct fl_port *port, uint64_t service_id)
{
    struct fl_listen_ask *ask = find(port, service_id);
    if (forget(port, service_id))
        tell_unlisten(port, service_id);
    else if (ask && ask->state != FL_ASK_ANSWERED)
        ask->state = FL_ASK_UNWANTED;
    else if (ask)
        ask->wanted_at = 0;
}

bool fl_port_listen_answered(struct fl_port *port, const struct fl_hub_msg *msg)
{
    for (uint32_t i = 0; i < port->nr_asks; i++) {
        struct fl_listen_ask *ask = &port->asks[i], was = *ask;
        if (ask->seq != msg->seq || ask->state == FL_ASK_ANSWERED)
            continue;
        port->nr_seen_stopped = 0; /* the hub only looked so */
        ask->status = msg->status < 0 && msg->status > -4096 ? msg->status : msg->status ? -EPROTO : 0;
        ask->state = FL_ASK_ANSWERED;
        if (was.state == FL_ASK_WAITS)
            return true;
        was.status = ask->status;
        drop(port, ask);
        if (was.state == FL_ASK_NOBODY_WAITS)
            settle(port, was.service_id, was.status);
        else if (!was.status)
            tell_unlisten(port, was.service_id);
        return true;
    }
    return false;
}

/* Who asked has given up, and what the hub gave, or gives yet, is another's to have. */
void fl_port_drop_old_asks(struct fl_port *port, uint64_t now)
{
    for (uint32_t i = 0; i < port->nr_asks; i++) {
        struct fl_listen_ask *ask = &port->asks[i];
        const struct fl_listen_ask was = *ask;
        if (now - was.wanted_at < WANTED_NS || was.state == FL_ASK_NOBODY_WAITS ||
            was.state == FL_ASK_UNWANTED)
            continue;
        if (was.state == FL_ASK_WAITS) {
            ask->state = FL_ASK_UNWANTED;
            continue;
        }
        drop(port, ask);
        if (!was.status)
            tell_unlisten(port, was.service_id);
        return; /* the link may be gone; the others have their turn with the next look */
    }
}
