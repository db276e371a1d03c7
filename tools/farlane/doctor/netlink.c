/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "netlink.h"

static struct nlmsghdr *header(struct netlink_ask *ask)
{
    return (struct nlmsghdr *)ask->bytes;
}

void netlink_begin(struct netlink_ask *ask, uint16_t type, uint16_t flags, const void *head, size_t len)
{
    memset(ask, 0, sizeof(*ask));
    *header(ask) = (struct nlmsghdr){.nlmsg_len = (uint32_t)NLMSG_LENGTH(len),
                                     .nlmsg_type = type,
                                     .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
                                     .nlmsg_seq = 1};
    memcpy(ask->bytes + NLMSG_HDRLEN, head, len);
}

void netlink_attr(struct netlink_ask *ask, uint16_t type, const void *data, size_t len)
{
    struct nlattr attr = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};
    size_t at = NLMSG_ALIGN(header(ask)->nlmsg_len);

    assert(at + NLA_HDRLEN + NLA_ALIGN(len) <= sizeof(ask->bytes));
    memcpy(ask->bytes + at, &attr, sizeof(attr));
    if (len)
        memcpy(ask->bytes + at + NLA_HDRLEN, data, len);
    header(ask)->nlmsg_len = (uint32_t)(at + NLA_HDRLEN + NLA_ALIGN(len));
}

/* 1: the answer is over; 0: more comes; negative errno */
static int take_all(const uint8_t *bytes, size_t len, bool dump,
                    void (*take)(void *, const struct nlmsghdr *), void *arg)
{
    const struct nlmsghdr *m;

    while (len >= sizeof(*m)) {
        m = (const struct nlmsghdr *)bytes;
        if (m->nlmsg_len < sizeof(*m) || m->nlmsg_len > len)
            return -EPROTO;
        if (m->nlmsg_type == NLMSG_DONE)
            return 1;
        if (m->nlmsg_type == NLMSG_ERROR) {
            int32_t error;

            if (m->nlmsg_len < NLMSG_LENGTH(sizeof(error)))
                return -EPROTO;
            memcpy(&error, bytes + NLMSG_HDRLEN, sizeof(error));
            return error ? error : 1;
        }
        take(arg, m);
        if (!dump)
            return 1;
        if (NLMSG_ALIGN(m->nlmsg_len) >= len)
            break;
        len -= NLMSG_ALIGN(m->nlmsg_len);
        bytes += NLMSG_ALIGN(m->nlmsg_len);
    }
    return 0;
}

int netlink_run(int protocol, const struct netlink_ask *ask, bool dump,
                void (*take)(void *arg, const struct nlmsghdr *message), void *arg)
{
    static _Alignas(struct nlmsghdr) uint8_t answer[1 << 16];
    const struct timeval patience = {.tv_sec = 2};
    const struct nlmsghdr *m = (const struct nlmsghdr *)ask->bytes;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), r = 0;

    if (fd < 0)
        return errno == EPROTONOSUPPORT ? -EOPNOTSUPP : -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (send(fd, ask->bytes, m->nlmsg_len, 0) < 0)
        r = -errno;
    while (!r) {
        ssize_t n = recv(fd, answer, sizeof(answer), 0);

        r = n < 0 ? (errno == EAGAIN ? -ETIMEDOUT : -errno) : take_all(answer, (size_t)n, dump, take, arg);
    }
    close(fd);
    return r < 0 ? r : 0;
}

struct netlink_view netlink_body(const struct nlmsghdr *message, size_t head_len)
{
    size_t skip = NLMSG_SPACE(head_len);

    if (message->nlmsg_len < skip)
        return (struct netlink_view){NULL, 0};
    return (struct netlink_view){(const uint8_t *)message + skip, message->nlmsg_len - skip};
}

bool netlink_next(struct netlink_view *view, uint16_t *type, struct netlink_view *value)
{
    struct nlattr attr;
    size_t step;

    if (view->len < sizeof(attr))
        return false;
    memcpy(&attr, view->at, sizeof(attr));
    if (attr.nla_len < sizeof(attr) || attr.nla_len > view->len)
        return false;
    *type = attr.nla_type & NLA_TYPE_MASK;
    *value = (struct netlink_view){view->at + NLA_HDRLEN, (size_t)attr.nla_len - NLA_HDRLEN};
    step = NLA_ALIGN((size_t)attr.nla_len);
    step = step < view->len ? step : view->len;
    view->at += step;
    view->len -= step;
    return true;
}

bool netlink_find(struct netlink_view view, uint16_t type, struct netlink_view *value)
{
    uint16_t found;

    while (netlink_next(&view, &found, value))
        if (found == type)
            return true;
    return false;
}
