/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of a running server: JSON over HTTP on a Unix socket, described in docs/control.md.
 *
 *   control_parse    method, path, body -> struct control_op   no effect outside; this is what the fuzzer
 * feeds control_execute  struct control_op  -> struct control_reply control_http     libmicrohttpd on the
 * control loop
 *
 * Everything runs on the control loop's thread.
 */
#ifndef FARLANE_CONTROL_H
#define FARLANE_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "server.h"

#define CONTROL_MAX_BODY 65536u

enum control_kind {
    CONTROL_STATUS,
    CONTROL_SUBSYSTEMS,
    CONTROL_SUBSYSTEM,
    CONTROL_NAMESPACES,
    CONTROL_HOSTS,
    CONTROL_LISTENERS,
    CONTROL_CONNECTIONS,
    CONTROL_CONFIG,
    CONTROL_METRICS,
    CONTROL_SUBSYSTEM_ADD,
    CONTROL_SUBSYSTEM_CHANGE,
    CONTROL_SUBSYSTEM_REMOVE,
    CONTROL_NAMESPACE_ADD,
    CONTROL_NAMESPACE_CHANGE,
    CONTROL_NAMESPACE_REMOVE,
    CONTROL_HOST_ADD,
    CONTROL_HOST_REMOVE,
    CONTROL_LISTENER_ADD,
    CONTROL_LISTENER_CHANGE,
    CONTROL_LISTENER_REMOVE,
};

struct control_namespace_change {
    char *size; /* a size, or "file": what the file has now */
    bool *force;
};

struct control_subsystem_change {
    bool *allow_any_host;
};

struct control_host {
    char *nqn;
};

struct control_listener_change {
    uint32_t *ana_group;
    char *ana_state;
};

struct control_op {
    enum control_kind kind;
    char nqn[256], hostnqn[256]; /* from the path */
    uint32_t nsid, listener_id;
    bool keep;
    uint32_t deadline_ms;
    const struct cyaml_schema_value *schema; /* of body; NULL: there is none */
    union {
        void *any;
        struct config_subsystem *subsystem;
        struct config_namespace *ns;
        struct config_listener *listener;
        struct control_namespace_change *namespace_change;
        struct control_subsystem_change *subsystem_change;
        struct control_listener_change *listener_change;
        struct control_host *host;
    } body;
};

struct control_reply {
    unsigned http; /* status */
    json_t *json;  /* or: */
    char *text;    /* malloc'ed, with text_len and type */
    size_t text_len;
    const char *type;
    char allow[32]; /* methods, with 405 */
    /* For what ends later: */
    struct fl_change change;
    void (*ready)(struct control_reply *reply);
    struct control_op *op;
};

/* query: "keep=1&deadline_ms=500", without "?", or NULL. 0, or the reply is an error. The op is freed by
 * control_op_free in both cases. */
int control_parse(const char *method, const char *path, const char *query, const char *body, size_t body_len,
                  struct control_op *op, struct control_reply *reply);
void control_op_free(struct control_op *op);

/* Fills reply; true: not yet, reply->ready runs later (op and reply stay in place until then). */
bool control_execute(struct server *s, struct control_op *op, struct control_reply *reply);
void control_reply_free(struct control_reply *reply);

/* {"error": {code, field, message}} with the HTTP status that belongs to the errno. */
void control_reply_error(struct control_reply *reply, int code, const char *field, const char *message);

/* A text of unknown origin as JSON; null if it is NULL or empty. */
json_t *control_text(const char *text);

/* control_show.c, metrics.c */
json_t *control_show_status(struct server *s);
json_t *control_show_subsystems(struct server *s, const char *nqn); /* NULL: all; else that one or NULL */
json_t *control_show_namespaces(struct server *s);
json_t *control_show_hosts(struct server *s);
json_t *control_show_listeners(struct server *s);
json_t *control_show_connections(struct server *s);
char *metrics_text(struct server *s, size_t *len); /* malloc'ed */

/* ---- control_http.c ---- */
struct control_http;
/* Listens on the Unix socket `path` (mode 0600; a dead one that is in the way is replaced, a living one gives
 * -EADDRINUSE). */
int control_http_unix(struct server *s, const char *path, struct control_http **http, struct fl_error *err);
/* Only /metrics, on ADDR:PORT by TCP. url: where it can be read. */
int control_http_metrics(struct server *s, const char *address, struct control_http **http, char *url,
                         size_t url_len, struct fl_error *err);
void control_http_stop(struct control_http *http); /* NULL is allowed; removes the socket */

/* Where the socket is when nobody says: FARLANE_CONTROL, /run/farlane, $XDG_RUNTIME_DIR/farlane,
 * /tmp/farlane-UID. */
int control_default_path(char *path, size_t len, bool make_folder, struct fl_error *err);

#endif
