# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# farlane's software RNIC, by the drop-in library, and Linux's rxe in guest 1: the same programs at both ends.
. "$L/checks/capture.sh"
CHECK_LIMIT=300 ASK_LIMIT=110      # an emulated guest on a busy machine is slow
here=10.77.0.1 there=10.77.0.11 here6=fd77::1 there6=fd77::11
after_check() { ask t_complaints || :; }      # the guest's kernel log
clean_up() { ask t_netem; }

# The programs on this side: as an ordinary user, where that is not what we are already
user=(); [ "$(id -u)" != 0 ] || ! setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
late= late_there=()
fl() { timeout -k 1 60 "${user[@]}" env LD_PRELOAD="$late$VERBS" LATE_FILE="$L/late/again" FARLANE_RNIC=only "$@" </dev/null; }
late() { # on: neither end's second connect comes before the other's second listen; off
  late= late_there=()
  [ "$1" = on ] || return 0
  mkdir -p -m 777 "$L/late"; rm -f "$L/late/again"
  late=$LATE: late_there=(env LD_PRELOAD=/lab/late.so LATE_FILE=/lab/late/again)
}
device=$(fl ibv_devinfo -v 2>/dev/null | awk '/hca_id/ {d = $2} /::ffff:10\.77/ {print d; exit}')
gid_here() { # 4|6
  local re='^::ffff:'; [ "$1" = 4 ] || re='^fd77:'
  fl ibv_devinfo -v -d "$device" | sed -n 's/^.*GID\[ *\([0-9]*\)\]:[[:space:]]*\([0-9a-f:.]*\).*/\2 \1/p' | grep -E "$re" | cut -d' ' -f2 | grep .
}
mtu() { # of the wire: 1500 makes the path MTU 1024, 4200 makes it 4096
  ! ip link show br0 | grep -q " mtu $1 " || return 0
  ip link set tap1 mtu "$1"; ip link set br0 mtu "$1"; ask t_mtu "$1"
}
listens_here() { grep -qhE '^ *[0-9]+: [0-9A-F]+:4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 || { [ "$1" = cm ] && [ $(($(now) - served_at)) -gt 700 ]; }; }

they_serve() { # SERVER -- CLIENT: the first in the guest, the second here
  local r=0 q=0
  split "$@"
  echo "--- rxe: ${server[*]}"; echo "--- farlane: ${client[*]}"
  ask t_serve "${late_there[@]}" "${server[@]}" || fail "rxe: ${server[*]}"
  fl "${client[@]}" >"$L/called" 2>&1 || r=$?
  cat "$L/called"
  [ $r = 0 ] || ask t_end
  ask t_served || q=$?
  [ $r = 0 ] && [ $q = 0 ] || fail "farlane's client ended with $r, rxe's server with $q: ${client[*]}"
}
we_serve() { # SERVER -- CLIENT: the first here, the second in the guest
  local r=0 q=0 pid served_at
  split "$@"
  echo "--- farlane: ${server[*]}"; echo "--- rxe: ${client[*]}"
  fl "${server[@]}" >"$L/served" 2>&1 & pid=$!
  served_at=$(now)
  until_true 30 listens_here "$wait_for" || { cat "$L/served"; fail "farlane: ${server[*]} does not listen"; }
  ask t_run "${late_there[@]}" "${client[@]}" || r=$?
  wait $pid || q=$?
  cat "$L/served"
  [ $r = 0 ] && [ $q = 0 ] || fail "rxe's client ended with $r, farlane's server with $q: ${client[*]}"
}
split() {
  server=() client=()
  while [ "$1" != -- ]; do server+=("$1"); shift; done
  shift; client=("$@")
}

wait_for=tcp
pingpong() { # KIND OPTIONS: both roles, both MTUs, both families
  local k=$1 m f; shift
  for m in 1024 4096; do
    mtu $((m == 1024 ? 1500 : 4200))
    for f in 4 6; do
      [ "$k" = ud ] && o=() || o=(-m $m)
      they_serve "ibv_${k}_pingpong" -g "$(ask t_gid $f)" "${o[@]}" "$@" -- "ibv_${k}_pingpong" -d "$device" -g "$(gid_here $f)" "${o[@]}" "$@" $there
      we_serve "ibv_${k}_pingpong" -d "$device" -g "$(gid_here $f)" "${o[@]}" "$@" -- "ibv_${k}_pingpong" -g "$(ask t_gid $f)" "${o[@]}" "$@" $here
    done
  done
}
check_pingpong_rc() { pingpong rc -n 100 -c; }
check_pingpong_uc() { pingpong uc -n 100; }
check_pingpong_ud() { pingpong ud -n 100 -s 1000; }

perftest() { # PROGRAM OPTIONS: both roles, both MTUs, with and without the connection manager
  local p=$1 m; shift
  for m in 1024 4096; do
    mtu $((m == 1024 ? 1500 : 4200))
    wait_for=tcp
    they_serve "$p" -F -x "$(ask t_gid 4)" -m $m "$@" -- "$p" -F -d "$device" -x "$(gid_here 4)" -m $m "$@" $there
    we_serve "$p" -F -d "$device" -x "$(gid_here 4)" -m $m "$@" -- "$p" -F -x "$(ask t_gid 4)" -m $m "$@" $here
    wait_for=cm
    late on; they_serve "$p" -F -R "$@" -- "$p" -F -R "$@" $there
    late on; we_serve "$p" -F -R "$@" -- "$p" -F -R "$@" $here
    [ -e "$L/late/again" ] || fail "late_connect.c is not in effect"
    late off
  done
}
check_write_bw() { perftest ib_write_bw -n 20; }
check_write_lat() { perftest ib_write_lat -n 20; }
check_read_bw() { perftest ib_read_bw -n 20; }
check_read_lat() { perftest ib_read_lat -n 5; }
check_send_bw() { perftest ib_send_bw -n 20; }
check_send_lat() { perftest ib_send_lat -n 20; }
check_atomic_bw() { perftest ib_atomic_bw -n 20; }
check_atomic_lat() { perftest ib_atomic_lat -n 5; }
check_rping() {
  local m
  wait_for=cm
  for m in 1500 4200; do
    mtu $m
    for to in "$there $here" "$there6 $here6"; do
      # shellcheck disable=SC2086
      set -- $to
      they_serve rping -s -a "$1" -V -C 5 -S 20000 -- rping -c -a "$1" -V -C 5 -S 20000
      we_serve rping -s -a "$2" -V -C 5 -S 20000 -- rping -c -a "$2" -V -C 5 -S 20000
    done
  done
}
check_queue_pairs() {
  local p
  wait_for=tcp
  for p in ib_write_bw ib_read_bw ib_send_bw; do
    they_serve $p -F -x "$(ask t_gid 4)" -q 8 -n 10 -u 18 -- $p -F -d "$device" -x "$(gid_here 4)" -q 8 -n 10 -u 18 $there
    we_serve $p -F -d "$device" -x "$(gid_here 4)" -q 8 -n 10 -u 18 -- $p -F -x "$(ask t_gid 4)" -q 8 -n 10 -u 18 $here
  done
}
check_loss() { # of what leaves the guest, be it requests or answers
  local x
  wait_for=tcp
  ask t_netem loss 1%
  for x in "ib_write_bw -n 30" "ib_read_bw -n 30" "ib_send_bw -n 30" "ibv_rc_pingpong -c -n 200"; do
    # shellcheck disable=SC2086
    set -- $x
    local g=-x; [ "$1" != ibv_rc_pingpong ] || g=-g
    they_serve "$1" $g "$(ask t_gid 4)" "${@:2}" -- "$1" -d "$device" $g "$(gid_here 4)" "${@:2}" $there
    we_serve "$1" -d "$device" $g "$(gid_here 4)" "${@:2}" -- "$1" $g "$(ask t_gid 4)" "${@:2}" $here
  done
}
check_dissect() {
  local m p
  capture_start "$L/cap.pcap" tap1 "udp port 4791"
  for m in 1500 4200; do
    mtu $m
    wait_for=tcp
    for p in rc uc ud; do
      [ $p = ud ] && set -- -s 1000 -n 20 || set -- -n 20
      they_serve ibv_${p}_pingpong -g "$(ask t_gid 4)" "$@" -- ibv_${p}_pingpong -d "$device" -g "$(gid_here 4)" "$@" $there
    done
    we_serve ib_atomic_lat -F -d "$device" -x "$(gid_here 6)" -n 5 -- ib_atomic_lat -F -x "$(ask t_gid 6)" -n 5 $here
    wait_for=cm
    we_serve rping -s -a $here6 -V -C 5 -S 20000 -- rping -c -a $here6 -V -C 5 -S 20000
  done
  capture_stop
  # what begins like another protocol is taken for it: these programs send any bytes
  tshark -r "$L/cap.pcap" --disable-protocol rpcordma -Y _ws.malformed 2>/dev/null | head -20 >"$L/bad"
  cat "$L/bad"
  [ ! -s "$L/bad" ] || fail "tshark: $(head -1 "$L/bad")"
  python3 "$L/checks/icrc.py" "$L/cap.pcap" $here $here6 $there $there6
}
check_vmix() { # each RC operation of verbs, and what a responder can refuse; the server ends after the last case
  local m cases="ok inv badkey bounds readonly rnr long unaligned"
  log_ok 'rxe0: qp#[0-9]* .* non-flush error status'
  wait_for=cm
  for m in 1500 4200; do
    mtu $m
    # shellcheck disable=SC2086
    they_serve /lab/vmix -s $there 8 -- "$VMIX" -c $there $cases
    # shellcheck disable=SC2086
    we_serve "$VMIX" -s $here 8 -- /lab/vmix -c $here $cases
  done
}
