#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kernels.sh [-d DIR] [6.1|6.12]...: fetch stock Debian kernels by apt and make lab images of them:
# DIR/6.1 and DIR/6.12 (default DIR: build/lab of this tree). What is there already is kept; an image is made
# again when a program in it or the lab changed. Packages are found by pattern, the newest that apt offers;
# where the machine's own suites have no 6.12, those of bookworm-backports are asked, in lists of our own.
set -eu -o pipefail
ME=$(readlink -f "$0"); HERE=${ME%/*}
DIR=$HERE/../../build/lab
die() { echo "kernels.sh: $*" >&2; exit 1; }
while getopts d: o; do case $o in d) DIR=$OPTARG;; *) die "usage: kernels.sh [-d DIR] [6.1|6.12]...";; esac; done
shift $((OPTIND - 1)); [ $# -gt 0 ] || set -- 6.1 6.12
mkdir -p "$DIR"; DIR=$(readlink -f "$DIR")
exec 9>"$DIR/.lock"; flock 9      # one at a time in one folder

# program:package of what the lab needs on this machine
NEEDS="qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio modprobe:kmod ip:iproute2 nvme:nvme-cli
 mke2fs:e2fsprogs fio:fio jq:jq xz:xz-utils unshare:util-linux tshark:tshark tcpdump:tcpdump rdma:iproute2
 ibv_rc_pingpong:ibverbs-utils rping:rdmacm-utils ib_write_bw:perftest"
missing=()
for n in $NEEDS; do command -v "${n%%:*}" >/dev/null || [ -x "/sbin/${n%%:*}" ] || missing+=("${n##*:}"); done
[ -e /etc/libibverbs.d/rxe.driver ] || missing+=(ibverbs-providers)
if [ ${#missing[@]} -gt 0 ]; then
  [ "$(id -u)" = 0 ] || die "not installed: ${missing[*]} (apt-get install them, or run this as root)"
  apt-get update -q >/dev/null || :
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >"$DIR/apt.log" 2>&1 ||
    { tail -5 "$DIR/apt.log" >&2; die "apt-get could not install: ${missing[*]}"; }
fi

APT=()
newest() { # VERSION: name of the newest stock kernel package of that series that apt knows
  local re="^linux-image-${1//./\\.}\.[0-9]+([+-](deb|bpo)?[0-9]+(\+?[a-z0-9.]*)?)*-amd64$"
  apt-cache "${APT[@]}" pkgnames linux-image- 2>/dev/null | grep -E "$re" | grep -vE -- '-(rt|cloud|dbg|unsigned)' | sort -V | tail -1
}
backports() { # apt with lists of our own: the machine's Debian sources, suite bookworm-backports
  local l=$DIR/apt uri
  mkdir -p "$l/lists/partial"
  uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^ ]*/debian/?( |$)' | head -1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${uri:-http://deb.debian.org/debian} bookworm-backports main" >"$l/sources.list"
  APT=(-o "Dir::Etc::sourcelist=$l/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::Lists=$l/lists"
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
  apt-get "${APT[@]}" -q update >/dev/null
}

fetch() { # SERIES
  local pkg tmp
  APT=()
  pkg=$(newest "$1")
  [ "$pkg" ] || { apt-get -q update >/dev/null || :; pkg=$(newest "$1"); }
  [ "$pkg" ] || { backports; pkg=$(newest "$1"); }
  [ "$pkg" ] || die "apt offers no linux-image-$1*-amd64; add bookworm-backports to its sources"
  tmp=$(mktemp -d "$DIR/.deb.XXXXXX")
  (cd "$tmp" && apt-get "${APT[@]}" -q -o APT::Sandbox::User=root download "$pkg" >&2) ||
    { apt-get "${APT[@]}" -q update >&2; pkg=$(newest "$1"); (cd "$tmp" && apt-get "${APT[@]}" -q -o APT::Sandbox::User=root download "$pkg" >&2); } ||
    { rm -rf "$tmp"; die "could not download $pkg"; }
  "$HERE/lab/lab.sh" kernel "$DIR/kernel-$1" "$tmp"/*.deb
  echo "$wanted" >"$DIR/kernel-$1/wanted"
  rm -rf "$tmp"
}

wanted=$(sed -n '/^MODS=/,/"$/p' "$HERE/lab/lab.sh" | sha256sum)     # the modules that a kernel's folder shall have
for v in "$@"; do
  [ "$wanted" = "$(cat "$DIR/kernel-$v/wanted" 2>/dev/null)" ] || fetch "$v"
  # the image's stamp: the lab's scripts and the programs that go in
  stamp=$(cat "$HERE/lab/lab.sh" "$HERE/lab/init" "$DIR/kernel-$v/version" | sha256sum; nvme version; fio --version; mke2fs -V 2>&1; ib_write_bw --version || :)
  [ "$stamp" = "$(cat "$DIR/$v/stamp" 2>/dev/null)" ] || {
    "$HERE/lab/lab.sh" image "$DIR/kernel-$v" "$DIR/$v"
    echo "$stamp" >"$DIR/$v/stamp"; }
  echo "$v: $(cat "$DIR/$v/version") in $DIR/$v"
done
