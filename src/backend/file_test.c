/* SPDX-License-Identifier: Apache-2.0 */
/* What is particular to files: odd ones, limits, locks, identity and state. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/file_bed.h"

/* ---- odd files ---- */

static void refusals_say_what_to_do(void **state)
{
    char path[128];

    expect_refusal(-ENOENT, "truncate -s 1G", "missing");
    expect_refusal(-ENOENT, "does not exist", "missing,size=1M,ro=1");
    expect_refusal(-ENOENT, "does not exist", "no/bed_dir,size=1M");
    expect_refusal(-EINVAL, "whole number of blocks", "odd,size=1000");
    expect_refusal(-EISDIR, "directory", "");
    make_file("small", 500);
    expect_refusal(-EINVAL, "smaller than one block", "small");
    make_file("small4k", 2048);
    expect_refusal(-EINVAL, "smaller than one block of 4096", "small4k,bs=4096");
    snprintf(path, sizeof(path), "%s/fifo", bed_dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(-EINVAL, "neither a regular file nor a block device", "fifo");
    snprintf(path, sizeof(path), "%s/odd", bed_dir);
    assert_int_equal(access(path, F_OK), -1); /* what could not be made whole is gone */
}

static void sizes(void **state)
{
    struct fl_backend *backend;
    struct fl_error err = {0};
    struct stat st;
    char path[128];

    make_file("tail", 10000);
    must_open(&backend, "tail,bs=4096");
    assert_int_equal(backend->len, 8192);
    fl_backend_close(backend);
    must_open(&backend, "tail,prealloc=1"); /* takes the space and leaves the tail */
    assert_int_equal(backend->len, 10000 / 512 * 512);
    snprintf(path, sizeof(path), "%s/tail", bed_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 10000);

    /* Grown by somebody else: size 0 takes it over. Case A12. */
    assert_int_equal(truncate(path, 20480), 0);
    assert_int_equal(backend->ops->resize(backend, 0, &err), 0);
    assert_int_equal(fl_backend_len(backend), 20480);
    assert_int_equal(backend->ops->resize(backend, 512 * 1024, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 512 * 1024);
    assert_true(st.st_blocks >= 512 * 2); /* prealloc */
    fl_backend_close(backend);

    must_open(&backend, "tail,ro=1");
    assert_true(backend->read_only && !backend->volatile_cache);
    assert_int_equal(backend->ops->resize(backend, 4096, &err), -EROFS);
    fl_backend_close(backend);
}

static void over_the_limit_of_the_process(void **state)
{
    int status;
    pid_t pid = fork();

    if (!pid) { /* would be killed by SIGXFSZ if it wrote */
        struct rlimit limit = {65536, 65536};
        struct fl_backend *backend;
        struct fl_error err = {0};

        setrlimit(RLIMIT_FSIZE, &limit);
        if (open_spec(&backend, &err, "file:%s/limit,size=1M", bed_dir) != -EFBIG ||
            !strstr(err.text, "ulimit -f"))
            _exit(1);
        if (open_spec(&backend, NULL, "file:%s/limit,size=64k", bed_dir) ||
            backend->ops->resize(backend, 128 * 1024, NULL) != -EFBIG || backend->len != 65536)
            _exit(2);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* A file system of 2 MiB in a name space of this process, where that is allowed. */
static bool mount_small(const char *at)
{
    char uids[40], gids[40];

    snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
    snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
    if (mkdir(at, 0700))
        return false;
    if (unshare(CLONE_NEWNS) &&
        (unshare(CLONE_NEWUSER | CLONE_NEWNS) || !put_text("/proc/self/uid_map", uids) ||
         !put_text("/proc/self/setgroups", "deny") || !put_text("/proc/self/gid_map", gids)))
        return false;
    return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) && !mount("none", at, "tmpfs", 0, "size=2m");
}

static int fill_medium(void)
{
    struct bed bed;
    int first;

    bed_setup(&bed, "tmpfs/full,size=4M", NULL);
    fill(bed.buf, BED_LEN, 1);
    first = run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, BED_LEN);
    if (first || run(&bed, FL_BIO_WRITE, 0, bed.buf, BED_LEN, BED_LEN) ||
        run(&bed, FL_BIO_WRITE, 0, bed.buf, 3 * BED_LEN, BED_LEN) != -ENOSPC)
        return 1;
    if (run(&bed, FL_BIO_TRIM, 0, NULL, 0, 2 * BED_LEN) ||
        run(&bed, FL_BIO_WRITE, 0, bed.buf, 3 * BED_LEN, BED_LEN))
        return 2; /* trimmed space can be used again */
    if (run(&bed, FL_BIO_READ, 0, bed.buf2, 3 * BED_LEN, BED_LEN) || memcmp(bed.buf, bed.buf2, BED_LEN) != 0)
        return 3;
    bed_teardown(&bed);
    return 0;
}

static void full_medium(void **state)
{
    char at[128];
    int status;
    pid_t pid = fork();

    if (!pid) {
        snprintf(at, sizeof(at), "%s/tmpfs", bed_dir);
        _exit(mount_small(at) ? fill_medium() : 77);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        bed_not_tested("a full medium, but by scripted answers", "no file system may be mounted");
    else
        assert_int_equal(status, 0);
}

/* ---- locks ---- */

static void one_server_a_file(void **state)
{
    struct fl_backend *backend, *second;
    struct fl_error err = {0};
    int go[2], status;
    char byte = 0, pid_text[32];
    pid_t pid;

    must_open(&backend, "locked,size=1M");
    expect_refusal(-EBUSY, "in this process", "locked");
    assert_int_equal(open_spec(&second, &err, "file:%s/locked,ro=1,lock=0", bed_dir), 0);
    fl_backend_close(second);
    fl_backend_close(backend);

    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (!pid) {
        must_open(&backend, "locked");
        if (write(go[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(go[0], &byte, 1), 1);
    snprintf(pid_text, sizeof(pid_text), "by process %d (", (int)pid);
    expect_refusal(-EBUSY, pid_text, "locked");
    kill(pid, SIGKILL);
    must_open(&backend, "locked"); /* free with the end of its holder, who need not be reaped */
    fl_backend_close(backend);
    waitpid(pid, &status, 0);
    close(go[0]);
    close(go[1]);

    must_open(&backend, "locked,ro=1"); /* many may read */
    must_open(&second, "locked,ro=1");
    expect_refusal(-EBUSY, "in this process", "locked");
    fl_backend_close(second);
    fl_backend_close(backend);
}

/* ---- identity and state ---- */

static void identity_is_stable(void **state)
{
    struct fl_backend *a, *b;
    uint8_t uuid[16];
    char from[128], to[128];

    must_open(&a, "id-a,size=1M");
    must_open(&b, "id-b,size=1M");
    assert_memory_not_equal(a->uuid, b->uuid, 16);
    memcpy(uuid, a->uuid, 16);
    fl_backend_close(a);
    fl_backend_close(b);
    must_open(&a, "id-a");
    assert_memory_equal(a->uuid, uuid, 16);
    fl_backend_close(a);
    snprintf(from, sizeof(from), "%s/id-a", bed_dir);
    snprintf(to, sizeof(to), "%s/id-c", bed_dir);
    assert_int_equal(rename(from, to), 0);
    must_open(&a, "id-c");
    assert_memory_equal(a->uuid, uuid, 16);
    fl_backend_close(a);
    snprintf(from, sizeof(from), "%s/id-c.farlane", bed_dir);
    assert_int_equal(access(from, F_OK), -1); /* opening leaves no trace */
}

static void state_is_kept(void **state)
{
    struct fl_backend *backend;
    uint8_t uuid[16], buf[16];
    char path[128], was;
    int fd;

    must_open(&backend, "state,size=1M");
    memcpy(uuid, backend->uuid, 16);
    assert_int_equal(backend->ops->state_load(backend, buf, sizeof(buf)), -ENOENT);
    assert_int_equal(backend->ops->state_save(backend, "first", 5), 0);
    assert_int_equal(backend->ops->state_save(backend, "\0second\xff", 8), 0);
    fl_backend_close(backend);

    must_open(&backend, "state,ro=1");
    assert_memory_equal(backend->uuid, uuid, 16);
    assert_int_equal(backend->ops->state_load(backend, buf, 4), -E2BIG);
    assert_int_equal(backend->ops->state_load(backend, buf, sizeof(buf)), 8);
    assert_memory_equal(buf, "\0second\xff", 8);
    assert_int_equal(backend->ops->state_save(backend, "x", 1), -EROFS);
    fl_backend_close(backend);

    must_open(&backend, "state");
    assert_int_equal(backend->ops->state_save(backend, "", 0), 0);
    assert_int_equal(backend->ops->state_load(backend, buf, sizeof(buf)), 0);
    fl_backend_close(backend);

    /* Damage is not taken for "no reservations". */
    snprintf(path, sizeof(path), "%s/state.farlane", bed_dir);
    fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &was, 1, 40), 1); /* of the uuid */
    assert_int_equal(pwrite(fd, was == '0' ? "1" : "0", 1, 40), 1);
    close(fd);
    expect_refusal(-EBADMSG, "move it away", "state");
    assert_int_equal(truncate(path, 20), 0);
    expect_refusal(-EBADMSG, "damaged", "state");
    assert_int_equal(unlink(path), 0);
    must_open(&backend, "state");
    fl_backend_close(backend);
}

/* Killed at any moment, the state is the old one or the new one. */
static void state_survives_kills(void **state)
{
    unsigned seed = 1;
    bool seen = false; /* a slow machine may kill the first ones before they save */

    make_file("killed", BED_LEN);
    for (int round = 0; round < 12; round++) {
        struct timespec nap = {.tv_nsec = 1000000 + rand_r(&seed) % 20000000};
        struct fl_backend *backend;
        uint8_t buf[4096];
        int status, n;
        pid_t pid = fork();

        if (!pid) {
            must_open(&backend, "killed");
            for (unsigned i = 0;; i++) {
                size_t len = i % 2 ? 3000 : 10;

                memset(buf, i % 2 ? 'L' : 's', len);
                backend->ops->state_save(backend, buf, len);
            }
        }
        nanosleep(&nap, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        must_open(&backend, "killed");
        n = backend->ops->state_load(backend, buf, sizeof(buf));
        assert_true((n == -ENOENT && !seen) || (n == 3000 && buf[0] == 'L' && buf[2999] == 'L') ||
                    (n == 10 && buf[0] == 's' && buf[9] == 's'));
        seen |= n > 0;
        fl_backend_close(backend);
    }
}

/* ---- what becomes of the file ---- */

static void shell(const char *fmt, ...) FL_PRINTF(1, 2);
static void shell(const char *fmt, ...)
{
    char line[512];
    va_list args;
    int n = snprintf(line, sizeof(line), "cd %s && ", bed_dir);

    va_start(args, fmt);
    vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, args);
    va_end(args);
    assert_int_equal(system(line), 0);
}

/* What a served file's path names now, after it was deleted, replaced, moved, or none of it. */
static void file_that_goes_is_seen(void **state)
{
    static const struct {
        const char *command, *text;
    } cases[] = {
        {"truncate -s 2M gone && touch -d yesterday gone && ln gone other", NULL},
        {"rm gone", "was deleted"},
        {"mv gone elsewhere", "was renamed or moved"},
        {"mv gone elsewhere && ln -s elsewhere gone", NULL}, /* the same file by another way */
        {"cp gone new && mv new gone", "is another file now; the one that is served was deleted"},
        {"mv gone old && cp old gone", "is another file now; the one that is served has another name"},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_backend *backend;
        struct fl_error err = {0};

        shell("rm -f gone other elsewhere new old");
        make_file("gone", BED_LEN);
        must_open(&backend, "gone");
        assert_int_equal(backend->ops->look(backend, &err), 0);
        shell("%s", cases[i].command);
        assert_int_equal(backend->ops->look(backend, &err), cases[i].text ? -ESTALE : 0);
        if (cases[i].text && !strstr(err.text, cases[i].text))
            fail_msg("%s: %s", cases[i].command, err.text);
        fl_backend_close(backend);
    }
    shell("rm -f gone other elsewhere new old");
}

int main(void)
{
    return BED_RUN(cmocka_unit_test(refusals_say_what_to_do), cmocka_unit_test(sizes),
                   cmocka_unit_test(over_the_limit_of_the_process), cmocka_unit_test(full_medium),
                   cmocka_unit_test(one_server_a_file), cmocka_unit_test(identity_is_stable),
                   cmocka_unit_test(state_is_kept), cmocka_unit_test(state_survives_kills),
                   cmocka_unit_test(file_that_goes_is_seen));
}
