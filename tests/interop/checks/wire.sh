# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# farlane serve and farlane's host over loopback, captured and dissected.
. "$L/checks/capture.sh"
fl() { "$FARLANE" "$@"; }
after_check() { :; }
judge_wire() { # OPTIONS of the URL
  local u="nvme+tcp://127.0.0.1:4420/$sub" o=$1 i=0 pid
  head -c 3000000 /dev/urandom >"$L/data"
  taskset -cp 0 "$BASHPID" >/dev/null     # one CPU, so that the capture has the frames in order
  "$FARLANE" serve --nqn "$sub" --listen tcp://127.0.0.1:4420 --ns ram:16M,bs=512 --ns ram:16M,bs=4096 --control none \
    --ready-fd 5 5>"$L/ready" >"$L/serve" 2>&1 & pid=$!
  # shellcheck disable=SC2064
  trap "kill $pid 2>/dev/null; wait $pid || :" EXIT
  until_true 60 test -s "$L/ready" || { cat "$L/serve"; fail "farlane serve did not start"; }
  capture_start "$L/cap.pcap" lo
  fl discover nvme+tcp://127.0.0.1:4420; fl info "$u?ns=1$o"
  for i in 1 2; do
    fl write "$u?ns=$i$o" --offset 4096 <"$L/data"; fl read "$u?ns=$i$o" --offset 4096 --length 3000000 | cmp - "$L/data"
    head -c 512 "$L/data" | fl write "$u?ns=$i$o"; fl read "$u?ns=$i$o" --length 512 | cmp -n 512 - "$L/data"
  done
  fl copy "$u?ns=1$o" "$u?ns=2$o" --verify
  fl read "$u?ns=9$o" --length 512 && fail "namespace 9 was read" || :
  capture_stop
  dissect "$L/cap.pcap" 4420 >"$L/bad"; cat "$L/bad"
  [ ! -s "$L/bad" ] || fail "tshark: $(head -1 "$L/bad")"
}
check_plain() { judge_wire ''; }
check_digests() {
  judge_wire '&hdgst=1&ddgst=1'
  want_num "good digests" "$(digests_seen "$L/cap.pcap")" -gt 100
}
