/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_BASE_UTF8_H
#define FL_BASE_UTF8_H

#include <stddef.h>

/*
 * How many bytes from the start of `s` are whole, valid UTF-8 characters (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF): `len` when all of them are.
 */
size_t fl_utf8_valid_len(const char *s, size_t len);

#endif
