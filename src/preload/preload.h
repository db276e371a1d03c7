/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drop-in libibverbs: every function of libibverbs that programs call, under its standard name and
 * version, passed on to one of two tables (verbs/verbs.h) by whose object it was given. docs/drop-in.md lists
 * them.
 */
#ifndef FL_PRELOAD_PRELOAD_H
#define FL_PRELOAD_PRELOAD_H

#include <stdbool.h>

#include "verbs/verbs.h"

#define FL_EXPORT __attribute__((visibility("default")))

/* real.c: the libibverbs below this one. NULL: it is not installed, or hidden (FARLANE_RNIC=only). */
const struct fl_verbs *fl_real_verbs(void);
typedef void (*fl_real_function)(void);
/* A function of it that the table has not; NULL: not there. */
fl_real_function fl_real_find(const char *name);

/* route.c */
bool fl_is_soft(const struct ibv_context *context);
const struct fl_verbs *fl_verbs_of(const struct ibv_context *context);
/* Of a device, and then *soft, too, if asked for */
const struct fl_verbs *fl_verbs_of_device(const struct ibv_device *device);

#endif
