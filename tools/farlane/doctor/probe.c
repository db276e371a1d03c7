/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of exact size with DF set: what passes a path, each way. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/util.h"
#include "peer.h"

#define MAGIC  0x666c6472u /* "fldr" */
#define TRIES  2
#define ROUNDS 3
#define WAIT_FIRST \
    (150 * FL_NS_PER_MS) /* until the round trip is known, then 8 round trips within these bounds */
#define WAIT_LEAST (50 * FL_NS_PER_MS)
#define WAIT_MOST  (400 * FL_NS_PER_MS)
#define DATAGRAM   65536
#define SMALL      64
#define HEADERS_4  28 /* IPv4 and UDP */
#define HEADERS_6  48
#define LEAST      576 /* every path carries an IPv4 packet of this length */

/* The first bytes of a probe; the rest is zero */
struct probe {
    be32 magic, seq, reply_len; /* UDP payload of the answer */
};

int probe_socket(const struct fl_addr *from, const struct fl_addr *to)
{
    int family = from->ss.ss_family, fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;
    const int probe4 = IP_PMTUDISC_PROBE, probe6 = IPV6_PMTUDISC_PROBE, on = 1;

    if (fd < 0)
        return -errno;
    if (family == AF_INET)
        r = setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe4, sizeof(probe4));
    else
        r = setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe6, sizeof(probe6)) ||
            setsockopt(fd, IPPROTO_IPV6, IPV6_DONTFRAG, &on, sizeof(on)) ||
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (r || bind(fd, (const struct sockaddr *)&from->ss, from->len) < 0 ||
        (to && connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0)) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

void probe_answer(int udp, int tcp, int timeout_ms)
{
    uint64_t deadline = fl_now_ns() + (uint64_t)timeout_ms * 1000000;
    struct pollfd pfd[2] = {{.fd = udp, .events = POLLIN}, {.fd = tcp, .events = POLLIN}};
    uint8_t *bytes = calloc(1, DATAGRAM);

    while (bytes && fl_now_ns() < deadline && poll(pfd, 2, 100) >= 0 && !pfd[1].revents) {
        struct probe probe;
        ssize_t n = recv(udp, bytes, DATAGRAM, MSG_DONTWAIT);
        uint32_t len;

        if (n < (ssize_t)sizeof(probe))
            continue;
        memcpy(&probe, bytes, sizeof(probe));
        len = be32_get(probe.reply_len);
        if (be32_get(probe.magic) != MAGIC || len < sizeof(probe) || len > DATAGRAM - HEADERS_4)
            continue;
        memset(bytes, 0, len);
        memcpy(bytes, &probe, sizeof(probe));
        send(udp, bytes, len, MSG_NOSIGNAL); /* one that does not pass is what the asker learns from */
    }
    free(bytes);
}

struct prober {
    int udp, headers;
    uint32_t seq;
    uint64_t wait_ns;
    uint8_t *bytes;
};

/* Waits for the answer to the last probe. */
static bool is_answered(struct prober *p, uint32_t reply_len)
{
    uint64_t start = fl_now_ns(), now = start;

    for (; now - start < p->wait_ns; now = fl_now_ns()) {
        struct pollfd pfd = {.fd = p->udp, .events = POLLIN};
        struct probe probe;
        ssize_t n;

        poll(&pfd, 1, 10);
        n = recv(p->udp, p->bytes, DATAGRAM, MSG_DONTWAIT);
        if (n < (ssize_t)sizeof(probe))
            continue;
        memcpy(&probe, p->bytes, sizeof(probe));
        if (be32_get(probe.magic) != MAGIC || be32_get(probe.seq) != p->seq || (uint32_t)n != reply_len)
            continue;
        p->wait_ns = FL_MIN(WAIT_MOST, FL_MAX(WAIT_LEAST, 8 * (fl_now_ns() - start)));
        return true;
    }
    return false;
}

/* A probe of one length, answered by one of another; both are UDP payloads */
static bool passes(struct prober *p, uint32_t len, uint32_t reply_len)
{
    for (int i = 0; i < TRIES; i++) {
        struct probe probe = {be32_of(MAGIC), be32_of(++p->seq), be32_of(reply_len)};

        memset(p->bytes, 0, len);
        memcpy(p->bytes, &probe, sizeof(probe));
        if (send(p->udp, p->bytes, len, MSG_NOSIGNAL) < 0 && errno == EMSGSIZE)
            return false;
        if (is_answered(p, reply_len))
            return true;
    }
    return false;
}

/*
 * A large packet that does not come back is only then a fault of the path when a small one does, now: the
 * peer may be busy, and the time for which is waited follows it.
 */
static bool packet_passes(struct prober *p, int len, bool back)
{
    uint32_t payload = (uint32_t)(len - p->headers);

    for (int round = 0; round < ROUNDS; round++) {
        if (back ? passes(p, SMALL, payload) : passes(p, payload, SMALL))
            return true;
        passes(p, SMALL, SMALL);
    }
    return false;
}

/* The largest packet that passes in one direction */
static int largest(struct prober *p, int want, bool back)
{
    int low = LEAST, high = want;

    if (!packet_passes(p, LEAST, back))
        return 0;
    if (packet_passes(p, want, back))
        return want;
    while (high - low > 8) { /* headers of tunnels are multiples of 4; 8 is near enough to name the hop */
        int middle = (low + high) / 2;

        if (packet_passes(p, middle, back))
            low = middle;
        else
            high = middle;
    }
    return low;
}

int probe_path(int udp, bool ip6, int want, struct probe_result *result)
{
    struct prober p = {.udp = udp,
                       .headers = ip6 ? HEADERS_6 : HEADERS_4,
                       .wait_ns = WAIT_FIRST,
                       .bytes = calloc(1, DATAGRAM)};

    if (!p.bytes)
        return -ENOMEM;
    want = FL_MAX(LEAST, FL_MIN(want, 65535));
    result->there = largest(&p, want, false);
    result->back = result->there ? largest(&p, want, true) : 0;
    free(p.bytes);
    return 0;
}
