/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static bool within_host(int fd, const struct fl_addr *peer)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof(ss);
    struct fl_addr own;

    if (fl_addr_is_loopback(peer))
        return true;
    return getsockname(fd, (struct sockaddr *)&ss, &len) == 0 &&
           fl_addr_from(&own, (struct sockaddr *)&ss, len) == 0 && fl_addr_same_ip(&own, peer);
}

void fl_tcp_socket_tune(int fd, const struct fl_addr *peer)
{
    static const char unpaced[] = "reno";
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (within_host(fd, peer))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof(unpaced) - 1);
}
