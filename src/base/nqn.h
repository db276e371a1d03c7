/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe Qualified Names (NVM Express Base Specification 2.0, 4.5). They are compared as bytes, never folded.
 */
#ifndef FL_BASE_NQN_H
#define FL_BASE_NQN_H

#include <stdbool.h>
#include <stddef.h>

#include <farlane/error.h>

#include "base/uuid.h"

#define FL_NQN_MAX       223 /* bytes, without the terminator */
#define FL_NQN_LEN       224 /* room for one with its terminator */
#define FL_NQN_FIELD_LEN 256 /* its field in a command or log page */

/* The well-known name of every discovery subsystem. */
#define FL_NQN_DISCOVERY "nqn.2014-08.org.nvmexpress.discovery"

/*
 * Whether the text at `nqn` is a valid name; `max` is how many bytes may be read there (the size of the
 * field, or FL_NQN_FIELD_LEN for a C string, which ends at its terminator). Valid are
 *     nqn.YYYY-MM.REVERSE.DOMAIN        nqn.YYYY-MM.REVERSE.DOMAIN:ANY-UTF-8
 *     nqn.2014-08.org.nvmexpress:uuid:XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX
 * 0, or -EINVAL and in `err` what is wrong with it.
 */
int fl_nqn_check(const char *nqn, size_t max, struct fl_error *err);

bool fl_nqn_is_discovery(const char *nqn);

/* The name made of a UUID, as hosts without a name of their own use. Returns buf. */
char *fl_nqn_from_uuid(const struct fl_uuid *uuid, char buf[FL_NQN_LEN]);

/* The UUID in such a name; false for names of the other form. */
bool fl_nqn_uuid(const char *nqn, struct fl_uuid *uuid);

#endif
