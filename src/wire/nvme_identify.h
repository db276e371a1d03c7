/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_IDENTIFY_H
#define FL_WIRE_NVME_IDENTIFY_H

/*
 * Identify data (base specification 5.17.2, NVM command set 4.1.5). Strings are ASCII, padded with spaces.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

struct fl_nvme_power_state {
    le16 mp; /* maximum power, 0.01 W unless MXPS */
    uint8_t rsvd2;
    uint8_t flags; /* bit 0 MXPS, bit 1 NOPS */
    le32 enlat;    /* microseconds */
    le32 exlat;
    uint8_t rrt;
    uint8_t rrl;
    uint8_t rwt;
    uint8_t rwl;
    le16 idlp;
    uint8_t ips;
    uint8_t rsvd19;
    le16 actp;
    uint8_t apws;
    uint8_t rsvd23[9];
};
FL_LAYOUT_SIZE(fl_nvme_power_state, 32);
FL_LAYOUT_AT(fl_nvme_power_state, mp, 0);
FL_LAYOUT_AT(fl_nvme_power_state, rsvd2, 2);
FL_LAYOUT_AT(fl_nvme_power_state, flags, 3);
FL_LAYOUT_AT(fl_nvme_power_state, enlat, 4);
FL_LAYOUT_AT(fl_nvme_power_state, exlat, 8);
FL_LAYOUT_AT(fl_nvme_power_state, rrt, 12);
FL_LAYOUT_AT(fl_nvme_power_state, rrl, 13);
FL_LAYOUT_AT(fl_nvme_power_state, rwt, 14);
FL_LAYOUT_AT(fl_nvme_power_state, rwl, 15);
FL_LAYOUT_AT(fl_nvme_power_state, idlp, 16);
FL_LAYOUT_AT(fl_nvme_power_state, ips, 18);
FL_LAYOUT_AT(fl_nvme_power_state, rsvd19, 19);
FL_LAYOUT_AT(fl_nvme_power_state, actp, 20);
FL_LAYOUT_AT(fl_nvme_power_state, apws, 22);
FL_LAYOUT_AT(fl_nvme_power_state, rsvd23, 23);

#define FL_NVME_CMIC_MULTI_PORT 0x01
#define FL_NVME_CMIC_MULTI_CTRL 0x02
#define FL_NVME_CMIC_ANA        0x08

#define FL_NVME_OAES_NS_ATTR     FL_NVME_AEN_NS_ATTR
#define FL_NVME_OAES_ANA         FL_NVME_AEN_ANA
#define FL_NVME_OAES_DISC_CHANGE FL_NVME_AEN_DISC_CHANGE

#define FL_NVME_CTRATT_HOSTID_128 (1u << 0)
#define FL_NVME_CTRATT_TBKAS      (1u << 6) /* traffic based keep alive */
#define FL_NVME_CTRATT_ELBAS      (1u << 15)

enum fl_nvme_cntrltype {
    FL_NVME_CNTRLTYPE_NOT_REPORTED = 0,
    FL_NVME_CNTRLTYPE_IO = 1,
    FL_NVME_CNTRLTYPE_DISCOVERY = 2,
    FL_NVME_CNTRLTYPE_ADMIN = 3,
};

#define FL_NVME_OACS_FORMAT  (1u << 1)
#define FL_NVME_OACS_FW      (1u << 2)
#define FL_NVME_OACS_NS_MGMT (1u << 3)

#define FL_NVME_FRMW_SLOT1_RO       0x01
#define FL_NVME_FRMW_NR_SLOTS_SHIFT 1 /* 3 bits */

#define FL_NVME_LPA_SMART_PER_NS   0x01
#define FL_NVME_LPA_EFFECTS        0x02
#define FL_NVME_LPA_EXTENDED       0x04 /* 32-bit NUMD, and offsets */
#define FL_NVME_LPA_SUPPORTED_LOGS 0x20

#define FL_NVME_ANACAP_OPTIMIZED       0x01
#define FL_NVME_ANACAP_NON_OPTIMIZED   0x02
#define FL_NVME_ANACAP_INACCESSIBLE    0x04
#define FL_NVME_ANACAP_PERSISTENT_LOSS 0x08
#define FL_NVME_ANACAP_CHANGE          0x10
#define FL_NVME_ANACAP_GRPID_STATIC    0x40
#define FL_NVME_ANACAP_GRPID_NONZERO   0x80

#define FL_NVME_ONCS_COMPARE       (1u << 0)
#define FL_NVME_ONCS_WRITE_UNCOR   (1u << 1)
#define FL_NVME_ONCS_DSM           (1u << 2)
#define FL_NVME_ONCS_WRITE_ZEROES  (1u << 3)
#define FL_NVME_ONCS_SAVE_FEATURES (1u << 4)
#define FL_NVME_ONCS_RESERVATIONS  (1u << 5)
#define FL_NVME_ONCS_TIMESTAMP     (1u << 6)
#define FL_NVME_ONCS_VERIFY        (1u << 7)
#define FL_NVME_ONCS_COPY          (1u << 8)

#define FL_NVME_FUSES_COMPARE_WRITE (1u << 0)

#define FL_NVME_VWC_PRESENT          0x01
#define FL_NVME_VWC_FLUSH_ALL_NS_NO  0x04 /* bits 2:1 = 2: Flush with NSID FFFFFFFFh fails */
#define FL_NVME_VWC_FLUSH_ALL_NS_YES 0x06 /* bits 2:1 = 3: it flushes every namespace */

#define FL_NVME_OCFS_FORMAT0 (1u << 0) /* Copy descriptor format 0 */

#define FL_NVME_SGLS_SUPPORTED (1u << 0)
#define FL_NVME_SGLS_KEYED     (1u << 2)
#define FL_NVME_SGLS_OFFSET    (1u << 20) /* data block with an offset: in-capsule data */
#define FL_NVME_SGLS_TRANSPORT (1u << 21) /* transport data block */

#define FL_NVME_FCATT_STATIC    0x01
#define FL_NVME_OFCS_DISCONNECT (1u << 0)

struct fl_nvme_id_ctrl {
    le16 vid;
    le16 ssvid;
    char sn[20];
    char mn[40];
    char fr[8];
    uint8_t rab;
    uint8_t ieee[3]; /* OUI, least significant byte first */
    uint8_t cmic;    /* FL_NVME_CMIC_* */
    uint8_t mdts;    /* 2^n pages of CAP.MPSMIN; 0: no limit */
    le16 cntlid;
    le32 ver;
    le32 rtd3r;
    le32 rtd3e;
    le32 oaes;   /* FL_NVME_OAES_* */
    le32 ctratt; /* FL_NVME_CTRATT_* */
    le16 rrls;
    uint8_t rsvd102[9];
    uint8_t cntrltype; /* enum fl_nvme_cntrltype */
    uint8_t fguid[16];
    le16 crdt[3]; /* command retry delay times, units of 100 ms */
    uint8_t rsvd134[119];
    uint8_t nvmsr;
    uint8_t vwci;
    uint8_t mec;
    le16 oacs;    /* FL_NVME_OACS_* */
    uint8_t acl;  /* aborts at once, 0's based */
    uint8_t aerl; /* asynchronous event requests, 0's based */
    uint8_t frmw; /* FL_NVME_FRMW_* */
    uint8_t lpa;  /* FL_NVME_LPA_* */
    uint8_t elpe; /* error log entries, 0's based */
    uint8_t npss;
    uint8_t avscc;
    uint8_t apsta;
    le16 wctemp;
    le16 cctemp;
    le16 mtfa;
    le32 hmpre;
    le32 hmmin;
    struct fl_nvme_u128 tnvmcap; /* bytes */
    struct fl_nvme_u128 unvmcap;
    le32 rpmbs;
    le16 edstt;
    uint8_t dsto;
    uint8_t fwug;
    le16 kas; /* keep alive granularity, units of 100 ms; 0: no keep alive */
    le16 hctma;
    le16 mntmt;
    le16 mxtmt;
    le32 sanicap;
    le32 hmminds;
    le16 hmmaxd;
    le16 nsetidmax;
    le16 endgidmax;
    uint8_t anatt;  /* seconds */
    uint8_t anacap; /* FL_NVME_ANACAP_* */
    le32 anagrpmax;
    le32 nanagrpid;
    le32 pels;
    le16 domainid;
    uint8_t rsvd358[10];
    struct fl_nvme_u128 megcap;
    uint8_t rsvd384[128];
    uint8_t sqes; /* bits 3:0 least, 7:4 most, 2^n bytes: 66h */
    uint8_t cqes; /* 44h */
    le16 maxcmd;
    le32 nn;   /* highest namespace identifier */
    le16 oncs; /* FL_NVME_ONCS_* */
    le16 fuses;
    uint8_t fna;
    uint8_t vwc; /* FL_NVME_VWC_* */
    le16 awun;   /* 0's based */
    le16 awupf;  /* 0's based */
    uint8_t icsvscc;
    uint8_t nwpc;
    le16 acwu; /* 0's based */
    le16 ocfs; /* FL_NVME_OCFS_* */
    le32 sgls; /* FL_NVME_SGLS_* */
    le32 mnan; /* most namespaces */
    struct fl_nvme_u128 maxdna;
    le32 maxcna;
    uint8_t rsvd564[204];
    char subnqn[256];
    uint8_t rsvd1024[768];
    le32 ioccsz;   /* units of 16 bytes */
    le32 iorcsz;   /* units of 16 bytes */
    le16 icdoff;   /* units of 16 bytes */
    uint8_t fcatt; /* FL_NVME_FCATT_* */
    uint8_t msdbd; /* SGL descriptors per command */
    le16 ofcs;     /* FL_NVME_OFCS_* */
    uint8_t dctype;
    uint8_t rsvd1807[241];
    struct fl_nvme_power_state psd[32];
    uint8_t vs[1024];
};
FL_LAYOUT_SIZE(fl_nvme_id_ctrl, 4096);
FL_LAYOUT_AT(fl_nvme_id_ctrl, vid, 0);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ssvid, 2);
FL_LAYOUT_AT(fl_nvme_id_ctrl, sn, 4);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mn, 24);
FL_LAYOUT_AT(fl_nvme_id_ctrl, fr, 64);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rab, 72);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ieee, 73);
FL_LAYOUT_AT(fl_nvme_id_ctrl, cmic, 76);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mdts, 77);
FL_LAYOUT_AT(fl_nvme_id_ctrl, cntlid, 78);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ver, 80);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rtd3r, 84);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rtd3e, 88);
FL_LAYOUT_AT(fl_nvme_id_ctrl, oaes, 92);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ctratt, 96);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rrls, 100);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd102, 102);
FL_LAYOUT_AT(fl_nvme_id_ctrl, cntrltype, 111);
FL_LAYOUT_AT(fl_nvme_id_ctrl, fguid, 112);
FL_LAYOUT_AT(fl_nvme_id_ctrl, crdt, 128);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd134, 134);
FL_LAYOUT_AT(fl_nvme_id_ctrl, nvmsr, 253);
FL_LAYOUT_AT(fl_nvme_id_ctrl, vwci, 254);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mec, 255);
FL_LAYOUT_AT(fl_nvme_id_ctrl, oacs, 256);
FL_LAYOUT_AT(fl_nvme_id_ctrl, acl, 258);
FL_LAYOUT_AT(fl_nvme_id_ctrl, aerl, 259);
FL_LAYOUT_AT(fl_nvme_id_ctrl, frmw, 260);
FL_LAYOUT_AT(fl_nvme_id_ctrl, lpa, 261);
FL_LAYOUT_AT(fl_nvme_id_ctrl, elpe, 262);
FL_LAYOUT_AT(fl_nvme_id_ctrl, npss, 263);
FL_LAYOUT_AT(fl_nvme_id_ctrl, avscc, 264);
FL_LAYOUT_AT(fl_nvme_id_ctrl, apsta, 265);
FL_LAYOUT_AT(fl_nvme_id_ctrl, wctemp, 266);
FL_LAYOUT_AT(fl_nvme_id_ctrl, cctemp, 268);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mtfa, 270);
FL_LAYOUT_AT(fl_nvme_id_ctrl, hmpre, 272);
FL_LAYOUT_AT(fl_nvme_id_ctrl, hmmin, 276);
FL_LAYOUT_AT(fl_nvme_id_ctrl, tnvmcap, 280);
FL_LAYOUT_AT(fl_nvme_id_ctrl, unvmcap, 296);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rpmbs, 312);
FL_LAYOUT_AT(fl_nvme_id_ctrl, edstt, 316);
FL_LAYOUT_AT(fl_nvme_id_ctrl, dsto, 318);
FL_LAYOUT_AT(fl_nvme_id_ctrl, fwug, 319);
FL_LAYOUT_AT(fl_nvme_id_ctrl, kas, 320);
FL_LAYOUT_AT(fl_nvme_id_ctrl, hctma, 322);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mntmt, 324);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mxtmt, 326);
FL_LAYOUT_AT(fl_nvme_id_ctrl, sanicap, 328);
FL_LAYOUT_AT(fl_nvme_id_ctrl, hmminds, 332);
FL_LAYOUT_AT(fl_nvme_id_ctrl, hmmaxd, 336);
FL_LAYOUT_AT(fl_nvme_id_ctrl, nsetidmax, 338);
FL_LAYOUT_AT(fl_nvme_id_ctrl, endgidmax, 340);
FL_LAYOUT_AT(fl_nvme_id_ctrl, anatt, 342);
FL_LAYOUT_AT(fl_nvme_id_ctrl, anacap, 343);
FL_LAYOUT_AT(fl_nvme_id_ctrl, anagrpmax, 344);
FL_LAYOUT_AT(fl_nvme_id_ctrl, nanagrpid, 348);
FL_LAYOUT_AT(fl_nvme_id_ctrl, pels, 352);
FL_LAYOUT_AT(fl_nvme_id_ctrl, domainid, 356);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd358, 358);
FL_LAYOUT_AT(fl_nvme_id_ctrl, megcap, 368);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd384, 384);
FL_LAYOUT_AT(fl_nvme_id_ctrl, sqes, 512);
FL_LAYOUT_AT(fl_nvme_id_ctrl, cqes, 513);
FL_LAYOUT_AT(fl_nvme_id_ctrl, maxcmd, 514);
FL_LAYOUT_AT(fl_nvme_id_ctrl, nn, 516);
FL_LAYOUT_AT(fl_nvme_id_ctrl, oncs, 520);
FL_LAYOUT_AT(fl_nvme_id_ctrl, fuses, 522);
FL_LAYOUT_AT(fl_nvme_id_ctrl, fna, 524);
FL_LAYOUT_AT(fl_nvme_id_ctrl, vwc, 525);
FL_LAYOUT_AT(fl_nvme_id_ctrl, awun, 526);
FL_LAYOUT_AT(fl_nvme_id_ctrl, awupf, 528);
FL_LAYOUT_AT(fl_nvme_id_ctrl, icsvscc, 530);
FL_LAYOUT_AT(fl_nvme_id_ctrl, nwpc, 531);
FL_LAYOUT_AT(fl_nvme_id_ctrl, acwu, 532);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ocfs, 534);
FL_LAYOUT_AT(fl_nvme_id_ctrl, sgls, 536);
FL_LAYOUT_AT(fl_nvme_id_ctrl, mnan, 540);
FL_LAYOUT_AT(fl_nvme_id_ctrl, maxdna, 544);
FL_LAYOUT_AT(fl_nvme_id_ctrl, maxcna, 560);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd564, 564);
FL_LAYOUT_AT(fl_nvme_id_ctrl, subnqn, 768);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd1024, 1024);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ioccsz, 1792);
FL_LAYOUT_AT(fl_nvme_id_ctrl, iorcsz, 1796);
FL_LAYOUT_AT(fl_nvme_id_ctrl, icdoff, 1800);
FL_LAYOUT_AT(fl_nvme_id_ctrl, fcatt, 1802);
FL_LAYOUT_AT(fl_nvme_id_ctrl, msdbd, 1803);
FL_LAYOUT_AT(fl_nvme_id_ctrl, ofcs, 1804);
FL_LAYOUT_AT(fl_nvme_id_ctrl, dctype, 1806);
FL_LAYOUT_AT(fl_nvme_id_ctrl, rsvd1807, 1807);
FL_LAYOUT_AT(fl_nvme_id_ctrl, psd, 2048);
FL_LAYOUT_AT(fl_nvme_id_ctrl, vs, 3072);

struct fl_nvme_lbaf {
    le16 ms;       /* metadata bytes */
    uint8_t lbads; /* 2^n bytes */
    uint8_t rp;
};
FL_LAYOUT_SIZE(fl_nvme_lbaf, 4);
FL_LAYOUT_AT(fl_nvme_lbaf, ms, 0);
FL_LAYOUT_AT(fl_nvme_lbaf, lbads, 2);
FL_LAYOUT_AT(fl_nvme_lbaf, rp, 3);

#define FL_NVME_NSFEAT_THIN     0x01
#define FL_NVME_NSFEAT_NATOMIC  0x02 /* NAWUN, NAWUPF, NACWU count */
#define FL_NVME_NSFEAT_DAE      0x04 /* deallocated error */
#define FL_NVME_NSFEAT_ID_REUSE 0x08
#define FL_NVME_NSFEAT_OPTPERF  0x10 /* NPWG, NPWA, NPDG, NPDA, NOWS count */

#define FL_NVME_NMIC_SHARED 0x01

#define FL_NVME_RESCAP_PTPL                 0x01
#define FL_NVME_RESCAP_WRITE_EXCL           0x02
#define FL_NVME_RESCAP_EXCL_ACCESS          0x04
#define FL_NVME_RESCAP_WRITE_EXCL_REG_ONLY  0x08
#define FL_NVME_RESCAP_EXCL_ACCESS_REG_ONLY 0x10
#define FL_NVME_RESCAP_WRITE_EXCL_ALL_REGS  0x20
#define FL_NVME_RESCAP_EXCL_ACCESS_ALL_REGS 0x40
#define FL_NVME_RESCAP_IEKEY_13             0x80 /* IEKEY as in revision 1.3 and later */

#define FL_NVME_DLFEAT_READ_ZEROES  0x01 /* bits 2:0 = 1: deallocated blocks read as zeros */
#define FL_NVME_DLFEAT_WRITE_ZEROES 0x08 /* Write Zeroes may deallocate */

#define FL_NVME_NSATTR_WRITE_PROTECTED 0x01

struct fl_nvme_id_ns {
    le64 nsze; /* blocks */
    le64 ncap;
    le64 nuse;
    uint8_t nsfeat; /* FL_NVME_NSFEAT_* */
    uint8_t nlbaf;  /* formats, 0's based */
    uint8_t flbas;  /* bits 3:0 and 6:5 the format in use */
    uint8_t mc;
    uint8_t dpc;
    uint8_t dps;
    uint8_t nmic;   /* FL_NVME_NMIC_* */
    uint8_t rescap; /* FL_NVME_RESCAP_* */
    uint8_t fpi;
    uint8_t dlfeat; /* FL_NVME_DLFEAT_* */
    le16 nawun;     /* 0's based */
    le16 nawupf;    /* 0's based */
    le16 nacwu;     /* 0's based */
    le16 nabsn;
    le16 nabo;
    le16 nabspf;
    le16 noiob;
    struct fl_nvme_u128 nvmcap;
    le16 npwg;    /* 0's based */
    le16 npwa;    /* 0's based */
    le16 npdg;    /* 0's based */
    le16 npda;    /* 0's based */
    le16 nows;    /* 0's based */
    le16 mssrl;   /* Copy: blocks per range */
    le32 mcl;     /* Copy: blocks in all */
    uint8_t msrc; /* Copy: ranges, 0's based */
    uint8_t rsvd81;
    uint8_t nulbaf;
    uint8_t rsvd83[9];
    le32 anagrpid;
    uint8_t rsvd96[3];
    uint8_t nsattr; /* FL_NVME_NSATTR_* */
    le16 nvmsetid;
    le16 endgid;
    uint8_t nguid[16];
    uint8_t eui64[8];
    struct fl_nvme_lbaf lbaf[64];
    uint8_t vs[3712];
};
FL_LAYOUT_SIZE(fl_nvme_id_ns, 4096);
FL_LAYOUT_AT(fl_nvme_id_ns, nsze, 0);
FL_LAYOUT_AT(fl_nvme_id_ns, ncap, 8);
FL_LAYOUT_AT(fl_nvme_id_ns, nuse, 16);
FL_LAYOUT_AT(fl_nvme_id_ns, nsfeat, 24);
FL_LAYOUT_AT(fl_nvme_id_ns, nlbaf, 25);
FL_LAYOUT_AT(fl_nvme_id_ns, flbas, 26);
FL_LAYOUT_AT(fl_nvme_id_ns, mc, 27);
FL_LAYOUT_AT(fl_nvme_id_ns, dpc, 28);
FL_LAYOUT_AT(fl_nvme_id_ns, dps, 29);
FL_LAYOUT_AT(fl_nvme_id_ns, nmic, 30);
FL_LAYOUT_AT(fl_nvme_id_ns, rescap, 31);
FL_LAYOUT_AT(fl_nvme_id_ns, fpi, 32);
FL_LAYOUT_AT(fl_nvme_id_ns, dlfeat, 33);
FL_LAYOUT_AT(fl_nvme_id_ns, nawun, 34);
FL_LAYOUT_AT(fl_nvme_id_ns, nawupf, 36);
FL_LAYOUT_AT(fl_nvme_id_ns, nacwu, 38);
FL_LAYOUT_AT(fl_nvme_id_ns, nabsn, 40);
FL_LAYOUT_AT(fl_nvme_id_ns, nabo, 42);
FL_LAYOUT_AT(fl_nvme_id_ns, nabspf, 44);
FL_LAYOUT_AT(fl_nvme_id_ns, noiob, 46);
FL_LAYOUT_AT(fl_nvme_id_ns, nvmcap, 48);
FL_LAYOUT_AT(fl_nvme_id_ns, npwg, 64);
FL_LAYOUT_AT(fl_nvme_id_ns, npwa, 66);
FL_LAYOUT_AT(fl_nvme_id_ns, npdg, 68);
FL_LAYOUT_AT(fl_nvme_id_ns, npda, 70);
FL_LAYOUT_AT(fl_nvme_id_ns, nows, 72);
FL_LAYOUT_AT(fl_nvme_id_ns, mssrl, 74);
FL_LAYOUT_AT(fl_nvme_id_ns, mcl, 76);
FL_LAYOUT_AT(fl_nvme_id_ns, msrc, 80);
FL_LAYOUT_AT(fl_nvme_id_ns, rsvd81, 81);
FL_LAYOUT_AT(fl_nvme_id_ns, nulbaf, 82);
FL_LAYOUT_AT(fl_nvme_id_ns, rsvd83, 83);
FL_LAYOUT_AT(fl_nvme_id_ns, anagrpid, 92);
FL_LAYOUT_AT(fl_nvme_id_ns, rsvd96, 96);
FL_LAYOUT_AT(fl_nvme_id_ns, nsattr, 99);
FL_LAYOUT_AT(fl_nvme_id_ns, nvmsetid, 100);
FL_LAYOUT_AT(fl_nvme_id_ns, endgid, 102);
FL_LAYOUT_AT(fl_nvme_id_ns, nguid, 104);
FL_LAYOUT_AT(fl_nvme_id_ns, eui64, 120);
FL_LAYOUT_AT(fl_nvme_id_ns, lbaf, 128);
FL_LAYOUT_AT(fl_nvme_id_ns, vs, 384);

static inline uint8_t fl_nvme_flbas_index(uint8_t flbas)
{
    return (uint8_t)((flbas & 0x0f) | (flbas >> 1 & 0x30));
}

/* CNS 02h, 07h, 10h and 1Ah: ascending, 0 ends it */
#define FL_NVME_NS_LIST_MAX 1024

struct fl_nvme_ns_list {
    le32 nsid[1024];
};
FL_LAYOUT_SIZE(fl_nvme_ns_list, 4096);
FL_LAYOUT_AT(fl_nvme_ns_list, nsid, 0);

/* CNS 12h and 13h: ascending */
#define FL_NVME_CTRL_LIST_MAX 2047

struct fl_nvme_ctrl_list {
    le16 num;
    le16 cntlid[2047];
};
FL_LAYOUT_SIZE(fl_nvme_ctrl_list, 4096);
FL_LAYOUT_AT(fl_nvme_ctrl_list, num, 0);
FL_LAYOUT_AT(fl_nvme_ctrl_list, cntlid, 2);

/* CNS 03h: descriptors one after the other, each with nidl bytes of identifier; NIDL 0 ends it. */
enum fl_nvme_nidt {
    FL_NVME_NIDT_EUI64 = 1, /* 8 bytes */
    FL_NVME_NIDT_NGUID = 2, /* 16 */
    FL_NVME_NIDT_UUID = 3,  /* 16 */
    FL_NVME_NIDT_CSI = 4,   /* 1 */
};

struct fl_nvme_ns_desc {
    uint8_t nidt; /* enum fl_nvme_nidt */
    uint8_t nidl;
    uint8_t rsvd2[2];
};
FL_LAYOUT_SIZE(fl_nvme_ns_desc, 4);
FL_LAYOUT_AT(fl_nvme_ns_desc, nidt, 0);
FL_LAYOUT_AT(fl_nvme_ns_desc, nidl, 1);
FL_LAYOUT_AT(fl_nvme_ns_desc, rsvd2, 2);

/*
 * Walks a list of descriptors of len bytes. *pos starts as 0 and belongs to the walk. 1: *desc, and *nid its
 * desc->nidl bytes, point into the list; 0: no more; -EPROTO: a descriptor is longer than the list, or the
 * identifier's length is not that of its type.
 */
int fl_nvme_ns_desc_next(const void *list, size_t len, size_t *pos, const struct fl_nvme_ns_desc **desc,
                         const uint8_t **nid);

/* Appends a descriptor at *pos (which then moves on). -ENOSPC when it does not fit. */
int fl_nvme_ns_desc_add(void *list, size_t len, size_t *pos, enum fl_nvme_nidt type, const void *nid);

/* CNS 05h, CSI NVM */
struct fl_nvme_id_ns_nvm {
    le64 lbstm;
    uint8_t pic;
    uint8_t rsvd9[3];
    le32 elbaf[64];
    uint8_t rsvd268[3828];
};
FL_LAYOUT_SIZE(fl_nvme_id_ns_nvm, 4096);
FL_LAYOUT_AT(fl_nvme_id_ns_nvm, lbstm, 0);
FL_LAYOUT_AT(fl_nvme_id_ns_nvm, pic, 8);
FL_LAYOUT_AT(fl_nvme_id_ns_nvm, rsvd9, 9);
FL_LAYOUT_AT(fl_nvme_id_ns_nvm, elbaf, 12);
FL_LAYOUT_AT(fl_nvme_id_ns_nvm, rsvd268, 268);

/* CNS 06h, CSI NVM */
struct fl_nvme_id_ctrl_nvm {
    uint8_t vsl;  /* Verify: 2^n pages of CAP.MPSMIN; 0: no limit */
    uint8_t wzsl; /* Write Zeroes */
    uint8_t wusl; /* Write Uncorrectable */
    uint8_t dmrl; /* DSM: ranges; 0: no limit */
    le32 dmrsl;   /* DSM: blocks in one range */
    le64 dmsl;    /* DSM: blocks in all */
    uint8_t rsvd16[4080];
};
FL_LAYOUT_SIZE(fl_nvme_id_ctrl_nvm, 4096);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, vsl, 0);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, wzsl, 1);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, wusl, 2);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, dmrl, 3);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, dmrsl, 4);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, dmsl, 8);
FL_LAYOUT_AT(fl_nvme_id_ctrl_nvm, rsvd16, 16);

/* CNS 08h: what does not depend on the command set */
#define FL_NVME_NSTAT_READY 0x01

struct fl_nvme_id_ns_indep {
    uint8_t nsfeat;
    uint8_t nmic;   /* FL_NVME_NMIC_* */
    uint8_t rescap; /* FL_NVME_RESCAP_* */
    uint8_t fpi;
    le32 anagrpid;
    uint8_t nsattr; /* FL_NVME_NSATTR_* */
    uint8_t rsvd9;
    le16 nvmsetid;
    le16 endgid;
    uint8_t nstat; /* FL_NVME_NSTAT_* */
    uint8_t rsvd15[4081];
};
FL_LAYOUT_SIZE(fl_nvme_id_ns_indep, 4096);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, nsfeat, 0);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, nmic, 1);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, rescap, 2);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, fpi, 3);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, anagrpid, 4);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, nsattr, 8);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, rsvd9, 9);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, nvmsetid, 10);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, endgid, 12);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, nstat, 14);
FL_LAYOUT_AT(fl_nvme_id_ns_indep, rsvd15, 15);

/* CNS 1Ch: combinations of command sets, bits by CSI; a combination of 0 ends it. */
struct fl_nvme_id_cmd_sets {
    le64 combination[512];
};
FL_LAYOUT_SIZE(fl_nvme_id_cmd_sets, 4096);
FL_LAYOUT_AT(fl_nvme_id_cmd_sets, combination, 0);

/* Copies text into a field that is padded with spaces, cut when too long. */
void fl_nvme_text_set(char *field, size_t len, const char *text);

/* The other way: trailing spaces and NULs trimmed, bytes that are not printable ASCII become '?'. out has
 * room for len + 1. */
void fl_nvme_text_get(char *out, const char *field, size_t len);

#endif
