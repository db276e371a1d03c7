/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a result is put in: the whole result or none of it. What is there already is replaced only if
 * it is empty or a result of the same kind, or if --force was said; and never while a target serves it.
 * Folders and devices are no place for it; what is put in a FIFO goes straight to whoever reads.
 */
#ifndef FARLANE_SAVE_FILE_H
#define FARLANE_SAVE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include <farlane/error.h>

struct save_kind {
    const char *name;                 /* "farlane configuration", in: it is no ... */
    bool (*is_one)(const char *path); /* whether a file, not empty, is of this kind */
};

struct save_file {
    FILE *f; /* to write to */
    const char *path;
    char *place, *beside; /* behind symbolic links; beside is NULL: nothing to rename */
    int old;              /* what is replaced, locked; -1: nothing */
};

/* Whether save_file_begin would replace what is there. */
int save_file_check(const char *path, const struct save_kind *kind, bool force, struct fl_error *err);
int save_file_begin(struct save_file *s, const char *path, const struct save_kind *kind, bool force,
                    struct fl_error *err);
/* Makes what was written durable and puts it in its place; on an error, and with good false, all is as
 * before. */
int save_file_end(struct save_file *s, bool good, struct fl_error *err);

#endif
