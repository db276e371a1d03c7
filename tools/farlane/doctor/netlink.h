/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the kernel by netlink, and attributes in its answers. No length in them is trusted. */
#ifndef FARLANE_DOCTOR_NETLINK_H
#define FARLANE_DOCTOR_NETLINK_H

#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netlink_ask {
    uint8_t bytes[512];
};

/* Begins a request; `head` is the family's own header. */
void netlink_begin(struct netlink_ask *ask, uint16_t type, uint16_t flags, const void *head, size_t len);
void netlink_attr(struct netlink_ask *ask, uint16_t type, const void *data, size_t len);

/*
 * Sends it and gives each message of the answer to `take`, until the end. 0, or the kernel's negative errno,
 * or -ETIMEDOUT.
 */
int netlink_run(int protocol, const struct netlink_ask *ask, bool dump,
                void (*take)(void *arg, const struct nlmsghdr *message), void *arg);

struct netlink_view {
    const uint8_t *at;
    size_t len;
};

/* What stands in a message behind a header of `head_len`; empty when it is too short. */
struct netlink_view netlink_body(const struct nlmsghdr *message, size_t head_len);
/* The next attribute; false at the end or where a length lies. */
bool netlink_next(struct netlink_view *view, uint16_t *type, struct netlink_view *value);
/* The first attribute of this type; false: there is none */
bool netlink_find(struct netlink_view view, uint16_t type, struct netlink_view *value);

#endif
