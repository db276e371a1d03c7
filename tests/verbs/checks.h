/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that make many calls and count those that do not give what they should. */
#ifndef FL_TESTS_VERBS_CHECKS_H
#define FL_TESTS_VERBS_CHECKS_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int nr_checks, nr_failed;

static inline void check(int ok, const char *what, long got)
{
    nr_checks++;
    if (ok)
        return;
    nr_failed++;
    printf("WRONG: %s gave %ld (errno %d, %s)\n", what, got, errno, strerror(errno));
}

#endif
