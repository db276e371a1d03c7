/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "rnic/port/impl.h"
#include "rnic/port/patience.h"

#define OPEN_NS (3 * FL_NS_PER_S)
#define EVENTS  16
/* Polls until epoll is asked about all descriptors: so many that found something, or fewer that did not */
#define LOOK_AT      64
#define LOOK_NOTHING 2
#define LAST_MAX     65536 /* datagrams that a hub still passes on when it goes */

static int make_names(struct fl_port *port, const char *hub_path, struct fl_error *err)
{
    uint64_t nonce;
    struct stat st;
    if (stat("/proc/self/ns/net", &st) < 0)
        st.st_ino = 0; /* abstract names are the network namespace's own anyway */
    if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
        return fl_error_set(err, -EIO, "no random numbers from the kernel");
    if (fl_hub_default_name(hub_path, port->udp_port, port->name) < 0)
        return fl_error_set(err, -ENAMETOOLONG, "name of the hub is too long: %s", hub_path);
    snprintf(port->address, sizeof(port->address), "farlane-shm-%llu-%u-%d-%016llx",
             (unsigned long long)st.st_ino, port->udp_port, (int)getpid(), (unsigned long long)nonce);
    return 0;
}

static int join(struct fl_port *port, struct fl_error *err)
{
    const uint64_t start = fl_now_ns();
    uint64_t now = start, before = start, end = start + OPEN_NS; /* while nobody says anything */
    struct fl_port_patience patience = {0};
    for (;; before = now, now = fl_now_ns()) {
        struct pollfd pfd = {.events = POLLIN};
        if (now - before > FL_PORT_STEP_NS) /* what was to come in it has had no step yet to be seen */
            end += now - before;
        if (!fl_port_is_patient(&patience, now) || now >= end)
            break;
        if (port->role == FL_ROLE_GUEST)
            fl_port_link_event(port);
        if (port->role == FL_ROLE_GUEST && !fl_port_hub_looks_stopped(port))
            end = now + OPEN_NS;
        fl_port_join_step(port, now);
        if (port->role == FL_ROLE_HUB || port->role == FL_ROLE_MEMBER)
            return 0;
        if (port->no_hub || fl_port_is_forbidden(port))
            break;
        pfd.fd = port->link.fd;
        poll(&pfd, 1, 1);
    }
    return fl_port_no_hub(port, now - start, err);
}

int fl_port_open(const struct fl_port_options *options, struct fl_port **port, struct fl_error *err)
{
    struct fl_port *p = calloc(1, sizeof(*p));
    int rc;
    if (!p)
        return fl_error_set(err, -ENOMEM, "no memory for the RoCE port");
    p->udp_port = options->udp_port ? options->udp_port : FL_ROCE_PORT;
    p->no_hub = options->no_hub;
    p->udp_fd = p->own_fd = p->knock[0].fd = p->knock[1].fd = -1;
    fl_lane_init(&p->lane);
    p->backoff_ms = 1;
    fl_hub_estates_init(&p->estates);
    if (fl_hub_will_create(&p->will) < 0)
        FL_DEBUG("no memory for a will: peers of this process are not told when it is killed");
    fl_hub_link_init(&p->link, &p->will);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll_fd < 0) {
        rc = fl_error_set(err, -errno, "epoll: %s", strerror(errno));
        goto free_port;
    }
    p->rx = fl_udp_rx_create();
    p->tx = fl_udp_tx_create(p->udp_port, p->epoll_fd, (uint64_t)FL_PORT_TX << 32);
    rc = p->rx && p->tx ? make_names(p, options->hub_path, err) : fl_error_set(err, -ENOMEM, "no memory");
    if (rc == 0)
        rc = join(p, err);
    if (rc < 0)
        goto close_port;
    *port = p;
    return 0;
close_port:
    fl_port_close(p);
    return rc;
free_port:
    fl_hub_will_fini(&p->will);
    free(p);
    return rc;
}

int fl_port_qpn_get(struct fl_port *port, uint32_t *qpn)
{
    if (fl_qpn_pool_is_short(&port->qpns))
        fl_port_want_block(port);
    if (fl_qpn_pool_get(&port->qpns, qpn) == 0)
        return 0;
    fl_port_look_at_hub(port);
    if (fl_qpn_pool_get(&port->qpns, qpn) == 0)
        return 0;
    /* A hub that is too busy to answer is not numbers that ran out. */
    if (!port->block_refused)
        return -EAGAIN;
    port->block_refused = false; /* it is asked again next time */
    return -ENOSPC;
}

void fl_port_qpn_put(struct fl_port *port, uint32_t qpn)
{
    fl_qpn_pool_put(&port->qpns, qpn);
}

uint32_t fl_port_comm_id_prefix(const struct fl_port *port, uint32_t *mask)
{
    *mask = UINT32_MAX << FL_HUB_COMM_SHIFT;
    return port->slot << FL_HUB_COMM_SHIFT;
}

bool fl_port_send(struct fl_port *port, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    return fl_udp_tx_send(port->tx, flow, tx, &port->stats);
}

void fl_port_flush(struct fl_port *port)
{
    fl_udp_tx_flush(port->tx, &port->stats);
}

struct delivery {
    void (*deliver)(void *arg, const struct fl_port_packet *packet);
    void *arg;
};

/* dport: where it came to, which the ICRC covers. */
static bool deliver(struct fl_port *port, const struct fl_udp_datagram *datagram, uint16_t dport,
                    const struct delivery *to)
{
    struct fl_port_packet packet;
    int rc = fl_udp_packet(datagram, dport, &port->checker, &packet, port->grh);
    if (rc < 0) {
        if (rc == -EBADMSG)
            port->stats.nr_bad_icrc++;
        else
            port->stats.nr_bad_packet++;
        return false;
    }
    port->stats.nr_rx++;
    port->stats.rx_len += datagram->len;
    to->deliver(to->arg, &packet);
    return true;
}

/* Not ours: only a process that is there gets it, and checks it itself. */
static void pass_on(struct fl_port *port, uint32_t slot, const struct fl_udp_datagram *d)
{
    const struct fl_hub_packet meta = {
        .src = d->src, .dst = d->dst, .udp_sport = d->sport, .tos = d->tos, .ttl = d->ttl};
    if (fl_hub_server_push(port->server, slot, &meta, d->bytes, d->len))
        port->stats.nr_to_others++;
    else
        port->stats.nr_others_dropped++;
}

/* It is not for this process, and was passed on if it is for another. */
static bool is_strange(struct fl_port *port, const struct fl_udp_datagram *d)
{
    uint32_t slot = fl_hub_route(fl_hub_server_table(port->server), d->bytes, d->len, port->slot);
    if (slot == port->slot)
        return false;
    if (slot)
        pass_on(port, slot, d);
    else
        port->stats.nr_unknown_qpn++;
    return true;
}

/* One of the UDP socket. Negative: nothing there; 1: delivered here; 0: not. */
static int take_udp(struct fl_port *port, const struct delivery *to)
{
    struct fl_udp_datagram datagram;
    bool delivered;
    int error;
    if (!fl_udp_rx_next(port->rx, port->udp_fd, &datagram, &error, &port->stats)) {
        port->lane.waits = false;
        return -1;
    }
    if (is_strange(port, &datagram)) {
        fl_lane_stranger(&port->lane, &datagram);
        return 0;
    }
    delivered = deliver(port, &datagram, port->udp_port, to);
    if (delivered)
        fl_lane_vote(port, &datagram);
    return delivered;
}

/* One of the lane; as above. */
static int take_lane(struct fl_port *port, const struct delivery *to)
{
    struct fl_udp_datagram datagram;
    if (!fl_lane_next(&port->lane, &datagram, &port->stats))
        return -1;
    if (is_strange(port, &datagram)) {
        port->lane.ends = true;
        return 0;
    }
    port->stats.nr_by_lane++;
    return deliver(port, &datagram, port->udp_port, to);
}

static void ignore(void *arg, const struct fl_port_packet *packet)
{
}

/* A hub that goes: what lies in its socket for others would be lost with it, and nobody sends a datagram
 * again. */
static void hand_over(struct fl_port *port)
{
    const struct delivery nobody = {.deliver = ignore};
    for (int i = 0; i < LAST_MAX && port->lane.fd >= 0 && take_lane(port, &nobody) >= 0; i++)
        ;
    fl_lane_close(&port->lane);
    for (int i = 0; i < LAST_MAX && take_udp(port, &nobody) >= 0; i++)
        ;
}

void fl_port_close(struct fl_port *port)
{
    if (!port)
        return;
    if (port->tx) /* else it was never open */
        fl_udp_tx_flush(port->tx, &port->stats);
    if (port->role == FL_ROLE_HUB)
        hand_over(port);
    fl_hub_will_unbind(&port->will); /* as all that follows is on purpose */
    fl_lane_close(&port->lane);      /* else nobody could bind the port alone */
    if (port->udp_fd >= 0)
        close(port->udp_fd); /* before the members notice, so that one of them gets it at once */
    if (port->own_fd >= 0)
        close(port->own_fd);
    fl_port_close_knockers(port);
    if (port->server)
        fl_hub_server_stop(port->server);
    fl_port_forget_beside(port);
    fl_hub_link_fini(&port->link);
    fl_hub_estates_fini(&port->estates);
    fl_hub_will_fini(&port->will);
    fl_qpn_pool_fini(&port->qpns);
    free(port->services);
    fl_udp_tx_destroy(port->tx);
    fl_udp_rx_destroy(port->rx);
    fl_udp_rx_destroy(port->own_rx);
    close(port->epoll_fd);
    free(port);
}

void fl_port_forget(struct fl_port *port)
{
    if (port->udp_fd >= 0)
        close(port->udp_fd);
    if (port->lane.fd >= 0)
        close(port->lane.fd);
    if (port->own_fd >= 0)
        close(port->own_fd);
    if (port->link.fd >= 0)
        close(port->link.fd);
    if (port->will.fd >= 0)
        close(port->will.fd);
    if (port->server)
        fl_hub_server_forget(port->server);
    fl_port_forget_beside(port);
    fl_port_close_knockers(port);
    fl_udp_tx_forget(port->tx);
    close(port->epoll_fd);
}

/* One of the ring; as above. */
static int take_ring(struct fl_port *port, const struct delivery *to)
{
    struct fl_hub_packet meta;
    struct fl_udp_datagram d;
    int len = fl_hub_ring_read(&port->link.ring, port->from_hub, sizeof(port->from_hub));
    if (len == 0)
        return -1;
    if (len < (int)sizeof(meta)) {
        fl_port_lost_hub(port, fl_now_ns());
        return -1;
    }
    memcpy(&meta, port->from_hub, sizeof(meta));
    d = (struct fl_udp_datagram){.src = meta.src,
                                 .dst = meta.dst,
                                 .sport = meta.udp_sport,
                                 .tos = meta.tos,
                                 .ttl = meta.ttl,
                                 .bytes = port->from_hub + sizeof(meta),
                                 .len = (uint32_t)len - (uint32_t)sizeof(meta)};
    port->stats.nr_from_hub++;
    return deliver(port, &d, port->udp_port, to);
}

/* One of our own socket; as above. */
static int take_own(struct fl_port *port, const struct delivery *to)
{
    struct fl_udp_datagram datagram;
    int error;
    if (fl_udp_rx_rests(port->own_rx) ||
        !fl_udp_rx_next(port->own_rx, port->own_fd, &datagram, &error, &port->stats))
        return -1;
    port->stats.nr_past_hub++;
    return deliver(port, &datagram, port->own_port, to);
}

static void look_around(struct fl_port *port)
{
    struct epoll_event events[EVENTS];
    int nr = epoll_wait(port->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < nr; i++) {
        switch ((enum fl_port_tag)(events[i].data.u64 >> 32)) {
        case FL_PORT_UDP:
        case FL_PORT_OWN:
            break;
        case FL_PORT_TX:
            fl_udp_tx_flush(port->tx, &port->stats);
            break;
        case FL_PORT_LINK:
            if (port->link.fd >= 0)
                fl_port_link_event(port);
            break;
        case FL_PORT_KNOCK:
            fl_port_hear_refusals(port);
            break;
        case FL_PORT_SERVER:
            port->met_stranger = true;
            if (port->server)
                fl_hub_server_event(port->server, (uint32_t)events[i].data.u64);
            break;
        }
    }
    uint64_t now = fl_now_ns();
    fl_port_watch_hub(port, now);
    fl_port_join_step(port, now);
    fl_port_drop_old_asks(port, now);
    if (port->server)
        fl_hub_server_tick(port->server, now);
    if (port->role == FL_ROLE_HUB)
        fl_port_say_last_words(port, now);
}

static int take_rest(struct fl_port *port, const struct delivery *to)
{
    int rc = fl_udp_rx_rests(port->rx) ? -1 : take_udp(port, to);
    if (rc < 0)
        port->lane.nr_turns = 0;
    return rc;
}

int fl_port_poll(struct fl_port *port, int max,
                 void (*deliver_to)(void *arg, const struct fl_port_packet *packet), void *arg)
{
    const struct delivery to = {deliver_to, arg};
    const struct fl_lane_turn turn = fl_lane_turn(port);
    int nr = 0, taken = 0;
    while (nr < max) {
        int rc = -1;
        if (turn.lane && port->lane.fd >= 0)
            rc = take_lane(port, &to);
        if (rc < 0 && port->role == FL_ROLE_HUB &&
            ((turn.rest && (!taken || turn.must)) || fl_udp_rx_has_more(port->rx)))
            rc = take_rest(port, &to);
        else if (rc < 0 && port->role == FL_ROLE_MEMBER)
            rc = take_ring(port, &to);
        if (rc < 0 && port->own_fd >= 0)
            rc = take_own(port, &to);
        /* What goes to others counts too: they must not keep the caller here. */
        if (rc < 0 || ++taken >= 2 * max)
            break;
        nr += rc;
    }
    port->unlooked += taken ? 1 : LOOK_NOTHING;
    if (port->unlooked >= LOOK_AT || (port->role != FL_ROLE_HUB && port->role != FL_ROLE_MEMBER)) {
        port->unlooked = 0;
        look_around(port);
    }
    return nr;
}

int fl_port_wait_fd(const struct fl_port *port)
{
    return port->epoll_fd;
}

uint64_t fl_port_deadline(struct fl_port *port)
{
    port->lane.all = true; /* whatever wakes who sleeps now, it is found at once */
    if (port->own_rx && fl_udp_rx_has_more(port->own_rx))
        return 0;
    if (port->lane.fd >= 0 && fl_udp_rx_has_more(port->lane.rx))
        return 0;
    if (port->role == FL_ROLE_HUB) {
        uint64_t at = FL_MIN(fl_hub_server_deadline(port->server), fl_port_watch_deadline(port));
        return fl_udp_rx_has_more(port->rx) ? 0 : FL_MIN(at, fl_hub_estates_deadline(&port->estates));
    }
    if (port->role == FL_ROLE_MEMBER)
        return fl_hub_ring_sleep(&port->link.ring) ? fl_port_watch_deadline(port) : 0;
    return port->next_try;
}

static void fill_peer(struct fl_port_peer *peer, uint32_t slot, const struct fl_hub_slot *entry)
{
    *peer = (struct fl_port_peer){
        .pid = entry->pid, .uid = entry->uid, .udp_port = entry->udp_port, .slot = slot};
    memcpy(peer->address, entry->address, sizeof(entry->address));
}

int fl_port_find_peer(struct fl_port *port, uint32_t qpn, struct fl_port_peer *peer)
{
    const struct fl_hub_shared *shared = fl_port_shared(port);
    struct fl_hub_slot entry;
    uint32_t slot;
    if (!shared)
        return -EAGAIN;
    slot = fl_hub_slot_of_qpn(shared, qpn);
    if (!fl_hub_slot_read(shared, slot, &entry) || !entry.address[0])
        return port->role == FL_ROLE_HUB || port->role == FL_ROLE_MEMBER ? -ENOENT : -EAGAIN;
    fill_peer(peer, slot, &entry);
    return 0;
}

int fl_port_find_owner(struct fl_port *port, uint32_t qpn)
{
    const struct fl_hub_shared *shared = fl_port_shared(port);
    struct fl_hub_slot entry;
    if (!shared || (port->role != FL_ROLE_HUB && port->role != FL_ROLE_MEMBER))
        return -EAGAIN;
    return fl_hub_slot_read(shared, fl_hub_slot_of_qpn(shared, qpn), &entry) ? 0 : -ENOENT;
}

int fl_port_peers(struct fl_port *port, struct fl_port_peer *peers, int max)
{
    const struct fl_hub_shared *shared = fl_port_shared(port);
    struct fl_hub_slot entry;
    int nr = 0;
    for (uint32_t slot = 1; shared && slot < FL_HUB_SLOTS && nr < max; slot++) {
        if (fl_hub_slot_read(shared, slot, &entry) && entry.state == FL_HUB_MEMBER)
            fill_peer(&peers[nr++], slot, &entry);
    }
    return nr;
}

const char *fl_port_address(const struct fl_port *port)
{
    return port->address;
}

const struct fl_port_stats *fl_port_stats(const struct fl_port *port)
{
    return &port->stats;
}
