/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket for one destination: the kernel looks up its route once, and not for each packet. The ICRC covers
 * the IPv4 identification, which counts up from a random number where a socket is connected, by one for each
 * datagram and, as kernels differ, for each burst or each of its packets (ip_select_ident_segs()). Where it
 * stands is learned from packets to this host itself, sent by the same socket: the kernel gives a packet that
 * is to be time-stamped back whole, with its headers. Three are sent, so that a kernel which counts
 * otherwise, or tells nothing, is noticed.
 */
#include <errno.h>
#include <linux/net_tstamp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "rnic/port/udp.h"

#define IP4_LEN  20
#define UDP_LEN  8
#define LINK_MAX 64 /* longest header of a link that stands before it */

/* One or two bytes from the socket under test; two are a burst. */
static bool send_probe(int fd, const struct sockaddr_in *to, bool burst)
{
    static const char bytes[2];
    union {
        struct cmsghdr hdr;
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control = {
        .hdr = {.cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof(uint16_t))}};
    const uint16_t segment_len = 1;
    struct iovec iov = {(void *)bytes, burst ? 2 : 1};
    struct msghdr m = {.msg_name = (void *)to, .msg_namelen = sizeof(*to), .msg_iov = &iov, .msg_iovlen = 1};
    if (burst) {
        memcpy(CMSG_DATA(&control.hdr), &segment_len, sizeof(segment_len));
        m.msg_control = &control;
        m.msg_controllen = sizeof(control);
    }
    return sendmsg(fd, &m, MSG_DONTWAIT) == (ssize_t)iov.iov_len;
}

/* The identification of the packet that was sent last. */
static bool read_id(int fd, const struct sockaddr_in *from, const struct sockaddr_in *to, uint16_t *id)
{
    uint8_t bytes[256], wanted[8];
    ssize_t len = recv(fd, bytes, sizeof(bytes), MSG_ERRQUEUE | MSG_DONTWAIT);
    memcpy(wanted, &from->sin_addr, 4);
    memcpy(wanted + 4, &to->sin_addr, 4);
    for (ssize_t at = 0; at <= LINK_MAX && at + IP4_LEN + UDP_LEN <= len; at += 2) {
        const uint8_t *ip = bytes + at;
        if (ip[0] == 0x45 && ip[9] == IPPROTO_UDP && !memcmp(ip + 12, wanted, 8) &&
            !memcmp(ip + IP4_LEN, &from->sin_port, 2) && !memcmp(ip + IP4_LEN + 2, &to->sin_port, 2)) {
            *id = (uint16_t)(ip[4] << 8 | ip[5]);
            return (ip[6] & 0xe0) == 0x40; /* DF, and no fragment */
        }
    }
    return false;
}

static bool send_probes(int fd, const struct sockaddr_in *from, const struct sockaddr_in *to,
                        struct fl_udp_count *count)
{
    uint16_t first, burst, last;
    if (!send_probe(fd, to, false) || !read_id(fd, from, to, &first) || !send_probe(fd, to, true) ||
        !read_id(fd, from, to, &burst) || !send_probe(fd, to, false) || !read_id(fd, from, to, &last))
        return false;
    *count = (struct fl_udp_count){.next = (uint16_t)(last + 1), .by_packet = last == (uint16_t)(burst + 2)};
    return burst == (uint16_t)(first + 1) && (count->by_packet || last == (uint16_t)(burst + 1));
}

static int learn_count(int fd, struct fl_udp_count *count)
{
    struct sockaddr_in from, to;
    socklen_t len = sizeof(from);
    const int on = SOF_TIMESTAMPING_TX_SCHED, off = 0;
    int sink, rc = -EOPNOTSUPP;
    if (getsockname(fd, (struct sockaddr *)&from, &len) < 0)
        return -errno;
    sink = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sink < 0)
        return -errno;
    to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = from.sin_addr};
    len = sizeof(to);
    if (bind(sink, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        getsockname(sink, (struct sockaddr *)&to, &len) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)) == 0 &&
        send_probes(fd, &from, &to, count) &&
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &off, sizeof(off)) == 0)
        rc = 0;
    close(sink);
    return rc;
}

int fl_udp_twin(const struct fl_port_flow *flow, uint8_t tos, uint16_t sport, uint16_t dport,
                struct fl_udp_count *count)
{
    const int least = 1;
    int fd = fl_udp_source_beside(&flow->sgid, flow->scope_id, tos, sport), rc;
    if (fd < 0)
        return fd;
    rc = fl_udp_connect(fd, &flow->dgid, flow->scope_id, dport);
    *count = (struct fl_udp_count){0};
    if (rc == 0 && fl_udp_is_ip4(&flow->dgid))
        rc = learn_count(fd, count);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
    return fd;
}
