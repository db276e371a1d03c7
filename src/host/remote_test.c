/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and queues against a scripted target on loopback sockets. */
#include "host/test_target.h"

#include <farlane/host.h>

#include "base/log.h"
#include "host/discover.h"
#include "host/remote_queue.h"

static const struct fl_device_options quick = {
    .hostnqn = "nqn.2026-01.org.example:host",
    .kato_ms = 1000,
    .connect_timeout_ms = 2000,
    .reconnect_delay_ms = 100,
    .loss_timeout_ms = 10000,
};

#define PATIENCE_MS 20000 /* for what must come: a thread may have to wait for a CPU */

static struct fl_device *open_with(struct fake *f, const struct fl_device_options *o)
{
    struct fl_device *dev = NULL;
    struct fl_error err = {0};

    if (fl_device_open(f->url, o, &dev, &err) < 0)
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

static void fill(uint8_t *p, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)(i * 13 + i / 509 + seed);
}

static bool wait_until(bool (*is)(void *), void *arg)
{
    uint64_t end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;

    while (!is(arg)) {
        if (fl_now_ns() > end)
            return false;
        usleep(1000);
    }
    return true;
}

static void opens_and_tells(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_device_info info;

    fl_device_info(dev, &info);
    assert_string_equal(info.url, f->url);
    assert_string_equal(info.transport, "tcp");
    assert_string_equal(info.subnqn, FAKE_NQN);
    assert_string_equal(info.model, "fake");
    assert_string_equal(info.serial, "0001");
    assert_string_equal(info.state, "live");
    assert_int_equal(info.nsid, 1);
    assert_int_equal(info.block_len, FAKE_BLOCK);
    assert_int_equal(info.len, FAKE_LEN);
    assert_int_equal(info.max_transfer_len, 131072);
    assert_int_equal(info.max_queues, 8);
    assert_int_equal(info.max_depth, 127);
    assert_int_equal(info.uuid[0], 7);
    assert_int_equal(fake_get(f->kato_seen), 1000);
    fl_device_close(dev);
    assert_int_equal(fake_get(f->nr_shutdowns), 1);
    fake_end(f);
}

struct counted {
    struct fl_io io;
    int nr, result;
};

static void counted_done(struct fl_io *io, int result)
{
    struct counted *c = FL_CONTAINER_OF(io, struct counted, io);

    c->nr++;
    c->result = result;
}

/* Polls until nothing is in flight of c[0..nr). */
static void settle(struct fl_queue *q, struct counted *c, int nr)
{
    uint64_t end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;

    for (int i = 0; i < nr; i++)
        while (!c[i].nr) {
            if (fl_now_ns() > end)
                fail_msg("I/O %d does not end", i);
            if (fl_queue_poll(q) == 0)
                fl_queue_wait(q, 5);
        }
}

/* Writes and reads back lengths around the limits, in one and in odd pieces. */
static void reads_and_writes(void **state)
{
    static const uint32_t lens[] = {512, 4096, 8192, 8704, 65536, 131072, 131584, 1 << 20, (1 << 20) + 512};

    for (int dg = 0; dg < 4; dg++) {
        struct fake *f = fake_start();
        struct fl_device_options o = quick;
        struct fl_device *dev;
        struct fl_queue *q;
        uint8_t *out = malloc(2 << 20), *in = malloc(2 << 20);
        struct fl_error err = {0};

        o.hdgst = dg & 1;
        o.ddgst = dg & 2;
        f->capsule_len = dg == 1 ? 0 : 8192;
        f->no_success = dg == 2;
        f->r2t_len = dg == 3 ? 4096 : 0;
        dev = open_with(f, &o);
        q = queue_of(dev, dg == 0 ? 2 : 32);
        for (uint32_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
            struct iovec iov[4] = {{in, 1}, {in + 1, 510}, {in + 511, 0}, {in + 511, lens[i] - 511}};
            struct counted c = {.io = {.op = FL_IO_READ,
                                       .off = 1024,
                                       .len = lens[i],
                                       .iov = iov,
                                       .nr_iov = 4,
                                       .done = counted_done}};

            fill(out, lens[i], i + 1);
            memset(in, 0, lens[i]);
            if (fl_write(q, out, 1024, lens[i], &err) < 0)
                fail_msg("%s", err.text);
            assert_memory_equal(f->mem + 1024, out, lens[i]);
            assert_int_equal(fl_submit(q, &c.io), 0);
            settle(q, &c, 1);
            assert_int_equal(c.result, 0);
            assert_memory_equal(in, out, lens[i]);
            c = (struct counted){.io = {.op = FL_IO_COMPARE,
                                        .off = 1024,
                                        .len = lens[i],
                                        .iov = iov,
                                        .nr_iov = 4,
                                        .done = counted_done}};
            assert_int_equal(fl_submit(q, &c.io), 0);
            settle(q, &c, 1);
            assert_int_equal(c.result, 0);
        }
        assert_int_equal(fl_flush(q, &err), 0);
        fl_queue_destroy(q);
        fl_device_close(dev);
        assert_int_equal(fake_get(f->nr_terms), 0);
        fake_end(f);
        free(out);
        free(in);
    }
}

static void other_operations(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8);
    uint8_t block[512];
    struct iovec iov = {block, 512};
    struct counted c[4] = {
        {.io = {.op = FL_IO_WRITE_ZEROES, .off = 0, .len = FAKE_LEN, .done = counted_done}},
        {.io = {.op = FL_IO_DISCARD, .off = 512, .len = 1024, .done = counted_done}},
        {.io = {.op = FL_IO_VERIFY, .off = 0, .len = FAKE_LEN, .done = counted_done}},
        {.io = {.op = FL_IO_COMPARE, .off = 0, .len = 512, .iov = &iov, .nr_iov = 1, .done = counted_done}},
    };

    fill(block, 512, 3);
    memset(f->mem, 9, FAKE_LEN);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fl_submit(q, &c[i].io), 0);
    settle(q, c, 4);
    assert_int_equal(c[0].result, 0);
    assert_int_equal(f->mem[FAKE_LEN - 1], 0);
    assert_int_equal(c[1].result, 0);
    assert_int_equal(c[2].result, 0);
    assert_int_equal(c[3].result, -EILSEQ);
    assert_int_equal(c[3].io.nvme_status, FL_NVME_SC_COMPARE_FAILED);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void refuses_what_is_out_of_range(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 1), *second = NULL, *others[7];
    struct fl_error err = {0};
    uint8_t buf[1024];
    struct iovec iov = {buf, 512};
    struct counted c[2] = {
        {.io = {.op = FL_IO_READ, .len = 512, .iov = &iov, .nr_iov = 1, .done = counted_done}}};

    assert_int_equal(fl_read(q, buf, 256, 512, &err), -EINVAL);
    assert_true(strstr(err.text, "multiples") != NULL);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, FAKE_LEN, 512, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, UINT64_MAX - 511, 512, &err), -EINVAL);
    fl_error_clear(&err);
    c[0].io.len = 1024; /* more than the iov holds */
    assert_int_equal(fl_submit(q, &c[0].io), -EINVAL);
    c[0].io.len = 512;
    c[1] = c[0];
    assert_int_equal(fl_submit(q, &c[0].io), 0);
    assert_int_equal(fl_submit(q, &c[1].io), -EAGAIN);
    settle(q, c, 1);

    /* The target says no: shrunk behind our back. */
    fake_set(f->nr_blocks, 8);
    assert_int_equal(fl_read(q, buf, 1234 * 512, 1024, &err), -ERANGE);
    assert_string_equal(err.text, "read of 2 blocks at 1234: beyond the end of the namespace (status 80h)");
    fl_error_clear(&err);
    for (int i = 0; i < 7; i++)
        others[i] = queue_of(dev, 1);
    assert_int_equal(fl_queue_create(dev, 1, &second, &err), -EMFILE);
    fl_queue_destroy(others[3]);
    others[3] = queue_of(dev, 1);
    for (int i = 0; i < 7; i++)
        fl_queue_destroy(others[i]);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void case_T11_wrong_data_digest_is_retried(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    uint8_t buf[4096];
    struct fl_error err = {0};

    o.ddgst = true;
    dev = open_with(f, &o);
    q = queue_of(dev, 4);
    fill(f->mem, 4096, 1);
    fake_set(f->flip_count, 3);
    assert_int_equal(fl_read(q, buf, 0, 4096, &err), 0);
    assert_memory_equal(buf, f->mem, 4096);
    assert_int_equal(fake_get(f->nr_io), 4);
    fake_set(f->flip_count, 1000); /* for good: an error in the end, and the queue goes on */
    assert_int_equal(fl_read(q, buf, 0, 4096, &err), -EIO);
    fake_set(f->flip_count, 0);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, 0, 4096, &err), 0);
    assert_int_equal(fake_get(f->nr_accepted), 2);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void status_that_passes_is_waited_for(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 4);
    uint8_t buf[512];
    struct fl_error err = {0};

    fake_set(f->fail_status, FL_NVME_SC_NS_NOT_READY);
    fake_set(f->fail_count, 2);
    assert_int_equal(fl_write(q, buf, 0, 512, &err), 0);
    assert_int_equal(fake_get(f->nr_io), 3);
    fake_set(f->fail_status, FL_NVME_SC_NS_NOT_READY | FL_NVME_DNR);
    fake_set(f->fail_count, 1);
    assert_int_equal(fl_write(q, buf, 0, 512, &err), -EBUSY);
    fl_error_clear(&err);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

/* Each open ends with an error that says why. */
static void says_why_it_cannot_open(void **state)
{
    static const struct {
        int status;
        uint32_t dw0;
        int code;
        const char *text;
    } cases[] = {
        {FL_NVME_SC_CONNECT_INVALID_HOST | FL_NVME_DNR, 0, -EACCES, "does not allow this host"},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 0x10100, -ENOENT, "farlane discover nvme+tcp://127.0.0.1:"},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 0x10200, -EACCES, "host NQN"},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 44, -EINVAL, "byte 44 of its command"},
        {FL_NVME_SC_CONNECT_CTRL_BUSY, 0, -EBUSY, "busy"},
    };
    struct fake *f = fake_start();
    struct fl_device *dev;
    struct fl_error err = {0};
    uint64_t start;

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        f->connect_dw0 = cases[i].dw0;
        fake_set(f->connect_status, cases[i].status);
        assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), cases[i].code);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s", err.text);
        fl_error_clear(&err);
    }
    fake_set(f->connect_status, 0);
    f->nr_namespaces = 0;
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -ENXIO);
    fl_error_clear(&err);
    fake_set(f->mute, 1);
    start = fl_now_ns();
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -ETIMEDOUT);
    assert_true(strstr(err.text, "ICReq") != NULL);
    assert_true(fl_now_ns() - start < 10 * FL_NS_PER_S);
    fl_error_clear(&err);
    fake_down(f);
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -ECONNREFUSED);
    fake_listen(f);
    fake_end(f);
}

static void tweak_kas(struct fl_nvme_id_ctrl *id)
{
    id->kas = le16_of(0);
}
static void tweak_sgls(struct fl_nvme_id_ctrl *id)
{
    id->sgls = le32_of(0);
}
static void tweak_ioccsz(struct fl_nvme_id_ctrl *id)
{
    id->ioccsz = le32_of(3);
}
static void tweak_iorcsz(struct fl_nvme_id_ctrl *id)
{
    id->iorcsz = le32_of(0);
}
static void tweak_maxcmd(struct fl_nvme_id_ctrl *id)
{
    id->maxcmd = le16_of(0);
}
static void tweak_icdoff(struct fl_nvme_id_ctrl *id)
{
    id->icdoff = le16_of(1);
}
static void tweak_mnan(struct fl_nvme_id_ctrl *id)
{
    id->mnan = le32_of(1025);
}
static void tweak_ana_mnan(struct fl_nvme_id_ctrl *id)
{
    id->mnan = le32_of(0);
    id->cmic = FL_NVME_CMIC_ANA;
}
static void tweak_nqn(struct fl_nvme_id_ctrl *id)
{
    id->subnqn[10]++;
}
static void tweak_cntlid(struct fl_nvme_id_ctrl *id)
{
    id->cntlid = le16_of(2);
}
static void tweak_sqes(struct fl_nvme_id_ctrl *id)
{
    id->sqes = 0x77;
}
static void tweak_nothing(struct fl_nvme_id_ctrl *id)
{
    id->mnan = le32_of(0); /* fine without ANA */
}

static void case_A10_identify_that_makes_no_sense(void **state)
{
    static const struct {
        void (*tweak)(struct fl_nvme_id_ctrl *id);
        const char *text;
    } cases[] = {{tweak_kas, "KAS"},       {tweak_sgls, "SGLS"},
                 {tweak_ioccsz, "IOCCSZ"}, {tweak_iorcsz, "IORCSZ"},
                 {tweak_maxcmd, "MAXCMD"}, {tweak_icdoff, "ICDOFF"},
                 {tweak_mnan, "MNAN"},     {tweak_ana_mnan, "MNAN"},
                 {tweak_nqn, "subsystem"}, {tweak_cntlid, "two identifiers"},
                 {tweak_sqes, "SQES"}};
    struct fake *f = fake_start();
    struct fl_device *dev;

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_error err = {0};

        f->tweak = cases[i].tweak;
        assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -EPROTO);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s", err.text);
    }
    f->tweak = tweak_nothing;
    fl_device_close(open_with(f, &quick));
    fake_end(f);
}

/* ---- the connection breaks ---- */

#define NR_KEPT 16

static void submit_writes(struct fl_queue *q, struct counted *c, struct iovec *iov, uint8_t *buf, int nr)
{
    for (int i = 0; i < nr; i++) {
        iov[i] = (struct iovec){buf + i * 4096, 4096};
        c[i] = (struct counted){.io = {.op = FL_IO_WRITE,
                                       .off = (uint64_t)i * 4096,
                                       .len = 4096,
                                       .iov = &iov[i],
                                       .nr_iov = 1,
                                       .done = counted_done}};
        assert_int_equal(fl_submit(q, &c[i].io), 0);
    }
}

static void ios_survive_a_cut(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 64);
    uint8_t *buf = malloc(NR_KEPT * 4096);
    struct counted c[NR_KEPT];
    struct iovec iov[NR_KEPT];

    for (int round = 0; round < 10; round++) {
        fill(buf, NR_KEPT * 4096, (uint32_t)round * 3 + 1);
        fake_set(f->mute_io, 1);
        submit_writes(q, c, iov, buf, NR_KEPT);
        fl_queue_poll(q);
        if (round & 1)
            usleep(2000);
        fake_cut(f);
        fake_set(f->mute_io, 0);
        settle(q, c, NR_KEPT);
        for (int i = 0; i < NR_KEPT; i++) {
            assert_int_equal(c[i].nr, 1);
            assert_int_equal(c[i].result, 0);
        }
        assert_memory_equal(f->mem, buf, NR_KEPT * 4096);
    }
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
    free(buf);
}

static void queue_loss_alone_is_mended(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8), *other = queue_of(dev, 8);
    uint8_t buf[4096];
    struct fl_error err = {0};

    for (int i = 0; i < 5; i++) {
        fake_set(f->drop_count, 1); /* the target throws this one connection out */
        assert_int_equal(fl_write(q, buf, 0, 4096, &err), 0);
        assert_int_equal(fl_write(other, buf, 4096, 4096, &err), 0);
    }
    fl_queue_destroy(q);
    fl_queue_destroy(other);
    fl_device_close(dev);
    fake_end(f);
}

/* The target takes note of a closed queue after it is asked for another. */
static void closed_queue_that_is_still_held(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q;
    uint8_t buf[512];
    struct fl_error err = {0};
    uint16_t before = 0;

    for (int i = 0; i < 3; i++) {
        fake_set(f->held_count, i);
        q = queue_of(dev, 4);
        assert_int_not_equal(fl_remote_queue_of(q)->qid, before);
        before = fl_remote_queue_of(q)->qid;
        assert_int_equal(fl_write(q, buf, 0, 512, &err), 0);
        assert_int_equal(fake_get(f->held_count), 0);
        fl_queue_destroy(q);
    }
    fl_device_close(dev);
    fake_end(f);
}

static void unanswered_io_makes_the_queue_reconnect(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    struct counted c[1];
    struct iovec iov[1];
    uint8_t buf[4096];
    uint64_t start;

    o.io_timeout_ms = 200;
    dev = open_with(f, &o);
    q = queue_of(dev, 8);
    fake_set(f->mute_io, 1);
    submit_writes(q, c, iov, buf, 1);
    start = fl_now_ns();
    while (fake_get(f->nr_accepted) < 4 && fl_now_ns() - start < PATIENCE_MS * FL_NS_PER_MS) {
        if (fl_queue_poll(q) == 0)
            fl_queue_wait(q, 20);
    }
    assert_true(fl_now_ns() - start >= 200 * FL_NS_PER_MS);
    fake_set(f->mute_io, 0);
    settle(q, c, 1);
    assert_int_equal(c[0].result, 0);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static bool is_lost(void *arg)
{
    struct fl_device_info info;

    fl_device_info(arg, &info);
    return strcmp(info.state, "lost") == 0;
}

static bool is_live(void *arg)
{
    struct fl_device_info info;

    fl_device_info(arg, &info);
    return strcmp(info.state, "live") == 0;
}

/* Whatever must not happen in this case is far away. */
static const struct fl_device_options *with_times(struct fl_device_options *o, int result)
{
    o->kato_ms = 300;
    o->connect_timeout_ms = 500;
    o->fast_fail_ms = result == -ENOLINK ? 600 : result == 0 ? 100000 : 0;
    o->loss_timeout_ms = result == -ENODEV ? 600 : 100000;
    return o;
}

/*
 * H3 in small: the cable is pulled under load (the target takes all and answers nothing), which keep-alive
 * finds out. It is back once that was noticed, after the I/Os have failed fast, and not before it is given
 * up.
 */
static void case_H3_cable_pulled(void **state)
{
    static const int results[] = {0, -ENOLINK, -ENODEV};

    for (uint32_t k = 0; k < FL_ARRAY_LEN(results); k++) {
        struct fake *f = fake_start();
        struct fl_device_options o = quick;
        struct fl_device *dev;
        struct fl_queue *q;
        uint8_t *buf = malloc(NR_KEPT * 4096);
        struct counted c[NR_KEPT];
        struct iovec iov[NR_KEPT];
        struct fl_error err = {0};
        struct fl_device_info info;
        uint64_t end;

        dev = open_with(f, with_times(&o, results[k]));
        q = queue_of(dev, 32);
        fill(buf, NR_KEPT * 4096, k);
        fake_set(f->mute_io, 1);
        submit_writes(q, c, iov, buf, NR_KEPT);
        fl_queue_poll(q);
        usleep(1000);
        fake_set(f->mute, 1);
        end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;
        while (results[k] == -ENODEV ? !is_lost(dev) : results[k] ? !c[NR_KEPT - 1].nr : is_live(dev)) {
            assert_true(fl_now_ns() < end);
            if (fl_queue_poll(q) == 0)
                fl_queue_wait(q, 5);
        }
        fl_device_info(dev, &info);
        if (results[k] == -ENOLINK)
            assert_true(strncmp(info.state, "reconnecting: attempt ", 22) == 0 &&
                        strstr(info.state, " of 1001"));
        fake_set(f->mute, 0);
        fake_set(f->mute_io, 0);
        fake_cut(f);
        settle(q, c, NR_KEPT);
        for (int i = 0; i < NR_KEPT; i++) {
            assert_int_equal(c[i].nr, 1);
            assert_int_equal(c[i].result, results[k]);
        }
        if (results[k] == -ENODEV) {
            assert_int_equal(fl_read(q, buf, 0, 4096, &err), -ENODEV);
            assert_int_equal(fl_queue_poll(q), -ENODEV);
        } else {
            assert_true(wait_until(is_live, dev));
            while (fl_read(q, buf, 0, 4096, &err) == -ENOLINK)
                fl_error_clear(&err);
            assert_int_equal(err.code, 0);
        }
        fl_queue_destroy(q);
        fl_device_close(dev);
        fake_end(f);
        free(buf);
    }
}

/* H1: one dead target among four delays none of the others. */
static void case_H1_one_dead_target(void **state)
{
    struct fake *f[4];
    struct fl_device *dev[4];
    struct fl_queue *q[4];
    struct fl_device_options o = quick;
    uint8_t buf[4096];
    uint64_t start, worst = 0;
    int before[4];

    o.kato_ms = 1000;
    o.connect_timeout_ms = 10000;
    for (int i = 0; i < 4; i++) {
        f[i] = fake_start();
        dev[i] = open_with(f[i], &o);
        q[i] = queue_of(dev[i], 4);
        before[i] = fake_get(f[i]->nr_accepted);
    }
    fake_set(f[0]->mute, 1); /* accepts, and never answers again: each attempt hangs until its time-out */
    start = fl_now_ns();
    while (fl_now_ns() - start < 3000 * FL_NS_PER_MS) {
        for (int i = 1; i < 4; i++) {
            uint64_t t = fl_now_ns();
            struct fl_error err = {0};

            if (fl_read(q[i], buf, 0, 4096, &err) < 0)
                fail_msg("%s", err.text);
            worst = FL_MAX(worst, fl_now_ns() - t);
        }
        usleep(1000);
    }
    assert_false(is_live(dev[0]));
    for (int i = 1; i < 4; i++) {
        assert_true(is_live(dev[i]));
        assert_int_equal(fake_get(f[i]->nr_accepted), before[i]);
        assert_true(fake_get(f[i]->nr_keep_alives) >= 4);
    }
    assert_true(worst <
                4 * FL_NS_PER_S); /* far below an attempt's time-out, far above a busy machine's hiccups */
    for (int i = 0; i < 4; i++) {
        fl_queue_destroy(q[i]);
        fl_device_close(dev[i]);
        fake_end(f[i]);
    }
}

/* H1, the other way to be dead: an address that does not even take the connection. */
static void case_H1_connect_that_hangs(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick), *dead;
    struct fl_queue *q = queue_of(dev, 4);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fds[8], lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), before = fake_get(f->nr_keep_alives);
    struct fl_device_options o = quick;
    struct fl_error err = {0};
    char url[128];
    uint8_t buf[512];
    uint64_t start;

    assert_int_equal(bind(lfd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(lfd, 0), 0);
    getsockname(lfd, (struct sockaddr *)&a, &len);
    for (int i = 0; i < 8; i++) { /* nobody accepts: the queue is full soon, and then nothing is answered */
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(fds[i], (struct sockaddr *)&a, sizeof(a));
    }
    snprintf(url, sizeof(url), "nvme+tcp://127.0.0.1:%u/" FAKE_NQN "?ns=1", ntohs(a.sin_port));
    o.connect_timeout_ms = 3000;
    start = fl_now_ns();
    assert_int_equal(fl_device_open(url, &o, &dead, &err), -ETIMEDOUT);
    assert_true(strstr(err.text, "TCP connect") != NULL);
    assert_true(fl_now_ns() - start < 10 * FL_NS_PER_S);
    assert_true(fake_get(f->nr_keep_alives) - before >= 2); /* of 500 ms each, meanwhile */
    assert_int_equal(fake_get(f->nr_accepted), 2);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    close(lfd);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

/* T3: nothing but keep-alive decides. A quiet queue and a slow command outlast every time-out of the set-up.
 */
static void case_T3_quiet_and_slow(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    uint8_t buf[512];
    struct fl_error err = {0};

    o.connect_timeout_ms = 1000;
    o.kato_ms = 1000;
    dev = open_with(f, &o);
    q = queue_of(dev, 4);
    usleep(1500000);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), 0);
    fake_set(f->delay_ms, 1500);
    assert_int_equal(fl_write(q, buf, 0, 512, &err), 0);
    assert_int_equal(fake_get(f->nr_accepted), 2);
    assert_true(fake_get(f->nr_keep_alives) >= 4);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void another_namespace_is_not_taken_for_ours(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 4);
    uint8_t buf[512];
    struct fl_error err = {0};

    fake_down(f);
    fake_set(f->uuid0, 8);
    fake_listen(f);
    assert_int_equal(fl_read(q, buf, 0, 512, &err), -ENODEV);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

/* ---- events ---- */

static int nr_changes;

static void changed(struct fl_device *dev, void *arg)
{
    fake_inc(nr_changes);
}

static bool has_grown(void *arg)
{
    struct fl_device_info info;

    fl_device_info(arg, &info);
    return info.nr_blocks == 4711 && fake_get(nr_changes);
}

static void namespace_event_brings_the_new_size(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);

    fl_device_on_change(dev, changed, NULL);
    for (int i = 0; i < 2; i++) {
        fake_set(nr_changes, 0);
        fake_set(f->nr_blocks, i ? 4711 : 4000);
        usleep(20000); /* until the event request is there */
        fake_event(f,
                   fl_nvme_aer_of(FL_NVME_AER_NOTICE, FL_NVME_AER_NOTICE_NS_CHANGED, FL_NVME_LOG_CHANGED_NS));
        usleep(20000);
    }
    assert_true(wait_until(has_grown, dev));
    fl_device_close(dev);
    fake_end(f);
}

/* ---- waiting ---- */

static void descriptor_wakes(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8);
    struct pollfd p = {.fd = fl_queue_fd(q), .events = POLLIN};
    struct counted c[1];
    struct iovec iov[1];
    uint8_t buf[4096];

    assert_true(p.fd >= 0);
    for (int i = 0; i < 20; i++) {
        uint64_t end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;

        if (i == 10)
            fake_cut(f); /* the descriptor must also lead through a reconnect */
        submit_writes(q, c, iov, buf, 1);
        while (!c[0].nr) {
            while (fl_queue_poll(q) > 0)
                ;
            if (!c[0].nr)
                poll(&p, 1, 1000);
            assert_true(fl_now_ns() < end);
        }
        assert_int_equal(c[0].result, 0);
    }
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void destroy_cancels(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8);
    struct counted c[8];
    struct iovec iov[8];
    uint8_t *buf = malloc(8 * 4096);

    fake_set(f->mute_io, 1);
    submit_writes(q, c, iov, buf, 8);
    fl_queue_poll(q);
    fl_queue_destroy(q);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(c[i].nr, 1);
        assert_int_equal(c[i].result, -ECANCELED);
    }
    fl_device_close(dev);
    fake_end(f);
    free(buf);
}

static void admin_commands(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev;
    struct fl_error err = {0};
    struct fl_nvme_sqe sqe = {.opcode = FL_NVME_ADM_IDENTIFY, .cdw10 = le32_of(FL_NVME_CNS_CTRL)};
    struct fl_nvme_id_ctrl id;
    uint32_t nsids[8];
    uint16_t status = 0;

    f->nr_namespaces = 3;
    assert_int_equal(fl_subsystem_open(f->url, &quick, &dev, &err), 0);
    assert_int_equal(fl_admin_command(dev, &sqe, &id, sizeof(id), true, NULL, &status, &err), 0);
    assert_memory_equal(id.mn, "fake ", 5);
    sqe.cdw10 = le32_of(0xee);
    assert_int_equal(fl_admin_command(dev, &sqe, &id, sizeof(id), true, NULL, &status, &err), -EREMOTEIO);
    assert_int_equal(status & FL_NVME_SC_MASK, FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(fl_device_namespaces(dev, nsids, 8, NULL), 3);
    assert_int_equal(nsids[2], 3);
    assert_int_equal(fl_device_namespaces(dev, nsids, 2, NULL), 2);
    fl_device_close(dev);

    /* Three namespaces and none named. */
    fl_error_clear(&err);
    *strchr(f->url, '?') = '\0';
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -EINVAL);
    assert_true(strstr(err.text, "(1, 2, 3)") != NULL);
    fake_end(f);
}

static void drop_message(void *arg, enum fl_log_level level, const char *text)
{
}

int main(void)
{
    if (!getenv("FARLANE_LOG"))
        fl_log_set_sink(drop_message, NULL);
    return FL_UNIT_RUN(
        cmocka_unit_test(opens_and_tells), cmocka_unit_test(reads_and_writes),
        cmocka_unit_test(other_operations), cmocka_unit_test(refuses_what_is_out_of_range),
        cmocka_unit_test(case_T11_wrong_data_digest_is_retried),
        cmocka_unit_test(status_that_passes_is_waited_for), cmocka_unit_test(says_why_it_cannot_open),
        cmocka_unit_test(case_A10_identify_that_makes_no_sense), cmocka_unit_test(ios_survive_a_cut),
        cmocka_unit_test(queue_loss_alone_is_mended), cmocka_unit_test(closed_queue_that_is_still_held),
        cmocka_unit_test(unanswered_io_makes_the_queue_reconnect), cmocka_unit_test(case_H3_cable_pulled),
        cmocka_unit_test(case_H1_one_dead_target), cmocka_unit_test(case_H1_connect_that_hangs),
        cmocka_unit_test(case_T3_quiet_and_slow), cmocka_unit_test(another_namespace_is_not_taken_for_ours),
        cmocka_unit_test(namespace_event_brings_the_new_size), cmocka_unit_test(descriptor_wakes),
        cmocka_unit_test(destroy_cancels), cmocka_unit_test(admin_commands));
}
