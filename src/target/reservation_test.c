/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations: the commands, who is stopped, who is told, and what a restart keeps. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "target/test_bed.h"

#define HOST_A   BED_HOST
#define HOST_B   "nqn.2026-01.org.example:host-b"
#define HOST_C   "nqn.2026-01.org.example:host-c"
#define CONFLICT FL_NVME_SC_RESV_CONFLICT

enum { A, B, C, NR_HOSTS };

struct setup {
    struct bed *bed;
    struct bed_host h[NR_HOSTS];
};

static void start(struct setup *s, const char *spec)
{
    static const char *const names[] = {HOST_A, HOST_B, HOST_C};

    s->bed = bed_new(2, NULL);
    bed_add_ns(s->bed, spec);
    for (int i = 0; i < NR_HOSTS; i++)
        bed_host(s->bed, names[i], &s->h[i]);
}

static void stop(struct setup *s)
{
    bed_free(s->bed);
    for (int i = 0; i < NR_HOSTS; i++) {
        bed_conn_free(s->h[i].admin);
        bed_conn_free(s->h[i].io);
    }
}

static uint16_t resv(struct setup *s, int who, uint8_t opcode, uint32_t cdw10, uint64_t one, uint64_t two)
{
    struct fl_nvme_sqe sqe = bed_sqe(opcode, 1);
    le64 data[2] = {le64_of(one), le64_of(two)};

    sqe.cdw10 = le32_of(cdw10);
    return bed_run(s->h[who].io, &sqe, data, opcode == FL_NVME_CMD_RESV_RELEASE ? 8 : 16, NULL, 0, NULL);
}

static uint16_t reg(struct setup *s, int who, uint64_t key)
{
    return resv(s, who, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REGISTER, 0, key);
}

static uint16_t acquire(struct setup *s, int who, uint8_t action, uint8_t type, uint64_t key, uint64_t prkey)
{
    return resv(s, who, FL_NVME_CMD_RESV_ACQUIRE, action | (uint32_t)type << 8, key, prkey);
}

static uint16_t release(struct setup *s, int who, uint8_t action, uint8_t type, uint64_t key)
{
    return resv(s, who, FL_NVME_CMD_RESV_RELEASE, action | (uint32_t)type << 8, key, 0);
}

static uint16_t io(struct setup *s, int who, bool write)
{
    struct fl_nvme_sqe sqe = bed_rw(write ? FL_NVME_CMD_WRITE : FL_NVME_CMD_READ, 1, 0, 1);
    uint8_t block[512] = {0};

    return bed_run(s->h[who].io, &sqe, block, write ? 512 : 0, write ? NULL : block, write ? 0 : 512, NULL);
}

struct report {
    struct fl_nvme_resv_status_ext head;
    struct fl_nvme_resv_ctrl_ext ctrl[3];
};

static void report(struct setup *s, struct report *r)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_CMD_RESV_REPORT, 1);

    sqe.cdw10 = le32_of(sizeof(*r) / 4 - 1);
    sqe.cdw11 = le32_of(1);
    assert_int_equal(bed_run(s->h[A].io, &sqe, NULL, 0, r, sizeof(*r), NULL), 0);
}

static uint8_t notice(struct setup *s, int who)
{
    struct fl_nvme_resv_log log;

    assert_int_equal(bed_log(s->h[who].admin, FL_NVME_LOG_RESERVATION, 0, false, &log, sizeof(log)), 0);
    return log.type;
}

static void register_and_report(void **state)
{
    struct setup s;
    struct report r;
    struct fl_nvme_sqe sqe;

    start(&s, "ram:1M");
    assert_int_equal(reg(&s, A, 0xa), 0);
    assert_int_equal(reg(&s, A, 0xa), 0);         /* the same again */
    assert_int_equal(reg(&s, A, 0xaa), CONFLICT); /* that is Replace */
    assert_int_equal(reg(&s, B, 0xb), 0);
    assert_int_equal(resv(&s, A, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REPLACE, 0x1, 0xa1), CONFLICT);
    assert_int_equal(resv(&s, A, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REPLACE, 0xa, 0xa1), 0);
    assert_int_equal(
        resv(&s, A, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REPLACE | FL_NVME_RESV_IEKEY, 0, 0xa2), 0);
    assert_int_equal(resv(&s, C, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REPLACE, 0, 0xc), CONFLICT);
    assert_int_equal(resv(&s, A, FL_NVME_CMD_RESV_REGISTER, 7, 0, 0), FL_NVME_SC_INVALID_FIELD);
    report(&s, &r);
    assert_int_equal(le16_get(r.head.regctl), 2);
    assert_int_equal(r.head.rtype, 0);
    assert_int_equal(r.head.ptpls, 0);
    assert_int_equal(le32_get(r.head.gen), 4);
    assert_int_equal(le64_get(r.ctrl[0].rkey), 0xa2);
    assert_int_equal(le16_get(r.ctrl[0].cntlid), 0xffff);
    assert_memory_equal(r.ctrl[0].hostid, "host identifier", 15);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 1, 0xa2, 0), 0);
    report(&s, &r);
    assert_int_equal(r.head.rtype, 1);
    assert_int_equal(r.ctrl[0].rcsts, 1);
    assert_int_equal(r.ctrl[1].rcsts, 0);

    sqe = bed_sqe(FL_NVME_CMD_RESV_REPORT, 1); /* the short form cannot hold our host identifiers */
    sqe.cdw10 = le32_of(15);
    assert_int_equal(bed_run(s.h[A].io, &sqe, NULL, 0, &r, 64, NULL), FL_NVME_SC_HOSTID_FORMAT);
    sqe = bed_sqe(FL_NVME_CMD_RESV_REGISTER, 1);
    assert_int_equal(bed_run(s.h[A].io, &sqe, &r, 8, NULL, 0, NULL), FL_NVME_SC_SGL_INVALID_DATA);

    /* The holder leaves, and with it the reservation. */
    assert_int_equal(resv(&s, A, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_UNREGISTER, 0xa2, 0), 0);
    report(&s, &r);
    assert_int_equal(r.head.rtype, 0);
    assert_int_equal(le16_get(r.head.regctl), 1);
    stop(&s);
}

/* Who may read and write: holder A, registrant B, stranger C; for each type. */
static void who_may(void **state)
{
    static const char want[7][6] = {
        /* A r w, B r w, C r w */
        [1] = {1, 1, 1, 0, 1, 0}, [2] = {1, 1, 0, 0, 0, 0}, [3] = {1, 1, 1, 1, 1, 0},
        [4] = {1, 1, 1, 1, 0, 0}, [5] = {1, 1, 1, 1, 1, 0}, [6] = {1, 1, 1, 1, 0, 0}};
    struct setup s;

    start(&s, "ram:1M");
    assert_int_equal(reg(&s, A, 0xa), 0);
    assert_int_equal(reg(&s, B, 0xb), 0);
    assert_int_equal(acquire(&s, C, FL_NVME_RESV_ACQUIRE, 1, 0, 0), CONFLICT);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 1, 0x9, 0), CONFLICT);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 0, 0xa, 0), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 7, 0xa, 0), FL_NVME_SC_INVALID_FIELD);
    for (uint8_t type = 1; type <= 6; type++) {
        assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, type, 0xa, 0), 0);
        assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, type, 0xa, 0), 0); /* what one has already */
        assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, type == 1 ? 2 : 1, 0xa, 0), CONFLICT);
        if (type < 5)
            assert_int_equal(acquire(&s, B, FL_NVME_RESV_ACQUIRE, type, 0xb, 0), CONFLICT);
        for (int who = 0; who < NR_HOSTS; who++)
            for (int write = 0; write < 2; write++)
                assert_int_equal(io(&s, who, write), want[type][who * 2 + write] ? 0 : CONFLICT);
        assert_int_equal(release(&s, A, FL_NVME_RESV_RELEASE, type == 1 ? 2 : 1, 0xa),
                         FL_NVME_SC_INVALID_FIELD);
        if (type < 5)
            assert_int_equal(release(&s, B, FL_NVME_RESV_RELEASE, type, 0xb),
                             0); /* not its own: nothing happens */
        assert_int_equal(release(&s, A, FL_NVME_RESV_RELEASE, type, 0xa), 0);
        assert_int_equal(io(&s, C, true), 0);
    }
    stop(&s);
}

static void preempt(void **state)
{
    struct setup s;
    struct report r;

    start(&s, "ram:1M");
    for (int i = 0; i < NR_HOSTS; i++)
        assert_int_equal(reg(&s, i, 0xa + (uint64_t)i), 0);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 3, 0xa, 0), 0);
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT, 1, 0xb, 0x77), CONFLICT);
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT, 1, 0xb, 0), FL_NVME_SC_INVALID_FIELD);
    /* Another registrant's key: it goes, the reservation stays. */
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT, 1, 0xb, 0xc), 0);
    assert_int_equal(notice(&s, C), FL_NVME_RESV_NOTICE_REG_PREEMPTED);
    report(&s, &r);
    assert_int_equal(r.head.rtype, 3);
    assert_int_equal(le16_get(r.head.regctl), 2);
    /* The holder's key: the reservation changes hands. */
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT, 1, 0xb, 0xa), 0);
    assert_int_equal(notice(&s, A), FL_NVME_RESV_NOTICE_REG_PREEMPTED);
    assert_int_equal(notice(&s, A), FL_NVME_RESV_NOTICE_EMPTY);
    report(&s, &r);
    assert_int_equal(r.head.rtype, 1);
    assert_int_equal(le16_get(r.head.regctl), 1);
    assert_int_equal(io(&s, A, true), CONFLICT);
    assert_int_equal(io(&s, B, true), 0);
    /* One's own reservation becomes another type. */
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT, 2, 0xb, 0xb), 0);
    assert_int_equal(io(&s, A, false), CONFLICT);
    /* All registrants hold it: key 0 takes it from all of them. */
    assert_int_equal(release(&s, B, FL_NVME_RESV_RELEASE, 2, 0xb), 0);
    assert_int_equal(reg(&s, A, 0xa), 0);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 5, 0xa, 0), 0);
    assert_int_equal(io(&s, B, true), 0);
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT, 2, 0xb, 0), 0);
    assert_int_equal(io(&s, A, false), CONFLICT);
    report(&s, &r);
    assert_int_equal(le16_get(r.head.regctl), 1);
    assert_int_equal(le64_get(r.ctrl[0].rkey), 0xb);
    stop(&s);
}

/* A write of the preempted host whose data is still on its way: aborted, and never on the medium after the
 * answer. */
static void preempt_and_abort(void **state)
{
    uint8_t ones[512], back[512];
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, 1);
    struct bed_cmd *w;
    struct setup s;

    memset(ones, 1, sizeof(ones));
    start(&s, "ram:1M");
    assert_int_equal(reg(&s, A, 0xa), 0);
    assert_int_equal(reg(&s, B, 0xb), 0);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 1, 0xa, 0), 0);
    w = bed_send(s.h[A].io, &sqe, ones, sizeof(ones), false, 0);
    w->hold_fetch = true;
    bed_turn(s.bed);
    assert_true(w->fetching);
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_PREEMPT_ABORT, 1, 0xb, 0xa), 0);
    bed_give_data(w);
    assert_int_equal(bed_status(w), FL_NVME_SC_ABORT_PREEMPT);
    bed_free_cmd(w);
    sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, 1);
    assert_int_equal(bed_run(s.h[B].io, &sqe, NULL, 0, back, sizeof(back), NULL), 0);
    assert_int_equal(back[0], 0);
    assert_int_equal(io(&s, B, true), 0); /* nothing is held any more */
    stop(&s);
}

static void notices(void **state)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_ASYNC_EVENT, 0);
    struct fl_nvme_resv_log log;
    struct bed_cmd *aer;
    struct setup s;
    uint64_t v;

    start(&s, "ram:1M");
    assert_int_equal(reg(&s, A, 0xa), 0);
    assert_int_equal(reg(&s, B, 0xb), 0);
    aer = bed_send(s.h[B].admin, &sqe, NULL, 0, false, 0);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 3, 0xa, 0), 0);
    assert_false(aer->answered);
    assert_int_equal(release(&s, A, FL_NVME_RESV_RELEASE, 3, 0xa), 0);
    assert_true(aer->answered);
    assert_int_equal(le32_get(aer->cqe.dw0), 0x800006);
    bed_free_cmd(aer);
    assert_int_equal(bed_log(s.h[B].admin, FL_NVME_LOG_RESERVATION, 0, false, &log, sizeof(log)), 0);
    assert_int_equal(log.type, FL_NVME_RESV_NOTICE_RELEASED);
    assert_int_equal(le32_get(log.nsid), 1);
    assert_int_equal(le64_get(log.count), 1);
    assert_int_equal(notice(&s, A), FL_NVME_RESV_NOTICE_EMPTY); /* its own doing */
    /* Masked by the host. */
    assert_int_equal(
        bed_feature(s.h[B].admin, true, FL_NVME_FEAT_RESV_MASK, 1, FL_NVME_FEAT_RESV_MASK_RESREL, &v), 0);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 3, 0xa, 0), 0);
    assert_int_equal(release(&s, A, FL_NVME_RESV_RELEASE, 3, 0xa), 0);
    assert_int_equal(notice(&s, B), FL_NVME_RESV_NOTICE_EMPTY);
    /* Clear. */
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 1, 0xa, 0), 0);
    assert_int_equal(release(&s, B, FL_NVME_RESV_CLEAR, 0, 0x1), CONFLICT);
    assert_int_equal(release(&s, B, FL_NVME_RESV_CLEAR, 0, 0xb), 0);
    assert_int_equal(notice(&s, A), FL_NVME_RESV_NOTICE_PREEMPTED);
    assert_int_equal(io(&s, C, true), 0);
    assert_int_equal(acquire(&s, A, FL_NVME_RESV_ACQUIRE, 1, 0xa, 0), CONFLICT); /* no registrant any more */
    stop(&s);
}

/* Kept with a file when the host wants it, over a restart of the target. */
static void persists(void **state)
{
    char dir[] = "/tmp/farlane-resv.XXXXXX", spec[96], path[64];
    struct setup s;
    struct report r;
    int fd;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/ns", dir);
    snprintf(spec, sizeof(spec), "file:%s", path);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    close(fd);
    start(&s, spec);
    assert_int_equal(resv(&s, A, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REGISTER | 3u << 30, 0, 0xa), 0);
    assert_int_equal(reg(&s, B, 0xb), 0);
    assert_int_equal(acquire(&s, B, FL_NVME_RESV_ACQUIRE, 2, 0xb, 0), 0);
    stop(&s);

    start(&s, spec);
    report(&s, &r);
    assert_int_equal(r.head.ptpls, 1);
    assert_int_equal(r.head.rtype, 2);
    assert_int_equal(le16_get(r.head.regctl), 2);
    assert_int_equal(r.ctrl[1].rcsts, 1);
    assert_int_equal(io(&s, A, false), CONFLICT);
    assert_int_equal(io(&s, B, true), 0);
    assert_int_equal(resv(&s, A, FL_NVME_CMD_RESV_REGISTER, FL_NVME_RESV_REPLACE | 2u << 30, 0xa, 0xa),
                     0); /* no longer kept */
    stop(&s);

    start(&s, spec);
    report(&s, &r);
    assert_int_equal(le16_get(r.head.regctl), 0);
    assert_int_equal(io(&s, C, true), 0);
    stop(&s);
    snprintf(spec, sizeof(spec), "rm -rf %s", dir);
    assert_int_equal(system(spec), 0);
}

/* A disk that takes its time, or fails, where the reservations are kept. */
static struct {
    sem_t asked, go;
    int result;
    uint8_t state[8192];
    int len;
} disk;

static int slow_save(struct fl_backend *backend, const void *buf, size_t len)
{
    sem_post(&disk.asked);
    sem_wait(&disk.go);
    if (disk.result < 0)
        return disk.result;
    memcpy(disk.state, buf, len);
    disk.len = (int)len;
    return 0;
}

static int no_state(struct fl_backend *backend, void *buf, size_t cap)
{
    return -ENOENT;
}

static void with_slow_disk(struct setup *s, struct fl_backend_ops *ops)
{
    struct fl_tns *ns;

    sem_init(&disk.asked, 0, 0);
    sem_init(&disk.go, 0, 0);
    disk.result = disk.len = 0;
    start(s, "ram:1M");
    ns = fl_tns_find(s->bed->ss, 1);
    *ops = *ns->be->ops;
    ops->state_save = slow_save;
    ops->state_load = no_state;
    ns->be->ops = ops;
    fl_resv_load(ns);
    assert_true(ns->resv_persists);
}

static struct bed_cmd *send_register(struct setup *s, int who, uint64_t key, bool persist)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_CMD_RESV_REGISTER, 1);
    le64 data[2] = {le64_of(0), le64_of(key)};

    sqe.cdw10 = le32_of(FL_NVME_RESV_REGISTER | (persist ? 3u << 30 : 0));
    return bed_send(s->h[who].io, &sqe, data, 16, true, 0);
}

static uint16_t wait_for(struct setup *s, struct bed_cmd *c)
{
    uint16_t status;

    for (int i = 0; i < 20000 && !c->released; i++)
        bed_sleep(s->bed, 1);
    assert_true(c->released);
    status = bed_status(c);
    bed_free_cmd(c);
    return status;
}

/* While the state is written, keep alive, admin commands and I/O of all hosts go on; nothing is answered
 * before it is stored. */
static void slow_disk_holds_up_nobody_else(void **state)
{
    struct fl_nvme_sqe ka = bed_sqe(FL_NVME_ADM_KEEP_ALIVE, 0);
    struct fl_backend_ops ops;
    struct bed_cmd *first, *second;
    struct fl_nvme_id_ns id;
    struct setup s;
    struct report r;

    with_slow_disk(&s, &ops);
    first = send_register(&s, A, 0xa, true);
    bed_turn(s.bed);
    sem_wait(&disk.asked);
    second = send_register(&s, B, 0xb, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bed_run(s.h[i].admin, &ka, NULL, 0, NULL, 0, NULL), 0);
        assert_int_equal(bed_identify(s.h[i].admin, FL_NVME_CNS_NS, 1, &id), 0);
        assert_int_equal(io(&s, i, true), 0);
    }
    assert_false(first->answered);
    assert_false(second->answered);
    sem_post(&disk.go);
    assert_int_equal(wait_for(&s, first), 0);
    assert_int_equal(disk.len, 16 + 24);
    sem_wait(&disk.asked);
    assert_false(second->answered);
    sem_post(&disk.go);
    assert_int_equal(wait_for(&s, second), 0);
    assert_int_equal(disk.len, 16 + 2 * 24);
    report(&s, &r);
    assert_int_equal(le16_get(r.head.regctl), 2);
    assert_int_equal(r.head.ptpls, 1);
    stop(&s);
}

static void state_that_cannot_be_stored(void **state)
{
    struct fl_backend_ops ops;
    struct setup s;
    struct report r;
    uint64_t v;

    with_slow_disk(&s, &ops);
    disk.result = -ENOSPC;
    for (int i = 0; i < 8; i++)
        sem_post(&disk.go);
    assert_int_equal(wait_for(&s, send_register(&s, A, 0xa, true)), FL_NVME_SC_INTERNAL);
    report(&s, &r);
    assert_int_equal(le16_get(r.head.regctl), 0);
    assert_int_equal(r.head.ptpls, 0);
    assert_int_equal(bed_feature(s.h[A].admin, true, FL_NVME_FEAT_RESV_PERSIST, 1, 1, &v),
                     FL_NVME_SC_INTERNAL);
    disk.result = 0;
    assert_int_equal(bed_feature(s.h[A].admin, true, FL_NVME_FEAT_RESV_PERSIST, FL_NVME_NSID_ALL, 1, &v), 0);
    assert_int_equal(bed_feature(s.h[A].admin, false, FL_NVME_FEAT_RESV_PERSIST, 1, 0, &v), 0);
    assert_int_equal(v, 1);
    assert_int_equal(bed_feature(s.h[A].admin, true, FL_NVME_FEAT_RESV_PERSIST, 7, 1, &v),
                     FL_NVME_SC_INVALID_NS);
    /* Two namespaces, of which the second keeps nothing. */
    assert_int_equal(bed_add_ns(s.bed, "ram:1M"), 2);
    assert_int_equal(bed_feature(s.h[A].admin, true, FL_NVME_FEAT_RESV_PERSIST, FL_NVME_NSID_ALL, 1, &v),
                     FL_NVME_SC_FEATURE_NOT_CHANGEABLE);
    assert_int_equal(bed_feature(s.h[A].admin, true, FL_NVME_FEAT_RESV_PERSIST, FL_NVME_NSID_ALL, 0, &v), 0);
    assert_int_equal(bed_feature(s.h[A].admin, false, FL_NVME_FEAT_RESV_PERSIST, 1, 0, &v), 0);
    assert_int_equal(v, 0);
    stop(&s);
}

/* The namespace is removed, and its host gone, while the state is written. */
static void removed_while_it_is_stored(void **state)
{
    struct fl_backend_ops ops;
    struct bed_cmd *first;
    struct setup s;

    with_slow_disk(&s, &ops);
    first = send_register(&s, A, 0xa, true);
    bed_turn(s.bed);
    sem_wait(&disk.asked);
    bed_cut(s.h[A].io);
    fl_namespace_remove(s.bed->ss, 1, 0, NULL);
    bed_turn(s.bed);
    assert_int_equal(s.bed->target->nr_closing_ns, 1);
    sem_post(&disk.go);
    for (int i = 0; i < 20000 && s.bed->target->nr_closing_ns; i++)
        bed_sleep(s.bed, 1);
    assert_int_equal(s.bed->target->nr_closing_ns, 0);
    bed_free_cmd(first);
    stop(&s);
}

int main(void)
{
    fl_log_set_level(FL_LOG_ERR);
    return FL_UNIT_RUN(
        cmocka_unit_test(register_and_report), cmocka_unit_test(who_may), cmocka_unit_test(preempt),
        cmocka_unit_test(preempt_and_abort), cmocka_unit_test(notices), cmocka_unit_test(persists),
        cmocka_unit_test(slow_disk_holds_up_nobody_else), cmocka_unit_test(state_that_cannot_be_stored),
        cmocka_unit_test(removed_while_it_is_stored));
}
