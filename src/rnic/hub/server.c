/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rnic/hub/ring.h"
#include "rnic/hub/unix.h"

#define MAX_STRANGERS 64 /* connections that have not said HELLO */
#define MAX_CONNS     (FL_HUB_SLOTS + MAX_STRANGERS)
#define BURST         16 /* messages of one member at a time */
#define LISTENER      MAX_CONNS
#define PATIENCE_NS   (5 * FL_NS_PER_S)    /* for members of the hub before to come back, if they are gone */
#define YOUNG_NS      (3 * FL_NS_PER_S)    /* for those of one that is stopped, since it was seen last */
#define YOUNG_AT_ONCE FL_NS_PER_S          /* for those of one that we have not seen */
#define PAUSE_NS      (100 * FL_NS_PER_MS) /* without descriptors to accept with */

struct conn {
    int fd;
    uint32_t slot; /* 0: a stranger */
    struct fl_hub_peer peer;
    struct fl_hub_ring ring;
    const struct fl_hub_will_shared *will; /* NULL: it has none */
    uint64_t bound_to;
};

struct fl_hub_server {
    struct fl_hub_table table;
    struct fl_hub_shared *shared;
    int shared_fd, listen_fd, epoll_fd;
    uint32_t tag, self;
    struct fl_hub_will *will;
    uint64_t service; /* what our own will is bound to */
    struct fl_hub_estates *estates;
    uint32_t nr_strangers;
    uint64_t missing_at, settled_at, young_till, accept_at; /* UINT64_MAX: not due */
    struct conn *conns[MAX_CONNS];
    uint16_t conn_of_slot[FL_HUB_SLOTS]; /* index + 1; 0: none */
};

/* Writable for the hub alone, for as long as its mapping lives. */
static int create_shared(struct fl_hub_server *s)
{
    int fd = memfd_create("farlane-hub-table", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;
    void *p = MAP_FAILED;
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, sizeof(*s->shared)) == 0)
        p = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0) {
        rc = -errno;
        if (p != MAP_FAILED)
            munmap(p, sizeof(*s->shared));
        close(fd);
        return rc;
    }
    s->shared = p;
    s->shared_fd = fd;
    return 0;
}

static int watch(struct fl_hub_server *s, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)s->tag << 32 | number};
    return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static uint64_t hash_of_boot(uint64_t otherwise)
{
    char id[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, id, sizeof(id));
    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return otherwise;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (ssize_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)id[i]) * UINT64_C(0x100000001b3);
    return hash >> 32;
}

/*
 * Where numbers begin. Slots anywhere, as nothing else may tell a hub's communication IDs from those of the
 * last. Blocks each millisecond one further, from a place that this boot's secret says: a program that runs
 * alone is a hub of its own, and the next one must not get its queue pair numbers, which a peer may still
 * have in TIMEWAIT. By chance one in some hundred would.
 */
static uint64_t new_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = fl_now_ns();
    uint32_t block = (uint32_t)(hash_of_boot(seed) + fl_now_ns() / FL_NS_PER_MS);
    return seed >> 32 << 32 | block;
}

int fl_hub_server_start(const struct fl_hub_server_options *options, struct fl_hub_server **server)
{
    const struct fl_hub_peer self = {
        .pid = (int32_t)getpid(), .uid = (uint32_t)geteuid(), .udp_port = options->udp_port};
    struct fl_hub_server *s = calloc(1, sizeof(*s));
    char address[FL_HUB_ADDRESS_LEN] = {0};
    int rc;
    if (!s)
        return -ENOMEM;
    *s = (struct fl_hub_server){.epoll_fd = options->epoll_fd,
                                .tag = options->tag,
                                .accept_at = UINT64_MAX,
                                .will = options->will,
                                .estates = options->estates};
    s->listen_fd = fl_hub_unix_listen(options->name);
    rc = s->listen_fd;
    if (rc < 0)
        goto free_server;
    rc = create_shared(s);
    if (rc < 0)
        goto close_listener;
    fl_hub_table_init(&s->table, s->shared, options->before, new_seed());
    s->missing_at = options->before ? fl_now_ns() + PATIENCE_NS : UINT64_MAX;
    s->settled_at = options->settle_ns ? fl_now_ns() + options->settle_ns : UINT64_MAX;
    s->table.settling = options->settle_ns > 0;
    s->young_till = fl_now_ns() + YOUNG_AT_ONCE;
    s->table.young = true;
    strncpy(address, options->address, sizeof(address) - 1);
    rc = fl_hub_join(&s->table, &self, options->want, address);
    if (rc < 0)
        goto free_table;
    s->self = (uint32_t)rc;
    rc = watch(s, s->listen_fd, LISTENER);
    if (rc < 0)
        goto free_table;
    s->service = fl_hub_will_bind(s->will);
    *server = s;
    return 0;
free_table:
    fl_hub_table_fini(&s->table);
    munmap(s->shared, sizeof(*s->shared));
    close(s->shared_fd);
close_listener:
    close(s->listen_fd);
free_server:
    free(s);
    return rc;
}

/* leave: the process is gone, or as good as that */
static void close_conn(struct fl_hub_server *s, uint32_t number)
{
    struct conn *c = s->conns[number];
    s->conns[number] = NULL;
    close(c->fd);
    if (c->slot) {
        s->conn_of_slot[c->slot] = 0;
        fl_hub_leave(&s->table, c->slot);
        fl_hub_ring_unmap(&c->ring);
    } else {
        s->nr_strangers--;
    }
    if (c->will && fl_hub_will_is_bound(c->will, c->bound_to))
        fl_hub_estates_add(s->estates, c->will, fl_now_ns());
    else
        fl_hub_will_unmap(c->will);
    free(c);
}

void fl_hub_server_stop(struct fl_hub_server *s)
{
    fl_hub_will_unbind(s->will);
    fl_hub_leave(&s->table, s->self);
    close(s->listen_fd);
    for (uint32_t i = 0; i < MAX_CONNS; i++) {
        struct conn *c = s->conns[i];
        if (!c)
            continue;
        close(c->fd); /* the table stays as it is: whoever is hub next goes on with it */
        fl_hub_ring_unmap(&c->ring);
        fl_hub_will_unmap(c->will);
        free(c);
    }
    fl_hub_table_fini(&s->table);
    munmap(s->shared, sizeof(*s->shared));
    close(s->shared_fd);
    free(s);
}

void fl_hub_server_forget(struct fl_hub_server *s)
{
    close(s->listen_fd);
    close(s->shared_fd);
    for (uint32_t i = 0; i < MAX_CONNS; i++) {
        if (s->conns[i])
            close(s->conns[i]->fd);
    }
}

struct fl_hub_table *fl_hub_server_table(struct fl_hub_server *s)
{
    return &s->table;
}

uint32_t fl_hub_server_self(const struct fl_hub_server *s)
{
    return s->self;
}

static void accept_one(struct fl_hub_server *s)
{
    struct conn *c;
    uint32_t number = 0;
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listen_fd, NULL);
            s->accept_at = fl_now_ns() + PAUSE_NS;
        }
        return;
    }
    while (number < MAX_CONNS && s->conns[number])
        number++;
    c = number < MAX_CONNS && s->nr_strangers < MAX_STRANGERS ? calloc(1, sizeof(*c)) : NULL;
    if (!c || fl_hub_unix_peer(fd, &c->peer) < 0 || watch(s, fd, number) < 0) {
        free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    s->conns[number] = c;
    s->nr_strangers++;
}

/* Strangers that say nothing make room for others when there are many. */
static void drop_a_stranger(struct fl_hub_server *s)
{
    for (uint32_t i = 0; i < MAX_CONNS; i++) {
        if (s->conns[i] && !s->conns[i]->slot) {
            close_conn(s, i);
            return;
        }
    }
}

static int welcome(struct fl_hub_server *s, struct conn *c, const struct fl_hub_msg *hello)
{
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_HUB_WELCOME, .seq = hello->seq};
    int ring_fd = fl_hub_ring_create(), rc;
    if (ring_fd < 0)
        return ring_fd;
    rc = fl_hub_ring_map(&c->ring, ring_fd);
    if (rc < 0)
        goto close_ring;
    c->peer.udp_port = hello->udp_port;
    rc = fl_hub_join(&s->table, &c->peer, hello->slot, hello->address);
    if (rc < 0) {
        fl_hub_ring_unmap(&c->ring);
        goto close_ring;
    }
    msg.slot = c->slot = (uint32_t)rc;
    s->nr_strangers--;
    /* Who may not see our memory anyway does not see this either. */
    bool trusted = s->service && c->peer.uid == (uint32_t)geteuid();
    msg.values[0] = trusted ? s->service : 0;
    rc = fl_hub_unix_send(c->fd, &msg, (const int[]){s->shared_fd, ring_fd, trusted ? s->will->fd : -1},
                          trusted ? 3 : 2);
close_ring:
    close(ring_fd);
    return rc;
}

/* The first message. 0: nothing to read, 1: it is a member now, negative: the connection ends */
static int take_hello(struct fl_hub_server *s, struct conn *c, uint32_t number)
{
    struct fl_hub_msg msg, no;
    int fds[FL_HUB_FDS_MAX], rc = fl_hub_unix_recv(c->fd, &msg, fds);
    if (rc <= 0)
        return rc;
    c->will = fds[0] < 0 ? NULL : fl_hub_will_map(fds[0]);
    for (int i = 0; i < FL_HUB_FDS_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (!fl_hub_hello_ok(&msg, sizeof(msg)))
        return -EPROTO;
    c->bound_to = msg.values[0];
    rc = welcome(s, c, &msg);
    if (c->slot) {
        s->conn_of_slot[c->slot] = (uint16_t)(number + 1);
    } else if (rc < 0) {
        no = (struct fl_hub_msg){.magic = FL_HUB_MAGIC, .type = FL_HUB_WELCOME, .seq = msg.seq, .status = rc};
        fl_hub_unix_send(c->fd, &no, NULL, 0);
    }
    return rc < 0 ? rc : 1;
}

/* Of a member; as above */
static int take_message(struct fl_hub_server *s, struct conn *c)
{
    struct fl_hub_msg msg, reply;
    bool broken;
    ssize_t len = recv(c->fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (len <= 0)
        return -ECONNRESET;
    if (fl_hub_handle(&s->table, c->slot, &msg, (size_t)len, &reply, &broken))
        return fl_hub_unix_send(c->fd, &reply, NULL, 0) < 0 ? -EPROTO : 1;
    return broken ? -EPROTO : 1;
}

void fl_hub_server_event(struct fl_hub_server *s, uint32_t number)
{
    int rc = 1;
    if (number == LISTENER) {
        if (s->nr_strangers >= MAX_STRANGERS)
            drop_a_stranger(s);
        accept_one(s);
        return;
    }
    if (number >= MAX_CONNS || !s->conns[number])
        return;
    for (int i = 0; i < BURST && rc > 0; i++)
        rc = s->conns[number]->slot ? take_message(s, s->conns[number])
                                    : take_hello(s, s->conns[number], number);
    if (rc < 0)
        close_conn(s, number);
}

/* Members of the hub before that are dead by now give their numbers back. */
static bool drop_missing(struct fl_hub_server *s)
{
    bool left = false;
    for (uint32_t i = 1; i < FL_HUB_SLOTS; i++) {
        const struct fl_hub_slot *slot = &s->shared->slots[i];
        if (slot->state != FL_HUB_MISSING)
            continue;
        if (slot->pid <= 0 || (kill(slot->pid, 0) < 0 && errno == ESRCH))
            fl_hub_leave(&s->table, i);
        else
            left = true;
    }
    return left;
}

void fl_hub_server_wait_for_others(struct fl_hub_server *s, uint64_t now)
{
    s->table.young = true;
    s->young_till = now + YOUNG_NS;
}

void fl_hub_server_tick(struct fl_hub_server *s, uint64_t now)
{
    if (now >= s->missing_at)
        s->missing_at = drop_missing(s) ? now + PATIENCE_NS : UINT64_MAX;
    if (now >= s->settled_at) {
        s->settled_at = UINT64_MAX;
        s->table.settling = false;
    }
    if (now >= s->young_till) {
        s->young_till = UINT64_MAX;
        s->table.young = false;
    }
    if (now >= s->accept_at)
        s->accept_at = watch(s, s->listen_fd, LISTENER) < 0 ? now + PAUSE_NS : UINT64_MAX;
}

uint64_t fl_hub_server_deadline(const struct fl_hub_server *s)
{
    uint64_t at = FL_MIN(s->missing_at, s->settled_at);
    at = FL_MIN(at, s->young_till);
    return FL_MIN(at, s->accept_at);
}

bool fl_hub_server_push(struct fl_hub_server *s, uint32_t slot, const struct fl_hub_packet *meta,
                        const void *bytes, size_t len)
{
    const struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_HUB_WAKE};
    const struct iovec iov[] = {{(void *)meta, sizeof(*meta)}, {(void *)bytes, len}};
    struct conn *c;
    bool wake;
    if (slot >= FL_HUB_SLOTS || !s->conn_of_slot[slot] || len > FL_HUB_PACKET_MAX)
        return false;
    c = s->conns[s->conn_of_slot[slot] - 1];
    if (!fl_hub_ring_write(&c->ring, iov, 2, &wake))
        return false;
    /* If its socket is full it has been told often enough. */
    if (wake)
        fl_hub_unix_send(c->fd, &msg, NULL, 0);
    return true;
}
