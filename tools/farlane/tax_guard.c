/* SPDX-License-Identifier: Apache-2.0 */
/* What was made is removed however the command ends: a child waits until nobody holds the other end of a pipe
 * any more, also since the command was killed, and removes it then. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "tax.h"

#define TRIES      500 /* 10 ms each: servers that end meanwhile still have their control sockets there */
#define TRY_US     10000
#define TGT_TRIES  100
#define TGT_SOCKET "/run/tgtd/socket.%d"
#define SOCKETS    FL_ARRAY_LEN(((struct tax *)0)->servers)

static void remove_all(const char *folder)
{
    static const char *const names[] = {"disk", "result"};
    char path[400];
    size_t i;
    int try;

    for (try = 0; try < TRIES; try++) {
        for (i = 0; i < FL_ARRAY_LEN(names); i++) {
            snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
            unlink(path);
        }
        for (i = 0; i < SOCKETS; i++) {
            snprintf(path, sizeof(path), "%s/control%zu", folder, i);
            unlink(path);
        }
        if (rmdir(folder) == 0 || errno == ENOENT)
            return;
        usleep(TRY_US);
    }
}

/* What tgtd leaves behind, however it ends. One that lives has the lock: ours for a moment yet, or another of
 * the same number, which keeps its socket. */
static void remove_tgt_socket(const char *socket, const char *lock)
{
    const int fd = open(lock, O_WRONLY | O_CLOEXEC);
    int try;

    if (fd < 0)
        return;
    for (try = 0; try < TGT_TRIES; try++) {
        if (lockf(fd, F_TLOCK, 0) == 0) {
            unlink(socket);
            unlink(lock);
            break;
        }
        usleep(TRY_US);
    }
    close(fd);
}

/* Only what is allowed between fork and exec: the command may have threads. */
static void guard(const char *folder, int tgt, int end)
{
    char byte, socket[64], lock[64];
    int fd;

    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    setsid(); /* nor what ends the command's group: Ctrl-\, or SIGKILL by timeout(1) */
    if (end != 3)
        dup2(end, 3);
    for (fd = 0; fd < 3; fd++)
        close(fd); /* whoever reads the command's output waits for its end, not for ours */
    close_range(4, ~0u, 0);
    while (read(3, &byte, 1) < 0 && errno == EINTR)
        ;
    snprintf(socket, sizeof(socket), TGT_SOCKET, tgt);
    snprintf(lock, sizeof(lock), TGT_SOCKET ".lock", tgt);
    remove_tgt_socket(socket, lock);
    remove_all(folder);
    _exit(0);
}

int tax_guard_start(struct tax *tax, struct fl_error *err)
{
    const int tgt = TAX_TGT_INSTANCE(getpid());
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return fl_error_set(err, -errno, "cannot make a pipe: %s", strerror(errno));
    tax->guard = fork();
    if (tax->guard == 0)
        guard(tax->work, tgt, ends[0]);
    close(ends[0]);
    if (tax->guard < 0) {
        close(ends[1]);
        tax->guard = 0;
        return fl_error_set(err, -errno, "cannot start a process: %s", strerror(errno));
    }
    tax->guard_fd = ends[1];
    return 0;
}

void tax_guard_end(struct tax *tax)
{
    if (!tax->guard)
        return;
    close(tax->guard_fd);
    while (waitpid(tax->guard, NULL, 0) < 0 && errno == EINTR)
        ;
    tax->guard = 0;
}
