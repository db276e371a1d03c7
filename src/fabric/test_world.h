/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: the target's engine over a pair, with a host and a target that do what the test says. */
#ifndef FL_FABRIC_TEST_WORLD_H
#define FL_FABRIC_TEST_WORLD_H

#include "fabric/test_host.h"
#include "fabric/test_script.h"

struct world {
    struct script script;
    struct fl_pair *pair;
    struct test_host host;
};

static const struct fl_listen_options plain = {.handler = &script_handler, .hdgst = true, .ddgst = true};

static inline struct world *world_create(const struct fl_listen_options *with, uint32_t depth)
{
    struct fl_listen_options options = *with;
    struct world *w = calloc(1, sizeof(*w));

    script_init(&w->script, depth);
    options.listener_user = &w->script;
    assert_int_equal(fl_pair_create(&options, &w->pair), 0);
    test_host_init(&w->host, w->pair);
    return w;
}

static inline void world_destroy(struct world *w)
{
    if (!fl_pair_closed(w->pair))
        fl_pair_cut(w->pair);
    while (script_go(&w->script))
        ;
    fl_pair_run(w->pair);
    assert_true(fl_pair_closed(w->pair));
    assert_int_equal(w->script.nr_opened, 1);
    assert_int_equal(w->script.nr_broken, 1);
    assert_int_equal(w->script.nr_closed, 1);
    assert_int_equal(w->script.nr_commands, w->script.nr_released);
    assert_int_equal(w->script.nr_buffers, 0);
    fl_pair_destroy(w->pair);
    test_host_fini(&w->host);
    free(w);
}

static inline struct fl_nvme_sqe write_sqe(uint16_t cid, uint8_t sgl_type, uint32_t at, uint32_t len,
                                           uint32_t what)
{
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_WRITE, cid, sgl_type, len);

    sqe.cdw10 = le32_of(what);
    sqe.cdw11 = le32_of(at);
    return sqe;
}

static inline struct fl_nvme_sqe read_sqe(uint16_t cid, uint32_t at, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_READ, cid, FL_NVME_SGL_TRANSPORT, len);

    sqe.cdw10 = le32_of(what);
    sqe.cdw11 = le32_of(at);
    sqe.cdw12 = le32_of(len);
    return sqe;
}

static inline void send_write(struct world *w, uint16_t cid, uint32_t at, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = write_sqe(cid, FL_NVME_SGL_TRANSPORT, at, len, what);

    test_host_cmd(&w->host, &sqe, NULL, 0);
    test_host_pump(&w->host);
}

static inline void send_capsule_write(struct world *w, uint16_t cid, uint32_t at, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = write_sqe(cid, FL_NVME_SGL_OFFSET, at, len, what);

    test_host_cmd(&w->host, &sqe, script_pattern + at, len);
    test_host_pump(&w->host);
}

static inline void send_read(struct world *w, uint16_t cid, uint32_t at, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = read_sqe(cid, at, len, what);

    test_host_cmd(&w->host, &sqe, NULL, 0);
    test_host_pump(&w->host);
}

static inline void send_flush(struct world *w, uint16_t cid, uint32_t what)
{
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_FLUSH, cid, FL_NVME_SGL_TRANSPORT, 0);

    sqe.cdw10 = le32_of(what);
    test_host_cmd(&w->host, &sqe, NULL, 0);
    test_host_pump(&w->host);
}

static inline uint16_t expect_r2t(struct world *w, uint16_t cid, uint32_t off, uint32_t len)
{
    struct test_host_pdu *got = test_host_expect(&w->host, FL_TCP_R2T);

    assert_int_equal(le16_get(got->pdu.r2t.cccid), cid);
    assert_int_equal(le32_get(got->pdu.r2t.r2to), off);
    assert_int_equal(le32_get(got->pdu.r2t.r2tl), len);
    return le16_get(got->pdu.r2t.ttag);
}

static inline void expect_data(struct world *w, uint16_t cid, uint32_t at, uint32_t len, uint8_t flags)
{
    struct test_host_pdu *got = test_host_expect(&w->host, FL_TCP_C2H_DATA);

    assert_int_equal(le16_get(got->pdu.data.cccid), cid);
    assert_int_equal(le32_get(got->pdu.data.datao), 0);
    assert_int_equal(le32_get(got->pdu.data.datal), len);
    assert_int_equal(got->pdu.hdr.flags & 0xc, flags);
    assert_int_equal(got->len, len);
    assert_true(got->digest_ok);
    assert_memory_equal(got->data, script_pattern + at, len);
}

#endif
