/* SPDX-License-Identifier: Apache-2.0 */
/* What opening a device finds out, why it fails, and what the controller tells later: against a scripted
 * target on loopback sockets. */
#include "host/test_remote.h"

static void opens_and_tells(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_device_info info;

    fl_device_info(dev, &info);
    assert_string_equal(info.url, f->url);
    assert_string_equal(info.transport, "tcp");
    assert_string_equal(info.subnqn, FAKE_NQN);
    assert_string_equal(info.model, "fake");
    assert_string_equal(info.serial, "0001");
    assert_string_equal(info.state, "live");
    assert_int_equal(info.nsid, 1);
    assert_int_equal(info.block_len, FAKE_BLOCK);
    assert_int_equal(info.len, FAKE_LEN);
    assert_int_equal(info.max_transfer_len, 131072);
    assert_int_equal(info.max_queues, 8);
    assert_int_equal(info.max_depth, 127);
    assert_int_equal(info.uuid[0], 7);
    assert_int_equal(fake_get(f->kato_seen), 1000);
    fl_device_close(dev);
    assert_int_equal(fake_get(f->nr_shutdowns), 1);
    /* The URL's depth counts entries, one of which stays empty; more than the controller has is not to be had. */
    strcat(f->url, "&depth=8");
    dev = open_with(f, &quick);
    fl_device_info(dev, &info);
    assert_int_equal(info.max_depth, 7);
    fl_device_close(dev);
    strcat(f->url, "000");
    dev = open_with(f, &quick);
    fl_device_info(dev, &info);
    assert_int_equal(info.max_depth, 127);
    fl_device_close(dev);
    fake_end(f);
}

/* Each open ends with an error that says why. */
static void says_why_it_cannot_open(void **state)
{
    static const struct {
        int status;
        uint32_t dw0;
        int code;
        const char *text;
    } cases[] = {
        {FL_NVME_SC_CONNECT_INVALID_HOST | FL_NVME_DNR, 0, -EACCES, "does not allow this host"},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 0x10100, -ENOENT,
         "farlane discover nvme+tcp://127.0.0.1:"},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 0x10200, -EACCES, "host NQN"},
        {FL_NVME_SC_CONNECT_INVALID_PARAM | FL_NVME_DNR, 44, -EINVAL, "byte 44 of its command"},
        {FL_NVME_SC_CONNECT_CTRL_BUSY, 0, -EBUSY, "busy"},
    };
    struct fake *f = fake_start();
    struct fl_device *dev;
    struct fl_error err = {0};
    uint64_t start;

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        f->connect_dw0 = cases[i].dw0;
        fake_set(f->connect_status, cases[i].status);
        assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), cases[i].code);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s", err.text);
        fl_error_clear(&err);
    }
    fake_set(f->connect_status, 0);
    f->nr_namespaces = 0;
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -ENXIO);
    fl_error_clear(&err);
    fake_set(f->mute, 1);
    start = fl_now_ns();
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -ETIMEDOUT);
    assert_true(strstr(err.text, "ICReq") != NULL);
    assert_true(fl_now_ns() - start < 10 * FL_NS_PER_S);
    fl_error_clear(&err);
    fake_down(f);
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -ECONNREFUSED);
    fake_listen(f);
    fake_end(f);
}

static void tweak_kas(struct fl_nvme_id_ctrl *id)
{
    id->kas = le16_of(0);
}
static void tweak_sgls(struct fl_nvme_id_ctrl *id)
{
    id->sgls = le32_of(0);
}
static void tweak_ioccsz(struct fl_nvme_id_ctrl *id)
{
    id->ioccsz = le32_of(3);
}
static void tweak_iorcsz(struct fl_nvme_id_ctrl *id)
{
    id->iorcsz = le32_of(0);
}
static void tweak_maxcmd(struct fl_nvme_id_ctrl *id)
{
    id->maxcmd = le16_of(0);
}
static void tweak_icdoff(struct fl_nvme_id_ctrl *id)
{
    id->icdoff = le16_of(1);
}
static void tweak_mnan(struct fl_nvme_id_ctrl *id)
{
    id->mnan = le32_of(1025);
}
static void tweak_ana_mnan(struct fl_nvme_id_ctrl *id)
{
    id->mnan = le32_of(0);
    id->cmic = FL_NVME_CMIC_ANA;
}
static void tweak_nqn(struct fl_nvme_id_ctrl *id)
{
    id->subnqn[10]++;
}
static void tweak_cntlid(struct fl_nvme_id_ctrl *id)
{
    id->cntlid = le16_of(2);
}
static void tweak_sqes(struct fl_nvme_id_ctrl *id)
{
    id->sqes = 0x77;
}
static void tweak_nothing(struct fl_nvme_id_ctrl *id)
{
    id->mnan = le32_of(0); /* fine without ANA */
}

static void case_A10_identify_that_makes_no_sense(void **state)
{
    static const struct {
        void (*tweak)(struct fl_nvme_id_ctrl *id);
        const char *text;
    } cases[] = {{tweak_kas, "KAS"},       {tweak_sgls, "SGLS"},
                 {tweak_ioccsz, "IOCCSZ"}, {tweak_iorcsz, "IORCSZ"},
                 {tweak_maxcmd, "MAXCMD"}, {tweak_icdoff, "ICDOFF"},
                 {tweak_mnan, "MNAN"},     {tweak_ana_mnan, "MNAN"},
                 {tweak_nqn, "subsystem"}, {tweak_cntlid, "two identifiers"},
                 {tweak_sqes, "SQES"}};
    struct fake *f = fake_start();
    struct fl_device *dev;

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_error err = {0};

        f->tweak = cases[i].tweak;
        assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -EPROTO);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s", err.text);
    }
    f->tweak = tweak_nothing;
    fl_device_close(open_with(f, &quick));
    fake_end(f);
}

static int nr_changes;

static void changed(struct fl_device *dev, void *arg)
{
    fake_inc(nr_changes);
}

static bool has_grown(void *arg)
{
    struct fl_device_info info;

    fl_device_info(arg, &info);
    return info.nr_blocks == 4711 && fake_get(nr_changes);
}

static void namespace_event_brings_the_new_size(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);

    fl_device_on_change(dev, changed, NULL);
    for (int i = 0; i < 2; i++) {
        fake_set(nr_changes, 0);
        fake_set(f->nr_blocks, i ? 4711 : 4000);
        usleep(20000); /* until the event request is there */
        fake_event(f,
                   fl_nvme_aer_of(FL_NVME_AER_NOTICE, FL_NVME_AER_NOTICE_NS_CHANGED, FL_NVME_LOG_CHANGED_NS));
        usleep(20000);
    }
    assert_true(wait_until(has_grown, dev));
    fl_device_close(dev);
    fake_end(f);
}

static void admin_commands(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev;
    struct fl_error err = {0};
    struct fl_nvme_sqe sqe = {.opcode = FL_NVME_ADM_IDENTIFY, .cdw10 = le32_of(FL_NVME_CNS_CTRL)};
    struct fl_nvme_id_ctrl id;
    uint32_t nsids[8];
    uint16_t status = 0;

    f->nr_namespaces = 3;
    assert_int_equal(fl_subsystem_open(f->url, &quick, &dev, &err), 0);
    assert_int_equal(fl_admin_command(dev, &sqe, &id, sizeof(id), true, NULL, &status, &err), 0);
    assert_memory_equal(id.mn, "fake ", 5);
    sqe.cdw10 = le32_of(0xee);
    assert_int_equal(fl_admin_command(dev, &sqe, &id, sizeof(id), true, NULL, &status, &err), -EREMOTEIO);
    assert_int_equal(status & FL_NVME_SC_MASK, FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(fl_device_namespaces(dev, nsids, 8, NULL), 3);
    assert_int_equal(nsids[2], 3);
    assert_int_equal(fl_device_namespaces(dev, nsids, 2, NULL), 2);
    fl_device_close(dev);

    /* Three namespaces and none named. */
    fl_error_clear(&err);
    *strchr(f->url, '?') = '\0';
    assert_int_equal(fl_device_open(f->url, &quick, &dev, &err), -EINVAL);
    assert_true(strstr(err.text, "(1, 2, 3)") != NULL);
    fake_end(f);
}

int main(void)
{
    quiet_unless_asked();
    return FL_UNIT_RUN(cmocka_unit_test(opens_and_tells), cmocka_unit_test(says_why_it_cannot_open),
                       cmocka_unit_test(case_A10_identify_that_makes_no_sense),
                       cmocka_unit_test(namespace_event_brings_the_new_size),
                       cmocka_unit_test(admin_commands));
}
