/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/hub/unix.h"

#define ALIVE_NS FL_NS_PER_MS
#define BURST    16

static struct fl_shm_link *link_new(int fd)
{
    struct fl_shm_link *link = calloc(1, sizeof(*link));
    if (link) {
        link->fd = fd;
        fl_list_init(&link->link);
    }
    return link;
}

void fl_shm_link_destroy(struct fl_shm_link *link)
{
    if (!link)
        return;
    if (link->fd >= 0) {
        close(link->fd);
        fl_shm_file_unmap(link->peer);
        if (link->keys)
            munmap((void *)link->keys, sizeof(*link->keys));
    }
    for (int i = 0; i < FL_SHARED_MAX; i++) {
        if (link->regions[i].id)
            munmap(link->regions[i].at, link->regions[i].len);
    }
    fl_hub_ring_unmap(&link->out);
    fl_hub_ring_unmap(&link->in);
    free(link);
}

/* The same user: who could trace the other anyway. */
static int check_peer(int fd, int *pid)
{
    struct fl_hub_peer peer;
    int rc = fl_hub_unix_peer(fd, &peer);
    if (rc < 0)
        return rc;
    if (peer.uid != geteuid())
        return -EPERM;
    *pid = peer.pid;
    return 0;
}

static int say_hello(struct fl_shm_link *link, const struct fl_shm_self *self)
{
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_SHM_HELLO};
    memcpy(msg.address, self->address, sizeof(msg.address));
    int out = fl_hub_ring_create(), in = fl_hub_ring_create();
    int rc = out < 0 ? out : in < 0 ? in : fl_hub_ring_map_by_record(&link->out, out);
    if (rc == 0)
        rc = fl_hub_ring_map_by_record(&link->in, in);
    if (rc == 0)
        rc = fl_hub_unix_send(link->fd, &msg, (const int[]){self->segment_fd, self->keys_fd, out, in}, 4);
    if (out >= 0)
        close(out);
    if (in >= 0)
        close(in);
    return rc;
}

int fl_shm_link_connect(const struct fl_shm_self *self, const char *address, struct fl_shm_link **out)
{
    int fd = fl_hub_unix_connect(address), rc;
    if (fd < 0)
        return fd;
    struct fl_shm_link *link = link_new(fd);
    if (!link) {
        close(fd);
        return -ENOMEM;
    }
    strncpy(link->address, address, sizeof(link->address) - 1);
    rc = check_peer(fd, &link->pid);
    if (rc == 0)
        rc = say_hello(link, self);
    if (rc < 0) {
        fl_shm_link_destroy(link);
        return rc;
    }
    *out = link;
    return 0;
}

int fl_shm_link_accept(int fd, struct fl_shm_link **out)
{
    struct fl_shm_link *link = link_new(fd);
    int rc = link ? check_peer(fd, &link->pid) : -ENOMEM;
    if (rc < 0) {
        close(fd);
        free(link);
        return rc;
    }
    *out = link;
    return 0;
}

int fl_shm_link_loop(const struct fl_shm_self *self, struct fl_shm_link **out)
{
    struct fl_shm_link *link = link_new(-1);
    int fd = link ? fl_hub_ring_create() : -ENOMEM, rc = fd;
    if (fd >= 0) {
        rc = fl_hub_ring_map_by_record(&link->out, fd);
        if (rc == 0)
            rc = fl_hub_ring_map_by_record(&link->in, fd);
        close(fd);
    }
    if (rc < 0) {
        fl_shm_link_destroy(link);
        return rc;
    }
    link->pid = (int)getpid();
    memcpy(link->address, self->address, sizeof(link->address));
    link->peer = self->segment;
    link->keys = self->keys;
    link->up = true;
    *out = link;
    return 0;
}

static int map_peer(struct fl_shm_link *link, const int fds[FL_HUB_FDS_MAX])
{
    if (link->up || fds[0] < 0 || fds[1] < 0)
        return -EPROTO;
    int rc = link->peer ? 0 : fl_shm_file_map(fds[0], &link->peer);
    if (rc == 0 && !link->keys)
        link->keys = fl_shm_map_sealed(fds[1], sizeof(*link->keys), PROT_READ);
    return rc ? rc : link->keys ? 0 : -EPROTO;
}

static int take_hello(struct fl_shm_link *link, const struct fl_shm_self *self,
                      const struct fl_hub_msg *hello, const int fds[FL_HUB_FDS_MAX])
{
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_SHM_WELCOME};
    int rc = link->out.shared || fds[2] < 0 || fds[3] < 0 ? -EPROTO : map_peer(link, fds);
    if (rc == 0)
        rc = fl_hub_ring_map_by_record(&link->in, fds[2]);
    if (rc == 0)
        rc = fl_hub_ring_map_by_record(&link->out, fds[3]);
    if (rc == 0)
        rc = fl_hub_unix_send(link->fd, &msg, (const int[]){self->segment_fd, self->keys_fd}, 2);
    memcpy(link->address, hello->address, sizeof(link->address));
    link->address[sizeof(link->address) - 1] = 0;
    return rc;
}

static int take_region(struct fl_shm_link *link, const struct fl_hub_msg *msg, int fd)
{
    uint64_t id = msg->values[0], base = msg->values[1], len = msg->values[2];
    if (fd < 0 || !id || id > UINT32_MAX || base + len < base)
        return -EPROTO;
    for (int i = 0; i < FL_SHARED_MAX; i++) {
        struct fl_shm_region *r = &link->regions[i];
        /* What lay where this one lies is gone. */
        if (r->id && (base < r->base + r->len && r->base < base + len)) {
            munmap(r->at, r->len);
            r->id = 0;
        }
    }
    for (int i = 0; i < FL_SHARED_MAX; i++) {
        struct fl_shm_region *r = &link->regions[i];
        if (r->id)
            continue;
        r->at = fl_shm_map_sealed(fd, len, PROT_READ | PROT_WRITE);
        if (!r->at)
            return -EPROTO;
        r->id = (uint32_t)id;
        r->base = base;
        r->len = len;
        return 0;
    }
    return 0; /* too many: those go without */
}

static void forget_regions(struct fl_shm_link *link, const struct fl_hub_msg *msg)
{
    for (int i = 0; i < FL_SHARED_MAX; i++) {
        struct fl_shm_region *r = &link->regions[i];
        bool kept = false;
        for (uint32_t k = 0; k < msg->nr; k++)
            kept = kept || msg->values[k] == r->id;
        if (!r->id || kept)
            continue;
        munmap(r->at, r->len);
        r->id = 0;
    }
}

static int take_message(struct fl_shm_link *link, const struct fl_shm_self *self,
                        const struct fl_hub_msg *msg, const int fds[FL_HUB_FDS_MAX])
{
    int rc = 0;
    switch (msg->type) {
    case FL_SHM_HELLO:
        rc = take_hello(link, self, msg, fds);
        break;
    case FL_SHM_WELCOME:
        rc = link->out.shared ? map_peer(link, fds) : -EPROTO;
        break;
    case FL_SHM_REGION:
        return link->up ? take_region(link, msg, fds[0]) : -EPROTO;
    case FL_SHM_REGIONS:
        forget_regions(link, msg);
        return 0;
    case FL_SHM_WAKE:
        return 0; /* the ring is looked at anyway */
    default:
        return -EPROTO;
    }
    link->up = rc == 0;
    return rc;
}

bool fl_shm_link_read(struct fl_shm_link *link, const struct fl_shm_self *self)
{
    struct fl_hub_msg msg;
    int fds[FL_HUB_FDS_MAX], rc = 1;
    for (int n = 0; n < BURST && rc > 0 && link->fd >= 0; n++) {
        rc = fl_hub_unix_recv(link->fd, &msg, fds);
        if (rc <= 0)
            break;
        if (take_message(link, self, &msg, fds) < 0)
            rc = -EPROTO;
        for (int i = 0; i < FL_HUB_FDS_MAX; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
    }
    link->broken = rc == -EPROTO;
    return rc >= 0;
}

const char *fl_shm_link_end(const struct fl_shm_link *link)
{
    return link->broken ? "what came from the peer's process by shared memory made no sense"
                        : "the peer's process has ended, or has closed its RNIC";
}

static void tell_new(struct fl_shm_link *link)
{
    struct fl_shared_region regions[FL_SHARED_MAX];
    uint32_t newest = fl_shared_newest();
    int nr = fl_shared_list(link->newest_region, regions, FL_SHARED_MAX), rc = 0;
    for (int i = 0; i < nr; i++) {
        struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC,
                                 .type = FL_SHM_REGION,
                                 .nr = 3,
                                 .values = {regions[i].id, (uintptr_t)regions[i].base, regions[i].len}};
        if (rc == 0 && regions[i].fd >= 0) /* it may not read just now; until then it goes without */
            rc = fl_hub_unix_send(link->fd, &msg, &regions[i].fd, 1);
        if (rc == 0)
            link->newest_region = regions[i].id;
        if (regions[i].fd >= 0)
            close(regions[i].fd);
    }
    if (!nr)
        link->newest_region = newest; /* the newest ones are gone again */
}

static void tell_freed(struct fl_shm_link *link)
{
    struct fl_shared_region regions[FL_SHARED_MAX];
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_SHM_REGIONS};
    uint32_t nr_freed = fl_shared_nr_freed();
    msg.nr = (uint16_t)fl_shared_list(0, regions, FL_SHARED_MAX);
    for (int i = 0; i < msg.nr; i++) {
        msg.values[i] = regions[i].id;
        if (regions[i].fd >= 0)
            close(regions[i].fd);
    }
    if (fl_hub_unix_send(link->fd, &msg, NULL, 0) == 0)
        link->nr_freed = nr_freed;
}

void fl_shm_link_tell_regions(struct fl_shm_link *link)
{
    if (!fl_shm_link_is_open(link) || link->fd < 0)
        return;
    if (link->newest_region != fl_shared_newest())
        tell_new(link);
    if (link->nr_freed != fl_shared_nr_freed())
        tell_freed(link);
}

bool fl_shm_link_is_alive(struct fl_shm_link *link, uint64_t now)
{
    struct pollfd pfd = {.fd = link->fd, .events = POLLRDHUP};
    if (link->dead || link->left)
        return false;
    if (link->fd < 0 || now - link->alive_at < ALIVE_NS)
        return true;
    if (poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        return false;
    link->alive_at = now;
    return true;
}
