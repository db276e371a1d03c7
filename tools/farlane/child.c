/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

#define STOP_MS    15000 /* what it has to take back may take the kernel a while */
#define LINE_LEN   65536
#define OUTPUT_MAX (64u << 20)

static void become(const struct child *c, const char *const *argv, const char *const *env, int out,
                   pid_t parent)
{
    size_t i;

    prctl(PR_SET_PDEATHSIG, c->deaf ? SIGKILL : SIGTERM);
    if (getppid() != parent)
        _exit(127); /* it died before it could be told */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_IGN); /* Ctrl-C is for the command, which ends its children */
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(out, 1);
    dup2(c->err, 2);
    for (i = 0; env && env[i]; i++)
        putenv((char *)env[i]);
    execvp(argv[0], (char *const *)argv);
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int start(struct child *c, const char *const *argv, const char *const *env, bool deaf,
                 struct fl_error *err)
{
    const pid_t parent = getpid();
    int out[2], rc;

    *c = (struct child){.deaf = deaf};
    c->err = memfd_create("stderr", MFD_CLOEXEC);
    if (c->err < 0)
        return fl_error_set(err, -errno, "cannot start %s: %s", argv[0], strerror(errno));
    if (pipe2(out, O_CLOEXEC) < 0) {
        rc = fl_error_set(err, -errno, "cannot start %s: %s", argv[0], strerror(errno));
        close(c->err);
        return rc;
    }
    fflush(NULL);
    c->pid = fork();
    if (c->pid == 0)
        become(c, argv, env, out[1], parent);
    rc = c->pid < 0 ? fl_error_set(err, -errno, "cannot start %s: %s", argv[0], strerror(errno)) : 0;
    close(out[1]);
    c->out = out[0];
    if (rc < 0) {
        close(c->err);
        close(c->out);
        c->pid = 0;
    }
    return rc;
}

int child_start(struct child *c, const char *const *argv, const char *const *env, struct fl_error *err)
{
    return start(c, argv, env, false, err);
}

int child_start_deaf(struct child *c, const char *const *argv, struct fl_error *err)
{
    return start(c, argv, NULL, true, err);
}

/* Reads up to a newline (if line) or the end. */
static char *take(struct child *c, bool line, int timeout_ms)
{
    const uint64_t end_ns = fl_now_ns() + (uint64_t)timeout_ms * FL_NS_PER_MS;
    size_t len = 0, room = LINE_LEN;
    char *text = malloc(room);

    while (text) {
        const uint64_t now = fl_now_ns();
        struct pollfd p = {.fd = c->out, .events = POLLIN};
        ssize_t n;

        if (now >= end_ns || poll(&p, 1, (int)((end_ns - now) / FL_NS_PER_MS) + 1) < 0)
            break;
        if (!p.revents)
            continue;
        n = read(c->out, text + len, line ? 1 : room - len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || (line && text[len] == '\n')) {
            text[len] = '\0';
            if (n == 0 && line && len == 0)
                break;
            return text;
        }
        len += (size_t)n;
        if (len + 1 == room) {
            char *more = room < OUTPUT_MAX ? realloc(text, room *= 2) : NULL;

            if (!more)
                break;
            text = more;
        }
    }
    free(text);
    return NULL;
}

char *child_line(struct child *c, int timeout_ms)
{
    return take(c, true, timeout_ms);
}

char *child_output(struct child *c, int timeout_ms)
{
    return take(c, false, timeout_ms);
}

const char *child_complaint(struct child *c, char *buf, size_t size)
{
    char text[4096];
    const off_t len = lseek(c->err, 0, SEEK_END), from = FL_MAX(len - (off_t)sizeof(text) + 1, (off_t)0);
    const ssize_t n = len > 0 ? pread(c->err, text, sizeof(text) - 1, from) : 0;
    char *line;

    text[FL_MAX(n, 0)] = '\0';
    for (line = text + strlen(text); line > text && line[-1] == '\n';)
        *--line = '\0';
    line = strrchr(text, '\n');
    snprintf(buf, size, "%s", line ? line + 1 : text);
    return buf;
}

static bool wait_for(pid_t pid, int *status, int timeout_ms)
{
    const uint64_t end_ns = fl_now_ns() + (uint64_t)timeout_ms * FL_NS_PER_MS;

    do {
        if (waitpid(pid, status, WNOHANG) != 0)
            return true;
        usleep(2000);
    } while (fl_now_ns() < end_ns);
    return false;
}

int child_stop(struct child *c)
{
    int status = 0;

    if (!c->pid)
        return 0;
    if (waitpid(c->pid, &status, WNOHANG) == 0) {
        if (!c->deaf)
            kill(c->pid, SIGTERM);
        if (c->deaf || !wait_for(c->pid, &status, STOP_MS)) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &status, 0);
        }
    }
    close(c->out);
    close(c->err);
    c->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* After its output ended: it ends by itself, a moment later. */
static int end_of(struct child *c)
{
    siginfo_t info;
    int i;

    for (i = 0; i < 1000; i++) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid)
            break;
        usleep(1000);
    }
    return child_stop(c);
}

char *child_run(const char *const *argv, const char *const *env, int timeout_ms, struct fl_error *err)
{
    char complaint[256];
    struct child c;
    char *text;
    int status;

    if (child_start(&c, argv, env, err) < 0)
        return NULL;
    text = child_output(&c, timeout_ms);
    child_complaint(&c, complaint, sizeof(complaint));
    if (!text) {
        child_stop(&c);
        fl_error_set(err, -ETIMEDOUT, "%s did not end within %d s", argv[0], timeout_ms / 1000);
        return NULL;
    }
    status = end_of(&c);
    if (status == 0)
        return text;
    free(text);
    fl_error_set(err, -EIO, "%s failed with status %d%s%s", argv[0], status, *complaint ? ": " : "",
                 complaint);
    return NULL;
}

bool child_exists(const char *name)
{
    const char *path = getenv("PATH");
    char try[4096];

    for (path = path ? path : "/usr/bin:/bin"; *path; path += *path == ':') {
        const size_t len = strcspn(path, ":");

        snprintf(try, sizeof(try), "%.*s/%s", (int)len, path, name);
        if (len && access(try, X_OK) == 0)
            return true;
        path += len;
    }
    return false;
}
