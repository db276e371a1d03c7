/* SPDX-License-Identifier: Apache-2.0 */
/* Another host, a network namespace behind a veth pair with a hub of its own, and processes there that are
 * killed. */
#ifndef FL_RNIC_CMA_TEST_HOSTS_H
#define FL_RNIC_CMA_TEST_HOSTS_H

#include "rnic/test_interface.h"

#include "rnic/cma/test_child.h"

#define HERE  "10.97.0.1"
#define THERE "10.97.0.2"
#define MANY  300
#define SOON  (4 * FL_NS_PER_S) /* before anybody would ask whether the peer is there: vigil.h */

static int there; /* the other host's namespace */

static inline struct sockaddr_in address(const char *text, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htobe16(port)};
    inet_pton(AF_INET, text, &addr.sin_addr);
    return addr;
}

/* A host joined to this one by a cable. False: it cannot be made here. */
static inline bool make_host(void)
{
    char command[128], path[64];
    int up[2], plugged[2];
    char c;
    if (pipe(up) || pipe(plugged))
        return false;
    pid_t pid = fork();
    if (!pid) { /* lives until the namespace was opened */
        close(up[0]);
        close(plugged[1]);
        if (unshare(CLONE_NEWNET) || write(up[1], "u", 1) != 1 || read(plugged[0], &c, 1) != 1)
            _exit(1);
        set_up(true);
        add_address("there", THERE);
        configure(SIOCSIFFLAGS, "there", &(struct ifreq){.ifr_flags = IFF_UP});
        _exit(write(up[1], "a", 1) != 1 || read(plugged[0], &c, 1) != 1);
    }
    close(up[1]);
    close(plugged[0]);
    if (read(up[0], &c, 1) != 1)
        return false;
    snprintf(command, sizeof(command), "ip link add here type veth peer name there netns %d 2>&1", (int)pid);
    if (system(command))
        return false;
    add_address("here", HERE);
    configure(SIOCSIFFLAGS, "here", &(struct ifreq){.ifr_flags = IFF_UP});
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    if (write(plugged[1], "p", 1) != 1 || read(up[0], &c, 1) != 1)
        return false;
    there = open(path, O_RDONLY | O_CLOEXEC);
    if (there < 0 || write(plugged[1], "p", 1) != 1 || waitpid(pid, NULL, 0) != pid)
        return false;
    usleep(200000); /* the interfaces settle */
    return true;
}

/* As bed_init(), at an address of the wire */
static inline void init(struct bed *bed, const char *text)
{
    struct sockaddr_in addr = address(text, 0);
    bed->server = fl_cma_create_event_channel();
    bed->client = fl_cma_create_event_channel();
    assert_int_equal(fl_cma_create_id(bed->server, &bed->listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(bed->listener, (struct sockaddr *)&addr), 0);
    assert_int_equal(fl_cma_listen(bed->listener, 2 * MANY), 0);
    bed->port = be16toh(fl_cma_get_src_port(bed->listener));
}

static inline struct rdma_cm_id *begin(struct rdma_event_channel *channel, const char *text, uint16_t port)
{
    struct sockaddr_in addr = address(text, port);
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(fl_cma_resolve_route(id, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    return id;
}

/* Parts of the other host */
static inline void idle(int fd, uint16_t unused)
{
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    tell(fd, 1);
}

static inline void connect_some(int fd, uint16_t port, int nr)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    for (int i = 0; i < nr; i++) {
        begin(channel, HERE, port);
        expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    }
    tell(fd, 1);
}

static inline void connect_one(int fd, uint16_t port)
{
    connect_some(fd, port, 1);
}

static inline void connect_many(int fd, uint16_t port)
{
    connect_some(fd, port, MANY);
}

static inline void serve(int fd, uint16_t unused)
{
    struct bed bed;
    init(&bed, THERE);
    tell(fd, bed.port);
    struct rdma_cm_id *id = take_request(&bed);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    tell(fd, 1);
}

static inline struct rdma_cm_id *accept_one(struct bed *bed)
{
    struct rdma_cm_id *id = take_request(bed);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed->server, RDMA_CM_EVENT_ESTABLISHED);
    return id;
}

static inline void expect_end(struct rdma_event_channel *channel, uint64_t since)
{
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(event->status, 0);
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    if (fl_now_ns() - since > SOON)
        fail_msg("after %llu ms", (unsigned long long)((fl_now_ns() - since) / FL_NS_PER_MS));
}

/* A process that goes to the other host; the first one is its hub. */
static inline struct child start_there(void (*part)(int, uint16_t), uint16_t port)
{
    return start(there, part, port);
}

static inline struct child start_idle(void)
{
    struct child child = start_there(idle, 0);
    assert_int_equal(hear(&child), 1);
    return child;
}

/* This host listens, and a process there has connected: nr times. */
static inline struct child some_connected(struct bed *bed, struct rdma_cm_id **ids, int nr,
                                          void (*part)(int, uint16_t))
{
    init(bed, HERE);
    struct child child = start_there(part, bed->port);
    for (int i = 0; i < nr; i++)
        ids[i] = accept_one(bed);
    hear(&child);
    return child;
}

static inline struct child connected_from_there(struct bed *bed, struct rdma_cm_id **id)
{
    return some_connected(bed, id, 1, connect_one);
}

static inline struct child many_connected_from_there(struct bed *bed, struct rdma_cm_id *ids[MANY])
{
    return some_connected(bed, ids, MANY, connect_many);
}

static inline void disconnected(struct bed *bed, struct rdma_cm_id **ids, int nr)
{
    for (int i = 0; i < nr; i++)
        destroy(ids[i]);
    bed_fini(bed);
}

static inline void expect_nothing_for(struct rdma_event_channel *channel, int ms)
{
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, ms), 0);
}

/* False: it cannot be made here. */
static inline bool hosts_init(void)
{
    if (!own_network())
        return false;
    set_up(true);
    use_own_port();
    if (make_host())
        return true;
    fprintf(stderr, "no veth pair, or no program `ip` to make one\n");
    return false;
}

#endif
