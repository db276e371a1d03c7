/* SPDX-License-Identifier: Apache-2.0 */
/* Why this process could be neither hub nor member, for people. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "rnic/port/impl.h"

bool fl_port_is_forbidden(const struct fl_port *port)
{
    return !port->why.asked && (port->why.bind == -EACCES || port->why.bind == -EPERM);
}

int fl_port_no_hub(const struct fl_port *port, uint64_t waited_ns, struct fl_error *err)
{
    char who[32];
    if (fl_port_is_forbidden(port))
        return fl_error_set(err, port->why.bind,
                            "this user may not bind UDP port %u (net.ipv4.ip_unprivileged_port_start): set "
                            "FARLANE_ROCE_PORT to a port from 1024 on, at both ends, or be root "
                            "(CAP_NET_BIND_SERVICE)",
                            port->udp_port);
    if (!port->why.asked && port->why.bind != -EADDRINUSE && port->why.bind)
        return fl_error_set(err, port->why.bind, "UDP port %u cannot be bound: %s", port->udp_port,
                            strerror(-port->why.bind));
    if (!port->why.asked)
        return fl_error_set(err, -EADDRINUSE,
                            "UDP port %u is in use and no farlane process serves it: another RDMA program or "
                            "the kernel's rdma_rxe holds it",
                            port->udp_port);
    snprintf(who, sizeof(who), port->why.pid > 0 ? "process %d" : "a process", port->why.pid);
    if (port->why.stopped)
        return fl_error_set(err, -EBUSY,
                            "%s, which serves UDP port %u for all of this host, is stopped, and another "
                            "user's: let it go on (kill -CONT)",
                            who, port->udp_port);
    if (port->why.answer)
        return fl_error_set(
            err, -EBUSY, "%s, which serves UDP port %u for all of this host, refuses%s: %s", who,
            port->udp_port, port->why.answer == -ENOSPC ? "" : " (is it another version of farlane?)",
            port->why.answer == -ENOSPC ? "it has no room for more processes" : strerror(-port->why.answer));
    return fl_error_set(err, -EBUSY,
                        "%s, which serves UDP port %u for all of this host, has not answered for %d s: it is "
                        "too busy, or hangs. Try again, or end it",
                        who, port->udp_port, (int)(waited_ns / FL_NS_PER_S));
}
