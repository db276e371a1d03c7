/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs (RFC 4122), in the order of their text: also the order of NVMe's UUID and Host Identifier fields. */
#ifndef FL_BASE_UUID_H
#define FL_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

struct fl_uuid {
    uint8_t b[16];
};

#define FL_UUID_TEXT_LEN 37 /* 36 characters and the terminator */

/* Version 4, from the kernel's random numbers. */
void fl_uuid_make(struct fl_uuid *uuid);
char *fl_uuid_format(const struct fl_uuid *uuid, char buf[FL_UUID_TEXT_LEN]);
int fl_uuid_parse(const char *text, struct fl_uuid *uuid, struct fl_error *err);
bool fl_uuid_is_zero(const struct fl_uuid *uuid);

#endif
