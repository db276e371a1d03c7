/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rnic/hub/unix.h"

void fl_hub_link_init(struct fl_hub_link *link, struct fl_hub_will *will)
{
    *link = (struct fl_hub_link){.fd = -1, .will = will};
}

static void unmap_shared(struct fl_hub_link *link)
{
    if (link->shared)
        munmap((void *)link->shared, sizeof(*link->shared));
    link->shared = NULL;
}

void fl_hub_link_fini(struct fl_hub_link *link)
{
    fl_hub_link_close(link);
    unmap_shared(link);
    fl_hub_will_unmap(link->hub_will);
    link->hub_will = NULL;
}

void fl_hub_link_close(struct fl_hub_link *link)
{
    if (link->fd >= 0) {
        if (link->will)
            fl_hub_will_unbind(link->will);
        close(link->fd);
    }
    link->fd = -1;
    link->welcome = false;
    fl_hub_ring_unmap(&link->ring);
}

static void number(struct fl_hub_link *link, struct fl_hub_msg *msg)
{
    msg->magic = FL_HUB_MAGIC;
    msg->seq = ++link->seq;
}

int fl_hub_link_connect(struct fl_hub_link *link, const char *name, uint32_t want, const char *address)
{
    struct fl_hub_msg msg = {.type = FL_HUB_HELLO, .slot = want, .udp_port = link->udp_port};
    int rc = fl_hub_unix_connect(name);
    if (rc < 0)
        return rc;
    link->fd = rc;
    strncpy(msg.address, address, sizeof(msg.address) - 1);
    if (link->will)
        msg.values[0] = fl_hub_will_bind(link->will);
    number(link, &msg);
    rc = fl_hub_unix_send(link->fd, &msg, msg.values[0] ? &link->will->fd : NULL, msg.values[0] ? 1 : 0);
    if (rc < 0)
        fl_hub_link_close(link);
    return rc;
}

int fl_hub_link_send(struct fl_hub_link *link, struct fl_hub_msg *msg)
{
    number(link, msg);
    return fl_hub_unix_send(link->fd, msg, NULL, 0);
}

/* A table that could shrink under us would kill us. */
static int map_shared(struct fl_hub_link *link, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *p;
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size != sizeof(*link->shared))
        return -EPROTO;
    p = mmap(NULL, sizeof(*link->shared), PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    unmap_shared(link);
    link->shared = p;
    return 0;
}

static int take_welcome(struct fl_hub_link *link, const struct fl_hub_msg *msg, const int fds[FL_HUB_FDS_MAX])
{
    int rc = 0;
    if (msg->status)
        return 0;
    if (link->welcome || fds[0] < 0 || fds[1] < 0 || !msg->slot || msg->slot >= FL_HUB_SLOTS)
        return -EPROTO;
    rc = map_shared(link, fds[0]);
    if (rc == 0)
        rc = fl_hub_ring_map(&link->ring, fds[1]);
    if (rc < 0)
        return rc;
    fl_hub_will_unmap(link->hub_will);
    link->hub_will = fds[2] < 0 ? NULL : fl_hub_will_map(fds[2]);
    link->hub_service = msg->values[0];
    link->slot = msg->slot;
    link->welcome = true;
    return 0;
}

int fl_hub_link_recv(struct fl_hub_link *link, struct fl_hub_msg *msg)
{
    int fds[FL_HUB_FDS_MAX], rc = fl_hub_unix_recv(link->fd, msg, fds);
    if (rc <= 0)
        return rc;
    if (msg->type == FL_HUB_WELCOME)
        rc = take_welcome(link, msg, fds);
    for (int i = 0; i < FL_HUB_FDS_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return rc < 0 ? rc : 1;
}
