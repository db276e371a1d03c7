/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hub speaks for processes of its host that were killed: a DREQ for each of their connections, so that
 * peers on other hosts hear of it now and not when data is not acknowledged. Answers to it come to the hub,
 * which knows nothing of those connections; nobody waits for them.
 */
#include <string.h>

#include "base/log.h"
#include "rnic/port/impl.h"

#define BATCH 256 /* at a time */

void fl_port_last_word(const struct fl_hub_bond *bond, uint64_t tid, struct fl_last_word *word)
{
    word->flow = (struct fl_port_flow){
        .sgid = bond->local, .dgid = bond->remote, .scope_id = bond->scope_id, .hop_limit = FL_UDP_TTL};
    fl_cm_init(&word->mad, FL_CM_DREQ, tid);
    word->mad.dreq.local_id = be32_of(bond->local_id);
    word->mad.dreq.remote_id = be32_of(bond->remote_id);
    word->mad.dreq.remote_qpn = be24_of(bond->remote_qpn);
    fl_port_mad(&word->packet, (uint32_t)tid, &word->mad);
}

/* By sockets of their own: what a will says must not use up those that this process's packets leave by. */
void fl_port_say_last_words(struct fl_port *port, uint64_t now)
{
    struct fl_hub_bond bond;
    struct fl_last_word word;
    struct fl_udp_tx *tx;
    if (fl_hub_estates_deadline(&port->estates) > now)
        return;
    tx = fl_udp_tx_create(port->udp_port, port->epoll_fd, (uint64_t)FL_PORT_TX << 32);
    if (!tx)
        return;
    for (int n = 0; n < BATCH && fl_hub_estates_next(&port->estates, now, &bond); n++) {
        fl_port_last_word(&bond, now + (uint64_t)n, &word);
        fl_udp_tx_send(tx, &word.flow, &word.packet, &port->stats);
        port->stats.nr_last_words++;
    }
    fl_udp_tx_flush(tx, &port->stats);
    fl_udp_tx_destroy(tx);
}

/*
 * The hub before this one, which this process belonged to: it holds the UDP port no more, so it is gone, and
 * unless it went on purpose it still says that it serves.
 */
void fl_port_inherit(struct fl_port *port, uint64_t now)
{
    const struct fl_hub_will_shared *will = port->link.hub_will;
    port->link.hub_will = NULL;
    if (!will)
        return;
    if (fl_hub_will_is_bound(will, port->link.hub_service))
        fl_hub_estates_add(&port->estates, will, now);
    else
        fl_hub_will_unmap(will);
}

int fl_port_connected(struct fl_port *port, const struct fl_hub_bond *bond)
{
    return fl_hub_will_add(&port->will, bond);
}

void fl_port_parted(struct fl_port *port, int number)
{
    fl_hub_will_del(&port->will, number);
}
