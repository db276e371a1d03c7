/* SPDX-License-Identifier: Apache-2.0 */
/* What a process is told that becomes neither hub nor member. Each waits its time out in a process of its
 * own, all at once. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/hub/unix.h"
#include "rnic/port/test_packet.h"

#define ROOT_PORT 100

struct opening { /* shared */
    pid_t pid;
    int rc;
    uint64_t ns;
    struct fl_error err;
};

struct place {
    struct opening *opening;
    int udp_fd, hub_fd;
    uint16_t udp_port;
    char name[FL_HUB_NAME_LEN];
};

/* A UDP port that is taken, not by farlane. */
static void place_init(struct place *p, const char *what)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6};
    socklen_t len = sizeof(addr);
    p->opening = mmap(NULL, sizeof(*p->opening), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p->opening != MAP_FAILED);
    snprintf(p->name, sizeof(p->name), "farlane-why-%d-%s", (int)getpid(), what);
    p->udp_fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    p->hub_fd = -1;
    assert_int_equal(bind(p->udp_fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(getsockname(p->udp_fd, (struct sockaddr *)&addr, &len), 0);
    p->udp_port = ntohs(addr.sin6_port);
}

static void place_fini(struct place *p)
{
    munmap(p->opening, sizeof(*p->opening));
    close(p->udp_fd);
    if (p->hub_fd >= 0)
        close(p->hub_fd);
}

static void try_to_open(const struct place *p)
{
    const struct fl_port_options options = {.udp_port = p->udp_port, .hub_path = p->name};
    struct opening *o = p->opening;
    struct fl_port *port;
    uint64_t start = fl_now_ns();
    o->rc = fl_port_open(&options, &port, &o->err);
    o->ns = fl_now_ns() - start;
    _exit(0);
}

static void start_opening(const struct place *p)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        try_to_open(p);
    }
    p->opening->pid = pid;
}

static void end_opening(const struct place *p)
{
    int status;
    assert_int_equal(waitpid(p->opening->pid, &status, 0), p->opening->pid);
    assert_int_equal(status, 0);
    assert_int_equal(p->opening->err.code, p->opening->rc);
}

/* Takes connections, and ends each. */
static pid_t hang_up(int hub_fd)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    for (prctl(PR_SET_PDEATHSIG, SIGKILL);; usleep(1000)) {
        int fd = accept(hub_fd, NULL, NULL);
        if (fd >= 0)
            close(fd);
    }
}

static void who_has_the_port_is_told_apart(void **state)
{
    struct place nobody, slow, other;
    char who[32];
    pid_t pid;
    place_init(&nobody, "nobody");
    place_init(&slow, "slow");
    place_init(&other, "other");
    slow.hub_fd = fl_hub_unix_listen(slow.name);
    other.hub_fd = fl_hub_unix_listen(other.name);
    assert_true(slow.hub_fd >= 0 && other.hub_fd >= 0);
    snprintf(who, sizeof(who), "process %d", (int)getpid());
    pid = hang_up(other.hub_fd);
    start_opening(&nobody);
    start_opening(&slow);
    start_opening(&other);
    end_opening(&nobody);
    end_opening(&slow);
    end_opening(&other);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(nobody.opening->rc, -EADDRINUSE);
    assert_non_null(strstr(nobody.opening->err.text, "no farlane process serves it"));
    assert_int_equal(slow.opening->rc, -EBUSY);
    assert_non_null(strstr(slow.opening->err.text, who));
    assert_non_null(strstr(slow.opening->err.text, "has not answered for "));
    assert_int_equal(other.opening->rc, -EBUSY);
    assert_non_null(strstr(other.opening->err.text, who));
    assert_non_null(strstr(other.opening->err.text, "another version of farlane"));
    place_fini(&nobody);
    place_fini(&slow);
    place_fini(&other);
}

static int first_port_for_all(void)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
    int port = 0;
    if (f && fscanf(f, "%d", &port) != 1)
        port = 0;
    if (f)
        fclose(f);
    return port;
}

/* At once: it does not change by waiting. */
static void a_port_of_roots_is_told_as_such(void **state)
{
    struct place p;
    place_init(&p, "root");
    p.udp_port = ROOT_PORT;
    p.opening->pid = fork();
    if (!p.opening->pid) {
        unshare(CLONE_NEWNET); /* as root: containers often have all ports for all */
        if (first_port_for_all() <= ROOT_PORT || (!geteuid() && setresuid(65534, 65534, 65534)))
            _exit(77);
        try_to_open(&p);
    }
    int status;
    waitpid(p.opening->pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(p.opening->rc, -EACCES);
    assert_non_null(strstr(p.opening->err.text, "may not bind UDP port 100"));
    assert_non_null(strstr(p.opening->err.text, "FARLANE_ROCE_PORT"));
    assert_true(p.opening->ns < 2 * FL_NS_PER_S);
    place_fini(&p);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(who_has_the_port_is_told_apart),
                       cmocka_unit_test(a_port_of_roots_is_told_as_such));
}
