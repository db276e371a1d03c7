#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds farlane in build/ (or in DIR, with meson's options after it): scripts/build.sh [-n] [DIR [OPTION...]]
# -n only configures.
set -eu
cd "$(dirname "$0")/.."

configure_only=false
if [ "${1:-}" = -n ]; then
    configure_only=true
    shift
fi
dir=${1:-build}
(($# == 0)) || shift

if [ ! -e "$dir/build.ninja" ]; then
    meson setup "$dir" "$@" >"$dir.log" 2>&1 || {
        tail -n 30 "$dir.log" >&2
        rm -rf "$dir" # half a configuration would be taken for a whole one
        exit 1
    }
    rm -f "$dir.log"
elif (($#)); then
    meson configure "$dir" "$@"
fi
! $configure_only || exit 0
quiet=--quiet
[ ! -t 1 ] || quiet=
ninja -C "$dir" $quiet

# The command stands at build/farlane, whatever the folder that it is built in.
if [ -e "$dir/tools/farlane/farlane" ]; then
    ln -sfn tools/farlane/farlane "$dir/farlane"
fi
