/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"
#include "nvme/rules.h"

static void ranges_do_not_wrap(void **state)
{
    assert_true(fl_nvme_range_ok(0, 100, 100));
    assert_true(fl_nvme_range_ok(99, 1, 100));
    assert_false(fl_nvme_range_ok(99, 2, 100));
    assert_false(fl_nvme_range_ok(UINT64_MAX, 1, 100));
    assert_false(fl_nvme_range_ok(UINT64_MAX - 1, 3, UINT64_MAX));
    assert_false(fl_nvme_range_ok(1, UINT64_MAX, UINT64_MAX));
    assert_false(fl_nvme_range_ok(0, 1, 0));
}

static void every_errno_has_a_status(void **state)
{
    assert_int_equal(fl_nvme_status_of_errno(0, FL_NVME_IO_READ), 0);
    assert_int_equal(fl_nvme_status_of_errno(-5, FL_NVME_IO_READ), FL_NVME_SC_READ_ERROR);
    assert_int_equal(fl_nvme_status_of_errno(-5, FL_NVME_IO_WRITE), FL_NVME_SC_WRITE_FAULT);
    for (int e = 1; e < 200; e++)
        assert_int_not_equal(fl_nvme_status_of_errno(-e, FL_NVME_IO_OTHER), 0);
}

/* Base specification 2.0, figure of command behaviour in the presence of a reservation. */
static void reservation_table(void **state)
{
    static const struct fl_nvme_resv_role none = {false, false}, reg = {true, false}, holder = {true, true};
    static const char want[7][6] = {
        /* none rd wr, registrant rd wr, holder rd wr */
        [0] = {1, 1, 1, 1, 1, 1}, [1] = {1, 0, 1, 0, 1, 1}, [2] = {0, 0, 0, 0, 1, 1},
        [3] = {1, 0, 1, 1, 1, 1}, [4] = {0, 0, 1, 1, 1, 1}, [5] = {1, 0, 1, 1, 1, 1},
        [6] = {0, 0, 1, 1, 1, 1},
    };

    for (int t = 0; t < 7; t++) {
        const struct fl_nvme_resv_role roles[3] = {none, reg, holder};

        for (int r = 0; r < 3; r++)
            for (int a = 0; a < 2; a++)
                assert_int_equal(
                    fl_nvme_resv_allows((enum fl_nvme_resv_type)t, roles[r], (enum fl_nvme_access)a),
                    want[t][r * 2 + a]);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(ranges_do_not_wrap), cmocka_unit_test(every_errno_has_a_status),
                       cmocka_unit_test(reservation_table));
}
