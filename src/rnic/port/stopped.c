/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hub that is stopped (SIGSTOP, a debugger) still holds the UDP port, and its socket takes the packets of
 * all. A process of the same user binds another socket beside it (SO_REUSEPORT) and takes over; the one that
 * was stopped notices when it goes on, and becomes a member.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rnic/port/impl.h"

#define IDLE_NS FL_NS_PER_S /* between looks while nothing comes */

bool fl_port_hub_looks_stopped(const struct fl_port *port)
{
    struct fl_hub_peer hub;
    return fl_hub_unix_peer(port->link.fd, &hub) == 0 && fl_hub_is_stopped(hub.pid);
}

/* It is asked something, too: a claim of nothing, which one that runs answers. */
static void watch_other(struct fl_port *port, uint64_t now)
{
    if (now - port->hub_looked_at < FL_PORT_LOOK_NS)
        return;
    port->hub_looked_at = now;
    if (!fl_port_hub_looks_stopped(port)) {
        port->nr_seen_stopped = 0;
        return;
    }
    struct fl_hub_msg ask = {.type = FL_HUB_CLAIM};
    if (++port->nr_seen_stopped >= FL_PORT_LOOKS)
        fl_port_lost_hub(port, now);
    else if (port->nr_seen_stopped == 1)
        fl_hub_link_send(&port->link, &ask);
}

void fl_port_forget_beside(struct fl_port *port)
{
    for (; port->nr_beside; port->nr_beside--)
        close(port->beside[port->nr_beside - 1]);
}

/* A connection to each other hub, which breaks when that one gives up its socket. */
static void find_beside(struct fl_port *port, int own)
{
    port->names = 1u << own;
    port->own_name = own;
    for (int i = 0; i < FL_HUB_NAMES; i++) {
        char name[FL_HUB_NAME_LEN + 2];
        if (i == own)
            continue;
        fl_hub_name(port->name, i, name);
        int fd = fl_hub_unix_connect(name);
        if (fd < 0)
            continue;
        port->beside[port->nr_beside++] = fd;
        port->names |= 1u << i;
    }
}

int fl_port_listen_beside(struct fl_port *port, int own)
{
    find_beside(port, own);
    port->udp_fd = fl_udp_listen_beside(port->udp_port, port->nr_beside);
    return port->udp_fd < 0 ? port->udp_fd : 0;
}

static bool is_one_gone(const struct fl_port *port)
{
    char c;
    for (int i = 0; i < port->nr_beside; i++) {
        ssize_t n = recv(port->beside[i], &c, 1, MSG_DONTWAIT | MSG_PEEK);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return true;
    }
    return false;
}

/* When one of several sockets is closed the kernel numbers the others anew: ours has to become the last one
 * again. What it still holds is lost, as on the wire. */
static void bind_again(struct fl_port *port, uint64_t now)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)FL_PORT_UDP << 32};
    port->beside_gone = false;
    fl_port_forget_beside(port);
    find_beside(port, port->own_name);
    if (!port->nr_beside) { /* alone: there is nothing to choose */
        fl_port_inherit(port, now);
        return;
    }
    close(port->udp_fd);
    port->udp_fd = fl_udp_listen_beside(port->udp_port, port->nr_beside);
    if (port->udp_fd < 0 || epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, port->udp_fd, &event) < 0) {
        FL_WARN("rnic: cannot go on as hub of UDP port %u: %m", port->udp_port);
        fl_port_stop_serving(port, now);
    }
}

/* A hub that was stopped itself has not looked around for a while; and who takes over connects to it. */
static void watch_self(struct fl_port *port, uint64_t now)
{
    bool doubt = port->met_stranger || now - port->looked_at >= FL_PORT_LOOK_NS;
    port->met_stranger = false;
    if (doubt && fl_hub_is_served_by_another(port->name, port->names)) {
        FL_WARN("rnic: this process was stopped, and another one has taken over as hub of UDP port %u",
                port->udp_port);
        fl_port_stop_serving(port, now);
        return;
    }
    if (port->nr_beside && now - port->hub_looked_at >= FL_PORT_LOOK_NS) {
        port->hub_looked_at = now;
        /* At the next look: where its process ended, its socket may be closed after its name. */
        if (port->beside_gone)
            bind_again(port, now);
        else
            port->beside_gone = is_one_gone(port);
        if (port->role == FL_ROLE_HUB && port->nr_beside)
            fl_hub_server_wait_for_others(port->server, now);
    }
}

void fl_port_watch_hub(struct fl_port *port, uint64_t now)
{
    if (port->role == FL_ROLE_MEMBER)
        watch_other(port, now);
    else if (port->role == FL_ROLE_HUB)
        watch_self(port, now);
    port->looked_at = now;
}

uint64_t fl_port_watch_deadline(const struct fl_port *port)
{
    if (port->role == FL_ROLE_HUB && !port->nr_beside)
        return UINT64_MAX;
    return port->hub_looked_at + (port->nr_seen_stopped || port->beside_gone ? FL_PORT_LOOK_NS : IDLE_NS);
}
