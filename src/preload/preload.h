/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drop-in libibverbs and librdmacm: each function that programs call, under its standard name and
 * version, passed on to one of two tables (verbs/verbs.h, verbs/rdmacm.h). docs/drop-in.md lists them.
 */
#ifndef FL_PRELOAD_PRELOAD_H
#define FL_PRELOAD_PRELOAD_H

#include <stdbool.h>

#include "verbs/rdmacm.h"
#include "verbs/verbs.h"

#define FL_EXPORT __attribute__((visibility("default")))

/* real.c: the libibverbs below this one. NULL: it is not installed, or hidden (FARLANE_RNIC=only). */
const struct fl_verbs *fl_real_verbs(void);
typedef void (*fl_real_function)(void);
/* A function of it that the table has not; NULL: not there. */
fl_real_function fl_real_find(const char *name);

fl_real_function fl_real_find_cm(const char *name);

/* devices.c: does the program see a real device? */
bool fl_real_devices(void);

/* route.c */
bool fl_is_soft(const struct ibv_context *context);
const struct fl_verbs *fl_verbs_of(const struct ibv_context *context);
const struct fl_verbs *fl_verbs_of_device(const struct ibv_device *device);
/* An event channel serves identifiers of one kind only, and is made before any of them has a device: so a
 * process has one connection manager. The real one where there are real devices, else the software RNIC's. */
const struct fl_rdmacm *fl_cm(void);

/* This thread opens the libraries below this one. Who calls dlopen() would tell, but for sanitizers, which
 * stand between. */
extern __thread bool fl_dlopen_below;

#endif
