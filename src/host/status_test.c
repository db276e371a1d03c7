/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <string.h>

#include "host/device.h"
#include "host/status.h"

static void becomes_errno(void **state)
{
    static const struct {
        fl_nvme_status status;
        int err;
    } cases[] = {{0, 0},
                 {FL_NVME_SC_LBA_RANGE | FL_NVME_DNR, -ERANGE},
                 {FL_NVME_SC_COMPARE_FAILED, -EILSEQ},
                 {FL_NVME_SC_INVALID_NS | FL_NVME_DNR | FL_NVME_MORE, -ENXIO},
                 {FL_NVME_SC_NS_WRITE_PROTECTED, -EROFS},
                 {FL_NVME_SC_RESV_CONFLICT, -EBADE},
                 {FL_NVME_SC_READ_ERROR, -EIO},
                 {0x7ff, -EIO}};

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++)
        assert_int_equal(fl_io_status_errno(cases[i].status), cases[i].err);
    for (uint32_t s = 1; s < 0x8000; s++) /* an error never becomes success, except by its code alone */
        assert_true(!(s & FL_NVME_SC_MASK) || (fl_io_status_errno((fl_nvme_status)s) < 0 &&
                                               fl_connect_status_errno((fl_nvme_status)s) < 0));
}

static void is_retried_when_that_may_help(void **state)
{
    assert_int_equal(fl_io_status_retry(FL_NVME_SC_TRANSIENT_TRANSPORT), FL_RETRY_NOW);
    assert_int_equal(fl_io_status_retry(FL_NVME_SC_TRANSIENT_TRANSPORT | FL_NVME_DNR), FL_RETRY_NEVER);
    assert_int_equal(fl_io_status_retry(FL_NVME_SC_NS_NOT_READY), FL_RETRY_LATER);
    assert_int_equal(fl_io_status_retry(FL_NVME_SC_ANA_TRANSITION), FL_RETRY_LATER);
    assert_int_equal(fl_io_status_retry(FL_NVME_SC_LBA_RANGE), FL_RETRY_NEVER);
    assert_int_equal(fl_io_status_retry(FL_NVME_SC_COMPARE_FAILED), FL_RETRY_NEVER);
}

static void becomes_words(void **state)
{
    struct fl_io io = {.op = FL_IO_WRITE, .off = 1234 * 512, .len = 8 * 512};
    char text[FL_STATUS_TEXT_LEN], what[FL_IO_TEXT_LEN];

    assert_string_equal(fl_io_text(&io, 512, what), "write of 8 blocks at 1234");
    io.len = 512;
    assert_string_equal(fl_io_text(&io, 512, what), "write of 1 block at 1234");
    io.off = 1;
    assert_string_equal(fl_io_text(&io, 512, what), "write of 512 bytes at byte 1");
    io.op = FL_IO_FLUSH;
    assert_string_equal(fl_io_text(&io, 512, what), "flush");
    assert_true(strstr(fl_io_result_text(-ERANGE, FL_NVME_SC_LBA_RANGE, text), "(status 80h)") != NULL);
    assert_true(strstr(fl_io_result_text(-ENOLINK, 0, text), "cannot be reached") != NULL);
    assert_true(strstr(fl_io_result_text(-ENODEV, 0, text), "lost") != NULL);
    assert_true(strstr(fl_io_result_text(-EFAULT, 0, text), "not mapped") != NULL);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(becomes_errno), cmocka_unit_test(is_retried_when_that_may_help),
                       cmocka_unit_test(becomes_words));
}
