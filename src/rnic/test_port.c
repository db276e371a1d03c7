/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port for tests (port.h): what is sent comes back to this process at the next poll, so that two queue
 * pairs of one process talk. Room for QUEUE packets; then it says that it has none.
 */
#include "rnic/test_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rnic/rnic.h"

#define QUEUE 256
#define SMALL 20 /* fewer than leave in a turn */

struct test_packet {
    struct fl_port_flow flow;
    uint32_t len;
    uint8_t grh[FL_ROCE_GRH_LEN];
    uint8_t bytes[FL_RNIC_PACKET_MAX];
};

struct fl_port {
    int fd;
    uint32_t next_qpn;
    uint32_t head, tail;
    struct test_packet queue[QUEUE];
    struct fl_port_stats stats;
};

struct test_port test_port;

int fl_port_open(const struct fl_port_options *options, struct fl_port **port, struct fl_error *err)
{
    struct fl_port *p = calloc(1, sizeof(*p));
    if (!p)
        return fl_error_set(err, -ENOMEM, "no memory");
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->next_qpn = 0x100;
    *port = p;
    return 0;
}

void fl_port_close(struct fl_port *port)
{
    close(port->fd);
    free(port);
}

void fl_port_forget(struct fl_port *port)
{
    close(port->fd);
}

const char *fl_port_address(const struct fl_port *port)
{
    static char address[64];
    snprintf(address, sizeof(address), "farlane-test-port-%d", (int)getpid());
    return address;
}

int fl_port_find_peer(struct fl_port *port, uint32_t qpn, struct fl_port_peer *peer)
{
    return -ENOENT; /* so that everything goes by packets */
}

int fl_port_find_owner(struct fl_port *port, uint32_t qpn)
{
    return 0;
}

int fl_port_qpn_get(struct fl_port *port, uint32_t *qpn)
{
    *qpn = port->next_qpn++;
    return 0;
}

void fl_port_qpn_put(struct fl_port *port, uint32_t qpn)
{
    test_port.nr_qpns_back++;
}

/* IPv4 in the last 20 bytes, as the port gives it */
static void make_grh(struct test_packet *p)
{
    memset(p->grh, 0, sizeof(p->grh));
    if (IN6_IS_ADDR_V4MAPPED(&p->flow.sgid)) {
        p->grh[20] = 0x45;
        memcpy(p->grh + 32, p->flow.sgid.s6_addr + 12, 4);
        memcpy(p->grh + 36, p->flow.dgid.s6_addr + 12, 4);
    } else {
        p->grh[0] = 0x60;
        memcpy(p->grh + 8, &p->flow.sgid, 16);
        memcpy(p->grh + 24, &p->flow.dgid, 16);
    }
}

bool fl_port_send(struct fl_port *port, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    struct test_packet *p = &port->queue[port->tail % QUEUE];
    if (port->tail - port->head >= (test_port.small ? SMALL : QUEUE) || test_port.full) {
        test_port.nr_refused++;
        return false;
    }
    if (test_port.drop_all)
        return true;
    p->flow = *flow;
    p->len = 0;
    for (int i = 0; i < tx->nr_iov; i++) {
        memcpy(p->bytes + p->len, tx->iov[i].iov_base, tx->iov[i].iov_len);
        p->len += (uint32_t)tx->iov[i].iov_len;
    }
    if (test_port.forge)
        p->flow.sgid.s6_addr[15] ^= 0x55;
    port->stats.nr_tx++;
    port->tail++;
    return true;
}

void fl_port_flush(struct fl_port *port)
{
    uint64_t one = 1;
    if (port->head != port->tail && write(port->fd, &one, sizeof(one)) < 0)
        return;
}

int fl_port_poll(struct fl_port *port, int max,
                 void (*deliver)(void *arg, const struct fl_port_packet *packet), void *arg)
{
    uint64_t drop;
    int n = 0;
    if (read(port->fd, &drop, sizeof(drop)) < 0 && errno != EAGAIN)
        return 0;
    for (; n < max && port->head != port->tail; n++) {
        struct test_packet *p = &port->queue[port->head++ % QUEUE];
        struct fl_port_packet packet = {
            .sgid = p->flow.sgid, .dgid = p->flow.dgid, .meta = {.grh = p->grh}, .udp_sport = 49152};
        if (fl_ib_packet_view(&packet.packet, p->bytes, p->len))
            abort();
        make_grh(p);
        deliver(arg, &packet);
    }
    return n;
}

int fl_port_wait_fd(const struct fl_port *port)
{
    return port->fd;
}

int fl_port_listen(struct fl_port *port, uint64_t service_id)
{
    return 0;
}

void fl_port_listen_later(struct fl_port *port, uint64_t service_id)
{
}

void fl_port_unlisten(struct fl_port *port, uint64_t service_id)
{
}

uint32_t fl_port_comm_id_prefix(const struct fl_port *port, uint32_t *mask)
{
    *mask = 0xfff00000;
    return 0x00100000;
}

uint64_t fl_port_deadline(struct fl_port *port)
{
    return FL_ROCE_NEVER;
}

const struct fl_port_stats *fl_port_stats(const struct fl_port *port)
{
    return &port->stats;
}

int fl_port_connected(struct fl_port *port, const struct fl_hub_bond *bond)
{
    return -ENOSPC;
}

void fl_port_parted(struct fl_port *port, int number)
{
}

void fl_port_knock(struct fl_port *port, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    fl_port_send(port, flow, tx);
}

bool fl_port_refused(struct fl_port *port, struct in6_addr *gid)
{
    return false;
}
