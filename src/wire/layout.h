/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_LAYOUT_H
#define FL_WIRE_LAYOUT_H

#include <stddef.h>

/*
 * Every struct in this folder is made of byte arrays, so that no compiler may pad it. These two say so at
 * compile time: the offsets are typed from the specification, not computed.
 */
#define FL_LAYOUT_SIZE(name, size) \
    _Static_assert(sizeof(struct name) == (size), #name " is " #size " bytes on the wire")
#define FL_LAYOUT_AT(name, field, offset) \
    _Static_assert(offsetof(struct name, field) == (offset), #name "." #field " is at byte " #offset)

#endif
