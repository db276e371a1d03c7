/* SPDX-License-Identifier: Apache-2.0 */
/* `farlane ctl`: a request over the control socket (ctl_http.c), the answer for people (ctl_show.c). */
#ifndef FARLANE_CTL_H
#define FARLANE_CTL_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

struct ctl_answer {
    int http;   /* status */
    char *body; /* malloc'ed, terminated */
    size_t len;
    json_t *json; /* of the body, or NULL */
};

/* 0 if there was an answer, whatever its status. body may be NULL. patience_s: how long the server may be
 * silent. */
int ctl_request(const char *socket_path, const char *method, const char *path, const json_t *body,
                uint32_t patience_s, struct ctl_answer *answer, struct fl_error *err);
void ctl_answer_free(struct ctl_answer *answer);

/* Appends text with all but unreserved characters as %XX. */
void ctl_path_add(char *path, size_t len, const char *part);

void ctl_show_status(const json_t *status);
void ctl_show_list(const json_t *subsystems, const json_t *listeners);
void ctl_show_connections(const json_t *connections);

#endif
