/* SPDX-License-Identifier: Apache-2.0 */
/* Service times in the answers of I/O commands: only for the host that asked, and without the time that its
 * data took. */
#include <time.h>

#include "target/test_bed.h"

#define DATA_NS (20 * 1000 * 1000) /* how long the data of the slow write is on its way */

static uint8_t data[8192];

struct setup {
    struct bed *bed;
    struct bed_host h;
    uint32_t nsid;
};

static void start(struct setup *s)
{
    s->bed = bed_new(1, NULL);
    s->nsid = bed_add_ns(s->bed, "ram:4M,bs=4096");
    bed_host(s->bed, BED_HOST, &s->h);
}

static void stop(struct setup *s)
{
    bed_free(s->bed);
    bed_conn_free(s->h.admin);
    bed_conn_free(s->h.io);
}

/* DW1 of the answer to one I/O, whose data comes after wait_ns. */
static uint32_t service_ns(struct setup *s, bool write, long wait_ns)
{
    struct fl_nvme_sqe sqe = bed_rw(write ? FL_NVME_CMD_WRITE : FL_NVME_CMD_READ, s->nsid, 1, 2);
    struct bed_cmd *c = bed_send(s->h.io, &sqe, write ? data : NULL, write ? sizeof(data) : 0, false,
                                 write ? 0 : sizeof(data));
    uint32_t ns;

    if (wait_ns) {
        c->hold_fetch = true;
        bed_turn(s->bed);
        nanosleep(&(struct timespec){.tv_nsec = wait_ns}, NULL);
        bed_give_data(c);
    }
    bed_turn(s->bed);
    assert_true(c->answered);
    assert_int_equal(bed_status(c), 0);
    ns = le32_get(c->cqe.dw1);
    bed_free_cmd(c);
    return ns;
}

static void set(struct setup *s, uint32_t value, uint16_t status)
{
    uint64_t v;

    assert_int_equal(bed_feature(s->h.admin, true, FL_NVME_FEAT_SERVICE_TIME, 0, value, &v), status);
}

static void told_to_who_asks(void **state)
{
    struct setup s;
    uint64_t v;

    start(&s);
    assert_int_equal(service_ns(&s, false, 0), 0);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_SERVICE_TIME, 0, 0, &v), 0);
    assert_int_equal(v, FL_NVME_SERVICE_TIME_MAGIC);
    set(&s, FL_NVME_SERVICE_TIME_MAGIC | FL_NVME_SERVICE_TIME_ON, 0);
    assert_int_not_equal(service_ns(&s, false, 0), 0);
    assert_int_not_equal(service_ns(&s, true, 0), 0);
    set(&s, FL_NVME_SERVICE_TIME_MAGIC, 0);
    assert_int_equal(service_ns(&s, false, 0), 0);
    stop(&s);
}

/* Another vendor's D0h is not ours: whoever does not say the magic number changes nothing. */
static void no_magic_no_change(void **state)
{
    struct setup s;

    start(&s);
    set(&s, 1, FL_NVME_SC_INVALID_FIELD);
    set(&s, 0, FL_NVME_SC_INVALID_FIELD);
    set(&s, FL_NVME_SERVICE_TIME_MAGIC | 2, FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(service_ns(&s, false, 0), 0);
    stop(&s);
}

static void data_on_its_way_is_not_service(void **state)
{
    struct setup s;
    uint32_t ns;

    start(&s);
    set(&s, FL_NVME_SERVICE_TIME_MAGIC | FL_NVME_SERVICE_TIME_ON, 0);
    ns = service_ns(&s, true, DATA_NS);
    assert_int_not_equal(ns, 0);
    if (ns >= DATA_NS) /* kept from the CPU just then? once more */
        ns = service_ns(&s, true, DATA_NS);
    assert_true(ns < DATA_NS);
    stop(&s);
}

int main(void)
{
    fl_log_set_level(FL_LOG_ERR);
    return FL_UNIT_RUN(cmocka_unit_test(told_to_who_asks), cmocka_unit_test(no_magic_no_change),
                       cmocka_unit_test(data_on_its_way_is_not_service));
}
