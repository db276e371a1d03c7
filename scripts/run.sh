#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job on this machine, and its result: a namespace on a real file is served, discovered, written, read back, checked, and
# measured against the same file read locally. An ordinary process, a free port on loopback, nothing left behind.
#
#   scripts/run.sh        FARLANE=build/farlane  SIZE=1G  SECONDS_EACH=3  TMPDIR=where the file lies
set -eu -o pipefail
cd "$(dirname "$0")/.."

farlane=${FARLANE:-build/farlane}
size=${SIZE:-1G}
each=${SECONDS_EACH:-3}
nqn=nqn.2026-01.io.farlane:run
[ -x "$farlane" ] || {
    echo "$0: $farlane is not there; make build first" >&2
    exit 1
}

# The file should lie on a disk, not in RAM: in the build folder unless TMPDIR says otherwise.
folder=$(mktemp -d "${TMPDIR:-$PWD/build}/run.XXXXXX")
server=
clean_up() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' green=$'\033[32m' off=$'\033[0m'; else bold='' green='' off=''; fi
step() { printf '\n%s%s%s\n' "$bold" "$1" "$off"; }
show() { printf '  $ %s\n' "$*"; }
indent() { sed 's/^/  /'; }

step "1. A file of $size, served as an NVMe namespace"
fallocate -l "$size" "$folder/disk.img" 2>/dev/null || truncate -s "$size" "$folder/disk.img"
show "farlane serve --ns file:disk.img --nqn $nqn"
"$farlane" serve --ns "file:$folder/disk.img,bs=4096" --nqn "$nqn" --listen tcp://127.0.0.1:0 --control "$folder/control" --json \
    >"$folder/ready" 2>"$folder/log" &
server=$!
for ((i = 0; i < 200; i++)); do
    [ ! -s "$folder/ready" ] || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.05
done
url=$(grep -o '"url":"nvme+tcp:[^"]*"' "$folder/ready" | head -n 1 | cut -d'"' -f4) || true
[ -n "$url" ] || {
    cat "$folder/log" >&2
    echo "$0: the server did not start" >&2
    exit 1
}
printf '  %s\n' "$url"

step "2. Discovered by a host"
show "farlane discover ${url%/*}"
"$farlane" discover "${url%/*}" | sed '/^$/d; /^Next/d' | indent

step "3. Written over the fabric, read back and checked"
# Random data, so that no layer can squeeze it; 256 MiB of it, or as much as the file has.
head -c 256M /dev/urandom >"$folder/data"
bytes=$(stat -c %s "$folder/disk.img")
[ "$bytes" -ge 268435456 ] || truncate -s "$bytes" "$folder/data"
show "farlane copy data URL --verify"
"$farlane" copy "$folder/data" "$url" --verify | indent
length=$(stat -c %s "$folder/data")
sent=$(sha256sum <"$folder/data" | cut -d' ' -f1)
read_back=$("$farlane" read "$url" --length "$length" | sha256sum | cut -d' ' -f1)
in_file=$(head -c "$length" "$folder/disk.img" | sha256sum | cut -d' ' -f1)
printf '  sha256 sent       %s\n  sha256 read back  %s\n  sha256 in file    %s\n' "$sent" "$read_back" "$in_file"
if [ "$sent" != "$read_back" ] || [ "$sent" != "$in_file" ]; then
    echo "$0: the data differ" >&2
    exit 1
fi
printf '  %sall equal%s\n' "$green" "$off"

step "4. Measured: the same file, locally (A) and over the fabric (B)"
# The server holds a lock on its file; reading along with it is allowed when asked for.
show "farlane bench file:disk.img URL --depth 1,32   (the part that was written)"
"$farlane" bench "file:$folder/disk.img,ro=1,lock=0" "$url" --depth 1,32 --seconds "$each" --size "$length" | sed "s|$folder/||" | indent

step "5. The end: the server is told to stop"
kill "$server"
status=0
wait "$server" || status=$?
server=
if [ "$status" != 0 ]; then
    cat "$folder/log" >&2
    echo "$0: the server left with status $status" >&2
    exit 1
fi
printf '  it let I/O end and left with status 0\n\n%sThe main job works on this machine.%s Next: farlane help, man/farlane.1\n' "$green" "$off"
