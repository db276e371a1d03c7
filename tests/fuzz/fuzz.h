/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer is one function, in fuzz_<name>.c, and a folder corpus/<name> with at least one input. Built for
 * libFuzzer
 * (-Dfuzz=true, clang) it searches; built with replay.c it runs the corpus once, as a unit test.
 *
 * The input is fresh memory of exactly `len` bytes, so that ASan sees a read past its end. Return 0. Anything
 * that must hold is an assert().
 */
#ifndef FL_FUZZ_H
#define FL_FUZZ_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
