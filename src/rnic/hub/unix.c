/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/unix.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/ib.h"

int fl_hub_udp_port(uint16_t *port, struct fl_error *err)
{
    const char *text = getenv("FARLANE_ROCE_PORT");
    char *end;
    *port = FL_ROCE_PORT;
    if (!text || !*text)
        return 0;
    unsigned long number = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (!number || number > UINT16_MAX || *end)
        return fl_error_set(err, -EINVAL, "FARLANE_ROCE_PORT is %s: a UDP port is a number from 1 to 65535",
                            text);
    *port = (uint16_t)number;
    return 0;
}

int fl_hub_default_name(const char *hub_path, uint16_t udp_port, char name[FL_HUB_NAME_LEN])
{
    struct stat st;
    if (hub_path && strlen(hub_path) >= FL_HUB_NAME_LEN)
        return -ENAMETOOLONG;
    if (stat("/proc/self/ns/net", &st) < 0)
        st.st_ino = 0; /* abstract names are the network namespace's own anyway */
    if (hub_path)
        strcpy(name, hub_path);
    else
        snprintf(name, FL_HUB_NAME_LEN, "farlane-rnic-%llu-%u", (unsigned long long)st.st_ino, udp_port);
    return 0;
}

static int address_of(const char *name, struct sockaddr_un *addr, socklen_t *len)
{
    size_t n = strlen(name);
    if (!n || n >= sizeof(addr->sun_path))
        return -EINVAL;
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(addr->sun_path + 1, name, n);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return 0;
}

static int open_socket(const char *name, bool listens)
{
    struct sockaddr_un addr;
    socklen_t len;
    int rc = address_of(name, &addr, &len), fd;
    if (rc < 0)
        return rc;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (listens)
        rc = bind(fd, (struct sockaddr *)&addr, len) < 0 || listen(fd, 256) < 0 ? -errno : 0;
    else
        rc = connect(fd, (struct sockaddr *)&addr, len) < 0 ? -errno : 0;
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int fl_hub_unix_listen(const char *name)
{
    return open_socket(name, true);
}

int fl_hub_unix_connect(const char *name)
{
    return open_socket(name, false);
}

int fl_hub_unix_peer(int fd, struct fl_hub_peer *peer)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    *peer = (struct fl_hub_peer){.pid = cred.pid, .uid = cred.uid};
    return 0;
}

int fl_hub_unix_send(int fd, const struct fl_hub_msg *msg, const int *fds, int nr_fds)
{
    union {
        struct cmsghdr hdr;
        char bytes[CMSG_SPACE(FL_HUB_FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)msg, sizeof(*msg)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nr_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE((size_t)nr_fds * sizeof(int));
        control.hdr = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS,
                                       .cmsg_len = CMSG_LEN((size_t)nr_fds * sizeof(int))};
        memcpy(CMSG_DATA(&control.hdr), fds, (size_t)nr_fds * sizeof(int));
    }
    return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void take_fds(struct msghdr *m, int fds[FL_HUB_FDS_MAX])
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (i < FL_HUB_FDS_MAX && fds[i] < 0)
                fds[i] = fd;
            else
                close(fd);
        }
    }
}

int fl_hub_unix_recv(int fd, struct fl_hub_msg *msg, int fds[FL_HUB_FDS_MAX])
{
    union {
        struct cmsghdr hdr;
        char bytes[CMSG_SPACE(FL_HUB_FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {msg, sizeof(*msg)};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t len = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    for (int i = 0; i < FL_HUB_FDS_MAX; i++)
        fds[i] = -1;
    if (len < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    take_fds(&m, fds);
    if (len == sizeof(*msg) && !(m.msg_flags & MSG_TRUNC) && msg->magic == FL_HUB_MAGIC &&
        msg->nr <= FL_HUB_BATCH)
        return 1;
    for (int i = 0; i < FL_HUB_FDS_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return len ? -EPROTO : -ECONNRESET;
}
