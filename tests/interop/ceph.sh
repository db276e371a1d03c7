#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ceph.sh [SECONDS]: Ceph (one monitor, one OSD on memory) with its RDMA messenger, ms_type=async+rdma, on the
# software RNIC by the drop-in library; rados bench writes and reads. In namespaces of its own, so nothing stays
# behind. rados compares what it reads. Needs Debian's ceph-mon, ceph-osd, ceph-common.
# VERBS, FARLANE: the library and the command (default: those in build/). KEEP=DIR: logs and all else stay there.
# MS_TYPE=async+posix: by TCP, which proves the script.
set -eu -o pipefail
ME=$(readlink -f "$0"); TOP=${ME%/tests/interop/*}
VERBS=${VERBS:-$TOP/build/src/preload/libfarlane-verbs.so} FARLANE=${FARLANE:-$TOP/build/tools/farlane/farlane}
seconds=${1:-5} type=${MS_TYPE:-async+rdma}
for p in ceph-mon ceph-osd ceph monmaptool rados; do command -v $p >/dev/null || { echo "skipped: no $p"; exit 77; }; done
if [ ! "${CEPH_INSIDE:-}" ]; then
  un=(unshare --net --pid --mount-proc --fork --kill-child)
  [ "$(id -u)" = 0 ] || un+=(--user --map-root-user)
  "${un[@]}" true 2>/dev/null || { echo "skipped: no right to make namespaces"; exit 77; }
  exec env CEPH_INSIDE=1 "${un[@]}" "$ME" "$@"
fi

ip link set lo up
ip link add v0 type veth peer name v1; ip addr add 192.0.2.1/24 dev v0; ip link set v0 up; ip link set v1 up
sleep 2      # until the interface has its addresses
export LD_PRELOAD=$VERBS FARLANE_RNIC=only
device=$(ibv_devinfo -v | awk '/hca_id/ {d = $2} /::ffff:192\.0\.2\.1/ {print d; exit}')
gid=$(ibv_devinfo -v -d "$device" | sed -n 's/^.*GID\[ *\([0-9]*\)\]:[[:space:]]*::ffff:192\.0\.2.*/\1/p' | head -1)
dir=${KEEP:-$(mktemp -d)}; mkdir -p "$dir"/{mon,osd,run}; cd "$dir"
[ "${KEEP:-}" ] || trap 'rm -rf "$dir"' EXIT
fsid=$(cat /proc/sys/kernel/random/uuid)
cat >ceph.conf <<C
[global]
fsid = $fsid
monmap = $dir/monmap
mon initial members = a
ms type = $type
ms bind msgr2 = false
ms async rdma device name = $device
ms async rdma gid idx = $gid
ms async rdma buffer size = 65536
ms async rdma send buffers = 512
ms async rdma receive buffers = 4096
ms async rdma receive queue len = 256
auth cluster required = none
auth service required = none
auth client required = none
public addr = 192.0.2.1
osd objectstore = memstore
memstore device bytes = 1073741824
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data = $dir/mon
osd data = $dir/osd
run dir = $dir/run
admin socket = $dir/run/\$name.asok
log file = $dir/\$name.log
heartbeat interval = 30
osd crush chooseleaf type = 0
C
export CEPH_CONF=$dir/ceph.conf
# The map of monitors comes from a file, since clients that only know an address may send commands before they
# know the cluster's number ("wrong fsid"), by TCP too.
c() { timeout "${CEPH_LIMIT:-40}" "$@" 2>>"$dir/errors" </dev/null; }
fail() { echo "FAILED: $*"; tail -n 5 "$dir"/*.log "$dir"/*.out "$dir/errors" 2>/dev/null; exit 1; }
c env LD_PRELOAD= monmaptool --create --addv a '[v1:192.0.2.1:6789]' --fsid "$fsid" monmap >/dev/null || fail monmaptool
c ceph-mon --mkfs -i a --monmap monmap || fail "ceph-mon --mkfs"
ceph-mon -f -i a >mon.out 2>&1 & 
c ceph -s || fail "ceph -s: no answer of the monitor"
uuid=$(cat /proc/sys/kernel/random/uuid)
c ceph osd new "$uuid" >id || fail "ceph osd new"
id=$(cat id)
c ceph-osd --mkfs -i "$id" --osd-uuid "$uuid" || fail "ceph-osd --mkfs"
ceph-osd -f -i "$id" >osd.out 2>&1 &
for _ in $(seq 60); do c ceph osd stat | grep -q '1 up' && break; sleep 1; done
c ceph osd stat | tee stat; grep -q '1 up' stat || fail "the OSD does not come up"
c ceph osd pool create bench 8 8 >/dev/null || fail "ceph osd pool create"
CEPH_LIMIT=$((seconds + 60)) c rados -p bench bench "$seconds" write --no-cleanup -t 8 -b 65536 | tee write || fail "rados bench write"
CEPH_LIMIT=$((seconds + 60)) c rados -p bench bench "$seconds" seq -t 8 | tee read || fail "rados bench seq"
LD_PRELOAD='' "$FARLANE" rnic | tee moved
[ "$type" != async+rdma ] || grep -qE 'ceph-osd .* [0-9.]+ [MG]iB' moved || fail "the OSD's data did not go by RDMA"
grep -h -E 'Bandwidth|Average Lat|Total (writes|reads)' write read
echo "ceph: passed"
