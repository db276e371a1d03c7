/* SPDX-License-Identifier: Apache-2.0 */
/* What `farlane explain` has found (cmd_explain.c), and the forms in which it tells it (explain_show.c). */
#ifndef FARLANE_EXPLAIN_H
#define FARLANE_EXPLAIN_H

#include "verbs/choose.h"

struct explanation {
    const char *url;
    struct fl_addr to;
    struct fl_route route;
    struct fl_choice choice; /* device, port, GID; why_not of each better way; of all where there is none */
    enum fl_path path;       /* taken; unless connected, expected, or tried where code tells of a failure */
    bool connected;
    int target_pid; /* 0: not of this host, or not known */
    int code;       /* 0, or why there is no path or no connection */
    struct fl_error err;
};

void explain_text(const struct explanation *e);
void explain_json(const struct explanation *e);
/* A namespace of this machine: no path at all. Returns an exit status. */
int explain_local(const char *url, bool json);

#endif
