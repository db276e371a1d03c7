#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs with apt what is missing, and nothing else: scripts/setup.sh [build] [test] [judges]
set -u

build=(gcc libc6-dev meson ninja-build pkg-config
    libcyaml-dev libibverbs-dev libisal-dev libjansson-dev libmicrohttpd-dev librdmacm-dev libssl-dev liburing-dev libyaml-dev)
test=(bubblewrap clang llvm libclang-rt-14-dev g++ libcmocka-dev valgrind
    curl fio ibverbs-utils iproute2 libfabric-bin libopenmpi-dev nbdkit nvme-cli openmpi-bin perftest procps python3-pyverbs qperf
    rdmacm-utils tcpdump tshark ucx-utils util-linux)
judges=(busybox-static ceph-common ceph-mon ceph-osd cpio e2fsprogs fio iproute2 jq kmod nvme-cli qemu-system-x86 tshark
    util-linux xz-utils)

wanted=()
for purpose in "${@:-build}"; do
    case $purpose in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    judges) wanted+=("${judges[@]}") ;;
    *)
        echo "usage: $0 [build] [test] [judges]" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "$0: this is not a Debian system, so nothing is installed. Needed are what these Debian packages hold:" >&2
    printf '  %s\n' "${wanted[*]}" >&2
    echo "If they are here, go on with scripts/build.sh." >&2
    exit 1
fi

# A package counts as there if it is installed, or if another one that is installed provides it.
have=$(dpkg-query -W -f='${db:Status-Status}\t${Package}\t${Provides}\n' 2>/dev/null |
    awk -F'\t' '$1 == "installed" { print $2; n = split($3, p, /, */); for (i = 1; i <= n; i++) { sub(/ .*/, "", p[i]); print p[i] } }')
missing=()
for package in "${wanted[@]}"; do
    grep -qxF "$package" <<<"$have" || missing+=("$package")
done
((${#missing[@]})) || exit 0

echo "Installing with apt: ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "$0: this needs root, and there is no sudo. As root:" >&2
        echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
# tshark and others would ask questions; the answers do not matter here.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "$0: apt could not install: ${missing[*]}" >&2
    echo "Mend what it says above (network? sources? another apt running?) and run the command again." >&2
    exit 1
fi
