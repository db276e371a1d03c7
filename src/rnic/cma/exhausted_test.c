/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system refuses something: memory, a mapping, a descriptor, a thread. Whatever a connection over the
 * software RNIC asks for first, second, third, … is refused once; each time calls end in an error or go well,
 * nothing crashes or waits for ever, and afterwards the same process does it without a fault.
 */
#include "rnic/cma/test_bed.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define AT_ONCE_MS 700 /* for what need not come, since something was refused */
#define STUCK_S    60

static uint32_t nr_asked, refused; /* the one to refuse; 0: none */
static int patience_ms = WAIT_MS;

static bool is_refused(void)
{
    return __atomic_add_fetch(&nr_asked, 1, __ATOMIC_RELAXED) == __atomic_load_n(&refused, __ATOMIC_RELAXED);
}

/* The linker puts these in the place of the system's (meson.build). */
#define WRAP(type, name, params, args, none, error)                         \
    type __real_##name params;                                              \
    type __wrap_##name params;                                              \
    type __wrap_##name params                                               \
    {                                                                       \
        return is_refused() ? (errno = (error), none) : __real_##name args; \
    }
WRAP(void *, malloc, (size_t len), (len), NULL, ENOMEM)
WRAP(void *, calloc, (size_t nr, size_t len), (nr, len), NULL, ENOMEM)
WRAP(void *, realloc, (void *p, size_t len), (p, len), NULL, ENOMEM)
WRAP(int, posix_memalign, (void **p, size_t align, size_t len), (p, align, len), ENOMEM, ENOMEM)
WRAP(void *, mmap, (void *at, size_t len, int prot, int flags, int fd, off_t offset),
     (at, len, prot, flags, fd, offset), MAP_FAILED, ENOMEM)
WRAP(int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1, EMFILE)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
WRAP(int, epoll_create1, (int flags), (flags), -1, EMFILE)
WRAP(int, eventfd, (unsigned int count, int flags), (count, flags), -1, EMFILE)
WRAP(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (thread, attr, run, arg), EAGAIN, EAGAIN)

struct ends {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *client, *server;
    struct buffer from, to;
    int nr_up;
};

static int register_buffer(struct buffer *buffer, struct rdma_cm_id *id)
{
    buffer->mr = fl_mr_reg(id->pd, buffer->bytes, sizeof(buffer->bytes), IBV_ACCESS_LOCAL_WRITE);
    return buffer->mr ? 0 : -1;
}

static int make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    return fl_cma_create_qp(id, NULL, &attr);
}

static int take_request_of(struct ends *e, struct rdma_cm_id *id)
{
    e->server = id;
    if (make_qp(id) || register_buffer(&e->to, id))
        return -1;
    struct ibv_sge sge = {(uintptr_t)e->to.bytes, sizeof(e->to.bytes), e->to.mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
    return ibv_post_recv(id->qp, &wr, &bad) ? -1 : fl_cma_accept(id, NULL);
}

static int take_event(struct ends *e, struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return fl_cma_resolve_route(id, 1000);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return make_qp(id) ? -1 : fl_cma_connect(id, NULL);
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return take_request_of(e, id);
    case RDMA_CM_EVENT_ESTABLISHED:
        e->nr_up++;
        return 0;
    default:
        return -1;
    }
}

static int start_connecting(struct ends *e)
{
    struct sockaddr_in addr = loopback(0);
    e->channel = fl_cma_create_event_channel();
    if (!e->channel || fl_cma_create_id(e->channel, &e->listener, NULL, RDMA_PS_TCP) ||
        fl_cma_bind_addr(e->listener, (struct sockaddr *)&addr) || fl_cma_listen(e->listener, 1))
        return -1;
    addr = loopback(be16toh(fl_cma_get_src_port(e->listener)));
    if (fl_cma_create_id(e->channel, &e->client, NULL, RDMA_PS_TCP))
        return -1;
    return fl_cma_resolve_addr(e->client, NULL, (struct sockaddr *)&addr, 1000);
}

/* An event may be lost for want of memory, which the log tells; then this does not wait for ever. */
static int connect_ends(struct ends *e)
{
    while (e->nr_up < 2) {
        struct pollfd pfd = {.fd = e->channel->fd, .events = POLLIN};
        struct rdma_cm_event *event;
        if (poll(&pfd, 1, patience_ms) != 1 || fl_cma_get_cm_event(e->channel, &event))
            return -1;
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;
        fl_cma_ack_cm_event(event);
        if (take_event(e, id, type))
            return -1;
    }
    return 0;
}

static int send_one(struct ends *e)
{
    if (register_buffer(&e->from, e->client))
        return -1;
    memset(e->from.bytes, 0x5a, sizeof(e->from.bytes));
    struct ibv_sge sge = {(uintptr_t)e->from.bytes, sizeof(e->from.bytes), e->from.mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    if (ibv_post_send(e->client->qp, &wr, &bad))
        return -1;
    struct ibv_wc sent = wait_wc(e->client->send_cq); /* be it an error */
    if (sent.status)
        return -1;
    assert_int_equal(wait_wc(e->server->recv_cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(e->from.bytes, e->to.bytes, sizeof(e->to.bytes));
    return 0;
}

static void tear_down(struct ends *e)
{
    struct rdma_cm_id *ids[] = {e->client, e->server, e->listener};
    for (size_t i = 0; i < FL_ARRAY_LEN(ids); i++)
        if (ids[i])
            fl_cma_destroy_qp(ids[i]);
    if (e->from.mr)
        assert_int_equal(fl_mr_dereg(e->from.mr), 0);
    if (e->to.mr)
        assert_int_equal(fl_mr_dereg(e->to.mr), 0);
    for (size_t i = 0; i < FL_ARRAY_LEN(ids); i++)
        if (ids[i])
            assert_int_equal(fl_cma_destroy_id(ids[i]), 0);
    if (e->channel)
        fl_cma_destroy_event_channel(e->channel);
}

static int go_through_all(void)
{
    struct ends e = {.nr_up = 0};
    int r = start_connecting(&e);
    r = r ? r : connect_ends(&e);
    r = r ? r : send_one(&e);
    tear_down(&e);
    return r;
}

struct outcome {
    uint32_t nr_asked;
    bool failed; /* the time that something was refused */
};

static void limit_files(uint32_t nr)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = nr;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void try_one(uint32_t refuse, uint32_t nr_files, int tell)
{
    struct rlimit before;
    struct outcome outcome;
    alarm(STUCK_S);
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    use_own_port();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (nr_files)
        limit_files(nr_files);
    __atomic_store_n(&nr_asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&refused, refuse, __ATOMIC_RELAXED);
    patience_ms = refuse || nr_files ? AT_ONCE_MS : WAIT_MS;
    outcome.failed = go_through_all();
    outcome.nr_asked = __atomic_load_n(&nr_asked, __ATOMIC_RELAXED);
    __atomic_store_n(&refused, 0, __ATOMIC_RELAXED);
    patience_ms = WAIT_MS;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(go_through_all(), 0);
    if (write(tell, &outcome, sizeof(outcome)) != sizeof(outcome))
        _exit(1);
    exit(0);
}

/* In a process of its own, with a fresh RNIC. refuse: which; nr_files: limit of descriptors; 0: none */
static struct outcome try(uint32_t refuse, uint32_t nr_files)
{
    struct outcome outcome = {0};
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        close(STDERR_FILENO); /* it says what it lacks, again and again */
        try_one(refuse, nr_files, fds[1]);
    }
    close(fds[1]);
    if (read(fds[0], &outcome, sizeof(outcome)) < 0)
        fail();
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("refused the %u. of what it asked for, limit of files %u: status 0x%x", refuse, nr_files,
                 (unsigned int)status);
    return outcome;
}

static void test_each_is_refused_once(void **state)
{
    struct outcome all = try(0, 0);
    uint32_t nr_failed = 0;
    assert_false(all.failed);
    assert_true(all.nr_asked > 50);
    for (uint32_t i = 1; i <= all.nr_asked; i++)
        nr_failed += try(i, 0).failed;
    assert_true(nr_failed > 30);
}

static void test_few_descriptors(void **state)
{
    bool failed = false, went = false;
    for (uint32_t nr = 4; nr < 48; nr++) {
        if (try(0, nr).failed)
            failed = true;
        else
            went = true;
    }
    assert_true(failed && went);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(test_each_is_refused_once), cmocka_unit_test(test_few_descriptors));
}
