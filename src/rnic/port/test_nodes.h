/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes with one UDP port. Each node echoes: a packet to its queue pair comes back to the one
 * that the payload names. Nodes and test speak through shared memory.
 */
#ifndef FL_RNIC_PORT_TEST_NODES_H
#define FL_RNIC_PORT_TEST_NODES_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/hub/unix.h"
#include "rnic/port/test_packet.h"
#include "wire/ib_cm.h"

#define NODES 4
#define WORDS 200
#define TRIES 3

#define WAIT_NS (20 * FL_NS_PER_S) /* for what must come: a process may have to wait for a CPU */

enum command {
    NOTHING,
    LISTEN,
    LISTEN_ONCE,
    PING,
    PING_PAST_HUB,
    REQUEST,
    LAST_WORDS,
    TAKE_NUMBERS,
    BE_BUSY
};

struct node { /* shared */
    pid_t pid;
    int rc;
    uint32_t qpn, prefix;
    bool ready, is_hub, busy;
    int command, result;
    uint64_t argument;
    uint32_t nr_echoed, nr_pongs, nr_cm;
    uint64_t nr_past_hub, nr_from_hub;
};

struct bed {
    struct node nodes[NODES];
    char name[64];
    uint16_t udp_port;
};

struct ping {
    uint32_t to, from;
    bool is_pong;
    uint8_t pad[3];
};

struct local { /* of a node */
    struct fl_port *port;
    struct node *self;
};

static inline void send_past(struct fl_port *port, uint16_t udp_port, uint32_t qpn, const void *payload,
                             uint32_t len)
{
    struct fl_port_flow flow = flow_of("127.0.0.1", "127.0.0.1");
    struct fl_roce_tx tx;
    flow.dport = udp_port;
    packet_of(&tx, qpn == FL_IB_QP1 ? FL_IB_UD : FL_IB_RC, qpn, 0, payload, len);
    fl_port_send(port, &flow, &tx);
    fl_port_flush(port);
}

static inline void send_to(struct fl_port *port, uint32_t qpn, const void *payload, uint32_t len)
{
    send_past(port, 0, qpn, payload, len);
}

static inline void take(void *arg, const struct fl_port_packet *packet)
{
    struct local *l = arg;
    struct ping ping;
    if (packet->packet.qpn == FL_IB_QP1) {
        l->self->nr_cm++;
        return;
    }
    if (packet->packet.payload_len != sizeof(ping) || packet->packet.qpn != l->self->qpn)
        return;
    memcpy(&ping, packet->packet.payload, sizeof(ping));
    if (ping.is_pong) {
        __atomic_add_fetch(&l->self->nr_pongs, 1, __ATOMIC_SEQ_CST);
        return;
    }
    __atomic_add_fetch(&l->self->nr_echoed, 1, __ATOMIC_SEQ_CST);
    ping.is_pong = true;
    send_to(l->port, ping.from, &ping, sizeof(ping));
}

/* As many as there are up to nr. As a program: it asks again while there is no answer, but not for long. */
static inline int take_numbers(struct fl_port *port, uint64_t nr)
{
    uint64_t end = fl_now_ns() + FL_NS_PER_S;
    uint32_t qpn;
    int rc = 0;
    while (nr && (rc == 0 || (rc == -EAGAIN && fl_now_ns() < end))) {
        rc = fl_port_qpn_get(port, &qpn);
        if (rc == 0)
            nr--;
        else
            usleep(100);
    }
    return rc;
}

static inline int listen_on(struct fl_port *port, uint64_t service_id)
{
    uint64_t end = fl_now_ns() + FL_NS_PER_S;
    int rc;
    while ((rc = fl_port_listen(port, service_id)) == -EINPROGRESS && fl_now_ns() < end)
        usleep(100);
    return rc;
}

static inline int run_command(struct local *l, enum command command)
{
    struct ping ping = {.to = (uint32_t)l->self->argument, .from = l->self->qpn};
    struct fl_port_peer peer;
    struct fl_cm_mad mad;
    int rc;
    switch (command) {
    case LISTEN:
        return listen_on(l->port, l->self->argument);
    case LISTEN_ONCE:
        return fl_port_listen(l->port, l->self->argument);
    case TAKE_NUMBERS:
        return take_numbers(l->port, l->self->argument);
    case BE_BUSY: /* not with the port, until it is told otherwise */
        __atomic_store_n(&l->self->busy, true, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&l->self->busy, __ATOMIC_SEQ_CST))
            usleep(100);
        return 0;
    case PING:
        send_to(l->port, ping.to, &ping, sizeof(ping));
        return 0;
    case PING_PAST_HUB:
        rc = fl_port_find_peer(l->port, ping.to, &peer);
        if (rc == 0 && !peer.udp_port)
            rc = -ENXIO;
        if (rc == 0)
            send_past(l->port, peer.udp_port, ping.to, &ping, sizeof(ping));
        return rc;
    case REQUEST:
        fl_cm_init(&mad, FL_CM_REQ, 1);
        mad.req.service_id = be64_of(l->self->argument);
        send_to(l->port, FL_IB_QP1, &mad, sizeof(mad));
        return 0;
    case LAST_WORDS:
        for (int i = 0; i < WORDS; i++)
            send_to(l->port, ping.to, &ping, sizeof(ping));
        fl_port_close(l->port);
        _exit(0);
    default:
        return -EINVAL;
    }
}

static inline void node_run(const struct bed *b, struct node *self)
{
    const struct fl_port_options options = {.udp_port = b->udp_port, .hub_path = b->name};
    struct local l = {.self = self};
    struct fl_error err = {0};
    uint32_t mask;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    self->rc = fl_port_open(&options, &l.port, &err);
    for (uint64_t end = fl_now_ns() + WAIT_NS; self->rc == 0 && fl_now_ns() < end; usleep(100)) {
        int rc = fl_port_qpn_get(l.port, &self->qpn);
        if (rc != -EAGAIN) {
            self->rc = rc;
            break;
        }
    }
    self->prefix = self->rc ? 0 : fl_port_comm_id_prefix(l.port, &mask);
    __atomic_store_n(&self->ready, true, __ATOMIC_SEQ_CST);
    while (self->rc == 0) {
        struct pollfd pfd = {.fd = fl_port_wait_fd(l.port), .events = POLLIN};
        enum command command = (enum command)__atomic_load_n(&self->command, __ATOMIC_SEQ_CST);
        if (command != NOTHING) {
            self->result = run_command(&l, command);
            __atomic_store_n(&self->command, NOTHING, __ATOMIC_SEQ_CST);
        }
        self->is_hub = fl_port_stats(l.port)->is_hub;
        __atomic_store_n(&self->nr_past_hub, fl_port_stats(l.port)->nr_past_hub, __ATOMIC_SEQ_CST);
        __atomic_store_n(&self->nr_from_hub, fl_port_stats(l.port)->nr_from_hub, __ATOMIC_SEQ_CST);
        if (fl_port_poll(l.port, 16, take, &l) == 0 && fl_port_deadline(l.port) > fl_now_ns())
            poll(&pfd, 1, 2);
    }
    _exit(1);
}

static inline void node_begin(struct bed *b, int i)
{
    struct node *node = &b->nodes[i];
    pid_t pid;
    memset(node, 0, sizeof(*node));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        node_run(b, node);
    node->pid = pid;
}

static inline void node_wait(struct node *node)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    while (!__atomic_load_n(&node->ready, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(200);
    assert_true(node->ready);
    assert_int_equal(node->rc, 0);
}

static inline void node_start(struct bed *b, int i)
{
    node_begin(b, i);
    node_wait(&b->nodes[i]);
}

static inline void node_kill(struct node *node)
{
    kill(node->pid, SIGKILL);
    waitpid(node->pid, NULL, 0);
    node->pid = 0;
    node->is_hub = false;
}

static inline int node_do(struct node *node, enum command command, uint64_t argument)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    node->argument = argument;
    __atomic_store_n(&node->command, command, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&node->command, __ATOMIC_SEQ_CST) != NOTHING && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(node->command, NOTHING);
    return node->result;
}

static inline int node_listen(struct node *node, uint64_t service_id)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    int rc;
    while (((rc = node_do(node, LISTEN, service_id)) == -EAGAIN || rc == -EINPROGRESS) && fl_now_ns() < end)
        usleep(1000);
    return rc;
}

/* Pings until one comes back, as retransmission would. Nanoseconds that it took. */
static inline uint64_t ping(struct node *from, const struct node *to)
{
    uint64_t start = fl_now_ns(), end = start + WAIT_NS;
    uint32_t before = __atomic_load_n(&from->nr_pongs, __ATOMIC_SEQ_CST);
    while (fl_now_ns() < end) {
        node_do(from, PING, to->qpn);
        for (int i = 0; i < 20; i++) {
            if (__atomic_load_n(&from->nr_pongs, __ATOMIC_SEQ_CST) != before)
                return fl_now_ns() - start;
            usleep(200);
        }
    }
    fail_msg("no answer");
    return 0;
}

static inline struct bed *bed_open(int nr)
{
    struct bed *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET6, SOCK_DGRAM, 0); /* finds a free port number */
    assert_ptr_not_equal(b, MAP_FAILED);
    if (fd < 0 && errno == EAFNOSUPPORT) {
        addr.sin6_family = AF_INET;
        fd = socket(AF_INET, SOCK_DGRAM, 0);
        len = sizeof(struct sockaddr_in);
    }
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    getsockname(fd, (struct sockaddr *)&addr, &len);
    b->udp_port = ntohs(addr.sin6_port);
    close(fd);
    snprintf(b->name, sizeof(b->name), "farlane-hub-test-%d-%u", (int)getpid(), b->udp_port);
    for (int i = 0; i < nr; i++)
        node_start(b, i);
    return b;
}

static inline void bed_close(struct bed *b)
{
    for (int i = 0; i < NODES; i++) {
        if (b->nodes[i].pid) {
            kill(b->nodes[i].pid, SIGCONT);
            node_kill(&b->nodes[i]);
        }
    }
    munmap(b, sizeof(*b));
}

static inline struct node *hub_of(struct bed *b)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    while (fl_now_ns() < end) {
        for (int i = 0; i < NODES; i++) {
            if (b->nodes[i].pid && __atomic_load_n(&b->nodes[i].is_hub, __ATOMIC_SEQ_CST))
                return &b->nodes[i];
        }
        usleep(200);
    }
    fail_msg("there is no hub");
    return NULL;
}

/* It is stopped, and is no hub any more, as it would say itself. */
static inline void stop_hub(struct node *hub)
{
    kill(hub->pid, SIGSTOP);
    __atomic_store_n(&hub->is_hub, false, __ATOMIC_SEQ_CST);
}

#endif
