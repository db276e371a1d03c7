/* SPDX-License-Identifier: Apache-2.0 */
/* I/O commands on memory namespaces, one and two loops. */
#include <stdlib.h>

#include "target/test_bed.h"

static void writes_and_reads(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct bed *bed = bed_new(loops, NULL);
        uint32_t nsid = bed_add_ns(bed, "ram:1M,bs=512");
        struct bed_host h;
        uint8_t out[4096], in[4096];
        struct fl_nvme_sqe sqe;

        for (size_t i = 0; i < sizeof(out); i++)
            out[i] = (uint8_t)(i * 7);
        bed_host(bed, BED_HOST, &h);
        sqe = bed_rw(FL_NVME_CMD_WRITE, nsid, 8, 8);
        assert_int_equal(bed_run(h.io, &sqe, out, sizeof(out), NULL, 0, NULL), 0);
        sqe = bed_rw(FL_NVME_CMD_READ, nsid, 8, 8);
        assert_int_equal(bed_run(h.io, &sqe, NULL, 0, in, sizeof(in), NULL), 0);
        assert_memory_equal(in, out, sizeof(in));
        sqe = bed_sqe(FL_NVME_CMD_FLUSH, nsid);
        assert_int_equal(bed_run(h.io, &sqe, NULL, 0, NULL, 0, NULL), 0);
        sqe = bed_sqe(FL_NVME_CMD_FLUSH, FL_NVME_NSID_ALL);
        assert_int_equal(bed_run(h.io, &sqe, NULL, 0, NULL, 0, NULL), 0);
        bed_free(bed);
        bed_conn_free(h.admin);
        bed_conn_free(h.io);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(writes_and_reads));
}
