/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a packet capture (pcap, Ethernet, whole or gzipped) and puts the byte streams of its TCP connections
 * together. */
#ifndef FL_TESTS_WIRE_PCAP_H
#define FL_TESTS_WIRE_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCAP_MAX_FLOWS 16

struct pcap_frame {
    const uint8_t *bytes;
    size_t len;
};

struct pcap {
    uint8_t *bytes;
    size_t len;
    struct pcap_frame *frames;
    size_t nr_frames;
};

/* 0 or a negative errno; pcap_free() in both cases. */
int pcap_load(struct pcap *pcap, const char *path);
void pcap_free(struct pcap *pcap);

/* One direction of a TCP connection */
struct flow_half {
    bool syn;
    uint32_t isn;
    uint8_t *bytes;
    uint8_t *seen; /* one flag a byte */
    size_t len, cap;
};

enum { FLOW_OUT = 0, FLOW_BACK = 1 }; /* from the side that connects, and to it */

struct flow {
    uint32_t addr[2]; /* of the side that connects, of the one that listens */
    uint16_t port[2];
    struct flow_half half[2];
};

struct flows {
    struct flow flow[PCAP_MAX_FLOWS];
    size_t nr;
    size_t nr_repeated; /* segments that brought nothing new */
};

/*
 * Puts the streams together: segments in any order, repeated or overlapping. -EPROTO: a gap, bytes that
 * differ when repeated, a connection whose SYN is missing; -E2BIG: too many connections. flows_free() in both
 * cases.
 */
int flows_collect(struct flows *flows, const struct pcap *pcap);
void flows_free(struct flows *flows);

#endif
