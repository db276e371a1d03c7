/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target is told to be: from a YAML file (farlane.yaml(5)), from options of `farlane serve`, or from a
 * running target (`farlane ctl save`). One schema (config_yaml.c) serves for loading, checking and saving.
 *
 * All pointers belong to the config and are freed by config_free. A NULL pointer or an absent list is the
 * default.
 */
#ifndef FARLANE_CONFIG_H
#define FARLANE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

struct config_namespace {
    uint32_t *nsid; /* NULL: the lowest free one */
    char *spec;
    char *uuid;
    uint32_t *ana_group;
};

struct config_subsystem {
    char *nqn, *serial, *model;
    bool *allow_any_host; /* NULL: true if no host is listed */
    char **hosts;
    uint32_t nr_hosts;
    struct config_namespace *namespaces;
    uint32_t nr_namespaces;
};

struct config_ana {
    uint32_t *group;
    char *state; /* as fl_target_set_ana takes it */
};

struct config_listener {
    char *address;       /* tcp://ADDR[:PORT] */
    bool *strict;        /* NULL: false */
    bool *hdgst, *ddgst; /* NULL: true */
    struct config_ana *ana; /* of groups that are not optimized through it */
    uint32_t nr_ana;
};

struct config {
    char *cores, *poll;
    uint32_t *max_queues, *max_depth, *shared_receives;
    char *mdts, *capsule, *buffers; /* sizes */
    char *control, *metrics;
    struct config_listener *listeners;
    uint32_t nr_listeners;
    struct config_subsystem *subsystems;
    uint32_t nr_subsystems;
};

/* Where each value stood in the file, for errors that show up after loading. */
struct config_mark {
    char *path;            /* "subsystems[0].namespaces[1].spec" */
    uint32_t line, column; /* line 0: not in the file */
};

struct config_marks {
    char *file; /* name for messages; NULL: there is no file */
    struct config_mark *mark;
    uint32_t nr, cap;
};

#define CONFIG_MAX_LEN (1u << 20)

struct config *config_create(void);
void config_free(struct config *config);

int config_load(const char *file, struct config **config, struct config_marks *marks, struct fl_error *err);
/* `name` stands for the file in messages. On success *config is never NULL, also for an empty text. */
int config_load_text(const char *name, const char *text, size_t len, struct config **config,
                     struct config_marks *marks, struct fl_error *err);
/* *text is malloc'ed, not terminated. */
int config_save_text(const struct config *config, char **text, size_t *len, struct fl_error *err);

void config_marks_free(struct config_marks *marks);
/* The value at path, and what is in it, comes from the command line: it has no place in the file. */
void config_mark_typed(struct config_marks *marks, const char *path);
/* Puts "FILE:LINE:COLUMN: " (of the deepest known part of path) before the text of err. Returns code. */
int config_error_at(const struct config_marks *marks, int code, struct fl_error *err, const char *path, ...)
    FL_PRINTF(4, 5);

/* Growing lists; the new entry is zero. Out of memory ends the program: nothing is served yet. */
struct config_listener *config_add_listener(struct config *config, const char *address);
void config_add_ana(struct config_listener *listener, uint32_t group, const char *state);
/* Frees all listeners and leaves an empty list. */
void config_drop_listeners(struct config *config);
struct config_subsystem *config_add_subsystem(struct config *config, const char *nqn);
struct config_namespace *config_add_namespace(struct config_subsystem *ss, const char *spec);
void config_add_host(struct config_subsystem *ss, const char *hostnqn);
/* "file:disk.img,bs=4096" with the path made absolute, so that it means the same to a process in another
 * folder; anything else as it is. malloc'ed. */
char *config_absolute_spec(const char *spec);
void config_set_text(char **member, const char *text);
void config_set_number(uint32_t **member, uint32_t value);
void config_set_bool(bool **member, bool value);

#endif
