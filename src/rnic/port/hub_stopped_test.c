/* SPDX-License-Identifier: Apache-2.0 */
/* Hubs and members that are stopped or too busy to answer, and the hubs that take over from them. */
#include "rnic/port/test_nodes.h"

/* n[1] listens on 77 and is stopped, n[0] is killed, n[2] serves. */
static struct bed *new_hub_beside_a_stopped_listener(void)
{
    struct bed *b = bed_open(3);
    struct node *n = b->nodes;
    assert_int_equal(node_listen(&n[1], 77), 0);
    kill(n[1].pid, SIGSTOP);
    node_kill(&n[0]);
    assert_ptr_equal(hub_of(b), &n[2]);
    return b;
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
    struct bed *b = new_hub_beside_a_stopped_listener();
    struct node *n = b->nodes;
    uint64_t end = fl_now_ns() + WAIT_NS;
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
        struct bed *b = new_hub_beside_a_stopped_listener();
        struct node *n = b->nodes;
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
    stop_hub(&n[0]);
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
        stop_hub(&n[0]);
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

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(a_new_hub_waits_for_what_others_listen_on),
        cmocka_unit_test(a_hub_may_be_too_busy_to_welcome), cmocka_unit_test(a_newcomer_may_wait_for_a_cpu),
        cmocka_unit_test(a_hub_may_be_too_busy_to_give_services),
        cmocka_unit_test(a_new_hub_gives_nobody_what_others_listen_on),
        cmocka_unit_test(a_hub_may_be_too_busy_to_give_numbers),
        cmocka_unit_test(a_stopped_member_costs_only_itself), cmocka_unit_test(a_stopped_hub_is_replaced),
        cmocka_unit_test(stopped_hubs_keep_nobody_out),
        cmocka_unit_test(a_newcomer_in_a_stopped_hubs_place_refuses_nobody),
        cmocka_unit_test(a_stopped_member_comes_back_to_the_next_hub));
}
