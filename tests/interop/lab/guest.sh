# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for the scripts of a lab run: in the guests, and in the host script (which has LAB set).
L=${LAB:-/lab}
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd

tell() { : >"$L/sig.$1"; }       # say that something has happened
await() { # NAME [SECONDS]: wait until somebody told it
  local i=0
  while [ ! -e "$L/sig.$1" ]; do
    i=$((i + 1)); [ $i -le $((${2:-60} * 10)) ] || { echo "nobody told '$1' within ${2:-60} s"; return 1; }
    sleep 0.1
  done
}

# Calls across the run's folder: one side answers, any other asks. Calls are numbered, one at a time.
ask() { # COMMAND...: have the answering side run it; gives its output and status
  local n i=0
  n=$(cat "$L/asked" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$L/asked"
  printf '%q ' "$@" >"$L/ask.tmp"; mv "$L/ask.tmp" "$L/ask.$n"
  while [ ! -e "$L/answer.$n" ]; do
    i=$((i + 1)); [ $i -le $((${ASK_LIMIT:-60} * 20)) ] || { echo "no answer to: $*"; return 124; }
    sleep 0.05
  done
  cat "$L/answer.$n.out"
  return "$(cat "$L/answer.$n")"
}
answer_all() { # run what is asked, in this shell, until 'done' is told
  local n=1 r
  while [ ! -e "$L/sig.done" ]; do
    if [ -e "$L/ask.$n" ]; then
      r=0; { eval "$(cat "$L/ask.$n")"; } >"$L/answer.$n.out" 2>&1 || r=$?
      echo $r >"$L/answer.tmp"; mv "$L/answer.tmp" "$L/answer.$n"
      n=$((n + 1))
    else
      sleep 0.05
    fi
  done
}

# Checks: each is a function check_NAME (- as _), run in a shell of its own with 'set -e'; what it prints is its log.
sub=nqn.2026-01.org.example:sub1
fail() { echo "FAILED: $*"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
want() { # WHAT SEEN WANTED
  [ "$2" = "$3" ] || fail "$1 is '$2', wanted '$3'"
}
want_re() { # WHAT SEEN REGEX
  [[ $2 =~ $3 ]] || fail "$1 is '$2', wanted a match of '$3'"
}
want_num() { # WHAT SEEN OP NUMBER, OP one of test's
  [ "$2" "$3" "$4" ] || fail "$1 is '$2', wanted $3 $4"
}
log_ok() { echo "$1" >>"$L/log_ok"; }   # kernel log lines that this check expects (regex)
rxe_up() { # in a guest: an RDMA device on eth0, and what programs need of the kernel
  modprobe -a rdma_rxe rdma_ucm ib_uverbs
  rdma link show rxe0/1 >/dev/null 2>&1 || rdma link add rxe0 type rxe netdev eth0
}
now() { local t=$EPOCHREALTIME; t=${t/[.,]/}; echo "${t%???}"; }   # milliseconds
until_true() { # SECONDS COMMAND...: try it until it succeeds
  local end=$(($(now) + $1 * 1000)); shift
  until "$@" >/dev/null 2>&1; do
    [ "$(now)" -lt $end ] || return 1
    sleep 0.1
  done
}
# what the kernel says when something of ours, or of it, is wrong
COMPLAINTS='(nvme|rxe|rdma|infiniband).*(error|fail|timeout|timed out|invalid|unable|unrecognized|bogus|mismatch|changed|not ready|illegal|duplicate|ignoring|unexpected)|WARNING:|BUG:|Oops|Call Trace|I/O error|hung task|stall'
complaints() { # what the kernel complained about in this check; clears its log
  dmesg -c 2>/dev/null | tee -a "$L/kernel.log" | grep -iE "$COMPLAINTS" |
    if [ -s "$L/log_ok" ]; then grep -vE -f "$L/log_ok"; else cat; fi
}
after_check() { complaints; }            # prints what else was wrong; scripts on the host side have their own
run_check() { # NAME: run it, note the result in the run's folder
  local rc t0 t1 bad='' st note= pid dog
  : >"$L/log_ok"
  [ -z "${N:-}" ] || echo "interop: check $1" >/dev/kmsg
  t0=$(now)
  set -m      # a process group of its own, so that all of a check that hangs can be ended
  (set -eu -o pipefail; "check_${1//-/_}") >"$L/log.$1" 2>&1 </dev/null & pid=$!
  (sleep "${CHECK_LIMIT:-120}"; echo "FAILED: still not done after ${CHECK_LIMIT:-120} s" >>"$L/log.$1"; kill -9 -- -$pid) >/dev/null 2>&1 & dog=$!
  set +m
  wait $pid 2>/dev/null; rc=$?
  kill -9 -- -$dog 2>/dev/null; wait $dog 2>/dev/null
  ! declare -F clean_up >/dev/null || clean_up >>"$L/log.$1" 2>&1
  bad=$(after_check)
  t1=$(now)
  case $rc in 0) st=pass;; 77) st=skip;; *) st=fail;; esac
  [ -z "$bad" ] || { st=fail; printf '%s\n' "kernel log:" "$bad" >>"$L/log.$1"; }
  case $st in fail) note=$(grep -E '^FAILED' "$L/log.$1" | head -1); [ "$note" ] || note=${bad:-status $rc: $(tail -1 "$L/log.$1")};;
    skip) note=$(tail -1 "$L/log.$1");; esac
  printf '%s %s %s.%s %s\n' $st "$1" $(((t1 - t0) / 1000)) $(((t1 - t0) / 100 % 10)) "$(head -1 <<<"$note")" >>"$L/results"
}
run_checks() { # LIST: the checks that it names (first word of a line), or those of CHECKS alone
  local n
  for n in ${CHECKS:-$(sed -n 's/^\([a-z0-9-]*\):.*/\1/p' "$1")}; do run_check "$n"; done
  return 0
}
