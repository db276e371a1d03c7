/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that were destroyed. Programs use them once more by mistake, and hardware's libraries then read
 * memory that is another's by now; here they are told ENODEV, as after a fork, where that costs nothing: what
 * stands in an object's struct leads to an RNIC that is gone, and the memory is kept until some hundred
 * others were destroyed after it.
 */
#ifndef FL_RNIC_RETIRED_H
#define FL_RNIC_RETIRED_H

#include "rnic/objects.h"

extern struct fl_rnic fl_rnic_none;

/* Any thread. Frees it later; nothing of ours may point to it. */
void fl_retire(void *memory);
/* What a destroyed object has as its context: with the same device */
struct ibv_context *fl_retired_context(const struct ibv_context *context);

#endif
