/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the TLS 1.3 records of a captured connection with the secrets of a key log: TLS_AES_128_GCM_SHA256
 * only. */
#ifndef FL_TESTS_WIRE_TLS_H
#define FL_TESTS_WIRE_TLS_H

#include <stdbool.h>

#include "pcap.h"

/* Does this connection begin as TLS does? */
bool tls_is_tls(const struct flow *flow);

/*
 * Replaces both streams of the flow by the application data in them. Every record must open (RFC 8446 5.2),
 * both Finished messages must have come, and key updates are followed. 0, -ENOKEY when the log lacks this
 * connection, -EBADMSG when a record does not open, -EPROTO for anything that is not TLS 1.3 with this cipher
 * suite.
 */
int tls_open(struct flow *flow, const char *keylog_path);

#endif
