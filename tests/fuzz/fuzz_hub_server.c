/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub's side of the Unix socket, whole: processes that connect, say anything, bring descriptors of any
 * kind, write anything into their wills and rings, and die or leave; and what is then to be said for them.
 * Input: records of a byte that says what happens, one that says whose, and what it needs. Whatever they do,
 * each bond comes from a will and not more often than it is to be said, what is said is a DREQ of that bond
 * and nothing else, and no descriptor is left.
 */
#include "fuzz.h"
#include "input.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "rnic/hub/link.h"
#include "rnic/hub/server.h"
#include "rnic/hub/unix.h"
#include "rnic/port/impl.h"

#define MEMBERS  4
#define TOLD_MAX 3 /* times that each bond is told */
#define ROUNDS   64

struct member {
    int fd;
    struct fl_hub_will will;
    struct fl_hub_ring ring;
};

struct bed {
    struct fl_hub_server *server;
    struct fl_hub_will own;
    struct fl_hub_estates estates;
    int epoll_fd;
    char name[FL_HUB_NAME_LEN];
    struct member members[MEMBERS];
};

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int nr = 0;
    assert(dir);
    while (readdir(dir))
        nr++;
    closedir(dir);
    return nr;
}

static void serve(struct bed *bed)
{
    struct epoll_event events[16];
    for (int round = 0, nr = 1; round < ROUNDS && nr > 0; round++) {
        nr = epoll_wait(bed->epoll_fd, events, FL_ARRAY_LEN(events), 0);
        for (int i = 0; i < nr; i++)
            fl_hub_server_event(bed->server, (uint32_t)events[i].data.u64);
    }
}

static void forget_ring(struct member *m)
{
    fl_hub_ring_unmap(&m->ring);
}

/* dies: without a word */
static void leave(struct member *m, bool dies)
{
    if (m->fd < 0)
        return;
    if (!dies)
        fl_hub_will_unbind(&m->will);
    close(m->fd);
    m->fd = -1;
    forget_ring(m);
}

static void come(struct bed *bed, struct member *m)
{
    leave(m, true);
    m->fd = fl_hub_unix_connect(bed->name);
}

static int memory(size_t len, int seals)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
    if (seals)
        fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

/* Its own will, or what only looks like one */
static int descriptor(const struct member *m, uint8_t kind)
{
    switch (kind & 7) {
    case 0:
        return memory(sizeof(struct fl_hub_will_shared), 0); /* could shrink */
    case 1:
        return memory(4096, F_SEAL_SHRINK);
    case 2:
        return memory(sizeof(struct fl_hub_will_shared), F_SEAL_SHRINK | F_SEAL_GROW);
    case 3:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 4:
        return epoll_create1(EPOLL_CLOEXEC);
    default:
        return m->will.fd < 0 ? -1 : fcntl(m->will.fd, F_DUPFD_CLOEXEC, 0);
    }
}

static void say(struct member *m, struct input *in)
{
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC};
    uint8_t kind = byte(in), what = byte(in);
    int fds[FL_HUB_FDS_MAX], nr = kind >> 5 & 3;
    msg.type = kind & 15;
    msg.nr = what & 127;
    msg.is_new = what >> 7;
    take(in, &msg.slot, kind & 16 ? sizeof(msg.slot) : 0);
    take(in, msg.values, sizeof(msg.values[0]) * (what & 3));
    memset(msg.address, 'x', kind & 128 ? sizeof(msg.address) : 0); /* not terminated */
    if (msg.type == FL_HUB_HELLO && !(kind & 16))
        msg.values[0] = fl_hub_will_bind(&m->will);
    for (int i = 0; i < nr; i++)
        fds[i] = descriptor(m, byte(in));
    for (int i = 0; i < nr; i++) /* none for want of a will */
        nr = fds[i] < 0 ? i : nr;
    if (m->fd >= 0)
        fl_hub_unix_send(m->fd, &msg, fds, nr);
    for (int i = 0; i < nr; i++)
        close(fds[i]);
}

static void say_bytes(struct member *m, struct input *in)
{
    uint8_t bytes[sizeof(struct fl_hub_msg) + 64];
    size_t len = byte(in) * 3u;
    len = FL_MIN(len, sizeof(bytes));
    take(in, bytes, len);
    if (m->fd >= 0)
        send(m->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void hear(struct member *m)
{
    struct fl_hub_msg msg;
    int fds[FL_HUB_FDS_MAX];
    if (m->fd < 0 || fl_hub_unix_recv(m->fd, &msg, fds) <= 0)
        return;
    if (msg.type == FL_HUB_WELCOME && !msg.status) {
        assert(fds[0] >= 0 && fds[1] >= 0 && msg.slot && msg.slot < FL_HUB_SLOTS);
        forget_ring(m);
        assert(fl_hub_ring_map(&m->ring, fds[1]) == 0);
    }
    for (int i = 0; i < FL_HUB_FDS_MAX; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

/* Anywhere in the part of the will that says how much there is, or in its first entries */
static void write_will(struct member *m, struct input *in)
{
    uint8_t at = byte(in), len = byte(in) & 31;
    if (m->will.shared)
        take(in, (uint8_t *)m->will.shared + at * 4u, len);
}

static void write_ring(struct member *m, struct input *in)
{
    uint8_t what = byte(in);
    if (!m->ring.shared)
        return;
    take(in, what & 1 ? (void *)&m->ring.shared->tail : (void *)&m->ring.shared->head, 8);
    m->ring.shared->sleeps = what >> 1;
}

static void push(struct bed *bed, struct input *in)
{
    static const uint8_t bytes[FL_HUB_PACKET_MAX];
    const struct fl_hub_packet meta = {0};
    uint32_t slot = (uint32_t)byte(in) << 8 | byte(in);
    size_t len = FL_MIN((size_t)byte(in) * 17u, sizeof(bytes));
    fl_hub_server_push(bed->server, slot, &meta, bytes, len);
}

/* As the peer reads it, from memory of exactly that length */
static void check_word(const struct fl_hub_bond *bond, uint64_t tid)
{
    struct fl_last_word word;
    struct fl_ib_packet packet;
    fl_port_last_word(bond, tid, &word);
    assert(!memcmp(&word.flow.sgid, &bond->local, 16) && !memcmp(&word.flow.dgid, &bond->remote, 16) &&
           !word.flow.dport);
    uint8_t *bytes = malloc(word.packet.len);
    uint32_t at = 0;
    for (int i = 0; i < word.packet.nr_iov; i++) {
        assert(at + word.packet.iov[i].iov_len <= word.packet.len);
        memcpy(bytes + at, word.packet.iov[i].iov_base, word.packet.iov[i].iov_len);
        at += (uint32_t)word.packet.iov[i].iov_len;
    }
    assert(at == word.packet.len && fl_ib_packet_view(&packet, bytes, at) == 0);
    assert(packet.qpn == FL_IB_QP1 && fl_ib_deth(&packet) &&
           be32_get(fl_ib_deth(&packet)->qkey) == FL_IB_QP1_QKEY);
    const struct fl_cm_mad *mad = fl_cm_view(packet.payload, packet.payload_len);
    assert(mad && be16_get(mad->hdr.attr_id) == FL_CM_DREQ && be64_get(mad->hdr.tid) == tid);
    assert(be32_get(mad->dreq.local_id) == bond->local_id &&
           be32_get(mad->dreq.remote_id) == bond->remote_id &&
           be24_get(mad->dreq.remote_qpn) == (bond->remote_qpn & 0xffffff));
    free(bytes);
}

/* All that is to be said for the dead, as time goes on */
static void tell(struct bed *bed, uint64_t now)
{
    const uint64_t limit = (uint64_t)bed->estates.nr * FL_HUB_WILL_MAX * TOLD_MAX;
    struct fl_hub_bond bond;
    uint64_t nr = 0;
    for (int i = 0; i < 10 && bed->estates.nr; i++, now += FL_NS_PER_S / 5) {
        while (fl_hub_estates_next(&bed->estates, now, &bond)) {
            assert(++nr <= limit);
            check_word(&bond, now + nr);
        }
    }
    assert(!bed->estates.nr && fl_hub_estates_deadline(&bed->estates) == UINT64_MAX);
}

static void step(struct bed *bed, struct input *in)
{
    uint8_t what = byte(in);
    struct member *m = &bed->members[byte(in) % MEMBERS];
    switch (what % 12) {
    case 0:
        come(bed, m);
        break;
    case 1:
    case 2:
    case 3:
        say(m, in);
        break;
    case 4:
        say_bytes(m, in);
        break;
    case 5:
        leave(m, what & 128);
        break;
    case 6:
        write_will(m, in);
        break;
    case 7:
        hear(m);
        break;
    case 8:
        write_ring(m, in);
        break;
    case 9:
        push(bed, in);
        break;
    case 10:
        fl_hub_server_tick(bed->server, fl_now_ns() + (uint64_t)byte(in) * FL_NS_PER_S);
        break;
    default:
        serve(bed);
    }
}

static void start(struct bed *bed)
{
    static uint32_t number;
    snprintf(bed->name, sizeof(bed->name), "farlane-fuzz-%d-%u", (int)getpid(), number++);
    bed->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    fl_hub_estates_init(&bed->estates);
    assert(bed->epoll_fd >= 0 && fl_hub_will_create(&bed->own) == 0);
    for (int i = 0; i < MEMBERS; i++) {
        bed->members[i].fd = -1;
        assert(fl_hub_will_create(&bed->members[i].will) == 0);
    }
    const struct fl_hub_server_options options = {.name = bed->name,
                                                  .address = "fuzz",
                                                  .epoll_fd = bed->epoll_fd,
                                                  .will = &bed->own,
                                                  .estates = &bed->estates,
                                                  .settle_ns = FL_NS_PER_S};
    assert(fl_hub_server_start(&options, &bed->server) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct bed bed = {0};
    int before = count_fds();
    start(&bed);
    while (in.at < in.end)
        step(&bed, &in);
    serve(&bed);
    for (int i = 0; i < MEMBERS; i++)
        leave(&bed.members[i], true);
    serve(&bed);
    tell(&bed, fl_now_ns());
    fl_hub_server_stop(bed.server);
    fl_hub_estates_fini(&bed.estates);
    for (int i = 0; i < MEMBERS; i++)
        fl_hub_will_fini(&bed.members[i].will);
    fl_hub_will_fini(&bed.own);
    close(bed.epoll_fd);
    assert(count_fds() == before);
    return 0;
}
