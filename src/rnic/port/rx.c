/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "rnic/port/udp.h"

#define BUF_LEN    (64u << 10)
#define NR_SINGLES 256
#define NR_BURST   4
#define NR_UNASKED 3
#define NR_ASKED   1024

union control {
    struct cmsghdr hdr;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo)) +
               4 * CMSG_SPACE(sizeof(int))];
};

struct fl_udp_rx {
    struct mmsghdr msgs[FL_UDP_RX_BATCH];
    struct iovec iov[FL_UDP_RX_BATCH];
    struct sockaddr_in6 names[FL_UDP_RX_BATCH];
    union control controls[FL_UDP_RX_BATCH];
    int nr, at; /* of msgs, from the last call */
    int want;   /* how many to ask for: one does it for a packet now and then */
    int hits;   /* calls that brought something since one that did not */
    bool gro;   /* the socket joins packets; singles: how many came alone since */
    uint32_t singles;
    bool known; /* what comes is of this flow */
    struct fl_udp_datagram flow;
    uint32_t nr_unasked, nr_asked; /* for the mark: since the last one that was, and how many to come are */
    bool drained;                  /* that call found the socket empty at its end: no other one now */
    uint16_t index;                /* of the next packet in msgs[at] */
    uint32_t offset, segment_len;  /* in msgs[at]; segment_len 0: its control data is not read yet */
    struct fl_udp_datagram common; /* of msgs[at] */
    uint8_t *bytes;
};

struct fl_udp_rx *fl_udp_rx_create(void)
{
    struct fl_udp_rx *rx = calloc(1, sizeof(*rx));
    if (!rx)
        return NULL;
    rx->want = 1;
    rx->gro = true; /* as fl_udp_listen() leaves it */
    rx->bytes = malloc(FL_UDP_RX_BATCH * BUF_LEN);
    if (!rx->bytes) {
        free(rx);
        return NULL;
    }
    for (int i = 0; i < FL_UDP_RX_BATCH; i++) {
        rx->iov[i] = (struct iovec){rx->bytes + (size_t)i * BUF_LEN, BUF_LEN};
        rx->msgs[i].msg_hdr = (struct msghdr){.msg_name = &rx->names[i],
                                              .msg_iov = &rx->iov[i],
                                              .msg_iovlen = 1,
                                              .msg_control = &rx->controls[i]};
    }
    return rx;
}

void fl_udp_rx_destroy(struct fl_udp_rx *rx)
{
    if (rx)
        free(rx->bytes);
    free(rx);
}

void fl_udp_rx_know(struct fl_udp_rx *rx, const struct fl_udp_datagram *flow)
{
    rx->known = true;
    rx->flow = *flow;
    rx->flow.tos &= (uint8_t)~1; /* not marked, as far as nobody asks */
    for (int i = 0; i < FL_UDP_RX_BATCH; i++)
        rx->msgs[i].msg_hdr.msg_name = NULL;
}

static void map_ip4(struct in6_addr *gid, const struct in_addr *ip4)
{
    *gid = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&gid->s6_addr[12], ip4, sizeof(*ip4));
}

static void read_control(struct fl_udp_rx *rx, struct msghdr *m, const struct sockaddr_in6 *name)
{
    struct fl_udp_datagram *d = &rx->common;
    *d = rx->known ? rx->flow : (struct fl_udp_datagram){.sport = ntohs(name->sin6_port)};
    if (!rx->known && name->sin6_family == AF_INET)
        map_ip4(&d->src, &((const struct sockaddr_in *)name)->sin_addr);
    else if (!rx->known)
        d->src = name->sin6_addr;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        const uint8_t *data = CMSG_DATA(c);
        int value = 0;
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            map_ip4(&d->dst, &((const struct in_pktinfo *)data)->ipi_addr);
            continue;
        }
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            d->dst = ((const struct in6_pktinfo *)data)->ipi6_addr;
            continue;
        }
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) { /* the one that is a byte */
            d->tos = *data;
            continue;
        }
        if (c->cmsg_len < CMSG_LEN(sizeof(value)))
            continue;
        memcpy(&value, data, sizeof(value));
        if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
            (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT))
            d->ttl = (uint8_t)value;
        else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
            d->tos = (uint8_t)value;
        else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO && value > 0)
            rx->segment_len = (uint32_t)value;
    }
    if (rx->known && (d->tos & 3) == 3)
        rx->nr_asked = NR_ASKED;
}

/* One packet, and nothing is to be known of it but its bytes. */
static bool is_plain(const struct fl_udp_rx *rx)
{
    return rx->known && !rx->gro && !rx->nr_asked && rx->nr_unasked < NR_UNASKED;
}

static ssize_t receive_one(struct fl_udp_rx *rx, int fd)
{
    struct msghdr *m = &rx->msgs[0].msg_hdr;
    ssize_t len;
    if (is_plain(rx)) {
        m->msg_controllen = 0;
        len = syscall(SYS_recvfrom, fd, rx->bytes, (size_t)BUF_LEN, MSG_DONTWAIT, NULL, NULL);
        rx->nr_unasked += len >= 0;
        return len;
    }
    len = syscall(SYS_recvmsg, fd, m, MSG_DONTWAIT);
    if (len >= 0) {
        rx->nr_unasked = 0;
        rx->nr_asked -= rx->nr_asked > 0;
    }
    return len;
}

/* System calls are made past libc here: theirs are cancellation points, and no thread may end with the RNIC's
 * lock held. */
static bool receive(struct fl_udp_rx *rx, int fd, int *error)
{
    rx->nr = rx->at = 0;
    for (int i = 0; i < rx->want; i++) {
        rx->msgs[i].msg_hdr.msg_namelen = sizeof(rx->names[i]);
        rx->msgs[i].msg_hdr.msg_controllen = sizeof(rx->controls[i]);
    }
    if (rx->want == 1) { /* it costs less than the call for many */
        ssize_t len = receive_one(rx, fd);
        rx->msgs[0].msg_len = (unsigned int)len;
        rx->nr = len < 0 ? -1 : 1;
    } else {
        rx->nr = (int)syscall(SYS_recvmmsg, fd, rx->msgs, rx->want, MSG_DONTWAIT, NULL);
    }
    if (rx->nr > 0)
        return true;
    if (rx->nr < 0 && errno != EAGAIN && errno != EINTR)
        *error = -errno;
    rx->nr = rx->hits = 0;
    return false;
}

/* Joining packets is what makes long messages fast; but it costs each packet that comes alone some 0.4 us. */
static void choose_gro(struct fl_udp_rx *rx, int fd)
{
    if (rx->gro ? rx->singles < NR_SINGLES : rx->nr < NR_BURST)
        return;
    rx->gro = !rx->gro;
    rx->singles = 0;
    (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &(int){rx->gro}, sizeof(int));
}

bool fl_udp_rx_rests(struct fl_udp_rx *rx)
{
    bool rests = rx->drained && rx->at == rx->nr;
    if (rests)
        rx->drained = false;
    return rests;
}

bool fl_udp_rx_has_more(const struct fl_udp_rx *rx)
{
    return rx->at < rx->nr;
}

bool fl_udp_rx_next(struct fl_udp_rx *rx, int fd, struct fl_udp_datagram *datagram, int *error,
                    struct fl_port_stats *stats)
{
    *error = 0;
    for (;;) {
        struct mmsghdr *m;
        uint32_t len;
        if (rx->at == rx->nr) {
            if (!receive(rx, fd, error))
                return false;
            rx->drained = rx->nr < FL_UDP_RX_BATCH;
            rx->want = rx->nr > 1 || ++rx->hits > 1 ? FL_UDP_RX_BATCH : 1;
            stats->nr_rx_calls++;
            rx->singles = rx->nr == 1 ? rx->singles + 1 : 0;
            choose_gro(rx, fd);
        }
        m = &rx->msgs[rx->at];
        if (!rx->segment_len) {
            rx->offset = 0;
            rx->index = 0;
            read_control(rx, &m->msg_hdr, &rx->names[rx->at]);
            if (rx->segment_len)
                rx->singles = 0;
            else
                rx->segment_len = FL_MAX(m->msg_len, 1u);
        }
        len = FL_MIN(rx->segment_len, m->msg_len - rx->offset);
        *datagram = rx->common;
        datagram->bytes = rx->bytes + (size_t)rx->at * BUF_LEN + rx->offset;
        datagram->len = len;
        datagram->index = rx->index++;
        rx->offset += len;
        if (rx->offset >= m->msg_len) {
            rx->at++;
            rx->segment_len = 0;
        }
        if (len)
            return true;
    }
}
