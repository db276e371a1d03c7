#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job on this machine, and its result: a namespace on a real file is served, discovered, written, read back and checked, and
# one is measured by every path there is, against the same file read locally. An ordinary process, free ports on loopback, nothing left
# behind. What cannot be shown is an error.
#
#   scripts/run.sh        FARLANE=build/farlane  SIZE=1G  SECONDS_EACH=1  TMPDIR=where the file lies
set -eu -o pipefail
cd "$(dirname "$0")/.."

farlane=${FARLANE:-build/farlane}
size=${SIZE:-1G}
each=${SECONDS_EACH:-1}
nqn=nqn.2026-01.io.farlane:run
[ -x "$farlane" ] || {
    echo "$0: $farlane is not there; make build first" >&2
    exit 1
}

# The file should lie on a disk, not in RAM: in the build folder unless TMPDIR says otherwise.
folder=$(mktemp -d "${TMPDIR:-$PWD/build}/run.XXXXXX")
# What is measured lies in memory, where there is room: so paths are compared, and not a disk with itself.
fast=$folder where='on the same disk'
if room=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) && [ "$room" -ge 400000 ] && [ -w /dev/shm ]; then
    fast=$(mktemp -d /dev/shm/farlane-run.XXXXXX) where='in memory'
fi
server=
clean_up() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$folder" "$fast"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' green=$'\033[32m' off=$'\033[0m'; else bold='' green='' off=''; fi
step() { printf '\n%s%s%s\n' "$bold" "$1" "$off"; }
show() { printf '  $ %s\n' "$*"; }
indent() { sed 's/^/  /'; }

step "1. A file of $size, served as an NVMe namespace"
fallocate -l "$size" "$folder/disk.img" 2>/dev/null || truncate -s "$size" "$folder/disk.img"
head -c 256M /dev/urandom >"$fast/memory.img" # random data, so that no layer can squeeze it
show "farlane serve --ns file:disk.img --ns file:memory.img --nqn $nqn --listen rdma://127.0.0.1 --listen tcp://127.0.0.1"
"$farlane" serve --ns "file:$folder/disk.img,bs=4096" --ns "file:$fast/memory.img,bs=4096" --nqn "$nqn" \
    --listen rdma://127.0.0.1:0 --listen tcp://127.0.0.1:0 --control "$folder/control" --json >"$folder/ready" 2>"$folder/log" &
server=$!
for ((i = 0; i < 200; i++)); do
    [ ! -s "$folder/ready" ] || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.05
done
url_of() { # TRANSPORT NSID
    grep -o "\"url\":\"nvme+$1:[^\"]*ns=$2\"" "$folder/ready" | head -n 1 | cut -d'"' -f4 || true
}
url=$(url_of tcp 1) tcp=$(url_of tcp 2) rdma=$(url_of rdma 2)
[ -n "$url" ] && [ -n "$tcp" ] && [ -n "$rdma" ] || {
    cat "$folder/log" "$folder/ready" >&2
    echo "$0: the server did not start, or does not serve both RDMA and TCP" >&2
    exit 1
}
printf '  %s\n  %s\n' "$url" "$rdma"

step "2. Discovered by a host"
show "farlane discover ${url%/*}"
"$farlane" discover "${url%/*}" | sed '/^$/d; /^Next/d' | indent

step "3. Written over the fabric, read back and checked"
# 256 MiB of random data, or as much as the file has.
cp "$fast/memory.img" "$folder/data"
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

step "4. Which path, and why no better one"
show "farlane explain nvme+rdma://..."
"$farlane" explain "$rdma" | indent

step "5. Measured: a file of 256 MiB $where, read locally and by every path"
# Adaptive: on a machine with few CPUs to spare, ends that poll without end keep each other waiting.
measure() { # NAME URL...: small and large blocks
    local name=$1
    shift
    "$farlane" bench "$@" --wait adaptive --seconds "$each" --ramp 0.2 --depth 1,32 --json >"$folder/$name.small.json"
    "$farlane" bench "$@" --wait adaptive --seconds "$each" --ramp 0.2 --rw read --bs 1M --depth 4 --json >"$folder/$name.large.json"
}
# The server holds a lock on its file; reading along with it is allowed when asked for.
show "farlane bench file:memory.img nvme+rdma://... nvme+tcp://... ; FARLANE_SHM=0 farlane bench nvme+rdma://..."
measure all "file:$fast/memory.img,ro=1,lock=0" "$rdma" "$tcp"
FARLANE_SHM=0 measure udp "$rdma"
scripts/run_table.py "$folder"/*.json | indent
printf '  Reads. Latency is the mean, and the 99th percentile; cores are those of both ends, polling included.\n'

step "6. The end: the server is told to stop"
kill "$server"
status=0
wait "$server" || status=$?
server=
if [ "$status" != 0 ]; then
    cat "$folder/log" >&2
    echo "$0: the server left with status $status" >&2
    exit 1
fi
printf '  it let I/O end and left with status 0\n\n%sThe main job works on this machine.%s Next: build/farlane help, man man/farlane.1\n' "$green" "$off"
