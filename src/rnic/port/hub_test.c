/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes with one UDP port. Each node echoes: a packet to its queue pair comes back to the one
 * that the payload names. Nodes and test speak through shared memory.
 */
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

#define NODES  4
#define WORDS  200
#define ROUNDS 12
#define TRIES  3

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

static void send_past(struct fl_port *port, uint16_t udp_port, uint32_t qpn, const void *payload,
                      uint32_t len)
{
    struct fl_port_flow flow = flow_of("127.0.0.1", "127.0.0.1");
    struct fl_roce_tx tx;
    flow.dport = udp_port;
    packet_of(&tx, qpn == FL_IB_QP1 ? FL_IB_UD : FL_IB_RC, qpn, 0, payload, len);
    fl_port_send(port, &flow, &tx);
    fl_port_flush(port);
}

static void send_to(struct fl_port *port, uint32_t qpn, const void *payload, uint32_t len)
{
    send_past(port, 0, qpn, payload, len);
}

static void take(void *arg, const struct fl_port_packet *packet)
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
static int take_numbers(struct fl_port *port, uint64_t nr)
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

static int listen_on(struct fl_port *port, uint64_t service_id)
{
    uint64_t end = fl_now_ns() + FL_NS_PER_S;
    int rc;
    while ((rc = fl_port_listen(port, service_id)) == -EINPROGRESS && fl_now_ns() < end)
        usleep(100);
    return rc;
}

static int run_command(struct local *l, enum command command)
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

static void node_run(const struct bed *b, struct node *self)
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

static void node_begin(struct bed *b, int i)
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

static void node_wait(struct node *node)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    while (!__atomic_load_n(&node->ready, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(200);
    assert_true(node->ready);
    assert_int_equal(node->rc, 0);
}

static void node_start(struct bed *b, int i)
{
    node_begin(b, i);
    node_wait(&b->nodes[i]);
}

static void node_kill(struct node *node)
{
    kill(node->pid, SIGKILL);
    waitpid(node->pid, NULL, 0);
    node->pid = 0;
    node->is_hub = false;
}

static int node_do(struct node *node, enum command command, uint64_t argument)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    node->argument = argument;
    __atomic_store_n(&node->command, command, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&node->command, __ATOMIC_SEQ_CST) != NOTHING && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(node->command, NOTHING);
    return node->result;
}

static int node_listen(struct node *node, uint64_t service_id)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    int rc;
    while (((rc = node_do(node, LISTEN, service_id)) == -EAGAIN || rc == -EINPROGRESS) && fl_now_ns() < end)
        usleep(1000);
    return rc;
}

/* Pings until one comes back, as retransmission would. Nanoseconds that it took. */
static uint64_t ping(struct node *from, const struct node *to)
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

static struct bed *bed_open(int nr)
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

static void bed_close(struct bed *b)
{
    for (int i = 0; i < NODES; i++) {
        if (b->nodes[i].pid) {
            kill(b->nodes[i].pid, SIGCONT);
            node_kill(&b->nodes[i]);
        }
    }
    munmap(b, sizeof(*b));
}

static void processes_share_a_port(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    assert_true(n[0].is_hub);
    assert_false(n[1].is_hub || n[2].is_hub);
    assert_int_not_equal(n[1].prefix, n[2].prefix);
    ping(&n[0], &n[1]);
    ping(&n[1], &n[0]);
    ping(&n[1], &n[2]);
    assert_int_equal(n[2].nr_echoed, 1);
    bed_close(b);
}

/* There may be more: of pings that were thought lost. */
static void wait_for_echoes(const struct node *node, uint32_t nr)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    while (__atomic_load_n(&node->nr_echoed, __ATOMIC_SEQ_CST) < nr && fl_now_ns() < end)
        usleep(100);
    assert_true(node->nr_echoed >= nr);
}

/* On one host a member's packets need no hub, neither one that runs nor one that is stopped or dead. */
static void packets_of_this_host_go_past_the_hub(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    assert_int_equal(node_do(&n[1], PING_PAST_HUB, n[2].qpn), 0);
    wait_for_echoes(&n[2], 1);
    assert_int_equal(node_do(&n[0], PING_PAST_HUB, n[2].qpn), 0);
    wait_for_echoes(&n[2], 2);
    assert_int_equal(node_do(&n[1], PING_PAST_HUB, n[0].qpn), -ENXIO); /* the port of all is its own */
    kill(n[0].pid, SIGSTOP);
    assert_int_equal(node_do(&n[1], PING_PAST_HUB, n[2].qpn), 0);
    wait_for_echoes(&n[2], 3);
    kill(n[0].pid, SIGCONT);
    node_kill(&n[0]);
    ping(&n[1], &n[2]); /* one of them is the hub now, and keeps its own port */
    ping(&n[2], &n[1]);
    uint32_t nr = n[2].nr_echoed;
    assert_int_equal(node_do(&n[1], PING_PAST_HUB, n[2].qpn), 0);
    wait_for_echoes(&n[2], nr + 1);
    assert_true(n[2].nr_past_hub >= 3);
    assert_true(n[2].nr_past_hub <= 4);
    bed_close(b);
}

static void requests_go_to_who_listens(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    uint64_t end = fl_now_ns() + WAIT_NS;
    assert_int_equal(node_do(&n[1], LISTEN, 77), 0);
    assert_int_equal(node_do(&n[2], LISTEN, 77), -EADDRINUSE);
    assert_int_equal(node_do(&n[0], LISTEN, 77), -EADDRINUSE);
    assert_int_equal(node_do(&n[0], LISTEN, 78), 0);
    assert_int_equal(node_do(&n[2], LISTEN, 78), -EADDRINUSE);
    node_do(&n[2], REQUEST, 77);
    while (!__atomic_load_n(&n[1].nr_cm, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(n[1].nr_cm, 1);
    node_do(&n[2], REQUEST, 1234); /* nobody: the hub's process answers */
    while (!__atomic_load_n(&n[0].nr_cm, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(n[0].nr_cm, 1);
    node_kill(&n[1]); /* its service is free */
    while (node_listen(&n[2], 77) == -EADDRINUSE && fl_now_ns() < end)
        usleep(1000);
    assert_int_equal(n[2].result, 0);
    bed_close(b);
}

/* Datagrams are not sent again: what a process sent before it left arrives, though that process was the hub.
 */
static void a_hub_that_leaves_loses_nothing(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    uint64_t end = fl_now_ns() + WAIT_NS;
    assert_true(n[0].is_hub);
    n[0].argument = n[1].qpn;
    __atomic_store_n(&n[0].command, LAST_WORDS, __ATOMIC_SEQ_CST);
    assert_int_equal(waitpid(n[0].pid, NULL, 0), n[0].pid);
    n[0].pid = 0;
    while (__atomic_load_n(&n[1].nr_echoed, __ATOMIC_SEQ_CST) != WORDS && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(n[1].nr_echoed, WORDS);
    ping(&n[1], &n[2]);
    bed_close(b);
}

static struct node *hub_of(struct bed *b)
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

/* hub: asks for what the other one listens on, and must not answer in its place. */
static void request_till_it_comes(struct node *hub, struct node *listener, uint64_t service_id)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    while (!__atomic_load_n(&listener->nr_cm, __ATOMIC_SEQ_CST) && fl_now_ns() < end) {
        node_do(hub, REQUEST, service_id);
        usleep(1000);
    }
    assert_true(listener->nr_cm);
    assert_int_equal(hub->nr_cm, 0);
}

/* A new hub refuses nobody for a service whose owner has not come back to it yet. */
static void a_new_hub_waits_for_what_others_listen_on(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    uint64_t end = fl_now_ns() + WAIT_NS;
    assert_int_equal(node_do(&n[1], LISTEN, 77), 0);
    kill(n[1].pid, SIGSTOP);
    node_kill(&n[0]);
    assert_ptr_equal(hub_of(b), &n[2]);
    node_do(&n[2], REQUEST, 77);
    kill(n[1].pid, SIGCONT);
    request_till_it_comes(&n[2], &n[1], 77);
    usleep(600000);
    node_do(&n[2], REQUEST, 1234); /* nobody's */
    while (!__atomic_load_n(&n[2].nr_cm, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(n[2].nr_cm, 1);
    bed_close(b);
}

/* ... and gives none of those to another process. All over again where the owner waited too long for a CPU.
 */
static void a_new_hub_gives_nobody_what_others_listen_on(void **state)
{
    int rc = 0;
    for (int i = 0; i < TRIES && rc == 0; i++) {
        struct bed *b = bed_open(3);
        struct node *n = b->nodes;
        assert_int_equal(node_listen(&n[1], 77), 0);
        kill(n[1].pid, SIGSTOP);
        node_kill(&n[0]);
        assert_ptr_equal(hub_of(b), &n[2]);
        rc = node_do(&n[2], LISTEN, 77);
        assert_int_equal(rc, -EAGAIN);
        kill(n[1].pid, SIGCONT);
        rc = node_listen(&n[2], 77);
        bed_close(b);
    }
    assert_int_equal(rc, -EADDRINUSE);
}

static void make_busy(struct node *node)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    __atomic_store_n(&node->command, BE_BUSY, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&node->busy, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(100);
    assert_true(node->busy);
}

static void end_busy(struct node *node)
{
    uint64_t end = fl_now_ns() + WAIT_NS;
    __atomic_store_n(&node->busy, false, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&node->command, __ATOMIC_SEQ_CST) != NOTHING && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(node->command, NOTHING);
}

/* Neither does a process wait for its answer while it has numbers, nor are they said to have run out. */
static void a_hub_may_be_too_busy_to_give_numbers(void **state)
{
    struct bed *b = bed_open(2);
    struct node *n = b->nodes;
    assert_int_equal(node_do(&n[1], TAKE_NUMBERS, FL_HUB_BLOCK_LEN / 2), 0);
    make_busy(&n[0]);
    /* It has had one more for itself, and asked for a second block at half of the first */
    assert_int_equal(node_do(&n[1], TAKE_NUMBERS, 2 * FL_HUB_BLOCK_LEN), -EAGAIN);
    end_busy(&n[0]);
    assert_int_equal(node_do(&n[1], TAKE_NUMBERS, 4 * FL_HUB_BLOCK_LEN), 0);
    bed_close(b);
}

/* It is a hub all the same, and not somebody else who has the port. */
static void a_hub_may_be_too_busy_to_welcome(void **state)
{
    struct bed *b = bed_open(1);
    struct node *n = b->nodes;
    make_busy(&n[0]);
    node_begin(b, 1);
    usleep(4000000);
    end_busy(&n[0]);
    node_wait(&n[1]);
    ping(&n[0], &n[1]);
    bed_close(b);
}

/* Who had no CPU for as long as it would wait has not waited. */
static void a_newcomer_may_wait_for_a_cpu(void **state)
{
    struct bed *b = bed_open(1);
    struct node *n = b->nodes;
    make_busy(&n[0]);
    node_begin(b, 1);
    usleep(500000);
    kill(n[1].pid, SIGSTOP);
    usleep(3500000);
    kill(n[1].pid, SIGCONT);
    usleep(100000);
    end_busy(&n[0]);
    node_wait(&n[1]);
    ping(&n[0], &n[1]);
    bed_close(b);
}

/* What it answers later counts, and what nobody came back for is another's to have. */
static void a_hub_may_be_too_busy_to_give_services(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    make_busy(&n[0]);
    assert_int_equal(node_do(&n[1], LISTEN_ONCE, 77), -EINPROGRESS);
    assert_int_equal(node_do(&n[1], LISTEN_ONCE, 77), -EINPROGRESS);
    assert_int_equal(node_do(&n[1], LISTEN_ONCE, 78), -EINPROGRESS);
    assert_int_equal(node_do(&n[2], LISTEN_ONCE, 79), -EINPROGRESS);
    for (uint64_t end = fl_now_ns() + 3 * FL_NS_PER_S; fl_now_ns() < end;
         usleep(1000)) /* longer than an answer is wanted */
        assert_int_not_equal(node_do(&n[1], LISTEN_ONCE, 77), -EADDRINUSE);
    end_busy(&n[0]);
    assert_int_equal(node_listen(&n[1], 77), 0);
    assert_int_equal(node_listen(&n[2], 77), -EADDRINUSE);
    uint64_t end = fl_now_ns() + WAIT_NS;
    while (node_listen(&n[2], 78) == -EADDRINUSE && fl_now_ns() < end)
        usleep(1000);
    assert_int_equal(node_listen(&n[2], 78), 0);
    assert_int_equal(node_listen(&n[1], 78), -EADDRINUSE);
    bed_close(b);
}

/* The longest silence of ROUNDS killed hubs; service IDs from first_id on are taken. */
static uint64_t kill_hubs(struct bed *b, uint64_t first_id)
{
    uint64_t longest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct node *hub = hub_of(b), *left[NODES];
        uint32_t prefix_of[NODES];
        int nr = 0, again = (int)(hub - b->nodes);
        for (int i = 0; i < NODES; i++) {
            if (&b->nodes[i] != hub) {
                prefix_of[nr] = b->nodes[i].prefix;
                left[nr++] = &b->nodes[i];
            }
        }
        assert_int_equal(node_listen(left[0], first_id + (uint64_t)round), 0);
        node_kill(hub);
        longest = FL_MAX(longest, ping(left[0], left[1]));
        longest = FL_MAX(longest, ping(left[2], left[0]));
        longest = FL_MAX(longest, ping(left[1], left[2]));
        assert_int_equal(node_listen(left[1], first_id + (uint64_t)round), -EADDRINUSE);
        for (int i = 0; i < nr; i++)
            assert_int_equal(left[i]->prefix, prefix_of[i]);
        node_start(b, again);
        ping(&b->nodes[again], left[0]);
    }
    print_message("longest silence %u us\n", (unsigned)(longest / FL_NS_PER_US));
    return longest;
}

/* The others go on with the numbers and services that they had. All over again where a machine was so busy
 * that one of them waited for a CPU. */
static void a_killed_hub_costs_little(void **state)
{
    struct bed *b = bed_open(NODES);
    uint64_t longest = FL_NS_PER_S;
    for (int i = 0; i < TRIES && longest >= FL_NS_PER_S; i++)
        longest = kill_hubs(b, 1000 + (uint64_t)i * ROUNDS);
    assert_true(longest < FL_NS_PER_S);
    bed_close(b);
}

static void a_stopped_member_costs_only_itself(void **state)
{
    struct bed *b = bed_open(4);
    struct node *n = b->nodes;
    ping(&n[1], &n[2]);
    kill(n[3].pid, SIGSTOP);
    int nr_slow = 0;
    for (int i = 0; i < 2000; i++) { /* more than its ring takes */
        n[0].argument = n[3].qpn;
        node_do(&n[1], PING, n[3].qpn);
        if (i % 100 == 0)
            nr_slow += ping(&n[1], &n[2]) >= FL_NS_PER_S;
    }
    assert_true(nr_slow < 5); /* of 20: single ones wait for a CPU where it is busy */
    kill(n[3].pid, SIGCONT);
    ping(&n[1], &n[3]);
    bed_close(b);
}

/* Its socket would take everybody's packets. */
static void a_stopped_hub_is_replaced(void **state)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    uint32_t prefix = n[0].prefix;
    assert_ptr_equal(hub_of(b), &n[0]);
    assert_int_equal(node_do(&n[1], LISTEN, 77), 0);
    ping(&n[1], &n[2]);
    kill(n[0].pid, SIGSTOP);
    __atomic_store_n(&n[0].is_hub, false, __ATOMIC_SEQ_CST); /* as it would say */
    ping(&n[1], &n[2]);
    struct node *second = hub_of(b);
    assert_int_equal(node_listen(&n[2], 77), -EADDRINUSE);
    node_start(b, 3);
    ping(&n[3], &n[1]);
    kill(n[0].pid, SIGCONT);
    ping(&n[1], &n[0]); /* by the number that it had */
    ping(&n[0], &n[3]);
    assert_false(n[0].is_hub);
    assert_int_equal(n[0].prefix, prefix);
    node_kill(second); /* the ordinary way again */
    int a = second == &n[1] ? 2 : 1;
    ping(&n[a], &n[0]);
    ping(&n[3], &n[a]);
    bed_close(b);
}

/* Nobody could tell a newcomer what the hub in whose place it serves has given: it may give the same. */
static bool have_one_block(const struct node *a, const struct node *b)
{
    return a->qpn >> FL_HUB_BLOCK_BITS == b->qpn >> FL_HUB_BLOCK_BITS;
}

/* Also by a process that comes only then, and while a second one is stopped. */
static void stopped_hubs_keep_nobody_out(void **state)
{
    struct bed *b = bed_open(1);
    struct node *n = b->nodes;
    kill(n[0].pid, SIGSTOP);
    node_start(b, 1);
    node_start(b, 2);
    ping(&n[1], &n[2]);
    kill(n[1].pid, SIGSTOP);
    node_start(b, 3);
    bool lucky = true;
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < i; k++)
            lucky &= !have_one_block(&n[i], &n[k]);
    if (lucky) {
        ping(&n[2], &n[3]);
        kill(n[0].pid, SIGCONT);
        ping(&n[0], &n[3]);
        ping(&n[2], &n[0]);
        kill(n[1].pid, SIGCONT);
        ping(&n[1], &n[0]);
        ping(&n[2], &n[1]);
    }
    bed_close(b);
    if (!lucky) /* one in five thousand times */
        stopped_hubs_keep_nobody_out(state);
}

/* A newcomer that replaces it knows of no services, and must not say that nobody listens. */
/* All over again where the owner was not back in the time that the hub gives it: it waited for a CPU. */
static void a_newcomer_in_a_stopped_hubs_place_refuses_nobody(void **state)
{
    bool late = true;
    for (int i = 0; i < TRIES && late; i++) {
        struct bed *b = bed_open(2);
        struct node *n = b->nodes;
        assert_ptr_equal(hub_of(b), &n[0]);
        assert_int_equal(node_do(&n[1], LISTEN, 77), 0);
        kill(n[1].pid, SIGSTOP); /* as one that looks once a second, since it is idle */
        kill(n[0].pid, SIGSTOP);
        __atomic_store_n(&n[0].is_hub, false, __ATOMIC_SEQ_CST);
        uint64_t start = fl_now_ns();
        node_start(b, 2);
        assert_ptr_equal(hub_of(b), &n[2]);
        for (uint64_t end = fl_now_ns() + 600 * FL_NS_PER_MS; fl_now_ns() < end; usleep(6000))
            node_do(&n[2], REQUEST, 77);
        kill(n[1].pid, SIGCONT);
        while (!__atomic_load_n(&n[1].nr_cm, __ATOMIC_SEQ_CST) && fl_now_ns() < start + WAIT_NS) {
            node_do(&n[2], REQUEST, 77);
            usleep(1000);
        }
        assert_true(n[1].nr_cm);
        late = n[2].nr_cm && fl_now_ns() > start + 2 * FL_NS_PER_S;
        assert_true(late || !n[2].nr_cm);
        kill(n[0].pid, SIGCONT);
        bed_close(b);
    }
    assert_false(late);
}

static void a_stopped_member_comes_back_to_the_next_hub(void **state)
{
    struct bed *b = bed_open(4);
    struct node *n = b->nodes;
    kill(n[3].pid, SIGSTOP);
    node_kill(&n[0]);
    ping(&n[1], &n[2]);
    node_start(b, 0);
    kill(n[3].pid, SIGCONT);
    ping(&n[0], &n[3]); /* by the number that it had */
    bed_close(b);
}

static void broken_members_are_thrown_out(void **state)
{
    struct bed *b = bed_open(2);
    struct node *n = b->nodes;
    struct fl_hub_msg msg = {.magic = FL_HUB_MAGIC, .type = FL_HUB_HELLO}, reply;
    int fds[FL_HUB_FDS_MAX], fd, many[100], rc = 0;
    uint64_t end = fl_now_ns() + WAIT_NS;
    /* Another's slot and block */
    fd = fl_hub_unix_connect(b->name);
    assert_true(fd >= 0);
    msg.slot = n[1].prefix >> FL_HUB_COMM_SHIFT;
    assert_int_equal(fl_hub_unix_send(fd, &msg, NULL, 0), 0);
    while (!(rc = fl_hub_unix_recv(fd, &reply, fds)) && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(rc, 1);
    assert_int_equal(reply.type, FL_HUB_WELCOME);
    assert_int_not_equal(reply.slot, msg.slot);
    /* The table is the hub's alone to write. */
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0), MAP_FAILED);
    close(fds[0]);
    close(fds[1]);
    msg = (struct fl_hub_msg){
        .magic = FL_HUB_MAGIC, .type = FL_HUB_CLAIM, .nr = 1, .values = {n[1].qpn >> FL_HUB_BLOCK_BITS}};
    assert_int_equal(fl_hub_unix_send(fd, &msg, NULL, 0), 0);
    while (!(rc = fl_hub_unix_recv(fd, &reply, fds)) && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(rc, 1);
    assert_int_equal(reply.values[0], 0);
    assert_int_equal(reply.status, -EEXIST);
    /* Garbage ends the connection; silent strangers do not keep others out. */
    assert_int_equal(send(fd, "garbage", 7, MSG_NOSIGNAL), 7);
    while (!(rc = fl_hub_unix_recv(fd, &reply, fds)) && fl_now_ns() < end)
        usleep(100);
    assert_true(rc < 0);
    close(fd);
    for (size_t i = 0; i < FL_ARRAY_LEN(many); i++)
        many[i] = fl_hub_unix_connect(b->name);
    node_start(b, 2);
    ping(&n[1], &n[2]);
    for (size_t i = 0; i < FL_ARRAY_LEN(many); i++) {
        if (many[i] >= 0)
            close(many[i]);
    }
    /* One that asks and asks and never reads the answers */
    fd = fl_hub_unix_connect(b->name);
    msg = (struct fl_hub_msg){.magic = FL_HUB_MAGIC, .type = FL_HUB_HELLO};
    fl_hub_unix_send(fd, &msg, NULL, 0);
    msg.type = FL_HUB_GET;
    while ((rc = fl_hub_unix_send(fd, &msg, NULL, 0)) != -EPIPE && rc != -ECONNRESET && fl_now_ns() < end)
        ;
    assert_true(rc == -EPIPE || rc == -ECONNRESET);
    close(fd);
    ping(&n[1], &n[2]);
    bed_close(b);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(processes_share_a_port), cmocka_unit_test(packets_of_this_host_go_past_the_hub),
        cmocka_unit_test(requests_go_to_who_listens), cmocka_unit_test(a_hub_that_leaves_loses_nothing),
        cmocka_unit_test(a_new_hub_waits_for_what_others_listen_on),
        cmocka_unit_test(a_hub_may_be_too_busy_to_welcome), cmocka_unit_test(a_newcomer_may_wait_for_a_cpu),
        cmocka_unit_test(a_hub_may_be_too_busy_to_give_services),
        cmocka_unit_test(a_new_hub_gives_nobody_what_others_listen_on),
        cmocka_unit_test(a_hub_may_be_too_busy_to_give_numbers), cmocka_unit_test(a_killed_hub_costs_little),
        cmocka_unit_test(a_stopped_member_costs_only_itself), cmocka_unit_test(a_stopped_hub_is_replaced),
        cmocka_unit_test(stopped_hubs_keep_nobody_out),
        cmocka_unit_test(a_newcomer_in_a_stopped_hubs_place_refuses_nobody),
        cmocka_unit_test(a_stopped_member_comes_back_to_the_next_hub),
        cmocka_unit_test(broken_members_are_thrown_out));
}
