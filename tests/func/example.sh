#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the library into a folder of its own, builds docs/example.c against it by pkg-config alone, shared and
# static, and runs it: example.sh SOURCE_ROOT BUILD_ROOT CC...
set -eu
source=$1 build=$2
shift 2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

DESTDIR=$root meson install -C "$build" --no-rebuild --quiet >/dev/null
pc=$(find "$root" -name farlane.pc)
[ -n "$pc" ] || { echo "no farlane.pc was installed"; exit 1; }
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$root
libdir=$(dirname "${pc%/*}")

flags=$("${PKG_CONFIG:-pkg-config}" --cflags --libs farlane)
"$@" -Wall -Werror -o "$root/shared" "$source/docs/example.c" $flags
LD_LIBRARY_PATH=$libdir "$root/shared" ram:64M | tee "$root/out"
grep -q '^hello, remote storage$' "$root/out"
grep -q '^32 reads, 0 failed$' "$root/out"
ldd "$root/shared" | grep -q libfarlane || LD_LIBRARY_PATH=$libdir ldd "$root/shared" | grep -q "$libdir/libfarlane"

rm -f "$libdir"/libfarlane.so*
flags=$("${PKG_CONFIG:-pkg-config}" --static --cflags --libs farlane)
[[ $flags != *verbs* && $flags != *rdmacm* ]] || { echo "farlane.pc asks for what is only loaded: $flags"; exit 1; }
"$@" -Wall -Werror -o "$root/static" "$source/docs/example.c" $flags
"$root/static" ram:64M | grep -q '^32 reads, 0 failed$'
! ldd "$root/static" | grep -E 'libfarlane|not found'
# Wholly static takes archives of all that it needs; Debian has none of libisal.
if "$@" -static -x c -o "$root/alone" - -lisal <<<'int main(void) { return 0; }' 2>/dev/null; then
    "$@" -static -o "$root/alone" "$source/docs/example.c" $flags 2>/dev/null
    "$root/alone" ram:64M | grep -q '^32 reads, 0 failed$'
    echo "shared, static, and wholly static: fine"
else
    echo "shared and static: fine; NOT TESTED: wholly static (-static), since there is no libisal.a here"
fi
