/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void fl_hub_name(const char *name, int i, char at[FL_HUB_NAME_LEN + 2])
{
    if (i)
        snprintf(at, FL_HUB_NAME_LEN + 2, "%s+%d", name, i);
    else
        snprintf(at, FL_HUB_NAME_LEN + 2, "%s", name);
}

/* proc(5), pid/stat: the state is the field after the program's name, which may itself hold brackets. */
bool fl_hub_is_stopped(int pid)
{
    char path[32], text[512], *at;
    if (pid <= 0) /* not of our namespace of processes */
        return false;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    at = strrchr(text, ')');
    return at && at[1] && (at[2] == 'T' || at[2] == 't');
}

int fl_hub_find(struct fl_hub_link *link, const char *name, uint32_t want, const char *address, bool patient,
                struct fl_hub_search *search)
{
    char stopped[FL_HUB_NAME_LEN + 2];
    int rc = -ENOENT;
    *search = (struct fl_hub_search){.free = FL_HUB_NAMES};
    for (int i = 0; i < FL_HUB_NAMES; i++) {
        char at[FL_HUB_NAME_LEN + 2];
        struct fl_hub_peer peer;
        fl_hub_name(name, i, at);
        int r = fl_hub_link_connect(link, at, want, address);
        if (r == -ECONNREFUSED) {
            if (i < search->free)
                search->free = i;
            continue;
        }
        if (r < 0) { /* it is there, but cannot be asked just now */
            rc = r;
            continue;
        }
        if (fl_hub_unix_peer(link->fd, &peer) < 0 || !fl_hub_is_stopped(peer.pid))
            return 0;
        if (!search->nr_stopped++)
            memcpy(stopped, at, sizeof(stopped));
        search->pid = peer.pid;
        search->ours = search->ours || peer.uid == (uint32_t)geteuid();
        fl_hub_link_close(link);
    }
    return patient && search->nr_stopped ? fl_hub_link_connect(link, stopped, want, address) : rc;
}

bool fl_hub_is_served_by_another(const char *name, uint32_t but)
{
    for (int i = 0; i < FL_HUB_NAMES; i++) {
        char at[FL_HUB_NAME_LEN + 2];
        if (but >> i & 1)
            continue;
        fl_hub_name(name, i, at);
        int fd = fl_hub_unix_connect(at);
        if (fd < 0)
            continue;
        close(fd);
        return true;
    }
    return false;
}
