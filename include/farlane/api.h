/* SPDX-License-Identifier: Apache-2.0 */
/* What every public header of farlane starts from. */
#ifndef FARLANE_API_H
#define FARLANE_API_H

/* Marks what libfarlane.so exports; everything else is hidden. */
#define FL_API __attribute__((visibility("default")))

/* Lets the compiler check a printf-like call: the format is argument `fmt`, its values start at `args`. */
#define FL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

#ifdef __cplusplus
#define FL_BEGIN_DECLS extern "C" {
#define FL_END_DECLS   }
#else
#define FL_BEGIN_DECLS
#define FL_END_DECLS
#endif

#endif
