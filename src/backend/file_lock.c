/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define NR_TRIES 50
#define TRY_MS   20

/*
 * flock, not fcntl: a lock of the open description like OFD locks, but /proc/locks tells its process, and
 * udev and mkfs keep to the same one.
 */
static int holder(int fd)
{
    FILE *f = fopen("/proc/locks", "re");
    char line[160];
    struct stat st;
    int found = 0;

    if (!f)
        return 0;
    if (fstat(fd, &st) < 0)
        st.st_ino = 0;
    while (!found && fgets(line, sizeof(line), f)) {
        unsigned dev_major, dev_minor;
        uint64_t ino;
        int pid;

        if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%" SCNu64, &pid, &dev_major, &dev_minor, &ino) == 4 &&
            ino == st.st_ino && dev_major == major(st.st_dev) && dev_minor == minor(st.st_dev))
            found = pid;
    }
    fclose(f);
    return found;
}

static void name_of(int pid, char name[32])
{
    char path[40];
    FILE *f;

    snprintf(name, 32, "?");
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (!f)
        return;
    if (fgets(name, 32, f))
        name[strcspn(name, "\n")] = '\0';
    fclose(f);
}

static void pause_a_little(void)
{
    const struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};

    nanosleep(&pause, NULL);
}

int fl_file_lock(int fd, const char *path, bool shared, struct fl_error *err)
{
    char name[32];
    int pid;

    for (int i = 0; i < NR_TRIES; i++) {
        if (!flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB))
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fl_error_set(err, -errno, "file: cannot lock \"%s\": %s; lock=0 goes without", path,
                                strerror(errno));
        if (holder(fd) == getpid())
            break; /* that is no passing state */
        pause_a_little();
    }
    pid = holder(fd);
    if (pid == getpid())
        return fl_error_set(err, -EBUSY, "file: \"%s\" is open as a namespace already, in this process",
                            path);
    if (pid > 0) {
        name_of(pid, name);
        return fl_error_set(
            err, -EBUSY,
            "file: \"%s\" is in use by process %d (%s); stop that first, or read it along with it "
            "(ro=1,lock=0)",
            path, pid, name);
    }
    return fl_error_set(
        err, -EBUSY,
        "file: \"%s\" is in use by another process (not visible here); stop that first, or read it "
        "along with it (ro=1,lock=0)",
        path);
}

int fl_file_claim(const char *path)
{
    for (int i = 0; i < NR_TRIES; i++) {
        int fd = open(path, O_RDWR | O_EXCL | O_CLOEXEC);

        if (fd >= 0)
            return fd;
        if (errno != EBUSY && errno != EINTR)
            return -errno;
        pause_a_little();
    }
    return -EBUSY;
}
