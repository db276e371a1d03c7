# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# farlane as the host of Linux's nvmet, which is in guest 1. Runs on the host side.
. "$L/checks/capture.sh"
at=nvme+$TR://10.77.0.11
url=$at/$sub
digests=; [ "$TR" != tcp ] || digests="&hdgst=1&ddgst=1"      # RDMA has its own
fl() { "$FARLANE" "$@"; }
after_check() { ask t_complaints || :; }      # the target's kernel log

data() { [ -s "$L/data" ] || head -c 8388608 /dev/urandom >"$L/data"; }
round_trip() { # URL: several sizes and places
  local n=0 s
  data
  for s in "0 4096" "4096 512" "8192 131072" "1048576 3145728" "512 1"  "777 5001"; do
    # shellcheck disable=SC2086
    set -- "$1" $s
    head -c "$3" "$L/data" >"$L/part"
    fl write "$1" --offset "$2" <"$L/part"
    fl read "$1" --offset "$2" --length "$3" >"$L/back"
    cmp "$L/part" "$L/back" || fail "$3 bytes at $2 came back otherwise"
    n=$((n + 1))
  done
  echo "$n round trips"
}

check_discover() {
  fl discover $at
  fl discover $at --json >"$L/j"
  grep -q "$sub\"" "$L/j" || fail "$sub is not in the log"
  grep -q "$sub-files" "$L/j" && fail "a subsystem of another port is in the log" || :
}
check_info() {
  fl info "$url" | grep -c '?ns=' | grep -qx 4 || fail "it does not name four namespaces"
  fl info "$url?ns=1"; fl info "$url?ns=1" --json >"$L/j"; cat "$L/j"
  jq -e '[.. | numbers | select(. == 67108864)] | length >= 1' "$L/j" >/dev/null || fail "no namespace of 64 MiB"
  grep -q Linux "$L/j" || fail "the model is not there"
}
check_read_write() { round_trip "$url?ns=1"; }
check_digests() { round_trip "$url?ns=1&hdgst=1&ddgst=1"; round_trip "$url?ns=1&hdgst=1"; round_trip "$url?ns=1&ddgst=1"; }
check_blocks_4096() { round_trip "$url?ns=2"; round_trip "$url?ns=4$digests"; }
check_queues() { round_trip "$url?ns=3&queues=4"; }
check_copy() {     # the small namespace, since a whole one is copied
  local small="nvme+$TR://10.77.0.11:4422/$sub-guarded?host=nqn.2026-01.org.example:host-ok"
  data
  fl copy "file:$L/data" "$small" --verify
  fl copy "$small${digests/&hdgst=1}" "file:$L/copied,size=16M" --verify
  cmp -n 8388608 "$L/data" "$L/copied"
  fl copy "$small" "$url?ns=4${digests/&ddgst=1}" --verify
}
check_bench() {
  fl bench "$url?ns=1" --rw randread --bs 4k --depth 8 --seconds 2 --json >"$L/j"; cat "$L/j"
  jq -e '[.. | objects | select(has("iops"))] | length >= 1 and all(.iops > 0 and .p50_us > 0 and .depth == 8)' "$L/j" >/dev/null || fail "the figures are not there"
  fl bench "$url?ns=2$digests" --rw randwrite --bs 16k --depth 4 --seconds 2 --verify --destroy-data
}
check_ipv6() { fl discover "nvme+$TR://[fd77::11]" | grep -q "$sub"; round_trip "nvme+$TR://[fd77::11]/$sub?ns=1"; }
refuse() { # STATUS WORDS(regex) COMMAND...
  local st=$1 re=$2 out r=0; shift 2
  out=$("$@" 2>&1) || r=$?
  echo "$* -> $r: $out"
  want "status of: $*" $r "$st"
  grep -qiE "$re" <<<"$out" || fail "'$out' does not say '$re'"
}
check_refused() {
  log_ok 'connect request for invalid subsystem|connect by host .* not allowed'
  refuse 3 'refused|nobody' fl info "nvme+$TR://10.77.0.11:4429/$sub"
  refuse 3 'refused|nobody' fl discover nvme+$TR://10.77.0.11:4429
  refuse 5 "$sub-none|subsystem" fl info "$url-none"
  refuse 5 'namespace' fl read "$url?ns=77" --length 512
  refuse 4 'allow|host' fl info "nvme+$TR://10.77.0.11:4422/$sub-guarded?host=nqn.2026-01.org.example:host-no"
  fl info "nvme+$TR://10.77.0.11:4422/$sub-guarded?host=nqn.2026-01.org.example:host-ok"
}
check_dissect() {
  data
  capture_start "$L/cap.pcap" br0
  fl discover $at >/dev/null; fl info "$url" >/dev/null
  round_trip "$url?ns=1"; round_trip "$url?ns=2&hdgst=1&ddgst=1&queues=2"
  capture_stop
  dissect "$L/cap.pcap" 4420 >"$L/bad"; cat "$L/bad"
  [ ! -s "$L/bad" ] || fail "tshark: $(head -1 "$L/bad")"
  want_num "good digests" "$(digests_seen "$L/cap.pcap")" -gt 50
}
