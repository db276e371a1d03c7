/* SPDX-License-Identifier: Apache-2.0 */
/* The discovery subsystem, and listeners with their states and clashes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "target/test_bed.h"

static uint8_t page[1 << 20];

static struct bed_conn *disc_connect(struct bed *bed, const char *hostnqn, uint32_t kato)
{
    struct bed_conn *bc = bed_open(bed);
    struct bed_connect c;

    bed_connect_default(&c, hostnqn, FL_NQN_DISCOVERY, 0, 0xffff);
    c.kato = kato;
    assert_int_equal(bed_connect(bc, &c, NULL), 0);
    bed_enable(bc);
    return bc;
}

static uint64_t header(struct bed_conn *bc, uint64_t *numrec)
{
    uint64_t genctr;

    assert_int_equal(bed_log(bc, FL_NVME_LOG_DISCOVERY, 0, false, page, 1024), 0);
    assert_int_equal(fl_disc_header_decode(page, 1024, &genctr, numrec, NULL), 0);
    return genctr;
}

static void entry(struct bed_conn *bc, uint64_t i, struct fl_disc_record *r)
{
    assert_int_equal(bed_log(bc, FL_NVME_LOG_DISCOVERY, 1024 * (i + 1), false, page, 1024), 0);
    assert_int_equal(fl_disc_entry_decode((void *)page, r, NULL), 0);
}

static void what_a_host_may_use(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct bed_conn *bc = disc_connect(bed, BED_HOST, 0);
    struct fl_subsystem_options o = {.nqn = "nqn.2026-01.org.example:guarded"};
    struct fl_listener_spec spec;
    struct fl_disc_record r;
    struct fl_nvme_id_ctrl id;
    struct fl_subsystem *guarded;
    struct fl_error err = {0};
    uint64_t nr, gen;
    uint32_t lid;
    struct fl_nvme_sqe sqe;

    gen = header(bc, &nr);
    assert_int_equal(nr, 2);
    entry(bc, 0, &r);
    assert_int_equal(r.subtype, FL_DISC_SUBTYPE_CURRENT);
    assert_string_equal(r.subnqn, FL_NQN_DISCOVERY);
    entry(bc, 1, &r);
    assert_int_equal(r.subtype, FL_DISC_SUBTYPE_NVM);
    assert_string_equal(r.subnqn, BED_NQN);
    assert_string_equal(r.traddr, "10.0.0.1");
    assert_string_equal(r.trsvcid, "4420");
    assert_int_equal(r.sectype, 0);
    assert_int_equal(r.adrfam, FL_DISC_ADRFAM_IPV4);

    /* A subsystem for named hosts shows up when this one is named. */
    assert_int_equal(fl_subsystem_add(bed->target, &o, &guarded, &err), 0);
    header(bc, &nr);
    assert_int_equal(nr, 2);
    assert_int_equal(fl_subsystem_host_add(guarded, BED_HOST, NULL), 0);
    assert_true(header(bc, &nr) > gen);
    assert_int_equal(nr, 3);

    /* A listener on all addresses answers with the one that the host came to. */
    assert_int_equal(fl_listener_spec_parse("tcp://0.0.0.0:4430", &spec, &err), 0);
    assert_int_equal(fl_target_listen(bed->target, &spec, &lid, &err), 0);
    header(bc, &nr);
    assert_int_equal(nr, 5);
    entry(bc, 2, &r);
    assert_string_equal(r.traddr, "10.0.0.1");
    assert_string_equal(r.trsvcid, "4430");
    assert_int_equal(fl_target_unlisten(bed->target, lid, &err), 0);
    header(bc, &nr);
    assert_int_equal(nr, 3);

    assert_int_equal(bed_identify(bc, FL_NVME_CNS_CTRL, 0, &id), 0);
    assert_int_equal(id.cntrltype, FL_NVME_CNTRLTYPE_DISCOVERY);
    if (fl_nvme_check_id_ctrl(&id, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(bed_identify(bc, FL_NVME_CNS_NS_ACTIVE_LIST, 0, page), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(bed_log(bc, FL_NVME_LOG_SMART, 0, false, page, 512), FL_NVME_SC_INVALID_LOG_PAGE);
    sqe = bed_sqe(FL_NVME_ADM_FORMAT_NVM, 0);
    assert_int_equal(bed_run(bc, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_INVALID_OPCODE);
    bed_free(bed);
    bed_conn_free(bc);
}

/* 200 subsystems read in pieces, one added in between: the generation tells; a lasting controller gets the
 * event. */
static void case_A8_log_changes_while_read(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct bed_conn *bc = disc_connect(bed, BED_HOST, 5000);
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_ASYNC_EVENT, 0);
    struct fl_subsystem_options o = {.allow_any_host = true};
    struct bed_cmd *aer;
    char nqn[64];
    uint64_t gen, nr, v;

    for (int i = 0; i < 199; i++) {
        snprintf(nqn, sizeof(nqn), "nqn.2026-01.org.example:many-%d", i);
        o.nqn = nqn;
        assert_int_equal(fl_subsystem_add(bed->target, &o, NULL, NULL), 0);
    }
    gen = header(bc, &nr);
    assert_int_equal(nr, 201);
    assert_int_equal(bed_feature(bc, true, FL_NVME_FEAT_ASYNC_EVENT, 0, FL_NVME_AEN_DISC_CHANGE, &v), 0);
    aer = bed_send(bc, &sqe, NULL, 0, false, 0);
    bed_turn(bed);
    for (uint64_t off = 1024; off < 202 * 1024; off += 4096) {
        uint32_t len = off + 4096 > 202 * 1024 ? 1024 : 4096;

        assert_int_equal(bed_log(bc, FL_NVME_LOG_DISCOVERY, off, true, page, len), 0);
        if (off == 1024 + 40960) {
            o.nqn = "nqn.2026-01.org.example:one-more";
            assert_int_equal(fl_subsystem_add(bed->target, &o, NULL, NULL), 0);
        }
    }
    bed_turn(bed);
    assert_true(aer->answered);
    assert_int_equal(le32_get(aer->cqe.dw0), 0x70f002);
    bed_free_cmd(aer);
    assert_true(header(bc, &nr) != gen);
    assert_int_equal(nr, 202);
    /* One read of all of it. */
    assert_int_equal(bed_log(bc, FL_NVME_LOG_DISCOVERY, 0, false, page, 203 * 1024), 0);
    for (int i = 0; i < 202; i++) {
        struct fl_disc_record r;

        assert_int_equal(fl_disc_entry_decode((struct fl_disc_entry *)(page + 1024) + i, &r, NULL), 0);
    }
    bed_free(bed);
    bed_conn_free(bc);
}

/* ---- listeners ---- */

static int listen_on(struct bed *bed, const char *text, bool strict, uint32_t *id, struct fl_error *err)
{
    struct fl_listener_spec spec;

    fl_error_clear(err);
    assert_int_equal(fl_listener_spec_parse(text, &spec, err), 0);
    spec.strict = strict;
    return fl_target_listen(bed->target, &spec, id, err);
}

static void case_A3_clashing_listeners(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    struct fl_error err = {0};
    struct fl_listener_spec spec;
    uint32_t id, id2;

    assert_int_equal(listen_on(bed, "tcp://10.0.0.1:4420", false, &id, &err), -EEXIST);
    assert_int_equal(listen_on(bed, "tcp://10.0.0.1", false, &id, &err), -EEXIST); /* 4420 is the default */
    assert_int_equal(listen_on(bed, "tcp://0.0.0.0:4420", false, &id, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "4420"));
    assert_int_equal(listen_on(bed, "tcp://0.0.0.0:4421", false, &id, &err), 0);
    assert_int_equal(listen_on(bed, "tcp://10.0.0.1:4421", false, &id2, &err), -EADDRINUSE);
    assert_int_equal(listen_on(bed, "tcp://10.0.0.2:4420", false, &id2, &err), 0);
    /* The same address with other digests is a clash, not the same. */
    assert_int_equal(fl_listener_spec_parse("tcp://10.0.0.2:4420", &spec, &err), 0);
    spec.ddgst = false;
    assert_int_equal(fl_target_listen(bed->target, &spec, &id2, &err), -EADDRINUSE);
    /* Port 0 is another one each time. */
    assert_int_equal(listen_on(bed, "tcp://10.0.0.1:0", false, &id, &err), 0);
    assert_int_equal(listen_on(bed, "tcp://10.0.0.3:0", false, &id, &err), 0);
    assert_int_equal(fl_listener_spec_parse("rdma://10.0.0.1", &spec, &err), 0);
    assert_string_equal(spec.transport, "rdma");
    assert_int_equal(fl_listener_spec_parse("fc://10.0.0.1", &spec, &err), -EPROTONOSUPPORT);
    fl_error_clear(&err);
    assert_int_equal(fl_listener_spec_parse("10.0.0.1:4420", &spec, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_target_unlisten(bed->target, 99, &err), -ENOENT);
    bed_free(bed);
}

static const char *seen_state, *seen_url;
static char state_buf[64], url_buf[400];

static void see(void *arg, const struct fl_listener_info *info)
{
    if (info->id != *(uint32_t *)arg)
        return;
    snprintf(state_buf, sizeof(state_buf), "%s", info->state);
    snprintf(url_buf, sizeof(url_buf), "%s", info->url);
    seen_state = state_buf;
    seen_url = url_buf;
}

/* The listener comes to that state within 5 s. */
static void wait_state(struct bed *bed, uint32_t id, const char *state)
{
    static const struct fl_target_visitor v = {.listener = see};

    for (int i = 0; i < 500; i++) {
        fl_target_visit(bed->target, &v, &id);
        if (!strcmp(seen_state, state))
            return;
        bed_sleep(bed, 10);
    }
    assert_string_equal(seen_state, state);
}

static void case_A4_address_not_there_yet(void **state)
{
    static const struct fl_target_visitor v = {.listener = see};
    struct bed *bed = bed_new(1, NULL);
    struct fl_error err = {0};
    uint32_t id;

    fl_log_set_level(FL_LOG_ERR);
    bed->listen_error = -EADDRNOTAVAIL;
    assert_int_equal(listen_on(bed, "tcp://10.9.9.9:4420", true, &id, &err), -EADDRNOTAVAIL); /* strict */
    assert_int_equal(listen_on(bed, "tcp://10.9.9.9:4420", false, &id, &err), 0);
    fl_target_visit(bed->target, &v, &id);
    assert_string_equal(seen_state, "waiting for address");
    bed->listen_error = -EADDRINUSE; /* the address came, somebody else has the port */
    wait_state(bed, id, "failed");
    bed->listen_error = 0;
    wait_state(bed, id, "listening");
    assert_string_equal(seen_url, "tcp://10.9.9.9:4420");
    /* One that waits can be taken away. */
    bed->listen_error = -EADDRNOTAVAIL;
    assert_int_equal(listen_on(bed, "tcp://[fd00::9]:4420", false, &id, &err), 0);
    fl_target_visit(bed->target, &v, &id);
    assert_string_equal(seen_url, "tcp://[fd00::9]:4420");
    assert_int_equal(fl_target_unlisten(bed->target, id, &err), 0);
    bed_free(bed);
}

int main(void)
{
    fl_log_set_level(FL_LOG_ERR);
    return FL_UNIT_RUN(
        cmocka_unit_test(what_a_host_may_use), cmocka_unit_test(case_A8_log_changes_while_read),
        cmocka_unit_test(case_A3_clashing_listeners), cmocka_unit_test(case_A4_address_not_there_yet));
}
