/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_identify.h"

#include <errno.h>

#include "wire/literal.h"

static void places_of_power_state(void **state)
{
    struct fl_nvme_power_state s;
    pattern(&s, sizeof(s));
    AT16(&s, mp, 0);
    AT8(&s, flags, 3);
    AT32(&s, enlat, 4);
    AT32(&s, exlat, 8);
    AT8(&s, rrt, 12);
    AT8(&s, rrl, 13);
    AT8(&s, rwt, 14);
    AT8(&s, rwl, 15);
    AT16(&s, idlp, 16);
    AT8(&s, ips, 18);
    AT16(&s, actp, 20);
    AT8(&s, apws, 22);
}

static void places_of_id_ctrl(void **state)
{
    struct fl_nvme_id_ctrl s;
    pattern(&s, sizeof(s));
    AT16(&s, vid, 0);
    AT16(&s, ssvid, 2);
    AT8(&s, sn[0], 4);
    AT8(&s, sn[19], 23);
    AT8(&s, mn[0], 24);
    AT8(&s, mn[39], 63);
    AT8(&s, fr[0], 64);
    AT8(&s, fr[7], 71);
    AT8(&s, rab, 72);
    AT8(&s, ieee[0], 73);
    AT8(&s, ieee[2], 75);
    AT8(&s, cmic, 76);
    AT8(&s, mdts, 77);
    AT16(&s, cntlid, 78);
    AT32(&s, ver, 80);
    AT32(&s, rtd3r, 84);
    AT32(&s, rtd3e, 88);
    AT32(&s, oaes, 92);
    AT32(&s, ctratt, 96);
    AT16(&s, rrls, 100);
    AT8(&s, cntrltype, 111);
    AT8(&s, fguid[0], 112);
    AT8(&s, fguid[15], 127);
    AT16(&s, crdt[0], 128);
    AT16(&s, crdt[2], 132);
    AT8(&s, nvmsr, 253);
    AT8(&s, vwci, 254);
    AT8(&s, mec, 255);
    AT16(&s, oacs, 256);
    AT8(&s, acl, 258);
    AT8(&s, aerl, 259);
    AT8(&s, frmw, 260);
    AT8(&s, lpa, 261);
    AT8(&s, elpe, 262);
    AT8(&s, npss, 263);
    AT8(&s, avscc, 264);
    AT8(&s, apsta, 265);
    AT16(&s, wctemp, 266);
    AT16(&s, cctemp, 268);
    AT16(&s, mtfa, 270);
    AT32(&s, hmpre, 272);
    AT32(&s, hmmin, 276);
    AT128(&s, tnvmcap, 280);
    AT128(&s, unvmcap, 296);
    AT32(&s, rpmbs, 312);
    AT16(&s, edstt, 316);
    AT8(&s, dsto, 318);
    AT8(&s, fwug, 319);
    AT16(&s, kas, 320);
    AT16(&s, hctma, 322);
    AT16(&s, mntmt, 324);
    AT16(&s, mxtmt, 326);
    AT32(&s, sanicap, 328);
    AT32(&s, hmminds, 332);
    AT16(&s, hmmaxd, 336);
    AT16(&s, nsetidmax, 338);
    AT16(&s, endgidmax, 340);
    AT8(&s, anatt, 342);
    AT8(&s, anacap, 343);
    AT32(&s, anagrpmax, 344);
    AT32(&s, nanagrpid, 348);
    AT32(&s, pels, 352);
    AT16(&s, domainid, 356);
    AT128(&s, megcap, 368);
    AT8(&s, sqes, 512);
    AT8(&s, cqes, 513);
    AT16(&s, maxcmd, 514);
    AT32(&s, nn, 516);
    AT16(&s, oncs, 520);
    AT16(&s, fuses, 522);
    AT8(&s, fna, 524);
    AT8(&s, vwc, 525);
    AT16(&s, awun, 526);
    AT16(&s, awupf, 528);
    AT8(&s, icsvscc, 530);
    AT8(&s, nwpc, 531);
    AT16(&s, acwu, 532);
    AT16(&s, ocfs, 534);
    AT32(&s, sgls, 536);
    AT32(&s, mnan, 540);
    AT128(&s, maxdna, 544);
    AT32(&s, maxcna, 560);
    AT8(&s, subnqn[0], 768);
    AT8(&s, subnqn[255], 1023);
    AT32(&s, ioccsz, 1792);
    AT32(&s, iorcsz, 1796);
    AT16(&s, icdoff, 1800);
    AT8(&s, fcatt, 1802);
    AT8(&s, msdbd, 1803);
    AT16(&s, ofcs, 1804);
    AT8(&s, dctype, 1806);
    AT8(&s, vs[0], 3072);
    AT8(&s, vs[1023], 4095);
}

static void places_of_lbaf(void **state)
{
    struct fl_nvme_lbaf s;
    pattern(&s, sizeof(s));
    AT16(&s, ms, 0);
    AT8(&s, lbads, 2);
    AT8(&s, rp, 3);
}

static void places_of_id_ns(void **state)
{
    struct fl_nvme_id_ns s;
    pattern(&s, sizeof(s));
    AT64(&s, nsze, 0);
    AT64(&s, ncap, 8);
    AT64(&s, nuse, 16);
    AT8(&s, nsfeat, 24);
    AT8(&s, nlbaf, 25);
    AT8(&s, flbas, 26);
    AT8(&s, mc, 27);
    AT8(&s, dpc, 28);
    AT8(&s, dps, 29);
    AT8(&s, nmic, 30);
    AT8(&s, rescap, 31);
    AT8(&s, fpi, 32);
    AT8(&s, dlfeat, 33);
    AT16(&s, nawun, 34);
    AT16(&s, nawupf, 36);
    AT16(&s, nacwu, 38);
    AT16(&s, nabsn, 40);
    AT16(&s, nabo, 42);
    AT16(&s, nabspf, 44);
    AT16(&s, noiob, 46);
    AT128(&s, nvmcap, 48);
    AT16(&s, npwg, 64);
    AT16(&s, npwa, 66);
    AT16(&s, npdg, 68);
    AT16(&s, npda, 70);
    AT16(&s, nows, 72);
    AT16(&s, mssrl, 74);
    AT32(&s, mcl, 76);
    AT8(&s, msrc, 80);
    AT8(&s, nulbaf, 82);
    AT32(&s, anagrpid, 92);
    AT8(&s, nsattr, 99);
    AT16(&s, nvmsetid, 100);
    AT16(&s, endgid, 102);
    AT8(&s, nguid[0], 104);
    AT8(&s, nguid[15], 119);
    AT8(&s, eui64[0], 120);
    AT8(&s, eui64[7], 127);
    AT8(&s, vs[0], 384);
    AT8(&s, vs[3711], 4095);
}

static void places_of_ns_list(void **state)
{
    struct fl_nvme_ns_list s;
    pattern(&s, sizeof(s));
    AT32(&s, nsid[0], 0);
    AT32(&s, nsid[1023], 4092);
}

static void places_of_ctrl_list(void **state)
{
    struct fl_nvme_ctrl_list s;
    pattern(&s, sizeof(s));
    AT16(&s, num, 0);
    AT16(&s, cntlid[0], 2);
    AT16(&s, cntlid[2046], 4094);
}

static void places_of_ns_desc(void **state)
{
    struct fl_nvme_ns_desc s;
    pattern(&s, sizeof(s));
    AT8(&s, nidt, 0);
    AT8(&s, nidl, 1);
}

static void places_of_id_ns_nvm(void **state)
{
    struct fl_nvme_id_ns_nvm s;
    pattern(&s, sizeof(s));
    AT64(&s, lbstm, 0);
    AT8(&s, pic, 8);
    AT32(&s, elbaf[0], 12);
    AT32(&s, elbaf[63], 264);
}

static void places_of_id_ctrl_nvm(void **state)
{
    struct fl_nvme_id_ctrl_nvm s;
    pattern(&s, sizeof(s));
    AT8(&s, vsl, 0);
    AT8(&s, wzsl, 1);
    AT8(&s, wusl, 2);
    AT8(&s, dmrl, 3);
    AT32(&s, dmrsl, 4);
    AT64(&s, dmsl, 8);
}

static void places_of_id_ns_indep(void **state)
{
    struct fl_nvme_id_ns_indep s;
    pattern(&s, sizeof(s));
    AT8(&s, nsfeat, 0);
    AT8(&s, nmic, 1);
    AT8(&s, rescap, 2);
    AT8(&s, fpi, 3);
    AT32(&s, anagrpid, 4);
    AT8(&s, nsattr, 8);
    AT16(&s, nvmsetid, 10);
    AT16(&s, endgid, 12);
    AT8(&s, nstat, 14);
}

static void places_of_id_cmd_sets(void **state)
{
    struct fl_nvme_id_cmd_sets s;
    pattern(&s, sizeof(s));
    AT64(&s, combination[0], 0);
    AT64(&s, combination[511], 4088);
}

/* Identify Controller of a Linux target */
static void literal_controller(void **state)
{
    static uint8_t page[4096];
    const struct fl_nvme_id_ctrl *id = (const void *)page;
    char text[41];
    memset(page, 0, sizeof(page));
    literal(page + 4, 69,
            "36383161626333613666313832333961396233614c696e75782020202020202020202020202020202020202020202020"
            "202020202020202020202020"
            "362e31322e31313706");
    literal(page + 78, 5, "0b00000301");
    literal(page + 93, 4, "09000041");
    page[111] = 1;
    literal(page + 258, 5, "030303077f");
    page[320] = 0x0a;
    literal(page + 342, 7, "0a1f8000000080");
    literal(page + 512, 9, "66440004000400000c");
    page[525] = page[531] = page[1803] = 1;
    literal(page + 536, 6, "010010000004");
    literal(page + 768, 28, "6e716e2e323032362d30312e6f72672e6578616d706c653a73756231");
    literal(page + 1792, 5, "0404000001");
    fl_nvme_text_get(text, id->sn, sizeof(id->sn));
    assert_string_equal(text, "681abc3a6f18239a9b3a");
    fl_nvme_text_get(text, id->mn, sizeof(id->mn));
    assert_string_equal(text, "Linux");
    fl_nvme_text_get(text, id->fr, sizeof(id->fr));
    assert_string_equal(text, "6.12.117");
    assert_int_equal(id->rab, 6);
    assert_int_equal(le16_get(id->cntlid), 11);
    assert_int_equal(le32_get(id->ver), 0x00010300);
    assert_int_equal(le32_get(id->oaes), FL_NVME_OAES_NS_ATTR | FL_NVME_OAES_ANA);
    assert_int_equal(le32_get(id->ctratt), FL_NVME_CTRATT_HOSTID_128 | FL_NVME_CTRATT_TBKAS);
    assert_int_equal(id->cntrltype, FL_NVME_CNTRLTYPE_IO);
    assert_int_equal(id->acl, 3);
    assert_int_equal(id->frmw, 3);
    assert_int_equal(id->lpa, FL_NVME_LPA_SMART_PER_NS | FL_NVME_LPA_EFFECTS | FL_NVME_LPA_EXTENDED);
    assert_int_equal(id->elpe, 127);
    assert_int_equal(le16_get(id->kas), 10);
    assert_int_equal(id->anatt, 10);
    assert_int_equal(le32_get(id->anagrpmax), 128);
    assert_int_equal(le32_get(id->nanagrpid), 128);
    assert_int_equal(id->sqes, 0x66);
    assert_int_equal(le16_get(id->maxcmd), 1024);
    assert_int_equal(le32_get(id->nn), 1024);
    assert_int_equal(le16_get(id->oncs), FL_NVME_ONCS_DSM | FL_NVME_ONCS_WRITE_ZEROES);
    assert_int_equal(le32_get(id->sgls), FL_NVME_SGLS_SUPPORTED | FL_NVME_SGLS_OFFSET);
    assert_int_equal(le32_get(id->mnan), 1024);
    assert_string_equal(id->subnqn, "nqn.2026-01.org.example:sub1");
    assert_int_equal(le32_get(id->ioccsz), 1028); /* 64 bytes of command and 16 KiB of data */
    assert_int_equal(le32_get(id->iorcsz), 1);
    assert_int_equal(id->msdbd, 1);
}

/* Identify Namespace of the same: 64 MiB in blocks of 512 */
static void literal_namespace(void **state)
{
    static uint8_t page[4096];
    const struct fl_nvme_id_ns *id = (const void *)page;
    memset(page, 0, sizeof(page));
    page[2] = page[10] = page[18] = page[92] = 1;
    page[24] = 0x12;
    literal(page + 30, 9, "010000000700070007");
    literal(page + 64, 7, "07000700070007");
    page[130] = 9;
    assert_int_equal(le64_get(id->nsze), 65536);
    assert_int_equal(le64_get(id->ncap), 65536);
    assert_int_equal(le64_get(id->nuse), 65536);
    assert_int_equal(id->nsfeat, FL_NVME_NSFEAT_OPTPERF | FL_NVME_NSFEAT_NATOMIC);
    assert_int_equal(id->nmic, FL_NVME_NMIC_SHARED);
    assert_int_equal(le16_get(id->nawun), 7);
    assert_int_equal(le16_get(id->nacwu), 7);
    assert_int_equal(le16_get(id->npwg), 7);
    assert_int_equal(le16_get(id->npda), 7);
    assert_int_equal(le32_get(id->anagrpid), 1);
    assert_int_equal(id->lbaf[fl_nvme_flbas_index(id->flbas)].lbads, 9);
    assert_int_equal(fl_nvme_flbas_index(0x6f), 63);
    assert_int_equal(fl_nvme_flbas_index(0x35), 21);
}

static void namespace_descriptors(void **state)
{
    uint8_t list[64], built[64];
    const struct fl_nvme_ns_desc *desc;
    const uint8_t *nid;
    size_t pos = 0;

    memset(list, 0, sizeof(list));
    memset(built, 0, sizeof(built));
    literal(list, 25,
            "031000009e111d2f072345a69e8b81a8627b62380401000000"); /* as from Linux: UUID, command set */
    assert_int_equal(fl_nvme_ns_desc_next(list, sizeof(list), &pos, &desc, &nid), 1);
    assert_int_equal(desc->nidt, FL_NVME_NIDT_UUID);
    assert_int_equal(desc->nidl, 16);
    assert_memory_equal(nid, list + 4, 16);
    assert_ptr_equal(nid, list + 4);
    assert_int_equal(fl_nvme_ns_desc_next(list, sizeof(list), &pos, &desc, &nid), 1);
    assert_int_equal(desc->nidt, FL_NVME_NIDT_CSI);
    assert_int_equal(*nid, FL_NVME_CSI_NVM);
    assert_int_equal(fl_nvme_ns_desc_next(list, sizeof(list), &pos, &desc, &nid), 0);

    pos = 0;
    assert_int_equal(fl_nvme_ns_desc_add(built, sizeof(built), &pos, FL_NVME_NIDT_UUID, list + 4), 0);
    assert_int_equal(fl_nvme_ns_desc_add(built, sizeof(built), &pos, FL_NVME_NIDT_CSI, ""), 0);
    assert_memory_equal(built, list, sizeof(list));
    assert_int_equal(fl_nvme_ns_desc_add(built, 44, &pos, FL_NVME_NIDT_NGUID, list), -ENOSPC);
    assert_int_equal(fl_nvme_ns_desc_add(built, 45, &pos, FL_NVME_NIDT_NGUID, list), 0);
    assert_int_equal(pos, 45);

    pos = 0;
    list[1] = 15; /* not the length of a UUID */
    assert_int_equal(fl_nvme_ns_desc_next(list, sizeof(list), &pos, &desc, &nid), -EPROTO);
    list[1] = 16;
    assert_int_equal(fl_nvme_ns_desc_next(list, 19, &pos, &desc, &nid), -EPROTO); /* cut */
    assert_int_equal(fl_nvme_ns_desc_next(list, 3, &pos, &desc, &nid), 0);
    list[0] = 9; /* an unknown type is passed on */
    assert_int_equal(fl_nvme_ns_desc_next(list, 20, &pos, &desc, &nid), 1);
    assert_int_equal(fl_nvme_ns_desc_next(list, 20, &pos, &desc, &nid), 0);
}

static void text_fields(void **state)
{
    char field[8], text[9];
    fl_nvme_text_set(field, 8, "farlane");
    assert_memory_equal(field, "farlane ", 8);
    fl_nvme_text_set(field, 8, "farlane 1.0");
    assert_memory_equal(field, "farlane ", 8);
    fl_nvme_text_set(field, 8, "");
    assert_memory_equal(field, "        ", 8);
    memcpy(field, "a b\x1b\xff  \0", 8);
    fl_nvme_text_get(text, field, 8);
    assert_string_equal(text, "a b??");
    memcpy(field, "12345678", 8);
    fl_nvme_text_get(text, field, 8);
    assert_string_equal(text, "12345678");
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(places_of_power_state), cmocka_unit_test(places_of_id_ctrl),
                       cmocka_unit_test(places_of_lbaf), cmocka_unit_test(places_of_id_ns),
                       cmocka_unit_test(places_of_ns_list), cmocka_unit_test(places_of_ctrl_list),
                       cmocka_unit_test(places_of_ns_desc), cmocka_unit_test(places_of_id_ns_nvm),
                       cmocka_unit_test(places_of_id_ctrl_nvm), cmocka_unit_test(places_of_id_ns_indep),
                       cmocka_unit_test(places_of_id_cmd_sets), cmocka_unit_test(literal_controller),
                       cmocka_unit_test(literal_namespace), cmocka_unit_test(namespace_descriptors),
                       cmocka_unit_test(text_fields));
}
