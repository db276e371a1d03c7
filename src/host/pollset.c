/* SPDX-License-Identifier: Apache-2.0 */
#include "host/pollset.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int fl_pollset_init(struct fl_pollset *set)
{
    *set = (struct fl_pollset){.epfd = epoll_create1(EPOLL_CLOEXEC)};
    return set->epfd < 0 ? -errno : 0;
}

void fl_pollset_fini(struct fl_pollset *set)
{
    if (set->epfd >= 0)
        close(set->epfd);
    set->epfd = -1;
}

static bool has(const struct pollfd *p, int nr, int fd)
{
    for (int i = 0; i < nr; i++)
        if (p[i].fd == fd)
            return true;
    return false;
}

static bool same(const struct fl_pollset *set, const struct pollfd *p, int nr)
{
    for (int i = 0; i < nr && nr == set->nr; i++)
        if (p[i].fd != set->reg[i].fd || p[i].events != set->reg[i].events)
            return false;
    return nr == set->nr;
}

void fl_pollset_sync(struct fl_pollset *set, const struct fl_link *link)
{
    struct pollfd p[FL_LINK_MAX_FDS];
    int nr = fl_link_pollfds(link, p);

    /* A link that went down and came to READY between two looks may have the number of its last socket, which
     * has left the set when it was closed. */
    if (link->state == FL_LINK_READY && set->serial == link->serial && same(set, p, nr))
        return;
    set->serial = link->serial;
    for (int i = 0; i < set->nr; i++)
        if (!has(p, nr, set->reg[i].fd))
            epoll_ctl(set->epfd, EPOLL_CTL_DEL, set->reg[i].fd, NULL); /* gone already when it was closed */
    for (int i = 0; i < nr; i++) {
        struct epoll_event ev = {.events = (uint32_t)p[i].events,
                                 .data.fd = p[i].fd}; /* POLLIN is EPOLLIN, and so on */

        /* A number that was in the set may have been closed and used again for another socket. */
        if (epoll_ctl(set->epfd, EPOLL_CTL_MOD, p[i].fd, &ev) < 0)
            epoll_ctl(set->epfd, EPOLL_CTL_ADD, p[i].fd, &ev);
    }
    memcpy(set->reg, p, sizeof(p[0]) * (size_t)nr);
    set->nr = nr;
}
