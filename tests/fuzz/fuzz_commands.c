/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of a hostile host: an admin and an I/O queue that are connected, then whatever SQEs and data the
 * input says. Each record is a byte of choices, 64 bytes of SQE and a byte for the length of the data, whose
 * content is the input itself. Every command must be answered by the time that the target has stopped, every
 * buffer must be back (the test's bed checks both).
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "target/test_bed.h"

#define MAX_CMDS 64u

/* Choices */
#define ON_IO      1u
#define IN_CAPSULE 2u
#define HOLD_FETCH 4u
#define HELP       8u  /* set what a random command hardly gets right: PSDT, a namespace, a known opcode */
#define GIVE       16u /* data for an older command that waits for it */

static uint32_t data_len(uint8_t code)
{
    static const uint32_t lens[] = {0, 4, 8, 16, 64, 512, 1024, 4096, 8192, 16384, 65536, 1 << 20};

    return code < FL_ARRAY_LEN(lens) ? lens[code] : code * 16u;
}

static struct bed_cmd *send_one(struct bed_conn *bc, uint8_t choice, const uint8_t *p, size_t len,
                                uint8_t code)
{
    static uint8_t data[1 << 20];
    struct fl_nvme_sqe sqe = {0};
    struct bed_cmd *c;
    uint32_t n = data_len(code);
    bool to_host;

    memcpy(&sqe, p, len < sizeof(sqe) ? len : sizeof(sqe));
    if (choice & HELP) {
        static const uint8_t io[] = {0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c,
                                     0x0d, 0x0e, 0x11, 0x15, 0x19, 0x7f};
        static const uint8_t admin[] = {0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f};

        sqe.opcode = choice & ON_IO ? io[sqe.opcode % sizeof(io)] : admin[sqe.opcode % sizeof(admin)];
        sqe.flags = (uint8_t)((sqe.flags & 3) | FL_NVME_CMD_PSDT_SGL);
        sqe.nsid = le32_of(sqe.opcode == 0x7f              ? le32_get(sqe.nsid) & 0xf
                           : (le32_get(sqe.nsid) & 3) == 3 ? 0xffffffff
                                                           : le32_get(sqe.nsid) & 3);
    }
    to_host = fl_nvmf_xfer(&sqe) == FL_NVME_XFER_TO_HOST;
    for (uint32_t i = 0; i < n && len; i++)
        data[i] = p[i % len];
    if (!to_host && choice & IN_CAPSULE && n > 8192)
        n = 8192;
    c = bed_send(bc, &sqe, data, to_host ? 0 : n, choice & IN_CAPSULE, to_host ? n : 0);
    c->hold_fetch = choice & HOLD_FETCH;
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
    struct bed_cmd *cmds[MAX_CMDS];
    struct bed_host h;
    struct bed *bed;
    uint32_t nr = 0;

    fl_log_set_level(FL_LOG_ERR);
    if (len < 3)
        return 0;
    bed = bed_new(1 + (p[0] & 1), NULL);
    bed_add_ns(bed, "ram:2M,bs=512");
    bed_add_ns(bed, "null:16M,bs=4096");
    bed_host(bed, BED_HOST, &h);
    p++, len--;
    while (len > 2 && nr < MAX_CMDS) {
        uint8_t choice = p[0];
        size_t take = len - 2 < 64 ? len - 2 : 64;
        struct bed_conn *bc = choice & ON_IO ? h.io : h.admin;

        if (bc->closing) {
            p += 2 + take, len -= 2 + take;
            continue;
        }
        cmds[nr++] = send_one(bc, choice, p + 2, take, p[1]);
        bed_turn(bed);
        for (uint32_t i = 0; choice & GIVE && i < nr; i++)
            if (cmds[i]->fetching)
                bed_give_data(cmds[i]);
        bed_turn(bed);
        p += 2 + take, len -= 2 + take;
    }
    bed_free(bed);
    for (uint32_t i = 0; i < nr; i++)
        bed_free_cmd(cmds[i]);
    bed_conn_free(h.admin);
    bed_conn_free(h.io);
    return 0;
}
