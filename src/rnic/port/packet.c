/* SPDX-License-Identifier: Apache-2.0 */
/* From the bytes of a datagram to a packet: ICRC, headers, and the GRH that UD receives begin with. */
#include <errno.h>
#include <string.h>

#include "rnic/port/udp.h"

uint32_t fl_udp_icrc_start(const struct in6_addr *src, const struct in6_addr *dst, uint16_t sport,
                           uint16_t dport, uint32_t packet_len)
{
    if (fl_udp_is_ip4(dst)) {
        struct fl_icrc_ip4 ip = {.src_port = sport, .dst_port = dport, .df = true};
        memcpy(&ip.src, &src->s6_addr[12], sizeof(ip.src));
        memcpy(&ip.dst, &dst->s6_addr[12], sizeof(ip.dst));
        return fl_icrc_ip4(&ip, packet_len);
    }
    struct fl_icrc_ip6 ip = {.src_port = sport, .dst_port = dport};
    memcpy(ip.src, src, sizeof(ip.src));
    memcpy(ip.dst, dst, sizeof(ip.dst));
    return fl_icrc_ip6(&ip, packet_len);
}

uint32_t fl_udp_icrc_with_id(uint32_t start, const struct in6_addr *dst, uint16_t id)
{
    return fl_udp_is_ip4(dst) ? start ^ fl_icrc_ip4_id(id) : start;
}

uint32_t fl_udp_icrc(const struct in6_addr *src, const struct in6_addr *dst, uint16_t sport, uint16_t dport,
                     uint16_t id, const void *packet, uint32_t packet_len)
{
    uint32_t start = fl_udp_icrc_start(src, dst, sport, dport, packet_len);
    return fl_icrc_rest(fl_udp_icrc_with_id(start, dst, id), packet, packet_len);
}

struct ip4_hdr {
    uint8_t version, tos;
    be16 len, id, fragment;
    uint8_t ttl, protocol;
    be16 sum;
    be32 src, dst;
};
_Static_assert(sizeof(struct ip4_hdr) == 20, "IPv4 header");

struct ip6_hdr {
    be32 flow;
    be16 len;
    uint8_t next, hops;
    uint8_t src[16], dst[16];
};
_Static_assert(sizeof(struct ip6_hdr) == FL_ROCE_GRH_LEN, "IPv6 header");

#define UDP_HDR_LEN 8

static be16 ip4_sum(const struct ip4_hdr *ip)
{
    const uint8_t *b = (const uint8_t *)ip;
    uint32_t sum = 0;
    for (size_t i = 0; i < sizeof(*ip); i += 2)
        sum += (uint32_t)b[i] << 8 | b[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return be16_of((uint16_t) ~(sum + (sum >> 16)));
}

/* What the socket does not tell is rebuilt: the header as it was on the wire. */
static void make_grh(uint8_t *grh, const struct fl_udp_datagram *d, uint16_t id)
{
    uint16_t udp_len = (uint16_t)(UDP_HDR_LEN + d->len);
    if (fl_udp_is_ip4(&d->dst)) {
        struct ip4_hdr *ip = (struct ip4_hdr *)(grh + FL_ROCE_GRH_LEN - sizeof(*ip));
        memset(grh, 0, FL_ROCE_GRH_LEN - sizeof(*ip));
        *ip = (struct ip4_hdr){.version = 0x45,
                               .tos = d->tos,
                               .len = be16_of((uint16_t)(sizeof(*ip) + udp_len)),
                               .id = be16_of(id),
                               .fragment = be16_of(0x4000),
                               .ttl = d->ttl,
                               .protocol = IPPROTO_UDP};
        memcpy(&ip->src, &d->src.s6_addr[12], sizeof(ip->src));
        memcpy(&ip->dst, &d->dst.s6_addr[12], sizeof(ip->dst));
        ip->sum = ip4_sum(ip);
    } else {
        struct ip6_hdr *ip = (struct ip6_hdr *)grh;
        *ip = (struct ip6_hdr){.flow = be32_of(6u << 28 | (uint32_t)d->tos << 20),
                               .len = be16_of(udp_len),
                               .next = IPPROTO_UDP,
                               .hops = d->ttl};
        memcpy(ip->src, &d->src, sizeof(ip->src));
        memcpy(ip->dst, &d->dst, sizeof(ip->dst));
    }
}

static void learn(struct fl_udp_checker *c, const struct fl_udp_datagram *d, uint16_t dport)
{
    c->start = fl_udp_icrc_start(&d->src, &d->dst, d->sport, dport, d->len);
    c->src = d->src;
    c->dst = d->dst;
    c->sport = d->sport;
    c->dport = dport;
    c->len = d->len;
}

static bool knows(const struct fl_udp_checker *c, const struct fl_udp_datagram *d, uint16_t dport)
{
    return c->len == d->len && c->sport == d->sport && c->dport == dport &&
           IN6_ARE_ADDR_EQUAL(&c->src, &d->src) && IN6_ARE_ADDR_EQUAL(&c->dst, &d->dst);
}

/* IPv4: the identification that explains the ICRC, in *id: that of the burst so far, else whichever does. */
static bool is_right(struct fl_udp_checker *c, const struct fl_udp_datagram *d, uint16_t dport, uint16_t *id)
{
    uint16_t other;
    le32 icrc;
    memcpy(&icrc, d->bytes + d->len - sizeof(icrc), sizeof(icrc));
    if (!knows(c, d, dport))
        learn(c, d, dport);
    *id = (uint16_t)(c->first_id + d->index);
    uint32_t difference = le32_get(icrc) ^
                          fl_icrc_rest(fl_udp_icrc_with_id(c->start, &d->dst, *id), d->bytes, d->len);
    if (!difference)
        return true;
    /* IPv6 has no identification: there all bits are checked. */
    if (!fl_udp_is_ip4(&d->dst) || !fl_icrc_finder_id(&c->finder, difference, d->len, &other))
        return false;
    *id ^= other;
    c->first_id = (uint16_t)(*id - d->index);
    return true;
}

int fl_udp_packet(const struct fl_udp_datagram *d, uint16_t dport, struct fl_udp_checker *checker,
                  struct fl_port_packet *packet, uint8_t *grh)
{
    uint16_t id;
    if (d->len < sizeof(struct fl_bth) + FL_IB_ICRC_LEN || d->len > FL_UDP_PACKET_MAX)
        return -EPROTO;
    if (!is_right(checker, d, dport, &id))
        return -EBADMSG;
    if (fl_ib_packet_view(&packet->packet, d->bytes, d->len - FL_IB_ICRC_LEN) < 0)
        return -EPROTO;
    packet->sgid = d->src;
    packet->dgid = d->dst;
    packet->udp_sport = d->sport;
    packet->meta = (struct fl_roce_meta){.ce = (d->tos & 3) == 3};
    if (packet->packet.bth->opcode >> 5 == FL_IB_UD) {
        make_grh(grh, d, id);
        packet->meta.grh = grh;
    }
    return 0;
}
