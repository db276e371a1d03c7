/* SPDX-License-Identifier: Apache-2.0 */
/* The discovery log, whatever it is read from: a controller, a test, a fuzzer. */
#ifndef FL_HOST_DISCOVER_H
#define FL_HOST_DISCOVER_H

#include <stdint.h>

#include <farlane/host.h>

#include "wire/discovery.h"

#define FL_DISC_MAX_TRIES   10
#define FL_DISC_MAX_ENTRIES 16384u /* whatever the peer says */

struct fl_disc_reader {
    /* len bytes of the log page from off on. */
    int (*read)(void *arg, void *buf, uint64_t off, uint32_t len, struct fl_error *err);
    void *arg;
};

/* Reads all of it, again when it changed meanwhile. *entries: free() it. */
int fl_disc_read(const struct fl_disc_reader *reader, struct fl_discovered **entries, uint32_t *nr,
                 struct fl_error *err);

void fl_disc_present(const struct fl_disc_record *record, struct fl_discovered *entry);

#endif
