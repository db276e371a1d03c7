/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes have an RNIC, whose they are, and what each says. */
#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "rnic.h"
#include "rnic/hub/unix.h"
#include "rnic/verbs.h"

static void find_command(struct rnic_process *p)
{
    char path[64];
    FILE *f;

    strcpy(p->command, "?");
    snprintf(path, sizeof(path), "/proc/%d/comm", p->pid);
    f = p->pid > 0 ? fopen(path, "re") : NULL;
    if (f && fgets(p->command, sizeof(p->command), f))
        p->command[strcspn(p->command, "\n")] = 0;
    if (f)
        fclose(f);
}

static void find_user(struct rnic_process *p)
{
    const struct passwd *pw = getpwuid(p->uid);

    if (pw)
        snprintf(p->user, sizeof(p->user), "%s", pw->pw_name);
    else
        snprintf(p->user, sizeof(p->user), "%u", p->uid);
}

uint64_t rnic_moved(const struct rnic_process *p)
{
    uint64_t counters[FL_NR_QP_COUNTERS], sum = 0;

    for (uint32_t i = 0; i < p->view.nr_devices; i++) {
        fl_stats_sum(&p->view, &p->view.devices[i], counters);
        sum += counters[FL_QP_COUNTER_tx_bytes] + counters[FL_QP_COUNTER_rx_bytes] +
               counters[FL_QP_COUNTER_message_tx_bytes] + counters[FL_QP_COUNTER_message_rx_bytes] +
               counters[FL_QP_COUNTER_direct_bytes];
    }
    return sum;
}

static void find_before(struct rnic_process *p, const struct rnic_look *before)
{
    for (int i = 0; before && i < before->nr_processes; i++) {
        const struct rnic_process *b = &before->processes[i];

        if (b->pid == p->pid && b->slot == p->slot && b->status == 0)
            p->moved_before = rnic_moved(b);
    }
}

/* False: it is gone meanwhile. */
static bool see(struct rnic_process *p, const struct fl_stats_listed *listed)
{
    *p = (struct rnic_process){.uid = listed->uid, .slot = listed->slot, .is_hub = listed->is_hub};
    p->status = fl_stats_view_get(listed->address, &p->view);
    p->pid = p->view.pid ? p->view.pid : listed->pid;
    if (p->status < 0 && p->pid > 0 && kill(p->pid, 0) < 0 && errno == ESRCH)
        return false;
    if (p->status == 0)
        p->is_hub = p->view.process.is_hub;
    find_command(p);
    find_user(p);
    return true;
}

/* No farlane process has it, but somebody. */
static bool port_is_taken(uint16_t port)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool taken = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno == EADDRINUSE;

    if (fd >= 0)
        close(fd);
    return taken;
}

int rnic_look(struct rnic_look *look, int pid, const struct rnic_look *before, struct fl_error *err)
{
    struct fl_stats_listed *listed = NULL;
    int nr;

    *look = (struct rnic_look){.before_ns = before ? before->at_ns : 0};
    nr = fl_hub_udp_port(&look->udp_port, err);
    if (nr < 0)
        return nr;
    nr = fl_stats_list(getenv("FARLANE_HUB"), look->udp_port, &listed, err);
    if (nr == -ENOENT && port_is_taken(look->udp_port)) {
        fl_error_clear(err);
        return fl_error_set(
            err, nr, "UDP port %u is not farlane's: another RDMA program or the kernel's rdma_rxe holds it",
            look->udp_port);
    }
    if (nr < 0)
        return nr;
    look->processes = calloc((size_t)nr + 1, sizeof(*look->processes));
    for (int i = 0; look->processes && i < nr; i++) {
        struct rnic_process *p = &look->processes[look->nr_processes];

        if (!see(p, &listed[i]))
            continue;
        if (pid && p->pid != pid) {
            fl_stats_view_free(&p->view);
            continue;
        }
        find_before(p, before);
        look->nr_processes++;
    }
    free(listed);
    look->at_ns = fl_now_ns();
    if (!look->processes)
        return -ENOMEM;
    if (pid && !look->nr_processes)
        return fl_error_set(err, -ENOENT, "process %d does not use the software RNIC (UDP port %u)", pid,
                            look->udp_port);
    return 0;
}

void rnic_look_free(struct rnic_look *look)
{
    for (int i = 0; i < look->nr_processes; i++)
        fl_stats_view_free(&look->processes[i].view);
    free(look->processes);
    *look = (struct rnic_look){0};
}

const char *rnic_why(int status)
{
    switch (-status) {
    case EPERM:
        return "another user's: only that user and root see more";
    case ETIMEDOUT:
        return "does not answer: is it stopped?";
    case EPROTO:
    case ECONNRESET:
        return "another version of farlane";
    case ECONNREFUSED:
        return "does not take questions";
    default:
        return strerror(-status);
    }
}

void rnic_each_device(void (*see_device)(const struct fl_device *device, void *arg), void *arg)
{
    const struct fl_device *device;

    fl_device_list_free(fl_device_list_get(NULL)); /* reads the interfaces */
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (device, fl_devices(), link)
        see_device(device, arg);
    pthread_mutex_unlock(&fl_devices_lock);
}

const char *rnic_gid(const struct in6_addr *gid, char text[INET6_ADDRSTRLEN])
{
    return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

const char *rnic_qp_type(uint32_t type)
{
    return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : type == IBV_QPT_UD ? "UD" : "?";
}

const char *rnic_qp_state(uint32_t state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

    return state < FL_ARRAY_LEN(names) ? names[state] : "?";
}
