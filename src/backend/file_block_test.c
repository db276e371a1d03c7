/* SPDX-License-Identifier: Apache-2.0 */
/* Block devices: sectors and blocks, what they refuse, and who has them. On loop devices, where those may be
 * had. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/file_bed.h"

static bool attach(const char *name, unsigned sector_len, char device[64])
{
    char command[256];
    FILE *p;
    bool ok;

    make_file(name, 4 * BED_LEN);
    snprintf(command, sizeof(command), "losetup --show -f -b %u %s/%s 2>/dev/null", sector_len, bed_dir,
             name);
    p = popen(command, "r");
    ok = p && fgets(device, 64, p);
    if (p)
        ok &= pclose(p) == 0;
    if (ok)
        device[strcspn(device, "\n")] = '\0';
    return ok;
}

static void block_device(unsigned sector_len, const char *options, bool direct)
{
    char device[64], command[128], spec[128];
    struct fl_error err = {0};
    struct fl_backend *again;
    struct bed bed;

    if (!attach("disk", sector_len, device)) {
        bed_not_tested("block devices", "no loop device may be had");
        return;
    }
    snprintf(spec, sizeof(spec), "file:%s%s", device, options);
    if (open_spec(&bed.backend, &err, "%s", spec))
        fail_msg("%s", err.text);
    print_message("%s, sectors of %u: %s\n", spec, sector_len, bed.backend->note);
    assert_int_equal(bed.backend->len, 4 * BED_LEN);
    assert_int_equal(fl_file_of(bed.backend)->direct, direct);
    assert_int_equal(open_spec(&again, &err, "%s", spec), -EBUSY);
    bed_open_chan(&bed);
    fill(bed.buf, BED_LEN, 5);
    assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, BED_LEN), 0);
    /* Single blocks, also where they are smaller than a sector: the neighbours stay. */
    fill(bed.buf + 8192, bed.backend->block_len, 99);
    assert_int_equal(run(&bed, FL_BIO_WRITE, FL_BIO_F_FUA, bed.buf + 8192, 8192, bed.backend->block_len), 0);
    memset(bed.buf + 65536 + 512, 0, 65536);
    if (bed.backend->block_len == 512) {
        assert_int_equal(run(&bed, FL_BIO_ZERO, 0, NULL, 65536 + 512, 65536), 0);
    } else {
        fill(bed.buf, BED_LEN, 5);
        fill(bed.buf + 8192, bed.backend->block_len, 99);
        memset(bed.buf + 65536, 0, 65536);
        assert_int_equal(run(&bed, FL_BIO_TRIM, 0, NULL, 65536, 65536), 0);
    }
    assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), 0);
    assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf2, 0, BED_LEN), 0);
    assert_memory_equal(bed.buf, bed.buf2, BED_LEN);
    fl_error_clear(&err);
    assert_int_equal(bed.backend->ops->resize(bed.backend, 8 * BED_LEN, &err), -EINVAL);
    assert_non_null(strstr(err.text, "resize the device"));
    assert_int_equal(bed.backend->ops->resize(bed.backend, 0, NULL), 0);
    bed_teardown(&bed);
    snprintf(command, sizeof(command), "losetup -d %s", device);
    assert_int_equal(system(command), 0);
}

/* A process that has the device open and I/O of it under way, until it is killed. */
static pid_t serve_elsewhere(const char *spec)
{
    struct fl_error err = {0};
    struct bed bed;
    int go[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (open_spec(&bed.backend, &err, "%s", spec))
            _exit(1);
        bed_open_chan(&bed);
        if (run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, BED_LEN) || write(go[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, BED_LEN);
    }
    close(go[1]);
    assert_int_equal(read(go[0], &byte, 1), 1);
    close(go[0]);
    return pid;
}

static void expect_busy(const char *spec, const char *text)
{
    struct fl_backend *backend;
    struct fl_error err = {0};

    assert_int_equal(open_spec(&backend, &err, "%s", spec), -EBUSY);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not tell \"%s\"", err.text, text);
}

/* Who has it is named; when that one ends, it is free. */
static void one_server_a_device(void **state)
{
    char device[64], command[128], spec[128], pid_text[32];
    struct fl_error err = {0};
    struct fl_backend *backend;
    struct bed bed;
    int fd;

    if (!attach("shared", 512, device)) {
        bed_not_tested("block devices", "no loop device may be had");
        return;
    }
    snprintf(spec, sizeof(spec), "file:%s", device);
    for (int i = 0; i < 3; i++) {
        pid_t pid = serve_elsewhere(spec);

        if (!i) {
            snprintf(pid_text, sizeof(pid_text), "by process %d (", (int)pid);
            expect_busy(spec, pid_text);
        }
        kill(pid, SIGKILL);
        if (i == 1) /* both: a holder that is still leaving, and one that has left */
            waitpid(pid, NULL, 0);
        if (open_spec(&backend, &err, "%s", spec))
            fail_msg("after its server was killed: %s", err.text);
        fl_backend_close(backend);
        waitpid(pid, NULL, 0);
    }
    for (int i = 0; i < 3; i++) { /* in one process */
        if (open_spec(&bed.backend, &err, "%s", spec))
            fail_msg("after it was closed here: %s", err.text);
        expect_busy(spec, "in this process");
        bed_open_chan(&bed);
        assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, BED_LEN), 0);
        bed_teardown(&bed);
    }
    fd = open(device, O_RDWR | O_EXCL | O_CLOEXEC); /* as a mount has it: no lock that tells a process */
    assert_true(fd >= 0);
    expect_busy(spec, "mounted, part of a volume");
    close(fd);
    snprintf(command, sizeof(command), "losetup -d %s", device);
    assert_int_equal(system(command), 0);
}

static void block_devices(void **state)
{
    block_device(512, "", true);
    block_device(4096, ",bs=4096", true);
    block_device(4096, ",bs=512", false);
}

int main(void)
{
    return BED_RUN(cmocka_unit_test(block_devices), cmocka_unit_test(one_server_a_device));
}
