/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this host is: its NQN and its 128-bit identifier, which belong together (base specification 4.5,
 * Fabrics 1.1, 3.3).
 */
#ifndef FL_HOST_IDENTITY_H
#define FL_HOST_IDENTITY_H

#include <farlane/error.h>

#include "base/nqn.h"
#include "base/uuid.h"

struct fl_host_identity {
    char nqn[FL_NQN_LEN];
    struct fl_uuid id;
    char source[300]; /* where it is from, for people */
};

/*
 * nqn and id (16 bytes) as the caller has them, either may be NULL. Else: /etc/nvme/hostnqn and hostid; else
 * those kept for this user in $XDG_STATE_HOME/farlane (~/.local/state/farlane), made on first use; else,
 * where nothing can be kept, made up for this process. A missing id is the UUID in the NQN, or derived from
 * it.
 */
int fl_host_identity(const char *nqn, const uint8_t *id, struct fl_host_identity *identity,
                     struct fl_error *err);

#endif
