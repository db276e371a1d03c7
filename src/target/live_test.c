/* SPDX-License-Identifier: Apache-2.0 */
/* What live changes do to hosts: namespaces, hosts and subsystems that come, change and go. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "target/test_setup.h"

struct change {
    struct fl_change change;
    bool done;
    int result;
};

static void change_done(struct fl_change *c, int result, const struct fl_error *err)
{
    struct change *change = FL_CONTAINER_OF(c, struct change, change);

    change->done = true;
    change->result = result;
}

/* A namespace whose I/O hangs is removed: keep alive is answered meanwhile, removal ends with the I/O or with
 * its deadline. */
static void case_A6_remove_with_slow_io(void **state)
{
    static uint8_t block[512];

    for (int late = 0; late < 2; late++) {
        struct change c = {.change = {change_done}};
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, 1), ka = bed_sqe(FL_NVME_ADM_KEEP_ALIVE, 0);
        struct bed_cmd *w;
        struct setup s;

        start(&s, 2, NULL);
        w = bed_send(s.h.io, &sqe, block, sizeof(block), false, 0);
        w->hold_fetch = true; /* as a back end that holds it */
        bed_turn(s.bed);
        fl_namespace_remove(s.bed->ss, 1, late ? 50 : 5000, &c.change);
        bed_turn(s.bed);
        assert_false(c.done);
        assert_int_equal(bed_run(s.h.admin, &ka, NULL, 0, NULL, 0, NULL), 0);
        sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, 1); /* gone for hosts at once */
        assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, block, 512, NULL), FL_NVME_SC_INVALID_NS);
        if (late) {
            for (int i = 0; i < 500 && !c.done; i++) /* 50 ms; more on a machine that lets us wait */
                bed_sleep(s.bed, 20);
            assert_true(c.done);
            assert_int_equal(c.result, -ETIMEDOUT);
        }
        assert_int_equal(bed_add_ns(s.bed, "ram:1M"), 1); /* its number may be used again */
        bed_give_data(w);
        bed_turn(s.bed);
        assert_int_equal(bed_status(w), 0);
        assert_true(c.done);
        assert_int_equal(c.result, late ? -ETIMEDOUT : 0);
        assert_int_equal(s.bed->target->nr_closing_ns, 0);
        bed_free_cmd(w);
        stop(&s);
    }
}

static void remove_what_is_not_there(void **state)
{
    struct change c = {.change = {change_done}};
    struct setup s;

    start(&s, 1, NULL);
    fl_namespace_remove(s.bed->ss, 7, 0, &c.change);
    assert_true(c.done);
    assert_int_equal(c.result, -ENOENT);
    stop(&s);
}

static void case_A12_grow_and_shrink(void **state)
{
    struct fl_error err = {0};
    struct fl_nvme_id_ns id;
    struct fl_nvme_sqe sqe;
    struct bed_cmd *aer;
    uint8_t block[512];
    struct setup s;
    uint64_t v;

    start(&s, 2, NULL);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_ASYNC_EVENT, 0, FL_NVME_AEN_NS_ATTR, &v), 0);
    aer = send_aer(&s);
    sqe = bed_rw(FL_NVME_CMD_READ, 1, 2048, 1);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, block, 512, NULL), FL_NVME_SC_LBA_RANGE);
    assert_int_equal(fl_namespace_resize(s.bed->ss, 1, 2 << 20, false, &err), 0);
    bed_turn(s.bed);
    assert_int_equal(aer_dw0(aer), 0x040002);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, 1, &id), 0);
    assert_int_equal(le64_get(id.nsze), 4096);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, block, 512, NULL), 0);

    assert_int_equal(fl_namespace_resize(s.bed->ss, 1, 1 << 20, false, &err), -EINVAL);
    assert_non_null(strstr(err.text, "2097152"));
    assert_non_null(strstr(err.text, "1048576"));
    fl_error_clear(&err);
    assert_int_equal(fl_namespace_resize(s.bed->ss, 1, 513, true, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_namespace_resize(s.bed->ss, 1, 1 << 20, true, &err), 0);
    bed_turn(s.bed);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, block, 512, NULL), FL_NVME_SC_LBA_RANGE);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, 1, &id), 0);
    assert_int_equal(le64_get(id.nsze), 2048);
    assert_int_equal(fl_namespace_resize(s.bed->ss, 9, 1 << 20, true, NULL), -ENOENT);
    stop(&s);
}

/* A host that is taken off the list: cut, or kept with a warning. */
static void case_A15_removed_host(void **state)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_CMD_FLUSH, 1);
    struct bed_connect c;
    struct bed_conn *bc;
    struct setup s;

    start(&s, 2, NULL);
    assert_int_equal(fl_subsystem_host_add(s.bed->ss, BED_HOST, NULL), 0);
    assert_int_equal(fl_subsystem_set_allow_any(s.bed->ss, false), 0);
    assert_int_equal(fl_subsystem_host_remove(s.bed->ss, BED_HOST, true, NULL), 0);
    bed_turn(s.bed);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, NULL, 0, NULL), 0); /* kept */
    bed_connect_default(&c, BED_HOST, BED_NQN, 0, 0xffff);
    bc = bed_open(s.bed);
    assert_int_equal(bed_connect(bc, &c, NULL), FL_NVME_SC_CONNECT_INVALID_HOST);
    bed_cut(bc);
    bed_conn_free(bc);
    assert_int_equal(fl_subsystem_host_add(s.bed->ss, BED_HOST, NULL), 0);
    assert_int_equal(fl_subsystem_host_remove(s.bed->ss, BED_HOST, false, NULL), 0);
    bed_turn(s.bed);
    assert_true(bed_is_closed(s.h.io));
    assert_true(bed_is_closed(s.h.admin));
    assert_int_equal(s.bed->target->nr_controllers, 0);
    assert_int_equal(fl_subsystem_host_remove(s.bed->ss, BED_HOST, false, NULL), -ENOENT);
    stop(&s);
}

static void subsystem_goes(void **state)
{
    struct change c = {.change = {change_done}};
    struct setup s;

    start(&s, 2, NULL);
    fl_subsystem_remove(s.bed->ss, &c.change);
    assert_false(c.done);
    bed_turn(s.bed);
    assert_true(c.done);
    assert_int_equal(c.result, 0);
    assert_true(bed_is_closed(s.h.admin));
    assert_null(fl_subsystem_find(s.bed->target, BED_NQN));
    c.done = false;
    fl_subsystem_remove(s.bed->target->discovery, &c.change);
    assert_int_equal(c.result, -EPERM);
    stop(&s);
}

int main(void)
{
    fl_log_set_level(FL_LOG_ERR);
    return FL_UNIT_RUN(cmocka_unit_test(case_A6_remove_with_slow_io),
                       cmocka_unit_test(remove_what_is_not_there), cmocka_unit_test(case_A12_grow_and_shrink),
                       cmocka_unit_test(case_A15_removed_host), cmocka_unit_test(subsystem_goes));
}
