/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IP addresses with a port, IPv4 and IPv6 alike, also with a scope (fe80::1%eth0). What is printed here can
 * be pasted back. Parsing asks nobody; names are resolved only by fl_addr_resolve, which may take seconds.
 */
#ifndef FL_BASE_ADDRESS_H
#define FL_BASE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <farlane/error.h>

struct fl_addr {
    struct sockaddr_storage ss;
    socklen_t len;
};

/* Longest address text: INET6_ADDRSTRLEN counts its terminator, then "%" and an interface name. */
#define FL_ADDR_IP_LEN   (INET6_ADDRSTRLEN + IF_NAMESIZE)
#define FL_ADDR_TEXT_LEN (FL_ADDR_IP_LEN + sizeof("[]:65535"))
#define FL_HOST_LEN      300 /* a DNS name has 253 bytes at most; also holds any address */

/*
 * Takes HOST:PORT apart without looking at what HOST is: "a.example", "a.example:4420", "1.2.3.4:4420",
 * "::1",
 * "[::1]", "[fe80::1%eth0]:4420". Brackets are dropped. *port is -1 when none is given. `len` is the size of
 * `host`.
 */
int fl_addr_split(const char *text, char *host, size_t len, int *port, struct fl_error *err);

/* An IP address with or without a port (then `default_port`; 0 is allowed). No name service is asked. */
int fl_addr_parse(const char *text, uint16_t default_port, struct fl_addr *addr, struct fl_error *err);

/* An address without a port, in its own text: "1.2.3.4", "fe80::1%eth0". Brackets are not allowed. */
int fl_addr_parse_ip(const char *ip, uint16_t port, struct fl_addr *addr, struct fl_error *err);

/*
 * As fl_addr_parse, and names are looked up too: at most `max` addresses in the order in which they should be
 * tried. Returns how many (at least 1). Blocks on the name service for names.
 */
int fl_addr_resolve(const char *text, uint16_t default_port, struct fl_addr *addrs, size_t max,
                    struct fl_error *err);

/* Copies a socket address of an IP family; -EAFNOSUPPORT for another, or if `len` is too short for it. */
int fl_addr_from(struct fl_addr *addr, const struct sockaddr *sa, socklen_t len);

/* "1.2.3.4:4420", "[fe80::1%eth0]:4420". Returns buf. */
char *fl_addr_format(const struct fl_addr *addr, char buf[FL_ADDR_TEXT_LEN]);
/* The address alone, as NVMe's TRADDR has it: "1.2.3.4", "fe80::1%eth0". Returns buf. */
char *fl_addr_format_ip(const struct fl_addr *addr, char buf[FL_ADDR_IP_LEN]);

uint16_t fl_addr_port(const struct fl_addr *addr);
void fl_addr_set_port(struct fl_addr *addr, uint16_t port);
bool fl_addr_is_any(const struct fl_addr *addr);      /* 0.0.0.0, :: */
bool fl_addr_is_loopback(const struct fl_addr *addr); /* 127.0.0.0/8, ::1, also mapped into IPv6 */
bool fl_addr_same_ip(const struct fl_addr *a, const struct fl_addr *b); /* port apart; scope counts */
bool fl_addr_equal(const struct fl_addr *a, const struct fl_addr *b);

#endif
