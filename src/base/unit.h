/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit test includes: cmocka with the headers that it wants first, and a short way to list tests. */
#ifndef FL_BASE_UNIT_H
#define FL_BASE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after the four above */

#include "base/util.h"

/* int main(void) { return FL_UNIT_RUN(cmocka_unit_test(adds), cmocka_unit_test(removes)); } with static void
 * adds(void **state). */
#define FL_UNIT_RUN(...) \
    cmocka_run_group_tests_name(__FILE__, ((const struct CMUnitTest[]){__VA_ARGS__}), NULL, NULL)

#endif
