/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane is a socket of the hub's on the RoCE port that is connected to one flow, the one by which most
 * packets of this process come: the kernel looks up neither route nor sender for them, and need not tell
 * addresses. There is one, since the kernel looks at one connected socket of an address before it looks up
 * the route. While it is busy the other socket is asked less often, and while it is not, the lane.
 *
 * Packets of the flow come here also while this process is stopped and another one is the hub, which then
 * lacks those that are its own or a member's. So there is none but while this process is the only one, and
 * where a packet for somebody else comes by a flow, it has none.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "rnic/port/impl.h"

#define VOTES  256 /* packets by which a flow is ahead of all others when it gets the lane */
#define BUSY   64  /* turns after its last packet */
#define SELDOM 8   /* the other one is asked every so many turns, when this one brings nothing */
#define MUST   64  /* and in any case */
#define FAILED 4   /* then there is none any more */

void fl_lane_init(struct fl_lane *lane)
{
    lane->fd = -1;
}

static bool is_candidate(const struct fl_lane *lane, const struct fl_udp_datagram *d)
{
    return lane->candidate.sport == d->sport && IN6_ARE_ADDR_EQUAL(&lane->candidate.src, &d->src) &&
           IN6_ARE_ADDR_EQUAL(&lane->candidate.dst, &d->dst);
}

static bool is_fit(const struct fl_udp_datagram *d)
{
    /* Scope identifiers are not kept. A datagram's GRH tells TTL and TOS, and nobody sends one again. */
    return !IN6_IS_ADDR_LINKLOCAL(&d->src) && *d->bytes >> 5 == FL_IB_RC;
}

static bool is_alone(const struct fl_port *port)
{
    return port->server && fl_hub_server_table(port->server)->nr_slots == 1;
}

static void open_lane(struct fl_port *port, const struct fl_udp_datagram *d)
{
    struct fl_lane *lane = &port->lane;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)FL_PORT_UDP << 32};
    fl_lane_close(lane);
    lane->rx = fl_udp_rx_create();
    lane->fd = lane->rx ? fl_udp_listen_to(d, port->udp_port) : -1;
    if (lane->fd < 0 || epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, lane->fd, &event) < 0) {
        fl_lane_close(lane);
        lane->nr_failed++;
        return;
    }
    lane->flow = *d;
    lane->flow.bytes = NULL;
    lane->fresh = lane->waits = true;
    lane->idle = 0;
}

void fl_lane_vote(struct fl_port *port, const struct fl_udp_datagram *d)
{
    struct fl_lane *lane = &port->lane;
    if (!is_alone(port) || lane->nr_failed >= FAILED || (lane->fd >= 0 && lane->idle <= BUSY))
        return;
    if (!is_candidate(lane, d)) {
        if (lane->candidate.votes)
            lane->candidate.votes--;
        else if (is_fit(d))
            lane->candidate = (struct fl_lane_candidate){.src = d->src, .dst = d->dst, .sport = d->sport};
    } else if (!is_fit(d)) {
        lane->candidate.votes = 0;
    } else if (++lane->candidate.votes >= VOTES) {
        lane->candidate.votes = 0;
        open_lane(port, d);
    }
}

void fl_lane_stranger(struct fl_lane *lane, const struct fl_udp_datagram *d)
{
    if (is_candidate(lane, d))
        lane->candidate.votes = 0;
}

bool fl_lane_next(struct fl_lane *lane, struct fl_udp_datagram *d, struct fl_port_stats *stats)
{
    int error;
    if (!lane->ends && fl_udp_rx_rests(lane->rx))
        return false;
    if (fl_udp_rx_next(lane->rx, lane->fd, d, &error, stats)) {
        lane->idle = 0;
        return true;
    }
    if (lane->ends) {
        fl_lane_close(lane);
    } else if (lane->fresh && !error) {
        lane->fresh = false;
        fl_udp_listens_to(lane->fd, &lane->flow);
        fl_udp_rx_know(lane->rx, &lane->flow);
    }
    return false;
}

struct fl_lane_turn fl_lane_turn(struct fl_port *port)
{
    struct fl_lane_turn turn = {.rest = true, .must = true};
    struct fl_lane *lane = &port->lane;
    if (lane->fd < 0 || lane->waits)
        return turn;
    if (!is_alone(port)) {
        lane->ends = turn.lane = true;
        return turn;
    }
    lane->nr_turns++;
    if (lane->idle++ > BUSY) {
        turn.lane = lane->all || lane->idle % SELDOM == 0 || fl_udp_rx_has_more(lane->rx);
    } else {
        turn.lane = true;
        turn.rest = lane->all || lane->nr_turns >= SELDOM;
        turn.must = lane->nr_turns >= MUST;
    }
    lane->all = false;
    return turn;
}

void fl_lane_close(struct fl_lane *lane)
{
    if (lane->fd >= 0)
        close(lane->fd);
    fl_udp_rx_destroy(lane->rx);
    *lane = (struct fl_lane){.fd = -1, .nr_failed = lane->nr_failed};
}
