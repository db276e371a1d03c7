/* SPDX-License-Identifier: Apache-2.0 */
#include "pcap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

#include "base/bytes.h"

#define FILE_MAX   (256u << 20)
#define STREAM_MAX (64u << 20)

static int read_file(struct pcap *pcap, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return -errno;
    int r = -EIO;
    long len;
    if (fseek(f, 0, SEEK_END) || (len = ftell(f)) < 0 || len > (long)FILE_MAX || fseek(f, 0, SEEK_SET))
        goto close;
    pcap->bytes = malloc((size_t)len + 1);
    if (!pcap->bytes)
        goto close;
    pcap->len = fread(pcap->bytes, 1, (size_t)len, f);
    r = pcap->len == (size_t)len ? 0 : -EIO;
close:
    fclose(f);
    return r;
}

static int gunzip(struct pcap *pcap)
{
    static struct inflate_state state; /* 300 KiB, too much for a stack */
    size_t cap = pcap->len * 64 + 65536;
    uint8_t *out = malloc(cap);
    if (!out)
        return -ENOMEM;
    isal_inflate_init(&state);
    state.crc_flag = ISAL_GZIP;
    state.next_in = pcap->bytes;
    state.avail_in = (uint32_t)pcap->len;
    state.next_out = out;
    state.avail_out = (uint32_t)cap;
    if (isal_inflate(&state) != ISAL_DECOMP_OK || state.block_state != ISAL_BLOCK_FINISH) {
        free(out);
        return -EPROTO;
    }
    free(pcap->bytes);
    pcap->bytes = out;
    pcap->len = state.total_out;
    return 0;
}

static uint32_t get32(const uint8_t *p)
{
    le32 x;
    memcpy(&x, p, sizeof(x));
    return le32_get(x);
}

int pcap_load(struct pcap *pcap, const char *path)
{
    memset(pcap, 0, sizeof(*pcap));
    int r = read_file(pcap, path);
    if (!r && pcap->len > 2 && pcap->bytes[0] == 0x1f && pcap->bytes[1] == 0x8b)
        r = gunzip(pcap);
    if (r)
        return r;
    /* magic of microseconds, little endian; version 2.4; link type Ethernet */
    if (pcap->len < 24 || get32(pcap->bytes) != 0xa1b2c3d4 || get32(pcap->bytes + 4) != 0x00040002 ||
        get32(pcap->bytes + 20) != 1)
        return -EPROTO;
    for (size_t at = 24; at < pcap->len;) {
        if (pcap->len - at < 16)
            return -EPROTO;
        size_t len = get32(pcap->bytes + at + 8);
        if (len != get32(pcap->bytes + at + 12) || len > pcap->len - at - 16) /* whole frames only */
            return -EPROTO;
        if (pcap->nr_frames % 1024 == 0) {
            void *more = realloc(pcap->frames, (pcap->nr_frames + 1024) * sizeof(pcap->frames[0]));
            if (!more)
                return -ENOMEM;
            pcap->frames = more;
        }
        pcap->frames[pcap->nr_frames++] = (struct pcap_frame){pcap->bytes + at + 16, len};
        at += 16 + len;
    }
    return 0;
}

void pcap_free(struct pcap *pcap)
{
    free(pcap->frames);
    free(pcap->bytes);
    memset(pcap, 0, sizeof(*pcap));
}

struct segment {
    uint32_t addr[2], seq;
    uint16_t port[2];
    uint8_t flags;
    const uint8_t *data;
    size_t len;
};

#define TCP_SYN 0x02
#define TCP_ACK 0x10

static uint16_t get16be(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32be(const uint8_t *p)
{
    return (uint32_t)get16be(p) << 16 | get16be(p + 2);
}

/* 1: a TCP segment over IPv4; 0: something else; -EPROTO */
static int parse(const struct pcap_frame *frame, struct segment *seg)
{
    if (frame->len < 14 || get16be(frame->bytes + 12) != 0x0800)
        return 0;
    const uint8_t *ip = frame->bytes + 14;
    size_t left = frame->len - 14;
    if (left < 20 || ip[0] >> 4 != 4)
        return -EPROTO;
    size_t ip_len = (ip[0] & 15u) * 4, total = get16be(ip + 2);
    if (ip[9] != 6)
        return 0;
    if (ip_len < 20 || total > left || total < ip_len + 20 || (get16be(ip + 6) & 0x3fff)) /* no fragments */
        return -EPROTO;
    const uint8_t *tcp = ip + ip_len;
    size_t tcp_len = (tcp[12] >> 4) * 4u;
    if (tcp_len < 20 || ip_len + tcp_len > total)
        return -EPROTO;
    *seg = (struct segment){
        .addr = {get32be(ip + 12), get32be(ip + 16)},
        .port = {get16be(tcp), get16be(tcp + 2)},
        .seq = get32be(tcp + 4),
        .flags = tcp[13],
        .data = tcp + tcp_len,
        .len = total - ip_len - tcp_len,
    };
    return 1;
}

/* The flow that a segment belongs to, and its direction; NULL if its SYN was not seen. */
static struct flow *find(struct flows *flows, const struct segment *seg, int *dir)
{
    for (size_t i = 0; i < flows->nr; i++) {
        struct flow *flow = &flows->flow[i];
        for (*dir = 0; *dir < 2; ++*dir)
            if (flow->addr[0] == seg->addr[*dir] && flow->port[0] == seg->port[*dir] &&
                flow->addr[1] == seg->addr[!*dir] && flow->port[1] == seg->port[!*dir])
                return flow;
    }
    return NULL;
}

static int note_syn(struct flows *flows, const struct segment *seg)
{
    int dir;
    struct flow *flow = find(flows, seg, &dir);
    if (!flow) {
        if (flows->nr == PCAP_MAX_FLOWS)
            return -E2BIG;
        flow = &flows->flow[flows->nr++];
        dir = seg->flags & TCP_ACK ? FLOW_BACK : FLOW_OUT;
        for (int i = 0; i < 2; i++) {
            flow->addr[dir ^ i] = seg->addr[i];
            flow->port[dir ^ i] = seg->port[i];
        }
    }
    struct flow_half *half = &flow->half[dir];
    if (half->syn &&
        half->isn != seg->seq) /* the same ports for a second connection: none of our captures does that */
        return -EPROTO;
    half->syn = true;
    half->isn = seg->seq;
    return 0;
}

static int note_data(struct flows *flows, const struct segment *seg)
{
    int dir;
    struct flow *flow = find(flows, seg, &dir);
    if (!flow || !flow->half[dir].syn)
        return -EPROTO;
    struct flow_half *half = &flow->half[dir];
    size_t at = seg->seq - half->isn - 1,
           end = at + seg->len; /* a segment before the stream comes out huge */
    if (end > STREAM_MAX)
        return -EPROTO;
    if (end > half->cap) {
        size_t cap = end * 2;
        half->bytes = realloc(half->bytes, cap);
        half->seen = realloc(half->seen, cap);
        if (!half->bytes || !half->seen)
            return -ENOMEM;
        memset(half->seen + half->cap, 0, cap - half->cap);
        half->cap = cap;
    }
    size_t nr_new = 0;
    for (size_t i = 0; i < seg->len; i++) {
        if (half->seen[at + i] && half->bytes[at + i] != seg->data[i])
            return -EPROTO;
        nr_new += !half->seen[at + i];
        half->seen[at + i] = 1;
        half->bytes[at + i] = seg->data[i];
    }
    flows->nr_repeated += !nr_new;
    if (end > half->len)
        half->len = end;
    return 0;
}

int flows_collect(struct flows *flows, const struct pcap *pcap)
{
    memset(flows, 0, sizeof(*flows));
    for (int pass = 0; pass < 2; pass++) { /* all SYNs first, so that the order of frames does not matter */
        for (size_t i = 0; i < pcap->nr_frames; i++) {
            struct segment seg;
            int r = parse(&pcap->frames[i], &seg);
            if (r > 0 && !pass && seg.flags & TCP_SYN)
                r = note_syn(flows, &seg);
            else if (r > 0 && pass && seg.len)
                r = note_data(flows, &seg);
            if (r < 0)
                return r;
        }
    }
    for (size_t i = 0; i < flows->nr; i++)
        for (int dir = 0; dir < 2; dir++)
            if (flows->flow[i].half[dir].len &&
                memchr(flows->flow[i].half[dir].seen, 0, flows->flow[i].half[dir].len))
                return -EPROTO;
    return 0;
}

void flows_free(struct flows *flows)
{
    for (size_t i = 0; i < flows->nr; i++) {
        for (int dir = 0; dir < 2; dir++) {
            free(flows->flow[i].half[dir].bytes);
            free(flows->flow[i].half[dir].seen);
        }
    }
    memset(flows, 0, sizeof(*flows));
}
