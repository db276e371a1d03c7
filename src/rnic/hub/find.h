/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process is the hub. It listens on the name that it is known by; but where that one belongs to a hub
 * that is stopped (SIGSTOP, a debugger), another process may have taken over, on the next free name of a few.
 */
#ifndef FL_RNIC_HUB_FIND_H
#define FL_RNIC_HUB_FIND_H

#include "rnic/hub/link.h"
#include "rnic/hub/unix.h"

#define FL_HUB_NAMES 4 /* one hub that runs, and those before it that are stopped */

struct fl_hub_search {
    int nr_stopped;
    bool ours; /* one of those is a process of this user's */
    int pid;   /* of one that is stopped */
    int free;  /* the first name that nobody has; FL_HUB_NAMES: none */
};

/* The i-th name, beginning with `name` itself. */
void fl_hub_name(const char *name, int i, char at[FL_HUB_NAME_LEN + 2]);

/* Stopped by a signal or a debugger, as far as this process can see; one under strace looks so often. */
bool fl_hub_is_stopped(int pid);

/* Says HELLO to the hub that runs; with `patient` to one that looks stopped where there is no other one. 0,
 * -ENOENT: there is none, or negative errno. *search tells of those that look stopped. */
int fl_hub_find(struct fl_hub_link *link, const char *name, uint32_t want, const char *address, bool patient,
                struct fl_hub_search *search);

/* Does a process serve on another name than those of the mask? One that is stopped does, too. */
bool fl_hub_is_served_by_another(const char *name, uint32_t but);

#endif
