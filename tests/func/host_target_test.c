/* SPDX-License-Identifier: Apache-2.0 */
/* Our host and our target over loopback sockets, in one process. */
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farlane/host.h>

#include "base/clock.h"
#include "real_target.h"

/* Patient: a busy machine is not what is tested. */
static const struct fl_device_options host_a = {.hostnqn = "nqn.2026-01.org.example:host-a",
                                                .connect_timeout_ms = 30000,
                                                .kato_ms = 60000,
                                                .io_timeout_ms = 60000};

static struct fl_device *open_url(const char *url, const struct fl_device_options *o)
{
    struct fl_device *dev = NULL;
    struct fl_error err = {0};

    if (fl_device_open(url, o, &dev, &err) < 0)
        fail_msg("%s", err.text);
    return dev;
}

static struct fl_queue *queue_of(struct fl_device *dev, uint32_t depth)
{
    struct fl_queue *q = NULL;
    struct fl_error err = {0};

    if (fl_queue_create(dev, depth, &q, &err) < 0)
        fail_msg("%s", err.text);
    return q;
}

static uint32_t rnd(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void fill(uint8_t *p, size_t len, uint64_t *seed)
{
    for (size_t i = 0; i + 4 <= len; i += 4) {
        uint32_t v = rnd(seed);

        memcpy(p + i, &v, 4);
    }
}

/* ---- random I/O against a copy in memory ---- */

#define AREA_LEN (8u << 20) /* of each job */
#define MAX_IO   (1u << 20)
#define MAX_JOBS 4

struct slot {
    struct fl_io io;
    struct job *job;
    uint8_t *buf;
    struct iovec iov[3];
    bool busy;
};

struct job {
    struct fl_device *dev;
    uint64_t base;
    uint32_t depth, nr_ios, nr_done, nr_errors, block_len, max_io;
    uint64_t seed;
    uint8_t *copy;
    struct slot *slots;
    pthread_t thread;
};

static bool overlaps(const struct job *j, uint64_t off, uint64_t len)
{
    for (uint32_t i = 0; i < j->depth; i++) {
        const struct fl_io *io = &j->slots[i].io;

        if (j->slots[i].busy && off < io->off + io->len && io->off < off + len)
            return true;
    }
    return false;
}

static void io_done(struct fl_io *io, int result)
{
    struct slot *s = FL_CONTAINER_OF(io, struct slot, io);
    struct job *j = s->job;
    uint8_t *copy = j->copy + (io->off - j->base);

    s->busy = false;
    j->nr_done++;
    if (result < 0) {
        j->nr_errors++;
        return;
    }
    switch (io->op) {
    case FL_IO_READ:
        j->nr_errors += memcmp(s->buf, copy, io->len) != 0;
        break;
    case FL_IO_WRITE:
        memcpy(copy, s->buf, io->len);
        break;
    case FL_IO_WRITE_ZEROES:
    case FL_IO_DISCARD:
        memset(copy, 0, io->len);
        break;
    default:
        break;
    }
}

static uint64_t pick_len(struct job *j)
{
    /* Around the limits now and then. */
    static const uint32_t borders[] = {4096, 8192, 16384, 65536, 131072, MAX_IO};
    uint64_t len = (rnd(&j->seed) % 16 + 1) * 512ull;

    if (rnd(&j->seed) % 4 == 0)
        len = borders[rnd(&j->seed) % 6] + (rnd(&j->seed) % 3 - 1) * (uint64_t)j->block_len;
    len = len / j->block_len * j->block_len;
    return FL_MAX(FL_MIN(len, (uint64_t)j->max_io), (uint64_t)j->block_len);
}

static bool start_one(struct job *j, struct fl_queue *q, struct slot *s)
{
    static const enum fl_io_op ops[] = {FL_IO_READ,  FL_IO_READ,    FL_IO_WRITE,        FL_IO_WRITE,
                                        FL_IO_WRITE, FL_IO_COMPARE, FL_IO_WRITE_ZEROES, FL_IO_DISCARD,
                                        FL_IO_FLUSH, FL_IO_VERIFY};
    uint64_t len = pick_len(j),
             off = j->base + rnd(&j->seed) % ((AREA_LEN - len) / j->block_len + 1) * j->block_len;
    size_t a = rnd(&j->seed) % len, b = a + rnd(&j->seed) % (len - a + 1);

    if (overlaps(j, off, len))
        return false;
    s->iov[0] = (struct iovec){s->buf, a};
    s->iov[1] = (struct iovec){s->buf + a, b - a};
    s->iov[2] = (struct iovec){s->buf + b, len - b};
    s->io = (struct fl_io){.op = ops[rnd(&j->seed) % FL_ARRAY_LEN(ops)],
                           .off = off,
                           .len = len,
                           .iov = s->iov,
                           .nr_iov = 3,
                           .done = io_done};
    if (rnd(&j->seed) & 1) {
        s->iov[0].iov_len = len;
        s->io.nr_iov = 1;
    }
    if (s->io.op == FL_IO_WRITE) {
        fill(s->buf, len, &j->seed);
        s->io.flags = rnd(&j->seed) % 8 == 0 ? FL_IO_FUA : 0;
    }
    if (s->io.op == FL_IO_COMPARE)
        memcpy(s->buf, j->copy + (off - j->base), len);
    if (s->io.op == FL_IO_FLUSH)
        s->io.len = 0;
    s->busy = true;
    if (fl_submit(q, &s->io) < 0) {
        s->busy = false;
        return false;
    }
    return true;
}

static void *run_job(void *arg)
{
    struct job *j = arg;
    struct fl_queue *q = NULL;
    struct fl_error err = {0};
    uint32_t nr_started = 0;

    if (fl_queue_create(j->dev, j->depth, &q, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        j->nr_errors++;
        return NULL;
    }
    while (j->nr_done < j->nr_ios) {
        for (uint32_t i = 0; i < j->depth && nr_started < j->nr_ios; i++)
            if (!j->slots[i].busy && start_one(j, q, &j->slots[i]))
                nr_started++;
        if (fl_queue_poll(q) == 0)
            fl_queue_wait(q, 100);
    }
    fl_queue_destroy(q);
    return NULL;
}

static void random_io(struct fl_device *dev, uint32_t nr_jobs, uint32_t depth, uint32_t nr_ios)
{
    struct job jobs[MAX_JOBS] = {0};
    struct fl_device_info info;

    fl_device_info(dev, &info);
    for (uint32_t k = 0; k < nr_jobs; k++) {
        struct job *j = &jobs[k];

        *j = (struct job){.dev = dev,
                          .base = k * (uint64_t)AREA_LEN,
                          .depth = depth,
                          .nr_ios = nr_ios,
                          .seed = k + 1,
                          .block_len = info.block_len,
                          .max_io = MAX_IO,
                          .copy = calloc(1, AREA_LEN),
                          .slots = calloc(depth, sizeof(struct slot))};
        for (uint32_t i = 0; i < depth; i++)
            j->slots[i] = (struct slot){.job = j, .buf = malloc(MAX_IO)};
        pthread_create(&j->thread, NULL, run_job, j);
    }
    for (uint32_t k = 0; k < nr_jobs; k++) {
        struct job *j = &jobs[k];

        pthread_join(j->thread, NULL);
        assert_int_equal(j->nr_errors, 0);
        for (uint32_t i = 0; i < depth; i++)
            free(j->slots[i].buf);
        free(j->slots);
        free(j->copy);
    }
}

static void all_operations(void **state)
{
    static const struct {
        const char *spec;
        bool hdgst, ddgst, no_success;
        int64_t capsule_len;
        uint32_t mdts_len, depth, nr_jobs, nr_loops;
    } cases[] = {
        {"ram:32M", false, false, false, -1, 0, 1, 1, 1},
        {"ram:32M", false, false, false, 0, 65536, 32, 2, 2},
        {"ram:32M,bs=4096", true, false, true, 4096, 131072, 128, 2, 1},
        {"ram:32M", false, true, false, 16384, 8192, 7, 1, 1},
        {"ram:32M,bs=4096", true, true, false, -1, 0, 64, 4, 2},
    };

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct real_options ro = {.spec = {cases[i].spec},
                                  .capsule_len = cases[i].capsule_len,
                                  .mdts_len = cases[i].mdts_len,
                                  .no_success_flag = cases[i].no_success,
                                  .nr_loops = cases[i].nr_loops};
        struct real *t = real_start(&ro);
        struct fl_device_options o = host_a;
        struct fl_device_info info;
        struct fl_device *dev;

        o.hdgst = cases[i].hdgst;
        o.ddgst = cases[i].ddgst;
        dev = open_url(t->url, &o);
        fl_device_info(dev, &info);
        if (cases[i].mdts_len)
            assert_int_equal(info.max_transfer_len, cases[i].mdts_len);
        random_io(dev, cases[i].nr_jobs, cases[i].depth, 500);
        fl_device_close(dev);
        real_end(t);
    }
}

/* Lengths from one block to beyond MDTS, each alone, written and read back. */
static void lengths_at_the_borders(void **state)
{
    struct real_options ro = {.capsule_len = -1, .mdts_len = 131072};
    struct real *t = real_start(&ro);
    struct fl_device *dev = open_url(t->url, &host_a);
    struct fl_queue *q = queue_of(dev, 4);
    static const uint32_t lens[] = {512,    1024,   8192,   8704,    130560,         131072,
                                    131584, 262144, 262656, 1 << 20, (4 << 20) + 512};
    uint8_t *out = malloc(8 << 20), *in = malloc(8 << 20);
    struct fl_error err = {0};
    uint64_t seed = 5;

    for (uint32_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
        fill(out, lens[i], &seed);
        if (fl_write(q, out, 512 * i, lens[i], &err) < 0 || fl_read(q, in, 512 * i, lens[i], &err) < 0)
            fail_msg("%s", err.text);
        assert_memory_equal(in, out, lens[i]);
    }
    assert_int_equal(fl_flush(q, &err), 0);
    fl_queue_destroy(q);
    fl_device_close(dev);
    real_end(t);
    free(out);
    free(in);
}

static void refuses_with_words(void **state)
{
    struct real_options ro = {.capsule_len = -1, .other_hosts = true};
    struct real *t = real_start(&ro);
    struct fl_device_options o = {.hostnqn = "nqn.2026-01.org.example:host-b"};
    struct fl_device *dev;
    struct fl_error err = {0};
    char url[640];

    assert_int_equal(fl_device_open(t->url, &o, &dev, &err), -EACCES);
    assert_true(strstr(err.text, "host-b") != NULL);
    fl_error_clear(&err);
    snprintf(url, sizeof(url), "%s/nqn.2026-01.org.example:other", t->discovery);
    assert_int_equal(fl_device_open(url, &host_a, &dev, &err), -ENOENT);
    fl_error_clear(&err);
    snprintf(url, sizeof(url), "%s/" REAL_NQN "?ns=77", t->discovery);
    assert_true(fl_device_open(url, &host_a, &dev, &err) < 0);
    assert_true(strstr(err.text, "77") != NULL || strstr(err.text, "namespace") != NULL);
    fl_device_close(open_url(t->url, &host_a));
    real_end(t);
}

static void discovers(void **state)
{
    struct real_options ro = {.capsule_len = -1};
    struct real *t = real_start(&ro);
    struct fl_discovered *list = NULL;
    struct fl_error err = {0};
    uint32_t nr = 0, nr_nvm = 0;

    if (fl_discover(t->discovery, &host_a, &list, &nr, &err) < 0)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < nr; i++) {
        if (strcmp(list[i].type, "nvm"))
            continue;
        nr_nvm++;
        assert_string_equal(list[i].subnqn, REAL_NQN);
        assert_false(list[i].tls_required);
        fl_device_close(open_url(list[i].url, &host_a));
    }
    assert_int_equal(nr_nvm, 1);
    free(list);
    real_end(t);
}

/* ---- events ---- */

static void grow(struct real *t, void *arg)
{
    struct fl_error err = {0};

    if (fl_namespace_resize(t->ss, 1, *(uint64_t *)arg, false, &err) < 0)
        fail_msg("%s", err.text);
}

static void case_A12_host_sees_the_new_size(void **state)
{
    struct real_options ro = {.capsule_len = -1};
    struct real *t = real_start(&ro);
    struct fl_device *dev = open_url(t->url, &host_a);
    struct fl_queue *q = queue_of(dev, 2);
    uint8_t block[512] = {1};

    for (uint64_t len = 40 << 20; len <= 48 << 20; len += 4 << 20) {
        uint64_t start = fl_now_ns();
        struct fl_device_info info;
        struct fl_error err = {0};

        real_call(t, grow, &len);
        do {
            usleep(1000);
            fl_device_info(dev, &info);
        } while (info.len != len && fl_now_ns() - start < 20 * FL_NS_PER_S);
        assert_int_equal(info.len, len);
        if (fl_write(q, block, len - 512, 512, &err) < 0)
            fail_msg("%s", err.text);
    }
    fl_queue_destroy(q);
    fl_device_close(dev);
    real_end(t);
}

/* ---- the target goes and comes back ---- */

static void never(struct fl_io *io, int result)
{
    *(int *)io->user = result;
}

static void target_restarts(void **state)
{
    char path[] = "/tmp/fl-restart-XXXXXX", spec[64];
    int fd = mkstemp(path);
    struct real_options ro = {.capsule_len = -1, .spec = {spec}};
    struct fl_device_options o = host_a;
    struct real *t;
    struct fl_device *dev;
    struct fl_queue *q;
    uint8_t out[4096], in[4096];
    struct fl_error err = {0};
    uint64_t seed = 1;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 16 << 20), 0);
    close(fd);
    snprintf(spec, sizeof(spec), "file:%s", path);
    t = real_start(&ro);
    ro.port = (uint16_t)atoi(strrchr(t->discovery, ':') + 1);
    o.reconnect_delay_ms = 50;
    dev = open_url(t->url, &o);
    q = queue_of(dev, 8);
    for (int i = 0; i < 3; i++) {
        struct iovec iov = {out, sizeof(out)};
        int result = 1;
        struct fl_io io = {.op = FL_IO_WRITE,
                           .off = (uint64_t)i * 4096,
                           .len = 4096,
                           .iov = &iov,
                           .nr_iov = 1,
                           .done = never,
                           .user = &result};

        fill(out, sizeof(out), &seed);
        real_end(t);
        assert_int_equal(fl_submit(q, &io), 0); /* while nobody is there */
        for (int k = 0; k < 20; k++) {
            fl_queue_poll(q);
            usleep(1000);
        }
        assert_int_equal(result, 1);
        t = real_start(&ro);
        while (result == 1)
            if (fl_queue_poll(q) == 0)
                fl_queue_wait(q, 100);
        assert_int_equal(result, 0);
        if (fl_read(q, in, (uint64_t)i * 4096, 4096, &err) < 0)
            fail_msg("%s", err.text);
        assert_memory_equal(in, out, sizeof(in));
    }
    fl_queue_destroy(q);
    fl_device_close(dev);
    real_end(t);
    unlink(path);
}

/* ---- T15: addresses, each in a network namespace of its own ---- */

static bool add_ip6(const char *text, int prefix)
{
    struct {
        struct in6_addr addr;
        uint32_t prefix;
        int index;
    } req = {.prefix = (uint32_t)prefix, .index = (int)if_nametoindex("lo")};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = -1;
    struct fl_addr a;

    if (fd >= 0 && fl_addr_parse_ip(text, 0, &a, NULL) == 0) {
        req.addr = ((struct sockaddr_in6 *)&a.ss)->sin6_addr;
        r = ioctl(fd, SIOCSIFADDR, &req);
    }
    close(fd);
    if (r < 0)
        return false;
    /* The kernel looks for a duplicate first. */
    fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 300; i++, usleep(10000)) {
        ((struct sockaddr_in6 *)&a.ss)->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&req.addr) ? (uint32_t)req.index
                                                                                         : 0;
        r = bind(fd, (struct sockaddr *)&a.ss, a.len);
        if (r == 0 || errno != EADDRNOTAVAIL)
            break;
    }
    close(fd);
    return r == 0;
}

static bool lo_up(void)
{
    struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = ioctl(fd, SIOCSIFFLAGS, &ifr);

    close(fd);
    return r == 0;
}

#define LONG_IP6 "fd12:3456:789a:bcde:f012:3456:789a:bcde"

static void over_address(const char *addr)
{
    struct real_options ro = {.capsule_len = -1, .addr = addr};
    struct real *t = real_start(&ro);
    struct fl_device *dev = open_url(t->url, &host_a);
    struct fl_queue *q = queue_of(dev, 2);
    struct fl_discovered *list = NULL;
    struct fl_error err = {0};
    uint8_t block[4096];
    uint32_t nr;
    struct fl_device_info info;
    char text[64];

    fl_device_info(dev, &info);
    snprintf(text, sizeof(text), "//%.*s", (int)strcspn(addr, "%]"),
             addr); /* URLs write a scope's % as %25 */
    if (!strstr(info.url, text))
        fail_msg("%s has no %s in it", info.url, text);
    if (fl_read(q, block, 0, 4096, &err) < 0)
        fail_msg("%s", err.text);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fl_device_close(open_url(info.url, &host_a)); /* pasted back */
    if (fl_discover(t->discovery, &host_a, &list, &nr, &err) < 0)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < nr; i++)
        if (!strcmp(list[i].type, "nvm"))
            fl_device_close(open_url(list[i].url, &host_a));
    free(list);
    real_end(t);
}

static void case_T15_ipv6(void **state)
{
    over_address("127.0.0.1");
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return over_address("[::1]"); /* no namespaces here: the other two need one */
    assert_true(lo_up());
    over_address("[::1]");
    assert_true(add_ip6(LONG_IP6, 128));
    over_address("[" LONG_IP6 "]");
    if (add_ip6("fe80::1", 64))
        over_address("[fe80::1%lo]");
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(lengths_at_the_borders), cmocka_unit_test(all_operations),
                       cmocka_unit_test(refuses_with_words), cmocka_unit_test(discovers),
                       cmocka_unit_test(case_A12_host_sees_the_new_size), cmocka_unit_test(target_restarts),
                       cmocka_unit_test(case_T15_ipv6));
}
