#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Formats sources in place, all or those named; --check only tells which would change.
set -eu
cd "$(dirname "$0")/.."

mode=(-i)
if [ "${1:-}" = --check ]; then
    mode=(--dry-run -Werror)
    shift
fi
files=("$@")
((${#files[@]})) || mapfile -t files < <(git ls-files '*.c' '*.h')
clang-format --style=file "${mode[@]}" "${files[@]}"
