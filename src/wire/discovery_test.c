/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/discovery.h"

#include <errno.h>

#include "wire/literal.h"

/* A log page of a Linux target, as it came: header and one of its entries */
static void linux_page(uint8_t page[2048])
{
    memset(page, 0, 2048);
    literal(page, 10, "02000000000000000200");
    literal(page + 1024, 10, "030102040100ffff2000");
    literal(page + 1024 + 32, 4, "34343230");
    literal(page + 1024 + 256, 28, "6e716e2e323032362d30312e6f72672e6578616d706c653a73756231");
    literal(page + 1024 + 512, 10, "31302e37372e302e3131");
}

static void literal_page(void **state)
{
    uint8_t page[2048];
    uint64_t genctr, numrec;
    struct fl_disc_record r;
    linux_page(page);
    assert_int_equal(fl_disc_header_decode(page, sizeof(page), &genctr, &numrec, NULL), 0);
    assert_int_equal(genctr, 2);
    assert_int_equal(numrec, 2);
    assert_int_equal(fl_disc_nr_here(sizeof(page), numrec), 1);
    assert_int_equal(fl_disc_entry_decode((void *)(page + 1024), &r, NULL), 0);
    assert_int_equal(r.trtype, FL_DISC_TRTYPE_TCP);
    assert_int_equal(r.adrfam, FL_DISC_ADRFAM_IPV4);
    assert_int_equal(r.subtype, FL_DISC_SUBTYPE_NVM);
    assert_int_equal(r.treq, FL_DISC_TREQ_NO_SQ_FLOW);
    assert_int_equal(r.portid, 1);
    assert_int_equal(r.cntlid, FL_DISC_CNTLID_DYNAMIC);
    assert_int_equal(r.asqsz, 32);
    assert_int_equal(r.eflags, 0);
    assert_string_equal(r.trsvcid, "4420");
    assert_string_equal(r.traddr, "10.77.0.11");
    assert_string_equal(r.subnqn, "nqn.2026-01.org.example:sub1");
    assert_int_equal(r.sectype, FL_DISC_TCP_SECTYPE_NONE);
}

static void places(void **state)
{
    struct fl_disc_header header;
    struct fl_disc_entry entry;
    pattern(&header, sizeof(header));
    AT64(&header, genctr, 0);
    AT64(&header, numrec, 8);
    AT16(&header, recfmt, 16);
    pattern(&entry, sizeof(entry));
    AT8(&entry, trtype, 0);
    AT8(&entry, adrfam, 1);
    AT8(&entry, subtype, 2);
    AT8(&entry, treq, 3);
    AT16(&entry, portid, 4);
    AT16(&entry, cntlid, 6);
    AT16(&entry, asqsz, 8);
    AT16(&entry, eflags, 10);
    AT8(&entry, trsvcid[0], 32);
    AT8(&entry, subnqn[0], 256);
    AT8(&entry, traddr[0], 512);
    AT8(&entry, tsas[0], 768);
    struct fl_disc_tsas_rdma *rdma = (void *)entry.tsas;
    assert_int_equal(rdma->qptype, pattern_at(768));
    assert_int_equal(rdma->prtype, pattern_at(769));
    assert_int_equal(rdma->cms, pattern_at(770));
    assert_int_equal(le16_get(rdma->pkey), pattern_le(776, 2));
}

/* TRSVCID and TRADDR are padded with spaces, the NQN with NULs. */
static void padding(void **state)
{
    struct fl_disc_record r = {.trtype = FL_DISC_TRTYPE_TCP,
                               .adrfam = FL_DISC_ADRFAM_IPV6,
                               .subtype = FL_DISC_SUBTYPE_NVM,
                               .cntlid = 0xffff,
                               .asqsz = 32,
                               .sectype = FL_DISC_TCP_SECTYPE_TLS13,
                               .trsvcid = "4420",
                               .traddr = "fe80::5054:ff:fe77:11",
                               .subnqn = "nqn.2014-08.org.example:a"},
                          back;
    struct fl_disc_entry e;
    assert_int_equal(fl_disc_entry_encode(&e, &r), 0);
    assert_memory_equal(e.trsvcid, "4420                            ", 32);
    assert_memory_equal(e.traddr, "fe80::5054:ff:fe77:11   ", 24);
    assert_int_equal(e.traddr[255], ' ');
    assert_memory_equal(e.subnqn, "nqn.2014-08.org.example:a\0\0", 27);
    assert_int_equal(e.subnqn[255], 0);
    assert_int_equal(e.tsas[0], 2);
    assert_int_equal(fl_disc_entry_decode(&e, &back, NULL), 0);
    assert_memory_equal(&back, &r, sizeof(r));

    memset(e.trsvcid, 0, sizeof(e.trsvcid)); /* "4420", NUL, then rubbish that nobody cleared */
    memcpy(e.trsvcid, "4420\0\x01\xff", 7);
    assert_int_equal(fl_disc_entry_decode(&e, &back, NULL), 0);
    assert_string_equal(back.trsvcid, "4420");
    memset(e.traddr, 'a', sizeof(e.traddr)); /* full, no padding at all */
    assert_int_equal(fl_disc_entry_decode(&e, &back, NULL), 0);
    assert_int_equal(strlen(back.traddr), 256);
    assert_int_equal(fl_disc_entry_encode(&e, &back), 0);
    memset(e.traddr, ' ', sizeof(e.traddr));
    assert_int_equal(fl_disc_entry_decode(&e, &back, NULL), 0);
    assert_string_equal(back.traddr, "");
}

static void rdma(void **state)
{
    struct fl_disc_record r = {.trtype = FL_DISC_TRTYPE_RDMA,
                               .rdma_qptype = 1,
                               .rdma_prtype = 4,
                               .rdma_cms = 1,
                               .rdma_pkey = 0xffff,
                               .subnqn = "n"},
                          back;
    struct fl_disc_entry e;
    uint8_t want[10];
    literal(want, 10, "0104010000000000ffff");
    assert_int_equal(fl_disc_entry_encode(&e, &r), 0);
    assert_memory_equal(e.tsas, want, 10);
    assert_int_equal(fl_disc_entry_decode(&e, &back, NULL), 0);
    assert_memory_equal(&back, &r, sizeof(r));
}

static void faults(void **state)
{
    uint8_t page[2048];
    struct fl_disc_entry *e = (void *)(page + 1024);
    struct fl_disc_record r;
    uint64_t genctr, numrec;
    uint32_t offset = 99;

    linux_page(page);
    assert_int_equal(fl_disc_header_decode(page, 1023, &genctr, &numrec, &offset), -EPROTO);
    assert_int_equal(offset, 0);
    page[16] = 1;
    assert_int_equal(fl_disc_header_decode(page, 2048, &genctr, &numrec, &offset), -EPROTO);
    assert_int_equal(offset, 16);

    e->trsvcid[2] = '\n';
    assert_int_equal(fl_disc_entry_decode(e, &r, &offset), -EPROTO);
    assert_int_equal(offset, 32);
    e->trsvcid[2] = '2';
    e->traddr[0] = '\x7f';
    assert_int_equal(fl_disc_entry_decode(e, &r, &offset), -EPROTO);
    assert_int_equal(offset, 512);
    e->traddr[0] = '\xff';
    assert_int_equal(fl_disc_entry_decode(e, &r, &offset), -EPROTO);
    e->traddr[0] = '1';
    memset(e->subnqn, 'n', sizeof(e->subnqn));
    assert_int_equal(fl_disc_entry_decode(e, &r, &offset), -EPROTO);
    assert_int_equal(offset, 256);
    e->subnqn[0] = '\0';
    assert_int_equal(fl_disc_entry_decode(e, &r, NULL), -EPROTO);

    r = (struct fl_disc_record){.subnqn = "n"};
    memset(r.trsvcid, '1', sizeof(r.trsvcid)); /* 33 digits, not ended */
    r.trsvcid[32] = '\0';
    assert_int_equal(fl_disc_entry_encode(e, &r), 0);
    memset(r.subnqn, 'n', sizeof(r.subnqn));
    assert_int_equal(fl_disc_entry_encode(e, &r), -EINVAL);
    r.subnqn[0] = '\0';
    assert_int_equal(fl_disc_entry_encode(e, &r), -EINVAL);
}

/* How much of the page is to be believed: never more than has come. */
static void entries_here(void **state)
{
    assert_int_equal(fl_disc_nr_here(0, 5), 0);
    assert_int_equal(fl_disc_nr_here(1023, 5), 0);
    assert_int_equal(fl_disc_nr_here(1024, 5), 0);
    assert_int_equal(fl_disc_nr_here(2047, 5), 0);
    assert_int_equal(fl_disc_nr_here(2048, 5), 1);
    assert_int_equal(fl_disc_nr_here(16384, 5), 5);
    assert_int_equal(fl_disc_nr_here(4096, UINT64_MAX), 3);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(literal_page), cmocka_unit_test(places), cmocka_unit_test(padding),
                       cmocka_unit_test(rdma), cmocka_unit_test(faults), cmocka_unit_test(entries_here));
}
