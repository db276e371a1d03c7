/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_BASE_UTF8_H
#define FL_BASE_UTF8_H

#include <stddef.h>

/*
 * How many bytes from the start of `s` are whole, valid UTF-8 characters (RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF): `len` when all of them are.
 */
size_t fl_utf8_valid_len(const char *s, size_t len);

/*
 * For text with parts that a peer chose, before a person or a terminal sees it: control characters (U+0080 to U+009F, too)
 * and bytes that are no UTF-8 become '?', each byte one. Returns s.
 */
char *fl_utf8_make_harmless(char *s);

#endif
