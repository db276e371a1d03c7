# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# farlane serve and farlane's host over loopback, captured and dissected.
. "$L/checks/capture.sh"
fl() { "$FARLANE" "$@"; }
after_check() { :; }
judge_wire() { # URL of the listener, OPTIONS of the namespaces' URLs, FILTER of the capture
  local l=$1 u=nvme+$1/$sub o=$2 i=0 pid
  head -c 3000000 /dev/urandom >"$L/data"
  taskset -cp 0 "$BASHPID" >/dev/null     # one CPU, so that the capture has the frames in order
  "$FARLANE" serve --nqn "$sub" --listen "$l" --ns ram:16M,bs=512 --ns ram:16M,bs=4096 --control none \
    --ready-fd 5 5>"$L/ready" >"$L/serve" 2>&1 & pid=$!
  # shellcheck disable=SC2064
  trap "kill $pid 2>/dev/null; wait $pid || :" EXIT
  until_true 60 test -s "$L/ready" || { cat "$L/serve"; fail "farlane serve did not start"; }
  capture_start "$L/cap.pcap" lo "$3"
  fl discover "nvme+$l"; fl info "$u?ns=1$o"
  for i in 1 2; do
    fl write "$u?ns=$i$o" --offset 4096 <"$L/data"; fl read "$u?ns=$i$o" --offset 4096 --length 3000000 | cmp - "$L/data"
    head -c 512 "$L/data" | fl write "$u?ns=$i$o"; fl read "$u?ns=$i$o" --length 512 | cmp -n 512 - "$L/data"
  done
  fl copy "$u?ns=1$o" "$u?ns=2$o" --verify
  fl read "$u?ns=9$o" --length 512 && fail "namespace 9 was read" || :
  capture_stop
}
judge_tcp() { # OPTIONS
  judge_wire tcp://127.0.0.1:4420 "$1" tcp
  dissect "$L/cap.pcap" 4420 >"$L/bad"; cat "$L/bad"
  [ ! -s "$L/bad" ] || fail "tshark: $(head -1 "$L/bad")"
}
judge_rdma() { # ADDRESS
  ip link set lo gso_max_segs 1           # so that each packet is seen as it goes over a wire
  FARLANE_SHM=0 judge_wire "rdma://$1:4420" '' 'udp port 4791'
  dissect_rdma "$L/cap.pcap" "${1//[][]/}" >"$L/bad"; cat "$L/bad"
  [ ! -s "$L/bad" ] || fail "$(head -1 "$L/bad")"
}
check_plain() { judge_tcp ''; }
check_digests() {
  judge_tcp '&hdgst=1&ddgst=1'
  want_num "good digests" "$(digests_seen "$L/cap.pcap")" -gt 100
}
check_rdma() { judge_rdma 127.0.0.1; }
check_rdma6() { judge_rdma '[::1]'; }
