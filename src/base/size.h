/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, rates and times as people write and read them. */
#ifndef FL_BASE_SIZE_H
#define FL_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

/*
 * "4096", "4k", "64M", "1.5G", "1GiB": powers of 1024; with a B and no i ("4kB", "1GB"), powers of 1000, as
 * disks are sold. Letters k m g t p e in either case. The result must be a whole number of bytes below 2^64.
 * Nothing may follow.
 */
int fl_size_parse(const char *text, uint64_t *size, struct fl_error *err);

/* A whole decimal number from `min` to `max`, nothing around it. `what` names it in the error ("port"). */
int fl_number_parse(const char *text, uint64_t min, uint64_t max, const char *what, uint64_t *value,
                    struct fl_error *err);

#define FL_SIZE_TEXT_LEN 32

/* Each writes into buf, always terminated, and returns it. */
char *fl_size_format(uint64_t size, char buf[FL_SIZE_TEXT_LEN]);       /* for people: "1.50 GiB" */
char *fl_size_format_exact(uint64_t size, char buf[FL_SIZE_TEXT_LEN]); /* parses back to the same: "1536M" */
char *fl_rate_format(double bytes_per_s, char buf[FL_SIZE_TEXT_LEN]);  /* powers of 1000: "1.23 GB/s" */
char *fl_count_format(double n, char buf[FL_SIZE_TEXT_LEN]);           /* powers of 1000: "612 k" */
char *fl_duration_format(uint64_t ns, char buf[FL_SIZE_TEXT_LEN]);     /* "7.20 us" */

#endif
