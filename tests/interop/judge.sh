#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# judge.sh [-m] GROUP [CHECK...]: run a group of checks, or some of it, and tell each one's result.
#   GROUP: host-6.1, host-6.12    a Linux host against farlane serve
#          nvmet-6.1, nvmet-6.12  farlane's host against Linux's nvmet
#          host-rdma-6.1, nvmet-rdma-6.1, ...-6.12   the same over RDMA: Linux's rxe and farlane's software RNIC
#          hw-6.1, hw-6.12        farlane by rdma-core and rxe in a guest: against a Linux host, and against nvmet-rdma
#          rxe-6.1, rxe-6.12      Linux's rxe and farlane's software RNIC (the drop-in library)
#          wire                   farlane with itself, judged by tshark
#   -m     one check for meson: the group runs once for all of its checks that one meson asks for
#   exit status: 0 passed, 1 failed, 77 skipped (one check), or the worst of several
# TARGET=nvmet, TARGET=passthru: host-* judge Linux's own target instead of farlane, which proves the checks.
# FARLANE, VERBS, VMIX, LATE: what is tested and what rxe-* need beside it (default: those in build/). LAB: folder of the kernel images. KEEP=DIR: keep the run's files.
set -eu -o pipefail
ME=$(readlink -f "$0"); HERE=${ME%/*}; TOP=${HERE%/tests/interop}
LABDIR=${LAB:-$TOP/build/lab}; FARLANE=${FARLANE:-$TOP/build/tools/farlane/farlane}; TARGET=${TARGET:-farlane}
VERBS=${VERBS:-$TOP/build/src/preload/libfarlane-verbs.so}
VMIX=${VMIX:-$TOP/build/tests/interop/vmix} LATE=${LATE:-$TOP/build/tests/interop/liblate-connect.so}
meson=
while getopts m o; do case $o in m) meson=1;; *) exit 2;; esac; done
shift $((OPTIND - 1)); [ $# -ge 1 ] || { sed -n '3,15s/^# //p' "$ME"; exit 2; }
group=$1; shift
skip() { echo "skipped: $*"; exit 77; }

kind=${group%-6.*}
TR=tcp; case $kind in *-rdma|hw) TR=rdma;; esac
[ -e "$HERE/checks/$kind.list" ] || { echo "judge.sh: no group $group"; exit 2; }

# What each side of a run does: who has the checks, who answers.
with_target() { # the side that has the target
  # shellcheck disable=SC2016
  printf '%s\n' '[ -z "${N:-}" ] || dmesg -c >/dev/null' '. "$L/target/'"$1"'.sh"' 't_start || exit 1' \
    'printf "T_ADDR=%s\nT_ADDR6=%s\nT_HAS=%q\nT_LAX=%s\n" "$t_addr" "$t_addr6" "$t_has" "${t_lax:-}" >"$L/t_env"' 'tell up; answer_all; t_stop'
}
with_checks() { # the side that has the checks
  # shellcheck disable=SC2016
  printf '%s\n' "$1" '. "$L/checks/'"$kind"'.sh"' '[ -z "${N:-}" ] || dmesg -c >/dev/null' \
    'run_checks "$L/list"; tell "done"; exit 0'
}
# shellcheck disable=SC2016
UP='await up 120 || exit 1; . "$L/t_env"'

run_group() { # DIR CHECK...: leaves DIR/results and DIR/log.*
  local dir=$1 v o=() i; shift
  mkdir -p "$dir"; rm -f "$dir"/{results,log.*,kernel.log}
  : >"$dir/results"
  [ "$TARGET" != farlane ] || [ -x "$FARLANE" ] || skip "no $FARLANE: build it first"
  unshare --net --pid --fork true 2>/dev/null || unshare --user --map-root-user --net --pid --fork true 2>/dev/null || skip "no right to make network namespaces"
  cp -r "$HERE/checks" "$HERE/target" "$dir/"; cp "$HERE/checks/$kind.list" "$dir/list"
  v=
  case $group in *-6.*)
    v=${group##*-}
    "$HERE/kernels.sh" -d "$LABDIR" "$v" >"$dir/kernels.log" 2>&1 || { cat "$dir/kernels.log"; skip "no kernel image of $v"; }
    o=(-i "$LABDIR/$v" -c "${CPUS:-4}");;
  esac
  case $TR in rdma) o+=(-u 4200);; esac
  case $kind-$TARGET in
    host-farlane|host-rdma-farlane) with_checks "$UP" >"$dir/g1"; with_target farlane >"$dir/h"; o+=(-1 "$dir/g1" -H "$dir/h");;
    host-nvmet|host-rdma-nvmet) with_checks "$UP" >"$dir/g1"; with_target nvmet >"$dir/g2"; o+=(-1 "$dir/g1" -2 "$dir/g2");;
    host-passthru)
      with_checks "$UP" >"$dir/g1"; with_target passthru >"$dir/g2"; o+=(-1 "$dir/g1" -2 "$dir/g2" -Q "-device nvme,serial=lab1,id=c0")
      for i in 1 2 3 4; do
        truncate -s 64M "$dir/disk$i"
        o[-1]+=" -drive file=$dir/disk$i,format=raw,if=none,id=d$i -device nvme-ns,drive=d$i,bus=c0,nsid=$i,logical_block_size=$((i % 2 ? 512 : 4096)),physical_block_size=4096"
      done;;
    nvmet-farlane|nvmet-rdma-farlane) with_target nvmet >"$dir/g1"; with_checks "$UP" >"$dir/h"; o+=(-1 "$dir/g1" -H "$dir/h");;
    hw-farlane) # in guest 2, with its libraries
      mkdir -p "$dir/fl"; ldd "$FARLANE" | grep -o '/[^ ]*' | xargs cp -Lt "$dir/fl" "$FARLANE"
      with_checks "$UP" >"$dir/g1"; with_target hw >"$dir/g2"; o+=(-R 1536 -1 "$dir/g1" -2 "$dir/g2");;
    rxe-*)
      for v in "$VERBS" "$VMIX" "$LATE"; do [ -e "$v" ] || skip "no $v: build it first"; done
      cp "$VMIX" "$dir/vmix"; cp "$LATE" "$dir/late.so"
      with_target rxe >"$dir/g1"; with_checks "$UP" >"$dir/h"; o+=(-u 4200 -1 "$dir/g1" -H "$dir/h");;
    wire-*) with_checks : >"$dir/h"; o+=(-H "$dir/h");;
    *) echo "judge.sh: $group cannot judge $TARGET"; exit 2;;
  esac
  for i in 1 2 3; do
    "$HERE/lab/lab.sh" run -t "${LIMIT:-1200}" -d "$dir" "${o[@]}" CHECKS="$*" TR="$TR" FARLANE="$FARLANE" VERBS="$VERBS" VMIX="$VMIX" LATE="$LATE" TARGET="$TARGET" >"$dir/run.log" 2>&1 || :
    died_at_boot "$dir" || break
  done
}

# The emulator makes a kernel panic now and then before it runs anything of ours: that says nothing of farlane, so it boots again.
died_at_boot() {
  local n
  for n in 1 2; do
    [ -e "$1/$n.boot" ] || ! grep -qs 'Kernel panic' "$1/$n.console" || return 0
  done
  return 1
}

names() { sed -n 's/^\([a-z0-9-]*\):.*/\1/p' "$HERE/checks/$kind.list"; }
tell_result() { # DIR CHECK: print it; its exit status
  local st name t note
  read -r st name t note < <(grep -E "^[a-z]+ $2 " "$1/results" || echo "fail $2 0 no result: the guest died or the time was up")
  printf '%s %s-%s %s s%s\n' "$st" "$group" "$name" "$t" "${note:+: $note}"
  [ "$st" != fail ] || { tail -25 "$1/log.$2" 2>/dev/null || tail -25 "$1/run.log"; }
  case $st in pass) return 0;; skip) return 77;; *) return 1;; esac
}

if [ "$meson" ]; then
  # The group's run is shared by those tests of one meson process; each result is given once.
  key=$group-$PPID-$(cut -d' ' -f22 "/proc/$PPID/stat")
  dir=$LABDIR/runs/$key; mkdir -p "$LABDIR/runs"
  exec 8>"$dir.lock"; flock 8
  for old in "$LABDIR/runs/$group-"*.lock; do     # runs of a meson that has ended
    p=${old#"$LABDIR/runs/$group-"}; p=${p%%-*}
    [ -d "/proc/$p" ] || rm -rf "$old" "${old%.lock}"
  done
  if [ ! -e "$dir/results" ] || [ -e "$dir/told.$1" ]; then rm -rf "$dir"; run_group "$dir"; fi
  : >"$dir/told.$1"; r=0; tell_result "$dir" "$1" || r=$?
  exit $r
fi
dir=${KEEP:-$(mktemp -d)}; mkdir -p "$dir"; chmod 755 "$dir"     # rxe-* run programs as another user
# shellcheck disable=SC2064
[ "${KEEP:-}" ] || trap "rm -rf '$dir'" EXIT
run_group "$dir" "$@"
pass=0 fail=0 skipped=0
for n in ${*:-$(names)}; do
  r=0; tell_result "$dir" "$n" || r=$?
  case $r in 0) pass=$((pass + 1));; 77) skipped=$((skipped + 1));; *) fail=$((fail + 1));; esac
done
echo "$pass passed, $fail failed, $skipped skipped"
[ $fail = 0 ] || exit 1
[ $pass -gt 0 ] || exit 77
