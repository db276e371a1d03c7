/* SPDX-License-Identifier: Apache-2.0 */
/* What `farlane serve` says when it is ready. */
#ifndef FARLANE_SERVE_SHOW_H
#define FARLANE_SERVE_SHOW_H

#include <jansson.h>

#include "server.h"

struct serve_ways {          /* beside the listeners */
    const char *control;     /* NULL: off */
    bool control_is_usual;   /* farlane ctl takes it without --control */
    const char *metrics_url; /* NULL: off */
    /* Subsystems that let in any host, the first of them, and those that only let in the hosts that are
     * named. */
    uint32_t nr_open, nr_closed;
    const char *open_nqn;
};

void serve_show(struct server *s, const struct serve_ways *ways);
/* One object: {"ready": true, "pid":, "control":, "metrics":, "namespaces": [{url, ...}], "listeners": [...]}
 */
json_t *serve_show_json(struct server *s, const struct serve_ways *ways);

#endif
