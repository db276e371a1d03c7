/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that a command starts and sees to their end. They die with it, however it ends. One thread. */
#ifndef FARLANE_CHILD_H
#define FARLANE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <farlane/error.h>

struct child {
    pid_t pid; /* 0: none */
    int out;   /* what it writes to its standard output */
    int err;   /* a file with what it wrote to standard error */
    bool deaf; /* SIGTERM is nothing to it */
};

/* argv[0] is looked up in PATH, as is usual. env: "NAME=VALUE" to be set beside the environment, ended by
 * NULL; may be NULL itself. */
int child_start(struct child *c, const char *const *argv, const char *const *env, struct fl_error *err);
/* The same for a program that ignores SIGTERM: only SIGKILL ends it. */
int child_start_deaf(struct child *c, const char *const *argv, struct fl_error *err);
/* The next line of its output, without the newline; NULL: none came within timeout_ms, or it ended. The
 * caller frees it. */
char *child_line(struct child *c, int timeout_ms);
/* Everything until it closes its output. NULL: it took longer than timeout_ms. The caller frees it. */
char *child_output(struct child *c, int timeout_ms);
/* The last line of what it said on standard error, in buf; "" if nothing. */
const char *child_complaint(struct child *c, char *buf, size_t size);
/* Waits for its end, which it is asked for (SIGTERM, later or if deaf SIGKILL) unless it came by itself. The
 * exit status as a shell tells it. */
int child_stop(struct child *c);

/* Runs it to its end: its output (the caller frees it), or NULL with *err saying what it complained of. */
char *child_run(const char *const *argv, const char *const *env, int timeout_ms, struct fl_error *err);

/* True if a program of that name is in PATH. */
bool child_exists(const char *name);

#endif
