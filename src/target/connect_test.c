/* SPDX-License-Identifier: Apache-2.0 */
/* Connect in all its refusals, and what a controller is afterwards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "target/test_bed.h"

#define BAD_PARAM FL_NVME_SC_CONNECT_INVALID_PARAM

static uint16_t try_connect(struct bed *bed, const struct bed_connect *c, uint32_t *dw0)
{
    struct bed_conn *bc = bed_open(bed);
    uint16_t status = bed_connect(bc, c, dw0);

    bed_cut(bc);
    bed_conn_free(bc);
    return status;
}

static void set_hostnqn(struct bed_connect *c, const char *nqn, size_t len)
{
    memset(c->data.hostnqn, 0, sizeof(c->data.hostnqn));
    memcpy(c->data.hostnqn, nqn, len);
}

/* Blank or malformed host NQN: Connect Invalid Parameters at the field; the form without a colon is valid. */
static void case_A1_host_nqn(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    static const struct {
        const char *nqn;
        bool ok;
    } cases[] = {
        {"", false},
        {"2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000012", false},
        {"host1", false},
        {"nqn.2014-08.org.nvmexpress:uuid:00000000000040008000000000000012", false},
        {"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000012", true},
        {"nqn.2008-04.org.example.host1", true},
        {"nqn.2008-04.org.example:host1", true},
    };
    struct bed_connect c;
    char text[256];
    uint32_t dw0;

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
        set_hostnqn(&c, cases[i].nqn, strlen(cases[i].nqn));
        assert_int_equal(try_connect(bed, &c, &dw0), cases[i].ok ? 0 : BAD_PARAM);
        if (!cases[i].ok)
            assert_int_equal(dw0, 512 | 1 << 16);
    }
    for (size_t len = 222; len <= 256; len++) { /* 256: not terminated */
        memset(text, 'a', sizeof(text));
        memcpy(text, "nqn.2008-04.org.example:", 24);
        bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
        set_hostnqn(&c, text, len);
        assert_int_equal(try_connect(bed, &c, &dw0), len <= 223 ? 0 : BAD_PARAM);
    }
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    memset(c.data.hostid, 0, sizeof(c.data.hostid));
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 0 | 1 << 16);
    assert_int_equal(bed->target->nr_controllers, 0);
    bed_free(bed);
}

static void depth_32(struct fl_target_options *o)
{
    o->max_depth = 32;
}

/* SQSIZE is zero-based: with at most 32 entries 1 to 31 will do. */
static void case_R1_queue_depth(void **state)
{
    struct bed *bed = bed_new(1, depth_32);
    static const struct {
        uint16_t sqsize;
        bool ok;
    } cases[] = {{0, false}, {1, true}, {31, true}, {32, false}, {127, false}, {65535, false}};
    struct bed_host h;

    bed_host(bed, BED_HOST, &h);
    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct bed_conn *bc = bed_open(bed);
        struct bed_connect c;
        uint32_t dw0;

        bed_connect_default(&c, BED_HOST, BED_NQN, 2, h.cntlid);
        c.sqsize = cases[i].sqsize;
        assert_int_equal(bed_connect(bc, &c, &dw0), cases[i].ok ? 0 : BAD_PARAM);
        if (cases[i].ok)
            assert_int_equal(bc->depth, cases[i].sqsize + 1u);
        else
            assert_int_equal(dw0, 44);
        bed_cut(bc);
        bed_conn_free(bc);
    }
    bed_free(bed);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
}

static void refusals(void **state)
{
    struct bed *bed = bed_new(2, NULL);
    struct bed_connect c;
    struct bed_host h;
    uint32_t dw0;

    bed_host(bed, BED_HOST, &h);

    bed_connect_default(&c, BED_HOST, "nqn.2026-01.org.example:nothing", 0, 0xffff);
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 256 | 1 << 16);
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 1);
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 16 | 1 << 16);
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    c.recfmt = 1;
    assert_int_equal(try_connect(bed, &c, &dw0), FL_NVME_SC_CONNECT_FORMAT);

    /* I/O queues: no such controller, another host's, QID in use, beyond what was granted. */
    bed_connect_default(&c, BED_HOST, BED_NQN, 2, 77);
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 16 | 1 << 16);
    bed_connect_default(&c, "nqn.2026-01.org.example:host-b", BED_NQN, 2, h.cntlid);
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 512 | 1 << 16);
    bed_connect_default(&c, BED_HOST, BED_NQN, 2, h.cntlid);
    c.data.hostid[3] ^= 1;
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 0 | 1 << 16);
    bed_connect_default(&c, BED_HOST, BED_NQN, 1, h.cntlid);
    assert_int_equal(try_connect(bed, &c, &dw0), FL_NVME_SC_CMD_SEQ_ERROR);
    bed_connect_default(&c, BED_HOST, BED_NQN, 65, h.cntlid);
    assert_int_equal(try_connect(bed, &c, &dw0), BAD_PARAM);
    assert_int_equal(dw0, 42);

    /* The queue of 1 went: its number is free again. */
    bed_cut(h.io);
    bed_conn_free(h.io);
    h.io = bed_io_queue(bed, BED_HOST, h.cntlid, 1);

    /* Host list. */
    fl_subsystem_set_allow_any(bed->ss, false);
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    assert_int_equal(try_connect(bed, &c, &dw0), FL_NVME_SC_CONNECT_INVALID_HOST);
    assert_int_equal(fl_subsystem_host_add(bed->ss, BED_HOST, NULL), 0);
    assert_int_equal(fl_subsystem_host_add(bed->ss, BED_HOST, NULL), -EEXIST);
    assert_int_equal(try_connect(bed, &c, &dw0), 0);
    bed_free(bed);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
}

static void nothing_before_connect(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct bed_conn *bc = bed_open(bed);
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_IDENTIFY, 0);
    struct bed_connect c;
    uint8_t page[4096];

    assert_int_equal(bed_run(bc, &sqe, NULL, 0, page, sizeof(page), NULL), FL_NVME_SC_CMD_SEQ_ERROR);
    sqe = bed_sqe(FL_NVMF_OPCODE, FL_NVMF_PROPERTY_GET);
    assert_int_equal(bed_run(bc, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_CMD_SEQ_ERROR);
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    assert_int_equal(bed_connect(bc, &c, NULL), 0);
    /* Not enabled: only Fabrics commands and Keep Alive. */
    assert_int_equal(bed_identify(bc, FL_NVME_CNS_CTRL, 0, page), FL_NVME_SC_CMD_SEQ_ERROR);
    sqe = bed_sqe(FL_NVME_ADM_KEEP_ALIVE, 0);
    assert_int_equal(bed_run(bc, &sqe, NULL, 0, NULL, 0, NULL), 0);
    assert_int_equal(bed_connect(bc, &c, NULL), FL_NVME_SC_CMD_SEQ_ERROR);
    bed_free(bed);
    bed_conn_free(bc);
}

static uint16_t property(struct bed_conn *admin, bool set, uint32_t offset, uint8_t size, uint64_t *value)
{
    struct fl_nvmf_property_set_cmd cmd = {.opcode = FL_NVMF_OPCODE,
                                           .flags = FL_NVME_CMD_PSDT_SGL,
                                           .fctype = set ? FL_NVMF_PROPERTY_SET : FL_NVMF_PROPERTY_GET,
                                           .attrib = size,
                                           .ofst = le32_of(offset),
                                           .value = le64_of(set ? *value : 0)};
    struct fl_nvme_sqe sqe;

    memcpy(&sqe, &cmd, sizeof(sqe));
    return bed_run(admin, &sqe, NULL, 0, NULL, 0, set ? NULL : value);
}

static void properties(void **state)
{
    struct bed *bed = bed_new(2, NULL);
    struct bed_host h;
    uint64_t v;

    bed_host(bed, BED_HOST, &h);
    assert_int_equal(property(h.admin, false, FL_NVMF_PROP_CAP, 1, &v), 0);
    assert_int_equal(fl_nvme_cap_nr_entries(v), 128);
    assert_true(v & FL_NVME_CAP_CQR);
    assert_int_equal(property(h.admin, false, FL_NVMF_PROP_CAP, 0, &v), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(property(h.admin, false, FL_NVMF_PROP_VS, 0, &v), 0);
    assert_int_equal(v, 0x20000);
    assert_int_equal(property(h.admin, false, FL_NVMF_PROP_CSTS, 0, &v), 0);
    assert_int_equal(v, FL_NVME_CSTS_RDY);
    assert_int_equal(property(h.admin, false, 0x0c, 0, &v), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(property(h.admin, false, 0xfffffffc, 0, &v), FL_NVME_SC_INVALID_FIELD);
    v = 1;
    assert_int_equal(property(h.admin, true, FL_NVMF_PROP_CSTS, 0, &v), FL_NVME_SC_INVALID_FIELD);

    /* Disabled: the I/O queue goes, RDY falls after it, the association stays. */
    v = 0;
    assert_int_equal(property(h.admin, true, FL_NVMF_PROP_CC, 0, &v), 0);
    bed_turn(bed);
    assert_true(bed_is_closed(h.io));
    assert_int_equal(property(h.admin, false, FL_NVMF_PROP_CSTS, 0, &v), 0);
    assert_int_equal(v, 0);
    bed_enable(h.admin);
    bed_conn_free(h.io);
    h.io = bed_io_queue(bed, BED_HOST, h.cntlid, 1);

    /* Shutdown: complete when the queues are gone. */
    v = FL_NVME_CC_EN | FL_NVME_CC_SHN_NORMAL << FL_NVME_CC_SHN_SHIFT | 0x460000;
    assert_int_equal(property(h.admin, true, FL_NVMF_PROP_CC, 0, &v), 0);
    bed_turn(bed);
    assert_true(bed_is_closed(h.io));
    assert_int_equal(property(h.admin, false, FL_NVMF_PROP_CSTS, 0, &v), 0);
    assert_int_equal(fl_nvme_csts_shst((uint32_t)v), FL_NVME_CSTS_SHST_COMPLETE);
    bed_free(bed);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
}

/* CC that asks for what there is not: the controller says that it failed. */
static void bad_cc(void **state)
{
    static const uint32_t ccs[] = {1 | 0x450000, 1 | 0x360000, 1 | 0x460000 | 1 << 7, 1 | 0x460000 | 1 << 4,
                                   1};
    struct bed *bed = bed_new(1, NULL);

    for (size_t i = 0; i < FL_ARRAY_LEN(ccs); i++) {
        struct bed_conn *bc = bed_open(bed);
        struct bed_connect c;
        uint64_t v = ccs[i];

        bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
        assert_int_equal(bed_connect(bc, &c, NULL), 0);
        assert_int_equal(property(bc, true, FL_NVMF_PROP_CC, 0, &v), 0);
        assert_int_equal(property(bc, false, FL_NVMF_PROP_CSTS, 0, &v), 0);
        assert_int_equal(v, FL_NVME_CSTS_CFS);
        bed_cut(bc);
        bed_conn_free(bc);
    }
    bed_free(bed);
}

/* 3.3: SQ flow control off is told by SQHD FFFFh. Else SQHD counts, and wraps at the queue's size. */
static void sq_flow_control(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct bed_host h;
    struct bed_connect c;
    struct bed_conn *bc;
    struct bed_cmd *bcmd;
    struct fl_nvme_sqe sqe;

    bed_add_ns(bed, "ram:1M");
    bed_host(bed, BED_HOST, &h);
    for (int off = 0; off < 2; off++) {
        bc = bed_open(bed);
        bed_connect_default(&c, BED_HOST, BED_NQN, 2, h.cntlid);
        c.sqsize = 3;
        c.cattr = off ? FL_NVMF_CATTR_NO_SQ_FLOW : 0;
        assert_int_equal(bed_connect(bc, &c, NULL), 0);
        assert_int_equal(bc->conn.sq_flow_off, off);
        for (uint16_t i = 0; i < 9; i++) {
            sqe = bed_sqe(FL_NVME_CMD_FLUSH, 1);
            bcmd = bed_send(bc, &sqe, NULL, 0, false, 0);
            bed_turn(bed);
            assert_int_equal(le16_get(bcmd->cqe.sqhd), off ? 0 : (i + 2) % 4);
            bed_free_cmd(bcmd);
        }
        bed_cut(bc);
        bed_conn_free(bc);
    }
    bed_free(bed);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
}

static void no_success(struct fl_target_options *o)
{
    o->no_success_flag = true;
}

static void sq_flow_control_kept(void **state)
{
    struct bed *bed = bed_new(1, no_success);
    struct bed_conn *bc = bed_open(bed);
    struct bed_connect c;

    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    c.cattr = FL_NVMF_CATTR_NO_SQ_FLOW;
    assert_int_equal(bed_connect(bc, &c, NULL), 0);
    assert_false(bc->conn.sq_flow_off);
    assert_int_equal(bc->conn.sqhd, 1);
    bed_free(bed);
    bed_conn_free(bc);
}

static void disconnect_command(void **state)
{
    struct bed *bed = bed_new(2, NULL);
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVMF_OPCODE, FL_NVMF_DISCONNECT);
    struct bed_host h;

    bed_host(bed, BED_HOST, &h);
    assert_int_equal(bed_run(h.admin, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_DISCONNECT_INVALID_QTYPE);
    assert_int_equal(bed_run(h.io, &sqe, NULL, 0, NULL, 0, NULL), 0);
    bed_turn(bed);
    assert_true(bed_is_closed(h.io));
    assert_false(bed_is_closed(h.admin));
    bed_free(bed);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
}

/* The admin queue's loss takes the I/O queues along; counts go back. */
static void admin_lost(void **state)
{
    struct bed *bed = bed_new(2, NULL);

    for (int i = 0; i < 50; i++) {
        struct bed_host h;

        bed_host(bed, BED_HOST, &h);
        bed_cut(i & 1 ? h.io : h.admin);
        if (i & 1)
            bed_cut(h.admin);
        assert_true(bed_is_closed(h.io));
        bed_conn_free(h.admin);
        bed_conn_free(h.io);
        assert_int_equal(bed->target->nr_controllers, 0);
        assert_int_equal(bed->target->nr_queues, 0);
        for (uint32_t w = 0; w < 2; w++)
            assert_int_equal(bed->target->workers[w].nr_queues, 0);
    }
    bed_free(bed);
}

static void queues_spread(void **state)
{
    struct bed *bed = bed_new(2, NULL);
    struct bed_host h;
    struct bed_conn *io[4];

    bed_host(bed, BED_HOST, &h);
    for (uint16_t i = 0; i < 3; i++)
        io[i] = bed_io_queue(bed, BED_HOST, h.cntlid, (uint16_t)(2 + i));
    assert_int_equal(bed->target->workers[0].nr_queues, 2);
    assert_int_equal(bed->target->workers[1].nr_queues, 2);
    bed_free(bed);
    for (uint16_t i = 0; i < 3; i++)
        bed_conn_free(io[i]);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
}

static int64_t capsule;

static void set_capsule(struct fl_target_options *o)
{
    o->capsule_len = capsule;
}

/* In-capsule data from 0 up: IOCCSZ and the limit of I/O queues say it; the admin queue keeps its 8192. */
static void case_T13_capsule_sizes(void **state)
{
    static const int64_t sizes[] = {0, 16, 4096, 8192};

    for (size_t i = 0; i < FL_ARRAY_LEN(sizes); i++) {
        struct fl_nvme_id_ctrl id;
        struct bed_host h;
        struct bed *bed;
        struct fl_nvme_sqe sqe;
        uint8_t block[4096] = {1, 2, 3}, back[4096];

        capsule = sizes[i];
        bed = bed_new(2, set_capsule);
        bed_add_ns(bed, "ram:1M,bs=512");
        bed_host(bed, BED_HOST, &h);
        assert_int_equal(h.io->capsule_len, sizes[i]);
        assert_int_equal(h.admin->capsule_len, 0); /* never lowered */
        assert_int_equal(bed_identify(h.admin, FL_NVME_CNS_CTRL, 0, &id), 0);
        assert_int_equal(le32_get(id.ioccsz), (64 + sizes[i]) / 16);
        for (uint32_t len = 512; len <= 4096; len *= 8) {
            struct bed_cmd *bcmd;

            sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, len / 512);
            bcmd = bed_send(h.io, &sqe, block, len, len <= sizes[i], 0);
            bed_turn(bed);
            assert_int_equal(bed_status(bcmd), 0);
            bed_free_cmd(bcmd);
            sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, len / 512);
            assert_int_equal(bed_run(h.io, &sqe, NULL, 0, back, len, NULL), 0);
            assert_memory_equal(back, block, len);
        }
        bed_free(bed);
        bed_conn_free(h.admin);
        bed_conn_free(h.io);
    }
}

/* Connect as a plain command whose data comes later. */
static void connect_data_fetched(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct bed_conn *bc = bed_open(bed);
    struct fl_nvmf_connect_cmd cmd = {.opcode = FL_NVMF_OPCODE,
                                      .flags = FL_NVME_CMD_PSDT_SGL,
                                      .fctype = FL_NVMF_CONNECT,
                                      .sqsize = le16_of(31)};
    struct bed_connect c;
    struct bed_cmd *bcmd;
    struct fl_nvme_sqe sqe;

    memcpy(&sqe, &cmd, sizeof(sqe));
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    bcmd = bed_send(bc, &sqe, &c.data, 512, true, 0); /* too short */
    bed_turn(bed);
    assert_int_equal(bed_status(bcmd), FL_NVME_SC_SGL_INVALID_DATA);
    bed_free_cmd(bcmd);
    bcmd = bed_send(bc, &sqe, &c.data, sizeof(c.data), false, 0);
    bed_turn(bed);
    assert_int_equal(bed_status(bcmd), 0);
    bed_free_cmd(bcmd);
    bed_free(bed);
    bed_conn_free(bc);
}

static struct bed_cmd *send_connect(struct bed_conn *bc, const struct bed_connect *c, bool in_capsule)
{
    struct fl_nvmf_connect_cmd cmd = {.opcode = FL_NVMF_OPCODE,
                                      .flags = FL_NVME_CMD_PSDT_SGL,
                                      .fctype = FL_NVMF_CONNECT,
                                      .qid = le16_of(c->qid),
                                      .sqsize = le16_of(31)};
    struct fl_nvme_sqe sqe;
    struct bed_cmd *bcmd;

    memcpy(&sqe, &cmd, sizeof(sqe));
    bcmd = bed_send(bc, &sqe, &c->data, sizeof(c->data), in_capsule, 0);
    bcmd->hold_fetch = true;
    bed_turn(bc->bed);
    return bcmd;
}

/* A host need not wait for the data of its Connect to be fetched before it sends another one: the queue
 * becomes one queue all the same. */
static void connect_beside_a_connect(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        for (int what = 0; what < 4; what++) {
            bool io = what & 1, in_capsule = what & 2;
            struct bed *bed = bed_new(loops, NULL);
            struct bed_conn *bc = bed_open(bed);
            struct bed_connect c;
            struct bed_cmd *first, *second;
            struct bed_host h;

            bed_host(bed, BED_HOST, &h);
            bed_connect_default(&c, BED_HOST, BED_NQN, io ? 2 : 0, io ? h.cntlid : 0xffff);
            first = send_connect(bc, &c, false);
            if (io)
                c.qid = 3;
            second = send_connect(bc, &c, in_capsule);
            assert_true(first->fetching);
            bed_give_data(first);
            if (second->fetching)
                bed_give_data(second);
            bed_turn(bed);
            assert_int_equal(bed_status(first), 0);
            assert_int_equal(bed_status(second), FL_NVME_SC_CMD_SEQ_ERROR);
            assert_int_equal(bed->target->nr_controllers, io ? 1 : 2);
            bed_free_cmd(first);
            bed_free_cmd(second);
            bed_cut(bc);
            bed_conn_free(bc);
            assert_int_equal(bed->target->nr_controllers, 1);
            bed_free(bed);
            bed_conn_free(h.admin);
            bed_conn_free(h.io);
        }
    }
}

/* One whose data did not come is over: the next one is taken. */
static void connect_after_a_connect_without_data(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct bed_conn *bc = bed_open(bed);
    struct bed_connect c;
    struct bed_cmd *first;

    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    first = send_connect(bc, &c, false);
    assert_true(first->fetching);
    first->fetching = false;
    first->cmd.transport_status = FL_NVME_SC_INTERNAL;
    bc->conn.handler->data_ready(&first->cmd);
    assert_int_equal(bed_status(first), FL_NVME_SC_INTERNAL);
    bed_free_cmd(first);
    assert_int_equal(bed_connect(bc, &c, NULL), 0);
    bed_free(bed);
    bed_conn_free(bc);
}

int main(void)
{
    fl_log_set_level(FL_LOG_ERR);
    return FL_UNIT_RUN(
        cmocka_unit_test(case_A1_host_nqn), cmocka_unit_test(case_R1_queue_depth), cmocka_unit_test(refusals),
        cmocka_unit_test(nothing_before_connect), cmocka_unit_test(properties), cmocka_unit_test(bad_cc),
        cmocka_unit_test(sq_flow_control), cmocka_unit_test(sq_flow_control_kept),
        cmocka_unit_test(disconnect_command), cmocka_unit_test(admin_lost), cmocka_unit_test(queues_spread),
        cmocka_unit_test(case_T13_capsule_sizes), cmocka_unit_test(connect_data_fetched),
        cmocka_unit_test(connect_beside_a_connect), cmocka_unit_test(connect_after_a_connect_without_data));
}
