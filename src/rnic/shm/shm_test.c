/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: the child shows memory, the parent reads and writes it. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/clock.h"
#include "base/unit.h"
#include "rnic/shm/shm.h"

#define LEN       (1u << 20)
#define CHILD_QPN 0x400007u
#define OUR_QPN   0x800009u
#define PD        3u
#define FAREWELLS 200u
#define ALL       (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct show { /* shared between the two */
    char address[64];
    bool ready, stop, churn, broken;
    uint32_t shared_key, plain_key, read_key, churn_key;
    uint64_t shared_at, plain_at, churn_at;
    uint32_t nr_rounds, nr_packets;
    uint32_t farewells; /* messages that the child writes to every link before it ends */
};

struct child {
    struct show *show;
    struct fl_shm *shm;
    struct fl_key_table keys;
    uint8_t *shared, *plain;
    uint32_t churn_slot;
};

static void set_key(struct child *c, uint32_t slot, uint32_t key, void *at, uint32_t access)
{
    struct fl_key_entry entry = {.kind = FL_KEY_MR,
                                 .key = key,
                                 .pd = PD,
                                 .access = access,
                                 .addr = (uintptr_t)at,
                                 .len = LEN,
                                 .ptr = (uintptr_t)at,
                                 .region = fl_shared_find(at, LEN)};
    fl_key_set(&c->keys, slot, &entry);
}

static uint32_t add_key(struct child *c, void *at, uint32_t access, uint32_t *slot)
{
    uint32_t key;
    if (fl_key_alloc(&c->keys, slot, &key))
        abort();
    set_key(c, *slot, key, at, access);
    return key;
}

static void show_qp(struct fl_shm *shm, uint32_t qpn, uint32_t dest, bool takes, uint32_t access)
{
    const struct fl_shm_qp qp = {.qpn = qpn, .takes = takes, .dest_qpn = dest, .access = access, .pd = PD};
    fl_shm_show(shm, &qp);
}

/* Opens the key, closes it, and then nobody writes there any more. */
static void churn(struct child *c)
{
    uint8_t *at = (uint8_t *)(uintptr_t)c->show->churn_at;
    set_key(c, c->churn_slot, c->show->churn_key, at, ALL);
    uint64_t end = fl_now_ns() + 20000;
    while (fl_now_ns() < end)
        ;
    fl_key_set(&c->keys, c->churn_slot, &(struct fl_key_entry){.kind = FL_KEY_NONE});
    fl_shm_quiesce(c->shm);
    memset(at, 0xcc, LEN / 16);
    end = fl_now_ns() + 20000;
    while (fl_now_ns() < end)
        ;
    for (uint32_t i = 0; i < LEN / 16; i++)
        c->show->broken = c->show->broken || at[i] != 0xcc;
    __atomic_add_fetch(&c->show->nr_rounds, 1, __ATOMIC_SEQ_CST);
}

static void count_packet(void *arg, const struct fl_port_packet *packet)
{
    struct child *c = arg;
    __atomic_add_fetch(&c->show->nr_packets, 1, __ATOMIC_SEQ_CST);
}

static void no_message(void *arg, struct fl_shm_link *link, const struct fl_shm_message *message,
                       const void *data, uint32_t len)
{
}

/* To the parent, whose HELLO is there by now */
static void say_farewell(struct child *c)
{
    struct fl_port_peer parent = {.uid = geteuid(), .pid = (int)getppid()};
    const char *reason;
    for (int i = 0; i < 4; i++)
        fl_shm_deadline(c->shm);
    snprintf(parent.address, sizeof(parent.address), "%s-parent", c->show->address);
    struct fl_shm_link *link = fl_shm_get(c->shm, &parent, &reason);
    if (!link || !link->up)
        _exit(1);
    for (uint32_t i = 0; i < c->show->farewells; i++) {
        struct fl_shm_message *m = (struct fl_shm_message *)fl_hub_ring_reserve(
            &link->out, (uint32_t)(sizeof(*m) + sizeof(i)), FL_HUB_RING_MESSAGE);
        if (!m)
            _exit(2);
        *m = (struct fl_shm_message){.dest_qpn = OUR_QPN, .src_qpn = CHILD_QPN};
        memcpy(m + 1, &i, sizeof(i));
    }
    fl_shm_commit(link);
    _exit(0);
}

static void child_run(struct show *show)
{
    struct child c = {.show = show};
    const struct fl_shm_options options = {.address = show->address, .keys = &c.keys};
    uint32_t slot;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    c.shared = fl_shared_alloc(2 * LEN);
    c.plain = calloc(1, LEN + 64);
    if (!c.shared || !c.plain || fl_key_table_init(&c.keys) || fl_shm_open(&options, &c.shm))
        _exit(1);
    show->shared_at = (uintptr_t)c.shared;
    show->plain_at = (uintptr_t)c.plain;
    show->churn_at = (uintptr_t)c.shared + LEN;
    show->shared_key = add_key(&c, c.shared, ALL, &slot);
    show->plain_key = add_key(&c, c.plain, ALL, &slot);
    show->read_key = add_key(&c, c.plain, IBV_ACCESS_REMOTE_READ, &slot);
    show->churn_key = add_key(&c, c.shared + LEN, ALL, &c.churn_slot);
    show_qp(c.shm, CHILD_QPN, OUR_QPN, true, ALL);
    show_qp(c.shm, CHILD_QPN + 1, OUR_QPN, false, ALL);
    show_qp(c.shm, CHILD_QPN + 2, OUR_QPN, true, IBV_ACCESS_REMOTE_READ);
    __atomic_store_n(&show->ready, true, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&show->stop, __ATOMIC_SEQ_CST)) {
        struct pollfd pfd = {.fd = fl_shm_wait_fd(c.shm), .events = POLLIN};
        fl_shm_progress(c.shm, &(struct fl_shm_delivery){count_packet, no_message, &c});
        if (show->churn)
            churn(&c);
        if (__atomic_load_n(&show->farewells, __ATOMIC_SEQ_CST))
            say_farewell(&c);
        if (fl_shm_deadline(c.shm) && !show->churn)
            poll(&pfd, 1, 20);
    }
    _exit(0);
}

struct bed {
    struct show *show;
    pid_t pid;
    struct fl_key_table keys;
    struct fl_shm *shm;
    struct fl_shm_link *link;
    uint8_t *mine;
    uint32_t nr_messages;
};

static void nothing(void *arg, const struct fl_port_packet *packet)
{
}

typedef void (*on_message)(void *arg, struct fl_shm_link *link, const struct fl_shm_message *message,
                           const void *data, uint32_t len);

static void turn(struct bed *b, on_message take)
{
    fl_shm_deadline(b->shm);
    fl_shm_progress(b->shm, &(struct fl_shm_delivery){nothing, take, b});
}

static struct bed *bed_start(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    struct fl_port_peer peer = {.uid = geteuid()};
    char address[96];
    const struct fl_shm_options options = {.address = address, .keys = &b->keys};
    const char *reason = NULL;
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    assert_non_null(b);
    b->show = mmap(NULL, sizeof(*b->show), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    b->mine = malloc(LEN);
    snprintf(b->show->address, sizeof(b->show->address), "farlane-shm-test-%d-%llu", (int)getpid(),
             (unsigned long long)fl_now_ns());
    snprintf(address, sizeof(address), "%s-parent", b->show->address);
    b->pid = fork();
    if (b->pid == 0)
        child_run(b->show);
    while (!__atomic_load_n(&b->show->ready, __ATOMIC_SEQ_CST) && fl_now_ns() < end)
        usleep(200);
    assert_int_equal(fl_key_table_init(&b->keys), 0);
    assert_int_equal(fl_shm_open(&options, &b->shm), 0);
    peer.pid = b->pid;
    memcpy(peer.address, b->show->address, sizeof(b->show->address));
    b->link = fl_shm_get(b->shm, &peer, &reason);
    assert_non_null(b->link);
    return b;
}

static struct bed *bed_open(void)
{
    struct bed *b = bed_start();
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    /* Up, and told of the memory */
    while ((!b->link->up || !b->link->regions[0].id) && fl_now_ns() < end) {
        turn(b, no_message);
        usleep(200);
    }
    assert_true(b->link->up);
    return b;
}

static void bed_close(struct bed *b)
{
    kill(b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    fl_shm_put(b->shm, b->link);
    fl_shm_close(b->shm);
    fl_key_table_fini(&b->keys);
    munmap(b->show, sizeof(*b->show));
    free(b->mine);
    free(b);
}

static enum fl_shm_how direct(struct bed *b, struct fl_shm_request *r)
{
    enum fl_shm_how how;
    if (!fl_shm_direct_begin(b->link, fl_now_ns()))
        return FL_SHM_NOT;
    how = fl_shm_direct(b->link, r);
    fl_shm_direct_end(b->link);
    return how;
}

static enum fl_shm_how move(struct bed *b, enum fl_shm_op op, uint32_t key, uint64_t addr, uint32_t len)
{
    const struct iovec iov[] = {{b->mine, len / 3}, {b->mine + len / 3, len - len / 3}};
    struct fl_shm_request r = {.op = op,
                               .qpn = OUR_QPN,
                               .dest_qpn = CHILD_QPN,
                               .rkey = key,
                               .addr = addr,
                               .len = len,
                               .iov = len < 3 ? iov + 1 : iov,
                               .nr_iov = len < 3 ? 1 : 2};
    return direct(b, &r);
}

static bool vm_is_allowed(struct bed *b)
{
    move(b, FL_SHM_READ, b->show->plain_key, b->show->plain_at, 8);
    return !b->link->vm_error;
}

static void write_and_read(struct bed *b, uint32_t key, uint64_t at, enum fl_shm_how how)
{
    const uint32_t lens[] = {1, 2, 8, 9, 64, 4095, 4096, LEN};
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
        for (uint32_t k = 0; k < lens[i]; k++)
            b->mine[k] = (uint8_t)(k * 7 + i + 1);
        assert_int_equal(move(b, FL_SHM_WRITE, key, at, lens[i]), how);
        memset(b->mine, 0, lens[i]);
        assert_int_equal(move(b, FL_SHM_READ, key, at, lens[i]), how);
        for (uint32_t k = 0; k < lens[i]; k++)
            assert_int_equal(b->mine[k], (uint8_t)(k * 7 + i + 1));
    }
}

static void memory_of_pools_is_copied_once(void **state)
{
    struct bed *b = bed_open();
    write_and_read(b, b->show->shared_key, b->show->shared_at, FL_SHM_MAPPED);
    bed_close(b);
}

static void other_memory_goes_by_the_kernel(void **state)
{
    struct bed *b = bed_open();
    if (!vm_is_allowed(b)) {
        bed_close(b);
        skip();
    }
    write_and_read(b, b->show->plain_key, b->show->plain_at, FL_SHM_VM);
    bed_close(b);
}

static void works_while_the_peer_is_stopped(void **state)
{
    struct bed *b = bed_open();
    int status;
    kill(b->pid, SIGSTOP);
    waitpid(b->pid, &status, WUNTRACED);
    assert_true(WIFSTOPPED(status));
    write_and_read(b, b->show->shared_key, b->show->shared_at, FL_SHM_MAPPED);
    if (vm_is_allowed(b))
        write_and_read(b, b->show->plain_key, b->show->plain_at, FL_SHM_VM);
    kill(b->pid, SIGCONT);
    bed_close(b);
}

static void checks_as_the_peer_would(void **state)
{
    struct bed *b = bed_open();
    const struct show *s = b->show;
    struct fl_shm_request r = {.op = FL_SHM_READ,
                               .qpn = OUR_QPN,
                               .dest_qpn = CHILD_QPN,
                               .rkey = s->shared_key,
                               .addr = s->shared_at,
                               .len = 8,
                               .iov = &(struct iovec){b->mine, 8},
                               .nr_iov = 1};
    struct fl_shm_request wrong[8];
    for (size_t i = 0; i < FL_ARRAY_LEN(wrong); i++)
        wrong[i] = r;
    wrong[0].rkey ^= 1;
    wrong[1].addr -= 1;
    wrong[2].addr += LEN - 7;
    wrong[3].len = UINT64_MAX;
    wrong[4].qpn++;            /* the peer's queue pair is another one's */
    wrong[5].dest_qpn++;       /* takes no requests now */
    wrong[6].dest_qpn += 2000; /* does not exist */
    wrong[7].dest_qpn += 2;    /* READ only */
    wrong[7].op = FL_SHM_WRITE;
    assert_int_equal(direct(b, &r), FL_SHM_MAPPED);
    for (size_t i = 0; i < FL_ARRAY_LEN(wrong); i++) {
        assert_int_equal(direct(b, &wrong[i]), FL_SHM_NOT);
        assert_int_equal(wrong[i].why, FL_SHM_NOT_OPEN);
    }
    assert_int_equal(move(b, FL_SHM_WRITE, s->read_key, s->plain_at, 8), FL_SHM_NOT);
    assert_int_equal(move(b, FL_SHM_WRITE, 0, 0, 0), FL_SHM_MAPPED); /* nothing needs no key */
    bed_close(b);
}

static void atomics_are_done_in_place(void **state)
{
    struct bed *b = bed_open();
    uint64_t got = 0;
    struct iovec iov = {&got, sizeof(got)};
    struct fl_shm_request r = {.op = FL_SHM_ADD,
                               .qpn = OUR_QPN,
                               .dest_qpn = CHILD_QPN,
                               .rkey = b->show->shared_key,
                               .addr = b->show->shared_at + 64,
                               .len = 8,
                               .iov = &iov,
                               .nr_iov = 1,
                               .operand = 5};
    assert_int_equal(direct(b, &r), FL_SHM_MAPPED);
    assert_int_equal(direct(b, &r), FL_SHM_MAPPED);
    assert_int_equal(got, 5);
    r.op = FL_SHM_SWAP;
    r.compare = 11;
    assert_int_equal(direct(b, &r), FL_SHM_MAPPED);
    assert_int_equal(got, 10); /* not what was expected there: unchanged */
    r.compare = 10;
    r.operand = 77;
    direct(b, &r);
    direct(b, &r);
    assert_int_equal(got, 77);
    r.addr += 4; /* not aligned: the peer says what is wrong */
    assert_int_equal(direct(b, &r), FL_SHM_NOT);
    assert_int_equal(r.why, FL_SHM_ODD);
    r.addr = b->show->plain_at; /* not mapped: the peer does it */
    r.rkey = b->show->plain_key;
    assert_int_equal(direct(b, &r), FL_SHM_NOT);
    assert_int_equal(r.why, FL_SHM_ATOMIC);
    bed_close(b);
}

static void a_closed_key_is_in_nobodys_use(void **state)
{
    struct bed *b = bed_open();
    uint64_t end = fl_now_ns() + 10 * FL_NS_PER_S;
    uint32_t nr[3] = {0};
    memset(b->mine, 0x11, LEN);
    b->show->churn = true;
    while (__atomic_load_n(&b->show->nr_rounds, __ATOMIC_SEQ_CST) < 500 && fl_now_ns() < end)
        nr[move(b, FL_SHM_WRITE, b->show->churn_key, b->show->churn_at, LEN / 16)]++;
    assert_true(b->show->nr_rounds >= 500);
    assert_false(b->show->broken);
    assert_true(nr[FL_SHM_MAPPED] > 10);
    assert_true(nr[FL_SHM_NOT] > 10);
    bed_close(b);
}

static void a_dead_peer_is_noticed(void **state)
{
    struct bed *b = bed_open();
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    assert_int_equal(move(b, FL_SHM_READ, b->show->shared_key, b->show->shared_at, 8), FL_SHM_MAPPED);
    kill(b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
    usleep(2000);
    assert_int_equal(move(b, FL_SHM_READ, b->show->shared_key, b->show->shared_at, 8), FL_SHM_NOT);
    assert_int_equal(move(b, FL_SHM_WRITE, b->show->plain_key, b->show->plain_at, 8), FL_SHM_NOT);
    fl_shm_link_quiesce(b->link);
    while (!b->link->dead && fl_now_ns() < end)
        turn(b, no_message);
    assert_true(b->link->dead);
    bed_close(b);
}

static void count_message(void *arg, struct fl_shm_link *link, const struct fl_shm_message *message,
                          const void *data, uint32_t len)
{
    struct bed *b = arg;
    assert_int_equal(len, sizeof(uint32_t));
    assert_memory_equal(data, &b->nr_messages, sizeof(uint32_t));
    b->nr_messages++;
}

/* More than are taken in one turn, all before this end has heard that the link is up */
static void what_a_peer_wrote_before_it_went_is_taken(void **state)
{
    struct bed *b = bed_start();
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    int status;
    __atomic_store_n(&b->show->farewells, FAREWELLS, __ATOMIC_SEQ_CST);
    assert_int_equal(waitpid(b->pid, &status, 0), b->pid);
    assert_int_equal(status, 0);
    assert_false(b->link->up);
    while (!b->link->dead && fl_now_ns() < end)
        turn(b, count_message);
    assert_true(b->link->dead);
    assert_int_equal(b->nr_messages, FAREWELLS);
    bed_close(b);
}

static void packets_wake_a_sleeping_peer(void **state)
{
    struct bed *b = bed_open();
    struct fl_port_flow flow = {0};
    struct fl_roce_tx tx = {0};
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    fl_bth_set((struct fl_bth *)tx.hdr, FL_IB_OPCODE(FL_IB_RC, FL_IB_SEND_ONLY), FL_IB_PKEY_DEFAULT,
               CHILD_QPN, 0, 0);
    tx.iov[0] = (struct iovec){tx.hdr, sizeof(struct fl_bth)};
    tx.iov[1] = (struct iovec){b->mine, 4096};
    tx.nr_iov = 2;
    tx.len = 4096 + sizeof(struct fl_bth);
    for (int i = 0; i < 1000; i++) {
        while (!fl_shm_has_room(b->link) && fl_now_ns() < end)
            ;
        fl_shm_send(b->link, &flow, &tx);
        if (i % 100 == 0)
            usleep(3000); /* it falls asleep */
    }
    while (__atomic_load_n(&b->show->nr_packets, __ATOMIC_SEQ_CST) < 1000 && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(b->show->nr_packets, 1000);
    bed_close(b);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(memory_of_pools_is_copied_once), cmocka_unit_test(other_memory_goes_by_the_kernel),
        cmocka_unit_test(works_while_the_peer_is_stopped), cmocka_unit_test(checks_as_the_peer_would),
        cmocka_unit_test(atomics_are_done_in_place), cmocka_unit_test(a_closed_key_is_in_nobodys_use),
        cmocka_unit_test(a_dead_peer_is_noticed), cmocka_unit_test(what_a_peer_wrote_before_it_went_is_taken),
        cmocka_unit_test(packets_wake_a_sleeping_peer));
}
