/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets wait in a short queue, those of one flow and length side by side in one buffer: the kernel cuts it
 * (UDP_SEGMENT). The ICRC is computed while they are copied into it, from the very bytes that are stored: so
 * it is right also when the application changes its memory meanwhile.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/crc32_copy.h"
#include "base/try.h"
#include "base/util.h"
#include "rnic/port/tx.h"

struct fl_udp_tx *fl_udp_tx_create(uint16_t dport, int epoll_fd, uint64_t epoll_data)
{
    struct fl_udp_tx *tx = calloc(1, sizeof(*tx));
    if (!tx)
        return NULL;
    tx->dport = dport;
    tx->epoll_fd = epoll_fd;
    tx->epoll_data = epoll_data;
    tx->any[0].fd = tx->any[1].fd = -1;
    for (int i = 0; i < TWINS; i++)
        tx->twins[i].fd = -1;
    for (int i = 0; i < QUEUE; i++)
        tx->queue[i].bytes = tx->bytes[i];
    return tx;
}

void fl_udp_tx_forget(struct fl_udp_tx *tx)
{
    for (uint32_t i = 0; i < tx->nr_sources; i++)
        close(tx->sources[i].fd);
    for (int family = 0; family < 2; family++) {
        if (tx->any[family].fd >= 0)
            close(tx->any[family].fd);
    }
    for (int i = 0; i < TWINS; i++) {
        if (tx->twins[i].fd >= 0)
            close(tx->twins[i].fd);
    }
}

void fl_udp_tx_destroy(struct fl_udp_tx *tx)
{
    if (tx)
        fl_udp_tx_forget(tx);
    free(tx);
}

union control {
    struct cmsghdr hdr;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
               CMSG_SPACE(sizeof(uint16_t))];
};

static void add_control(struct msghdr *m, int level, int type, const void *data, size_t len)
{
    struct cmsghdr *c = (struct cmsghdr *)((char *)m->msg_control + m->msg_controllen);
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    m->msg_controllen += CMSG_SPACE(len);
}

struct outgoing {
    struct sockaddr_in6 name;
    struct iovec iov;
    union control control;
};

static void address_ip4(const struct fl_port_flow *flow, uint16_t dport, bool bound, struct outgoing *out,
                        struct msghdr *m)
{
    struct in_pktinfo from = {0};
    memcpy(&from.ipi_spec_dst, &flow->sgid.s6_addr[12], sizeof(from.ipi_spec_dst));
    m->msg_namelen = fl_udp_name(&out->name, &flow->dgid, 0, dport);
    if (!bound)
        add_control(m, IPPROTO_IP, IP_PKTINFO, &from, sizeof(from));
}

static void address_ip6(const struct fl_port_flow *flow, uint16_t dport, bool bound, struct outgoing *out,
                        struct msghdr *m)
{
    struct in6_pktinfo from = {.ipi6_addr = flow->sgid};
    if (IN6_IS_ADDR_LINKLOCAL(&flow->dgid))
        from.ipi6_ifindex = flow->scope_id;
    m->msg_namelen = fl_udp_name(&out->name, &flow->dgid, flow->scope_id, dport);
    if (!bound)
        add_control(m, IPPROTO_IPV6, IPV6_PKTINFO, &from, sizeof(from));
}

static void prepare(const struct fl_udp_tx *tx, const struct entry *e, struct outgoing *out, struct msghdr *m)
{
    const struct fl_port_flow *flow = &e->flow;
    bool ip4 = fl_udp_is_ip4(&flow->dgid);
    int tos = e->tos, ttl = flow->hop_limit;
    uint16_t segment_len = (uint16_t)e->segment_len;
    out->iov = (struct iovec){e->bytes, e->len};
    memset(&out->control, 0, sizeof(out->control));
    *m = (struct msghdr){
        .msg_name = &out->name, .msg_iov = &out->iov, .msg_iovlen = 1, .msg_control = &out->control};
    if (e->source->plain)
        m->msg_name = NULL;
    else if (ip4)
        address_ip4(flow, fl_udp_tx_dport(tx, flow), e->source->bound, out, m);
    else
        address_ip6(flow, fl_udp_tx_dport(tx, flow), e->source->bound, out, m);
    if (tos && !e->source->bound)
        add_control(m, ip4 ? IPPROTO_IP : IPPROTO_IPV6, ip4 ? IP_TOS : IPV6_TCLASS, &tos, sizeof(tos));
    if (ttl && ttl != FL_UDP_TTL)
        add_control(m, ip4 ? IPPROTO_IP : IPPROTO_IPV6, ip4 ? IP_TTL : IPV6_HOPLIMIT, &ttl, sizeof(ttl));
    if (e->nr_segments > 1)
        add_control(m, IPPROTO_UDP, UDP_SEGMENT, &segment_len, sizeof(segment_len));
}

static void seal(const struct fl_udp_tx *tx, const struct entry *e, uint8_t *packet, uint32_t len,
                 uint16_t id)
{
    le32 icrc = le32_of(fl_udp_icrc(&e->flow.sgid, &e->flow.dgid, e->source->port,
                                    fl_udp_tx_dport(tx, &e->flow), id, packet, len));
    memcpy(packet + len - sizeof(icrc), &icrc, sizeof(icrc));
}

void fl_udp_tx_seal(const struct fl_udp_tx *tx, const struct entry *e)
{
    for (uint32_t at = 0, i = 0; at < e->len; at += e->segment_len, i++)
        seal(tx, e, e->bytes + at, FL_MIN(e->segment_len, e->len - at), (uint16_t)(e->id + i));
}

static bool is_no_room(int error)
{
    return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EINTR;
}

/* The first entry, a packet at a time: the kernel did not take it whole. False: no room. */
static bool send_apart(struct fl_udp_tx *tx, struct entry *e, struct fl_port_stats *stats)
{
    e->apart = e->closed = true;
    while (e->len) {
        struct outgoing out;
        struct msghdr m;
        struct entry one = *e;
        one.len = FL_MIN(e->segment_len, e->len);
        one.nr_segments = 1;
        seal(tx, &one, one.bytes, one.len, 0);
        prepare(tx, &one, &out, &m);
        stats->nr_tx_calls++;
        if (sendmsg(e->source->fd, &m, MSG_DONTWAIT) < 0) {
            if (is_no_room(errno))
                return false;
            stats->nr_tx_dropped++;
        }
        e->bytes += one.len;
        e->len -= one.len;
        e->nr_segments--;
    }
    return true;
}

static void forget(struct fl_udp_tx *tx, uint32_t nr)
{
    for (; nr; nr--, tx->head++)
        tx->queue[tx->head % QUEUE].bytes = tx->bytes[tx->head % QUEUE];
    if (tx->head == tx->tail) /* the first buffer is the one that is in the CPU's caches */
        tx->head = tx->tail = 0;
}

/* One packet alone that needs no control data: the call for it costs less than those for more. */
static bool is_plain(const struct fl_udp_tx *tx, const struct entry *e)
{
    return (tx->tail - tx->head == 1 || e->source->plain) && e->nr_segments == 1 && e->source->bound &&
           (!e->flow.hop_limit || e->flow.hop_limit == FL_UDP_TTL);
}

static int send_plain(const struct fl_udp_tx *tx, const struct entry *e)
{
    struct outgoing out;
    struct msghdr m = {0};
    if (e->source->plain)
        ;
    else if (fl_udp_is_ip4(&e->flow.dgid))
        address_ip4(&e->flow, fl_udp_tx_dport(tx, &e->flow), true, &out, &m);
    else
        address_ip6(&e->flow, fl_udp_tx_dport(tx, &e->flow), true, &out, &m);
    return syscall(SYS_sendto, e->source->fd, e->bytes, (size_t)e->len, MSG_DONTWAIT,
                   m.msg_namelen ? &out.name : NULL, m.msg_namelen) < 0
               ? -1
               : 1;
}

/* The entries at the head that leave by one socket. False: no room. */
static bool send_run(struct fl_udp_tx *tx, struct fl_port_stats *stats)
{
    struct entry *first = &tx->queue[tx->head % QUEUE];
    struct outgoing out[QUEUE];
    struct mmsghdr msgs[QUEUE];
    uint32_t nr = 0;
    int sent;
    if (first->source->plain && first->nr_segments > 1 && tx->no_gso)
        fl_udp_tx_end_twin(tx, first->source);
    if (first->nr_segments > 1 && (tx->no_gso || first->apart))
        sent = 0;
    else if (is_plain(tx, first)) {
        stats->nr_tx_calls++;
        sent = send_plain(tx, first);
    } else {
        for (; tx->head + nr != tx->tail; nr++) {
            const struct entry *e = &tx->queue[(tx->head + nr) % QUEUE];
            /* Of several by a twin it would not be known how many were counted. */
            if (e->source != first->source || (nr && e->source->plain))
                break;
            prepare(tx, e, &out[nr], &msgs[nr].msg_hdr);
        }
        stats->nr_tx_calls++;
        sent = (int)syscall(SYS_sendmmsg, first->source->fd, msgs, nr,
                            MSG_DONTWAIT); /* no cancellation point */
    }
    if (sent > 0) {
        forget(tx, (uint32_t)sent);
        return true;
    }
    if (sent < 0 && first->source->plain && errno != EAGAIN) { /* it may have been counted, or not */
        fl_udp_tx_end_twin(tx, first->source);
        tx->nr_twins_lost++;
        return true;
    }
    if (sent < 0 && is_no_room(errno))
        return false;
    if (first->nr_segments > 1) {
        tx->no_gso = tx->no_gso || (sent < 0 && (errno == EIO || errno == EINVAL));
        if (!send_apart(tx, first, stats))
            return false;
    } else {
        stats->nr_tx_dropped++; /* no route, too long for the interface, a firewall: as if the wire lost it */
    }
    forget(tx, 1);
    return true;
}

void fl_udp_tx_flush(struct fl_udp_tx *tx, struct fl_port_stats *stats)
{
    while (tx->head != tx->tail) {
        struct source *s = tx->queue[tx->head % QUEUE].source;
        if (!send_run(tx, stats)) {
            fl_udp_tx_watch(tx, s, true);
            return;
        }
        if (s->waits)
            fl_udp_tx_watch(tx, s, false);
    }
}

static bool is_same_flow(const struct fl_port_flow *a, const struct fl_port_flow *b)
{
    return !memcmp(&a->dgid, &b->dgid, sizeof(a->dgid)) && !memcmp(&a->sgid, &b->sgid, sizeof(a->sgid)) &&
           a->scope_id == b->scope_id && a->entropy == b->entropy && a->hop_limit == b->hop_limit &&
           a->dport == b->dport;
}

static bool has_room(const struct fl_udp_tx *tx, const struct entry *e, uint32_t len)
{
    return !tx->no_gso && !e->closed && len <= e->segment_len && e->nr_segments < SEGMENTS_MAX &&
           e->bytes + e->len + len <= tx->bytes[e - tx->queue] + BUF_LEN;
}

/* The entry that takes a packet of len bytes; NULL: the queue is full. */
static struct entry *place(struct fl_udp_tx *tx, struct source *plain, const struct fl_port_flow *flow,
                           uint8_t tos, uint32_t len, struct fl_port_stats *stats)
{
    struct entry *e = &tx->queue[(tx->tail - 1) % QUEUE];
    struct source *source = fl_udp_tx_twin(tx, plain, flow);
    if (tx->tail != tx->head && e->source == source && e->tos == tos && has_room(tx, e, len) &&
        is_same_flow(&e->flow, flow))
        return e;
    if (tx->tail - tx->head == QUEUE) {
        fl_udp_tx_flush(tx, stats);
        if (tx->tail - tx->head == QUEUE)
            return NULL;
        source = fl_udp_tx_twin(tx, plain, flow); /* a send may have failed */
    }
    e = &tx->queue[tx->tail % QUEUE];
    *e = (struct entry){
        .flow = *flow,
        .source = source,
        .id = source->plain ? source->count.next++ : 0,
        .tos = tos,
        .segment_len = len,
        .icrc = fl_udp_icrc_start(&flow->sgid, &flow->dgid, source->port, fl_udp_tx_dport(tx, flow), len),
        .bytes = tx->bytes[tx->tail % QUEUE]};
    tx->tail++;
    return e;
}

/* The last entry, which is empty */
static void take_back(struct fl_udp_tx *tx, struct entry *e)
{
    if (e->source->plain)
        e->source->count.next--;
    e->source = NULL;
    tx->tail--;
}

/* Where a piece goes, and the CRC up to it, then with it */
struct piece {
    uint8_t *to;
    uint32_t crc;
    bool more; /* the message goes on */
};

static void *copy_piece(void *from, const void *arg, size_t len)
{
    struct piece *piece = (struct piece *)(uintptr_t)arg;
    piece->crc = fl_crc32_copy(piece->crc, piece->to, from, len, piece->more);
    return from;
}

/* False: the program's memory has gone. */
static bool add_piece(struct piece *piece, const struct iovec *iov)
{
    const struct piece before = *piece;
    if (iov->iov_len >= FL_CRC32_COPY_512_MIN) {
        if (!fl_try(iov->iov_base, piece, iov->iov_len, copy_piece))
            return false;
    } else {
        if (!fl_try_copy(before.to, iov->iov_base, iov->iov_len))
            return false;
        piece->crc = fl_crc32(before.crc, before.to, iov->iov_len);
    }
    piece->to = before.to + iov->iov_len;
    return true;
}

static bool packet_goes_on(const struct fl_roce_tx *packet)
{
    const struct fl_bth *bth = packet->iov[0].iov_base;
    return packet->nr_iov == 2 && !(fl_ib_opcodes[bth->opcode].attr & FL_IB_ENDS);
}

/* Behind what the entry has, with its ICRC. False: the program's memory has gone, and it is not there. */
static bool add_packet(const struct fl_udp_tx *tx, struct entry *e, const struct fl_roce_tx *packet,
                       uint32_t len)
{
    const struct fl_port_flow *flow = &e->flow;
    const struct iovec rest = {(uint8_t *)packet->iov[0].iov_base + sizeof(struct fl_bth),
                               packet->iov[0].iov_len - sizeof(struct fl_bth)};
    uint32_t start = len == e->segment_len ? e->icrc
                                           : fl_udp_icrc_start(&flow->sgid, &flow->dgid, e->source->port,
                                                               fl_udp_tx_dport(tx, flow), len);
    struct piece piece = {e->bytes + e->len,
                          fl_udp_icrc_with_id(start, &flow->dgid, (uint16_t)(e->id + e->nr_segments)),
                          packet_goes_on(packet)};
    le32 icrc;
    memcpy(piece.to, packet->iov[0].iov_base, sizeof(struct fl_bth));
    piece.crc = fl_icrc_bth(piece.crc, packet->iov[0].iov_base);
    piece.to += sizeof(struct fl_bth);
    if (rest.iov_len && !add_piece(&piece, &rest))
        return false;
    for (int i = 1; i < packet->nr_iov; i++) {
        if (!add_piece(&piece, &packet->iov[i]))
            return false;
    }
    icrc = le32_of(piece.crc);
    memcpy(piece.to, &icrc, sizeof(icrc));
    return true;
}

bool fl_udp_tx_send(struct fl_udp_tx *tx, const struct fl_port_flow *flow, const struct fl_roce_tx *packet,
                    struct fl_port_stats *stats)
{
    uint32_t len = packet->len + FL_IB_ICRC_LEN;
    uint8_t service = *(const uint8_t *)packet->iov[0].iov_base >> 5, tos = flow->tos & (uint8_t)~ECN_MASK;
    struct fl_port_flow sprayed;
    struct source *source;
    struct entry *e;
    if (packet->path) { /* each path takes a source port of its own, and so keeps its order */
        sprayed = *flow;
        sprayed.entropy = (uint16_t)(sprayed.entropy + packet->path);
        flow = &sprayed;
    }
    if (service == FL_IB_RC || service == FL_IB_UC) /* those whose rate falls when marked */
        tos |= ECT0;
    source = fl_udp_tx_source(tx, flow, tos);
    if (!source || len > FL_UDP_PACKET_MAX || fl_udp_is_ip4(&flow->sgid) != fl_udp_is_ip4(&flow->dgid)) {
        stats->nr_tx_dropped++;
        return true; /* it would never go */
    }
    e = place(tx, source, flow, tos, len, stats);
    if (!e)
        return false;
    if (!add_packet(tx, e, packet, len)) {
        stats->nr_tx_dropped++; /* as if the wire lost it: who sends it again finds the key closed */
        if (!e->nr_segments)
            take_back(tx, e);
        return true;
    }
    e->len += len;
    e->source->count.next += e->nr_segments && e->source->count.by_packet;
    e->nr_segments++;
    e->closed = len < e->segment_len;
    stats->nr_tx++;
    stats->tx_len += len;
    /* A burst that is full goes at once: the peer works on it while the next one is made, in the same buffer.
     */
    if (e->nr_segments > 1 && tx->tail - tx->head == 1 && !has_room(tx, e, e->segment_len))
        fl_udp_tx_flush(tx, stats);
    return true;
}
