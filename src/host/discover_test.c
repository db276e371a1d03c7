/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "host/discover.h"

#define NR 200

/* A log page of NR entries, to which others are added while it is read. */
struct log {
    uint64_t genctr, numrec;
    uint32_t nr_reads, grow_at, grow_every;
    bool padded;
};

static int read_log(void *arg, void *buf, uint64_t off, uint32_t len, struct fl_error *err)
{
    struct log *log = arg;
    uint8_t *page;

    log->nr_reads++;
    if (log->nr_reads == log->grow_at || (log->grow_every && log->nr_reads % log->grow_every == 0)) {
        log->genctr++;
        log->numrec++;
    }
    page = calloc(1, (size_t)(log->numrec + 1) * 1024 + 4096);
    fl_disc_header_encode((struct fl_disc_header *)page, log->genctr, log->numrec);
    for (uint64_t i = 0; i < log->numrec; i++) {
        struct fl_disc_record rec = {.trtype = FL_DISC_TRTYPE_TCP,
                                     .adrfam = FL_DISC_ADRFAM_IPV4,
                                     .subtype = FL_DISC_SUBTYPE_NVM,
                                     .trsvcid = "4420",
                                     .traddr = "10.0.0.1"};
        struct fl_disc_entry *e = (struct fl_disc_entry *)(page + (i + 1) * 1024);

        snprintf(rec.subnqn, sizeof(rec.subnqn), "nqn.2026-01.org.example:%u", (unsigned)i);
        assert_int_equal(fl_disc_entry_encode(e, &rec), 0);
        if (log->padded) {
            memset(e->traddr, ' ', sizeof(e->traddr)); /* to the end, without a NUL */
            memcpy(e->traddr, "10.0.0.1", 8);
        }
    }
    assert_true(off + len <= (size_t)(log->numrec + 1) * 1024 + 4096);
    memcpy(buf, page + off, len);
    free(page);
    return 0;
}

static void case_A8_log_that_changes(void **state)
{
    static const uint32_t when[] = {0, 2, 25, 51, 52};

    for (uint32_t i = 0; i < FL_ARRAY_LEN(when); i++) {
        struct log log = {.genctr = 1, .numrec = NR, .grow_at = when[i], .padded = i & 1};
        struct fl_disc_reader in = {.read = read_log, .arg = &log};
        struct fl_discovered *list;
        struct fl_error err = {0};
        uint32_t nr;

        assert_int_equal(fl_disc_read(&in, &list, &nr, &err), 0);
        assert_int_equal(nr, log.numrec);
        assert_int_equal(nr, when[i] ? NR + 1 : NR);
        for (uint32_t k = 0; k < nr; k++) {
            char url[128];

            snprintf(url, sizeof(url), "nvme+tcp://10.0.0.1:4420/nqn.2026-01.org.example:%u", k);
            assert_string_equal(list[k].url, url);
            assert_string_equal(list[k].address, "10.0.0.1");
        }
        free(list);
    }
}

static void case_A8_log_that_never_stands_still(void **state)
{
    struct log log = {.genctr = 1, .numrec = 8, .grow_every = 2};
    struct fl_disc_reader in = {.read = read_log, .arg = &log};
    struct fl_discovered *list;
    struct fl_error err = {0};
    uint32_t nr;

    assert_int_equal(fl_disc_read(&in, &list, &nr, &err), -EAGAIN);
    assert_true(strstr(err.text, "10 times") != NULL);
    assert_true(log.nr_reads < 200);
}

static int promise(void *arg, void *buf, uint64_t off, uint32_t len, struct fl_error *err)
{
    memset(buf, 0, len);
    if (off == 0)
        fl_disc_header_encode(buf, 1, *(uint64_t *)arg);
    return 0;
}

/* More entries than anybody has: refused; entries that are not there: none kept. */
static void case_A8_numrec_larger_than_the_page(void **state)
{
    uint64_t numrec = UINT64_MAX;
    struct fl_disc_reader in = {.read = promise, .arg = &numrec};
    struct fl_discovered *list;
    struct fl_error err = {0};
    uint32_t nr;

    assert_int_equal(fl_disc_read(&in, &list, &nr, &err), -EPROTO);
    numrec = 100;
    fl_error_clear(&err);
    assert_int_equal(fl_disc_read(&in, &list, &nr, &err), 0);
    assert_int_equal(nr, 0);
    free(list);
}

static void case_A16_tls_only_when_asked_for(void **state)
{
    static const struct {
        uint8_t treq, sectype;
        bool tls;
    } cases[] = {{0, 0, false}, {1, 0, true},  {2, 0, false}, {0, 2, true},
                 {1, 2, true},  {2, 2, false}, {4, 0, false}, {6, 2, false}};

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_disc_record rec = {.trtype = FL_DISC_TRTYPE_TCP,
                                     .subtype = FL_DISC_SUBTYPE_NVM,
                                     .treq = cases[i].treq,
                                     .sectype = cases[i].sectype,
                                     .trsvcid = "4420",
                                     .traddr = "::1",
                                     .subnqn = "nqn.2026-01.org.example:a"};
        struct fl_discovered e;

        fl_disc_present(&rec, &e);
        assert_int_equal(e.tls_required, cases[i].tls);
        assert_string_equal(e.url, "nvme+tcp://[::1]:4420/nqn.2026-01.org.example:a");
    }
}

static void shows_only_urls_that_parse(void **state)
{
    struct fl_disc_record rec = {.trtype = FL_DISC_TRTYPE_TCP,
                                 .subtype = FL_DISC_SUBTYPE_NVM,
                                 .trsvcid = "http",
                                 .traddr = "1.2.3.4",
                                 .subnqn = "nqn.2026-01.org.example:a"};
    struct fl_discovered e;

    fl_disc_present(&rec, &e);
    assert_string_equal(e.url, "");
    snprintf(rec.trsvcid, sizeof(rec.trsvcid), "4420");
    rec.subtype = FL_DISC_SUBTYPE_REFERRAL;
    fl_disc_present(&rec, &e);
    assert_string_equal(e.type, "discovery");
    assert_string_equal(e.url, "nvme+tcp://1.2.3.4:4420");
    rec.trtype = FL_DISC_TRTYPE_FC;
    fl_disc_present(&rec, &e);
    assert_string_equal(e.transport, "fc");
    assert_string_equal(e.url, "");
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(case_A8_log_that_changes), cmocka_unit_test(case_A8_log_that_never_stands_still),
        cmocka_unit_test(case_A8_numrec_larger_than_the_page),
        cmocka_unit_test(case_A16_tls_only_when_asked_for), cmocka_unit_test(shows_only_urls_that_parse));
}
