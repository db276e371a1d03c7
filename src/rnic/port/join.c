/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hub or member. Whoever binds the UDP port is the hub; all others connect to it. When the connection breaks,
 * everybody does the same again: one wins the port, goes on with the table that the dead hub left in
 * everybody's mapping, and the others come back with the numbers and services that they have.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rnic/port/impl.h"

#define BACKOFF_MAX_MS 50u
#define NAME_NS        (2 * FL_NS_PER_S) /* a dead hub's name goes with it; one that stays is another's */
#define WELCOME_NS     FL_NS_PER_S
#define BURST          16
/* Until members have said again what they listen on. That a hub has died they see at once, that it is stopped
 * at the next look: all of them, also where this process never was one of them. */
#define SETTLE_NS         (500 * FL_NS_PER_MS)
#define SETTLE_STOPPED_NS (2 * FL_NS_PER_S)

const struct fl_hub_shared *fl_port_shared(const struct fl_port *port)
{
    return port->role == FL_ROLE_HUB ? fl_hub_server_table(port->server)->shared : port->link.shared;
}

static int watch(struct fl_port *port, int fd, enum fl_port_tag tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)tag << 32};
    return epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void try_later(struct fl_port *port, uint64_t now)
{
    port->next_try = now + port->backoff_ms * FL_NS_PER_MS;
    port->backoff_ms = FL_MIN(port->backoff_ms * 2, BACKOFF_MAX_MS);
}

void fl_port_lost_hub(struct fl_port *port, uint64_t now)
{
    fl_hub_link_close(&port->link);
    port->role = FL_ROLE_NONE;
    port->block_asked = 0;
    port->nr_asks = 0;
    port->next_try = now;
    port->backoff_ms = 1;
}

static void drop_udp(struct fl_port *port)
{
    fl_lane_close(&port->lane); /* else nobody could bind the port alone */
    if (port->udp_fd >= 0)
        close(port->udp_fd);
    port->udp_fd = -1;
    fl_port_forget_beside(port);
    port->role = FL_ROLE_NONE;
}

void fl_port_stop_serving(struct fl_port *port, uint64_t now)
{
    fl_hub_will_unbind(&port->will);
    drop_udp(port); /* before the name goes, by which the other hub counts the sockets beside its own */
    fl_hub_server_stop(port->server);
    port->server = NULL;
    port->stats.is_hub = false;
    port->nr_seen_stopped = 0;
    port->next_try = now;
    port->backoff_ms = 1;
}

/* As the hub: what this process had before, first. */
static void claim_own(struct fl_port *port)
{
    struct fl_hub_table *table = fl_hub_server_table(port->server);
    for (uint32_t i = 0; i < port->qpns.nr_blocks; i++) {
        if (fl_hub_block_claim(table, port->slot, port->qpns.blocks[i]) < 0)
            fl_qpn_pool_lose(&port->qpns, port->qpns.blocks[i]);
    }
    for (uint32_t i = 0; i < port->nr_services; i++)
        fl_hub_listen(table, port->slot, port->services[i]);
}

static int start_server(struct fl_port *port, const char *name, uint64_t settle_ns)
{
    const struct fl_hub_server_options options = {.name = name,
                                                  .address = port->address,
                                                  .epoll_fd = port->epoll_fd,
                                                  .tag = FL_PORT_SERVER,
                                                  .want = port->slot,
                                                  .udp_port = port->link.udp_port,
                                                  .before = port->link.shared,
                                                  .settle_ns = settle_ns,
                                                  .will = &port->will,
                                                  .estates = &port->estates};
    return fl_hub_server_start(&options, &port->server);
}

/* rc: whether the server, and the UDP port, could be had. */
static void serve(struct fl_port *port, int rc, uint64_t now)
{
    if (rc == 0)
        rc = watch(port, port->udp_fd, FL_PORT_UDP);
    if (rc < 0) {
        FL_WARN("rnic: cannot serve as hub of UDP port %u: %s", port->udp_port, strerror(-rc));
        if (port->server)
            fl_hub_server_stop(port->server);
        port->server = NULL;
        drop_udp(port);
        try_later(port, now);
        return;
    }
    port->role = FL_ROLE_HUB;
    port->slot = fl_hub_server_self(port->server);
    port->stats.is_hub = true;
    claim_own(port);
}

static void become_hub(struct fl_port *port, uint64_t now)
{
    int rc = start_server(port, port->name, port->link.shared ? SETTLE_NS : 0);
    port->own_name = 0;
    port->names = 1;
    if (rc == -EADDRINUSE && now < port->give_up) {
        port->role = FL_ROLE_BINDER;
        port->next_try = now + FL_NS_PER_MS;
        return;
    }
    serve(port, rc, now);
    if (port->role == FL_ROLE_HUB)
        fl_port_inherit(port, now);
}

/* From hubs that are stopped. Whoever gets the next name does it; the others find it there. */
static void take_over(struct fl_port *port, const struct fl_hub_search *search, uint64_t now)
{
    char name[FL_HUB_NAME_LEN + 2];
    fl_hub_name(port->name, search->free, name);
    int rc = start_server(port, name, SETTLE_STOPPED_NS);
    if (rc < 0) {
        try_later(port, now);
        return;
    }
    serve(port, fl_port_listen_beside(port, search->free), now);
    if (port->role != FL_ROLE_HUB)
        return;
    if (port->nr_beside)
        fl_hub_server_wait_for_others(port->server, now);
    FL_WARN("rnic: process %d, the hub of UDP port %u, is stopped: this process takes over", search->pid,
            port->udp_port);
}

/* Others of this host send to it what would else pass the hub. Without it all goes that way. */
static void open_own(struct fl_port *port)
{
    if (port->own_fd >= 0)
        return;
    port->own_rx = port->own_rx ? port->own_rx : fl_udp_rx_create();
    if (!port->own_rx)
        return;
    port->own_fd = fl_udp_listen_own(&port->own_port);
    if (port->own_fd >= 0 && watch(port, port->own_fd, FL_PORT_OWN) < 0) {
        close(port->own_fd);
        port->own_fd = -1;
    }
    port->link.udp_port = port->own_fd < 0 ? 0 : port->own_port;
}

/* Who was there is remembered while the next look finds nobody. */
static void note_hub(struct fl_port *port, int rc, const struct fl_hub_search *search)
{
    struct fl_hub_peer peer;
    port->why.stopped = search->nr_stopped != 0;
    if (search->nr_stopped)
        port->why.pid = search->pid;
    else if (rc == 0 && fl_hub_unix_peer(port->link.fd, &peer) == 0)
        port->why.pid = peer.pid;
    port->why.asked = port->why.asked || rc == 0 || search->nr_stopped;
}

static void connect_to_hub(struct fl_port *port, uint64_t now)
{
    open_own(port);
    struct fl_hub_search search;
    bool patient = port->nr_seen_stopped < FL_PORT_LOOKS; /* it may only look so */
    int rc = fl_hub_find(&port->link, port->name, port->slot, port->address, patient, &search);
    note_hub(port, rc, &search);
    if (rc == -ENOENT && search.ours && search.free < FL_HUB_NAMES) {
        take_over(port, &search, now);
        return;
    }
    if (rc == -ENOENT && search.nr_stopped) { /* another user's: each question stays in its queue */
        port->next_try = now + FL_PORT_STUCK_NS;
        return;
    }
    if (rc == 0)
        rc = watch(port, port->link.fd, FL_PORT_LINK);
    if (rc < 0) {
        fl_hub_link_close(&port->link);
        try_later(port, now);
        return;
    }
    port->role = FL_ROLE_GUEST;
    port->next_try = now + (search.nr_stopped && patient ? FL_PORT_LOOKS * FL_PORT_LOOK_NS : WELCOME_NS);
}

void fl_port_join_step(struct fl_port *port, uint64_t now)
{
    if (port->role == FL_ROLE_HUB || port->role == FL_ROLE_MEMBER || now < port->next_try)
        return;
    if (port->role == FL_ROLE_BINDER) {
        become_hub(port, now);
        return;
    }
    if (port->role == FL_ROLE_GUEST) { /* no WELCOME in time: that hub is stuck */
        bool stopped = fl_port_hub_looks_stopped(port);
        fl_port_lost_hub(port, now);
        if (stopped)
            port->nr_seen_stopped = FL_PORT_LOOKS;
        else
            try_later(port, now);
        return;
    }
    port->udp_fd = fl_udp_listen(port->udp_port);
    port->why.bind = port->udp_fd < 0 ? port->udp_fd : 0;
    if (port->udp_fd >= 0) {
        port->give_up = now + NAME_NS;
        become_hub(port, now);
    } else if (port->no_hub) {
        try_later(port, now);
    } else {
        connect_to_hub(port, now);
    }
}

/* To a hub that has not known us: blocks and services, a batch a message. */
static int tell_all(struct fl_port *port)
{
    int rc = 0;
    port->nr_claims = 0;
    for (uint32_t at = 0; rc == 0 && at < port->qpns.nr_blocks; at += FL_HUB_BATCH) {
        struct fl_hub_msg msg = {.type = FL_HUB_CLAIM,
                                 .nr = (uint16_t)FL_MIN(FL_HUB_BATCH, port->qpns.nr_blocks - at)};
        for (uint32_t i = 0; i < msg.nr; i++)
            msg.values[i] = port->qpns.blocks[at + i];
        rc = fl_hub_link_send(&port->link, &msg);
        if (!at)
            port->first_claim = msg.seq;
        port->nr_claims++;
    }
    for (uint32_t at = 0; rc == 0 && at < port->nr_services; at += FL_HUB_BATCH) {
        struct fl_hub_msg msg = {.type = FL_HUB_LISTEN,
                                 .nr = (uint16_t)FL_MIN(FL_HUB_BATCH, port->nr_services - at)};
        memcpy(msg.values, port->services + at, msg.nr * sizeof(msg.values[0]));
        rc = fl_hub_link_send(&port->link, &msg);
    }
    return rc;
}

static void welcomed(struct fl_port *port, const struct fl_hub_msg *msg, uint64_t now)
{
    if (msg->status) {
        port->why.answer = msg->status;
        fl_port_lost_hub(port, now);
        port->backoff_ms = BACKOFF_MAX_MS;
        try_later(port, now);
        return;
    }
    if (port->slot && port->slot != msg->slot)
        FL_WARN("rnic: the new hub has given another number to this process: closing of connections made "
                "before takes longer");
    port->slot = port->link.slot;
    if (tell_all(port) < 0) {
        fl_port_lost_hub(port, now);
        try_later(port, now);
        return;
    }
    port->role = FL_ROLE_MEMBER;
    port->backoff_ms = 1;
    port->nr_seen_stopped = 0;
    port->hub_looked_at = now;
}

/* Answer to a CLAIM: numbers that another process has now are lost to this one. */
static void claimed(struct fl_port *port, uint32_t batch, uint64_t ours)
{
    for (uint32_t i = batch * FL_HUB_BATCH; i < port->qpns.nr_blocks && i < (batch + 1) * FL_HUB_BATCH; i++) {
        if (!(ours >> i % FL_HUB_BATCH & 1))
            fl_qpn_pool_lose(&port->qpns, port->qpns.blocks[i]);
    }
}

/* Answer to a GET */
static void got_block(struct fl_port *port, const struct fl_hub_msg *msg)
{
    uint64_t block = msg->values[0];
    port->block_asked = 0;
    port->block_refused = msg->status || !block || block >= FL_HUB_BLOCKS - 1 ||
                          fl_qpn_pool_add(&port->qpns, (uint32_t)block) < 0;
}

static void take_message(struct fl_port *port, const struct fl_hub_msg *msg)
{
    if (msg->type == FL_HUB_WELCOME) {
        welcomed(port, msg, fl_now_ns());
        return;
    }
    if (msg->type != FL_HUB_REPLY)
        return; /* WAKE: the ring is looked at anyway */
    if (port->block_asked && msg->seq == port->block_asked) {
        port->nr_seen_stopped = 0;
        got_block(port, msg);
        return;
    }
    if (fl_port_listen_answered(port, msg))
        return;
    if (msg->status)
        FL_WARN("rnic: the new hub did not take over all of this process's numbers and services: %s",
                strerror(msg->status < 0 && msg->status > -4096 ? -msg->status : EPROTO));
    port->nr_seen_stopped = 0; /* it only looked so */
    if (msg->seq - port->first_claim < port->nr_claims)
        claimed(port, msg->seq - port->first_claim, msg->values[0]);
}

void fl_port_link_event(struct fl_port *port)
{
    struct fl_hub_msg msg;
    int rc = 1;
    for (int i = 0; i < BURST && rc > 0 && port->link.fd >= 0; i++) {
        rc = fl_hub_link_recv(&port->link, &msg);
        if (rc > 0)
            take_message(port, &msg);
    }
    /* What the hub wrote before it went is read first; then this comes again, as the descriptor stays
     * readable. */
    if (rc < 0 && port->role == FL_ROLE_GUEST)
        port->why.answer = rc;
    if (rc < 0 && !(port->role == FL_ROLE_MEMBER && fl_hub_ring_has(&port->link.ring)))
        fl_port_lost_hub(port, fl_now_ns());
}

void fl_port_want_block(struct fl_port *port)
{
    struct fl_hub_msg msg = {.type = FL_HUB_GET}, reply;
    bool broken;
    if (port->block_refused) /* and nobody has been told */
        return;
    if (port->role == FL_ROLE_HUB) {
        msg.magic = FL_HUB_MAGIC;
        fl_hub_handle(fl_hub_server_table(port->server), port->slot, &msg, sizeof(msg), &reply, &broken);
        got_block(port, &reply);
    } else if (port->role == FL_ROLE_MEMBER && !port->block_asked &&
               fl_hub_link_send(&port->link, &msg) == 0) {
        port->block_asked = msg.seq;
    }
}

void fl_port_look_at_hub(struct fl_port *port)
{
    uint64_t now = fl_now_ns();
    if (port->role == FL_ROLE_MEMBER || port->role == FL_ROLE_GUEST)
        fl_port_link_event(port);
    fl_port_watch_hub(port, now);
    fl_port_join_step(port, now);
}
