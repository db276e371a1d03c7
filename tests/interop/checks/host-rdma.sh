# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# A stock Linux host against the target under test, over RDMA: host.sh's checks, and what RDMA has of its own.
. "$L/checks/host.sh"
CYCLES=100 CHECK_LIMIT=300 KATO=30 SHORT=6      # an emulated guest on a busy machine is slow

eval "host_$(declare -f clean_up)"
clean_up() {
  tc qdisc del dev eth0 root 2>/dev/null
  echo 30 >/sys/module/nvme_core/parameters/io_timeout
  host_clean_up; [ "$(cat /sys/class/net/eth0/mtu)" = 4200 ] || mtu 4200
}
mtu() { ip link set eth0 mtu "$1"; ask t_mtu "$1"; }
check_mtu_1024() {
  local n
  mtu 1500
  connect -i 2
  for n in 1 2; do
    d=$(nsdev $n); BS=$(blockdev --getss "$d")
    put "$d" 0 8 a; same "$d" 0 8 a; put "$d" 1000 128 b; same "$d" 1000 128 b
  done
  dd if=/dev/urandom of=/tmp/rnd bs=1M count=4 2>/dev/null
  dd if=/tmp/rnd of="$d" bs=1M oflag=direct 2>/dev/null; dd if="$d" bs=1M count=4 iflag=direct 2>/dev/null | cmp - /tmp/rnd
  disconnect; mtu 4200
}
check_trim() { # what is written after a trim is what is read, by data in the capsule and by RDMA READ
  local n
  connect -i 2
  dd if=/dev/urandom of=/tmp/rnd bs=1M count=4 2>/dev/null
  for n in 1 2; do
    d=$(nsdev $n); BS=$(blockdev --getss "$d")
    dd if=/tmp/rnd of="$d" bs=1M oflag=direct 2>/dev/null
    blkdiscard -o 0 -l 16777216 "$d"
    dd if=/tmp/rnd of="$d" bs=256k seek=1 count=8 oflag=direct 2>/dev/null; put "$d" 0 1 a
    dd if="$d" bs=256k skip=1 count=8 iflag=direct 2>/dev/null | cmp -n 2097152 - /tmp/rnd; same "$d" 0 1 a
    zero "$d" 16 8
  done
}
check_loss() {
  # When rxe sends again, it also does again what registers memory in between, which fails ("rxe_reg_fast_mr: ... not free")
  # and ends the queue pair, whatever the target is; older ones tell nobody. The host's I/O times out and it connects again.
  log_ok 'for CQE .* failed with status WR flushed'; log_ok 'error recovery|[Rr]econnect|keep.alive'; log_ok 'I/O .* timeout'
  echo 4 >/sys/module/nvme_core/parameters/io_timeout
  connect -i 2
  tc qdisc add dev eth0 root netem limit 10000 loss 1%
  load "$d" 6; load_done
  tc qdisc del dev eth0 root
}
check_dissect() {
  t_has capture
  ask t_capture_start
  fabric discover >/dev/null
  connect -i 2
  put "$d" 0 1 a; same "$d" 0 1 a; put "$d" 8 256 b; same "$d" 8 256 b     # in the capsule; by RDMA READ
  nvme write-zeroes "$d" -s 0 -c 3; nvme dsm "$d" -d -s 8 -b 8; nvme flush "$d"
  nvme id-ctrl "$c" >/dev/null; nvme id-ns "$d" >/dev/null; nvme ns-descs "$d" >/dev/null; nvme list-ns "$c" >/dev/null
  nvme smart-log "$c" >/dev/null; nvme fw-log "$c" >/dev/null; nvme ana-log "$c" >/dev/null; nvme get-feature "$c" -f 7
  want_status 0x80 nvme read "$d" -s 0x7fffffff -c 0 -z 512
  nvme reset "$c"; until_true 5 is_live "$c"; disconnect
  ask t_capture_stop >/tmp/o || { cat /tmp/o; fail "tshark: $(head -1 /tmp/o)"; }
}
