/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors, as every function of farlane gives them: 0 or a count, else a negative errno. What people should
 * read (what went wrong, with what, and what to do) goes into a struct fl_error, which the caller owns and
 * may leave out by passing NULL.
 *
 *     struct fl_error err = {0};
 *     if (fl_something(..., &err) < 0)
 *         fprintf(stderr, "%s\n", err.text);
 *
 * The first cause wins: an error that is set stays as it is until fl_error_clear.
 */
#ifndef FARLANE_ERROR_H
#define FARLANE_ERROR_H

#include <stdarg.h>

#include <farlane/api.h>

FL_BEGIN_DECLS

struct fl_error {
    int code;       /* negative errno; 0: nothing set */
    char text[480]; /* one sentence, always terminated, without a newline */
};

/* Records `code` (a negative errno) and the text, unless `err` is NULL or holds an error already. Returns
 * `code`. */
FL_API int fl_error_set(struct fl_error *err, int code, const char *fmt, ...) FL_PRINTF(3, 4);

FL_API int fl_error_setv(struct fl_error *err, int code, const char *fmt, va_list args) FL_PRINTF(3, 0);

/*
 * Puts "context: " before the text that is there. If none is there, the context and the name of `code` become
 * the text. Returns `code`.
 */
FL_API int fl_error_wrap(struct fl_error *err, int code, const char *fmt, ...) FL_PRINTF(3, 4);

FL_API void fl_error_clear(struct fl_error *err);

FL_END_DECLS

#endif
