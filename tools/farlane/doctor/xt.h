/* SPDX-License-Identifier: Apache-2.0 */
/* Rules in the form of the old iptables: of its own tables, and as nftables keeps those that iptables-nft
 * made. */
#ifndef FARLANE_DOCTOR_XT_H
#define FARLANE_DOCTOR_XT_H

#include "sys.h"

/* Notes in `chain` which of the ports 4791 and 4420 a match lets through, or that it is not understood here.
 * `info`, of `len` bytes, is what the kernel keeps of it. */
void xt_take_match(const char *name, const void *info, size_t len, struct sys_chain *chain);

/*
 * The entries of one table, as IPT_SO_GET_ENTRIES or IP6T_SO_GET_ENTRIES give them: every rule's matches, and
 * in `policy` (an offset in them) what becomes of packets that no rule takes. False: a length in them lies.
 */
bool xt_take_table(const void *entries, size_t len, bool ip6, size_t policy, struct sys_chain *chain);

#endif
