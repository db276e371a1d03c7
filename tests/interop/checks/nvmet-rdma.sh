# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# farlane as the host of Linux's nvmet-rdma over rxe, which is in guest 1: nvmet.sh's checks, and what RDMA has of its own.
. "$L/checks/nvmet.sh"
mtu() { ip link set tap1 mtu "$1"; ip link set br0 mtu "$1"; ask t_mtu "$1"; }
clean_up() { ask t_netem; ip link show br0 | grep -q " mtu 4200 " || mtu 4200; }
check_mtu_1024() { mtu 1500; round_trip "$url?ns=1"; round_trip "$url?ns=2&queues=2"; }
check_loss() { ask t_netem loss 1%; round_trip "$url?ns=1"; round_trip "$url?ns=4&queues=2"; }
connected() { [ "$(ask t_connections)" -gt 0 ]; }
check_cycles() {
  local i
  for i in $(seq 100); do fl read "$url?ns=1" --length 512 >"$L/back" || fail "cycle $i"; done
  want "connections of the target at the end" "$(ask t_connections)" 0
  fl bench "$url?ns=1" --rw randread --bs 4k --depth 1 --seconds 3 & i=$!
  until_true 5 connected || fail "the target's connections are not seen while there are some"
  wait $i
}
check_dissect() {
  data
  capture_start "$L/cap.pcap" tap1 "udp port 4791"
  fl discover $at >/dev/null; fl info "$url" >/dev/null
  round_trip "$url?ns=1"; round_trip "$url?ns=2&queues=2"
  capture_stop
  dissect_rdma "$L/cap.pcap" 10.77.0.1 10.77.0.11 >"$L/bad"; cat "$L/bad"
  [ ! -s "$L/bad" ] || fail "tshark: $(head -1 "$L/bad")"
}
