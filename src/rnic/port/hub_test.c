/* SPDX-License-Identifier: Apache-2.0 */
/* Processes share a port by a hub: packets, services, and what becomes of them when a hub leaves, dies or is
 * lied to. */
#include "rnic/port/test_nodes.h"

#define ROUNDS 12

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
    assert_true(n[2].nr_echoed >= 1); /* more: of pings that were thought lost */
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
        cmocka_unit_test(a_killed_hub_costs_little), cmocka_unit_test(broken_members_are_thrown_out));
}
