/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/hub/unix.h"

#define LISTENER   UINT32_MAX
#define LINKS_MAX  1024
#define EVENTS     16
#define BATCH      64  /* packets of one peer a turn */
#define LOOK_EVERY 256 /* turns: sockets tell nothing that rings do not */
#define PACKET_MAX (sizeof(struct fl_hub_packet) + FL_HUB_PACKET_MAX)

struct fl_shm {
    int listen_fd, epoll_fd;
    struct fl_shm_file *segment;
    int segment_fd;
    struct fl_shm_self self;
    struct fl_list links;
    uint32_t nr_links, next_number, turns;
    struct fl_shm_link *loop; /* to this process itself; NULL: not needed yet */
    uint8_t packet[PACKET_MAX];
};

static int watch(struct fl_shm *shm, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u32 = number};
    return epoll_ctl(shm->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int fl_shm_open(const struct fl_shm_options *options, struct fl_shm **out)
{
    struct fl_shm *shm = calloc(1, sizeof(*shm));
    int rc;
    if (!shm)
        return -ENOMEM;
    fl_list_init(&shm->links);
    rc = fl_shm_file_create(&shm->segment, &shm->segment_fd);
    if (rc < 0)
        goto free_shm;
    shm->self = (struct fl_shm_self){.segment = shm->segment, .keys = options->keys->file, .keys_fd = -1};
    strncpy(shm->self.address, options->address, sizeof(shm->self.address) - 1);
    rc = shm->self.segment_fd = fl_shm_reopen_read_only(shm->segment_fd);
    if (rc < 0)
        goto unmap;
    rc = shm->self.keys_fd = fl_shm_reopen_read_only(options->keys->fd);
    if (rc < 0)
        goto close_segment;
    rc = shm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (rc < 0) {
        rc = -errno;
        goto close_keys;
    }
    rc = shm->listen_fd = fl_hub_unix_listen(options->address);
    if (rc < 0)
        goto close_epoll;
    rc = watch(shm, shm->listen_fd, LISTENER);
    if (rc < 0)
        goto close_listener;
    *out = shm;
    return 0;
close_listener:
    close(shm->listen_fd);
close_epoll:
    close(shm->epoll_fd);
close_keys:
    close(shm->self.keys_fd);
close_segment:
    close(shm->self.segment_fd);
unmap:
    fl_shm_file_unmap(shm->segment);
    close(shm->segment_fd);
free_shm:
    free(shm);
    return rc;
}

void fl_shm_close(struct fl_shm *shm)
{
    struct fl_shm_link *link, *next;
    if (!shm)
        return;
    fl_list_for_each_safe (link, next, &shm->links, link)
        fl_shm_link_destroy(link);
    close(shm->listen_fd);
    close(shm->epoll_fd);
    close(shm->self.keys_fd);
    close(shm->self.segment_fd);
    fl_shm_file_unmap(shm->segment);
    close(shm->segment_fd);
    free(shm);
}

void fl_shm_forget(struct fl_shm *shm)
{
    const struct fl_shm_link *link;
    fl_list_for_each (link, &shm->links, link) {
        if (link->fd >= 0)
            close(link->fd);
    }
    close(shm->listen_fd);
    close(shm->epoll_fd);
    close(shm->self.keys_fd);
    close(shm->self.segment_fd);
    close(shm->segment_fd);
}

int fl_shm_wait_fd(const struct fl_shm *shm)
{
    return shm->epoll_fd;
}

static int add(struct fl_shm *shm, struct fl_shm_link *link)
{
    int rc = 0;
    link->number = shm->next_number++ & INT32_MAX;
    if (link->fd >= 0)
        rc = watch(shm, link->fd, link->number);
    if (rc < 0) {
        fl_shm_link_destroy(link);
        return rc;
    }
    fl_list_add_tail(&shm->links, &link->link);
    shm->nr_links++;
    return 0;
}

static void drop(struct fl_shm *shm, struct fl_shm_link *link)
{
    fl_list_del(&link->link);
    shm->nr_links--;
    if (link == shm->loop)
        shm->loop = NULL;
    fl_shm_link_destroy(link);
}

static void unwatch(struct fl_shm *shm, const struct fl_shm_link *link)
{
    if (link->fd >= 0 && !link->left)
        epoll_ctl(shm->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
}

/* The peer is gone; queue pairs that use the link find out when they look. */
static void bury(struct fl_shm *shm, struct fl_shm_link *link)
{
    unwatch(shm, link);
    link->dead = true;
    link->up = false;
    if (!link->nr_users)
        drop(shm, link);
}

static const char *why_not(int error)
{
    switch (-error) {
    case EPERM:
        return "the peer runs as another user";
    case ECONNREFUSED:
        return "the peer does not take shared-memory connections";
    default:
        return "the connection to the peer's process failed";
    }
}

static struct fl_shm_link *find(struct fl_shm *shm, const char *address)
{
    struct fl_shm_link *link;
    fl_list_for_each (link, &shm->links, link) {
        if (!link->dead && !link->left && !strcmp(link->address, address))
            return link;
    }
    return NULL;
}

struct fl_shm_link *fl_shm_get(struct fl_shm *shm, const struct fl_port_peer *peer, const char **reason)
{
    struct fl_shm_link *link = find(shm, peer->address);
    int rc = 0;
    if (!link) {
        if (shm->nr_links >= LINKS_MAX)
            rc = -ENOSPC;
        else if (!strcmp(peer->address, shm->self.address))
            rc = fl_shm_link_loop(&shm->self, &link);
        else
            rc = fl_shm_link_connect(&shm->self, peer->address, &link);
        if (rc == 0)
            rc = add(shm, link);
    }
    if (rc < 0) {
        *reason = why_not(rc);
        return NULL;
    }
    link->nr_users++;
    return link;
}

void fl_shm_put(struct fl_shm *shm, struct fl_shm_link *link)
{
    link->nr_users--;
    if (link->dead && !link->nr_users)
        drop(shm, link);
}

void fl_shm_show(struct fl_shm *shm, const struct fl_shm_qp *qp)
{
    fl_shm_publish(shm->segment, qp);
}

struct fl_shm_grant *fl_shm_grant_at(struct fl_shm *shm, uint32_t qpn)
{
    return fl_shm_grant_of(shm->segment, qpn);
}

void fl_shm_quiesce(struct fl_shm *shm)
{
    struct fl_shm_link *link;
    fl_list_for_each (link, &shm->links, link)
        fl_shm_link_quiesce(link);
}

bool fl_shm_has_room(struct fl_shm_link *link)
{
    return fl_hub_ring_has_room(&link->out, PACKET_MAX);
}

static bool wake(struct fl_shm_link *link)
{
    const struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_SHM_WAKE};
    if (link->fd < 0)
        return true;
    fl_hub_unix_send(link->fd, &msg, NULL, 0); /* if it does not go, the socket is full of those */
    return false;
}

bool fl_shm_commit(struct fl_shm_link *link)
{
    return fl_unlikely(fl_hub_ring_commit(&link->out)) && wake(link);
}

bool fl_shm_send(struct fl_shm_link *link, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    const struct fl_hub_packet meta = {.src = flow->sgid, .dst = flow->dgid};
    struct iovec iov[FL_ROCE_SGE_MAX + 3];
    bool sleeps = false;
    iov[0] = (struct iovec){(void *)&meta, sizeof(meta)};
    memcpy(iov + 1, tx->iov, sizeof(iov[0]) * (size_t)tx->nr_iov);
    fl_hub_ring_write(&link->out, iov, tx->nr_iov + 1, &sleeps);
    return sleeps && wake(link);
}

static bool take_packet(struct fl_shm *shm, const uint8_t *at, uint32_t len, const struct fl_shm_delivery *to)
{
    struct fl_port_packet packet = {0};
    struct fl_hub_packet meta;
    if (len < sizeof(meta) || len > sizeof(shm->packet))
        return false;
    memcpy(shm->packet, at, len); /* before it is looked at: the peer may change it */
    if (fl_ib_packet_view(&packet.packet, shm->packet + sizeof(meta), len - sizeof(meta)) < 0)
        return false;
    memcpy(&meta, shm->packet, sizeof(meta));
    packet.sgid = meta.src;
    packet.dgid = meta.dst;
    if (packet.packet.bth->opcode >> 5 != FL_IB_UD) /* those go by UDP */
        to->packet(to->arg, &packet);
    return true;
}

static bool take_message(struct fl_shm_link *link, const uint8_t *at, uint32_t len,
                         const struct fl_shm_delivery *to)
{
    struct fl_shm_message message;
    if (len < sizeof(message) || len > sizeof(message) + FL_SHM_MESSAGE_MAX)
        return false;
    memcpy(&message, at, sizeof(message));
    to->message(to->arg, link, &message, at + sizeof(message), len - (uint32_t)sizeof(message));
    return true;
}

static int read_ring(struct fl_shm *shm, struct fl_shm_link *link, const struct fl_shm_delivery *to)
{
    bool over = link->left;
    int nr = 0;
    for (; nr < BATCH; nr++) {
        const uint8_t *at;
        uint32_t kind;
        int len = fl_hub_ring_peek(&link->in, &at, &kind);
        if (len == 0)
            break;
        over = len < 0 ||
               !(kind ? take_message(link, at, (uint32_t)len, to) : take_packet(shm, at, (uint32_t)len, to));
        if (over)
            break;
        fl_hub_ring_consume(&link->in);
        over = link->left;
    }
    if (over && nr < BATCH) {
        link->broken = !link->left;
        bury(shm, link);
    }
    return nr;
}

static void accept_one(struct fl_shm *shm)
{
    struct fl_shm_link *link;
    int fd = accept4(shm->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (shm->nr_links >= LINKS_MAX)
        close(fd);
    else if (fl_shm_link_accept(fd, &link) == 0)
        add(shm, link);
}

static void look_around(struct fl_shm *shm)
{
    struct epoll_event events[EVENTS];
    struct fl_shm_link *link, *next;
    int nr = epoll_wait(shm->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < nr; i++) {
        if (events[i].data.u32 == LISTENER) {
            accept_one(shm);
            continue;
        }
        fl_list_for_each_safe (link, next, &shm->links, link) {
            if (link->number != events[i].data.u32 || link->dead)
                continue;
            if (fl_shm_link_read(link, &shm->self))
                continue;
            /* SENDs that are complete for it lie in its ring, which it may have filled as soon as it had this
             * end's WELCOME or this end had its own. */
            unwatch(shm, link);
            if (link->up)
                link->left = true;
            else
                bury(shm, link);
        }
    }
    fl_list_for_each (link, &shm->links, link)
        fl_shm_link_tell_regions(link);
}

int fl_shm_progress(struct fl_shm *shm, const struct fl_shm_delivery *to)
{
    struct fl_shm_link *link, *next;
    int nr = 0;
    fl_list_for_each_safe (link, next, &shm->links, link) {
        if (link->up)
            nr += read_ring(shm, link, to);
    }
    if (++shm->turns % LOOK_EVERY == 0)
        look_around(shm);
    return nr;
}

uint64_t fl_shm_deadline(struct fl_shm *shm)
{
    struct fl_shm_link *link;
    uint64_t at = FL_ROCE_NEVER;
    look_around(shm);
    fl_list_for_each (link, &shm->links, link) {
        if (link->up && (link->left || !fl_hub_ring_sleep(&link->in)))
            at = 0;
    }
    return at;
}
