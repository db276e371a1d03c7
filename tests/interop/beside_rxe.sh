#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# beside_rxe.sh [KERNEL [ROUNDS]]: perftest by farlane's drop-in library and by Linux's rxe in one guest, two
# processes on the guest's own address, in turn; a table of medians. Not a test: the guest is emulated, so only
# ratios say something. VERBS, LAB: as in judge.sh.
set -eu -o pipefail
ME=$(readlink -f "$0"); HERE=${ME%/*}; TOP=${HERE%/tests/interop}
kernel=${1:-6.1} rounds=${2:-3}
LABDIR=${LAB:-$TOP/build/lab}; VERBS=${VERBS:-$TOP/build/src/preload/libfarlane-verbs.so}
"$HERE/kernels.sh" -d "$LABDIR" "$kernel" >&2
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/fl"
cp -L "$VERBS" "$dir/fl/verbs.so"; ldd "$VERBS" | grep -o '/[^ ]*' | xargs cp -Lt "$dir/fl"

cat >"$dir/guest" <<'GUEST'
rxe_up
gid_of() { # DEVICE, with the environment that shows it
  ibv_devinfo -v -d "$1" | sed -n 's/^.*GID\[ *\([0-9]*\)\]:[[:space:]]*::ffff:10\.77.*/\1/p' | head -1 | grep .
}
ours() { # on a port of its own: rxe has the standard one
  LD_PRELOAD=/lab/fl/verbs.so LD_LIBRARY_PATH=/lab/fl FARLANE_RNIC=only FARLANE_ROCE_PORT=14791 "$@"; }
until_true 10 gid_of rxe0 || { echo "no rxe"; exit 1; }
theirs_gid=$(gid_of rxe0)
device=$(ours ibv_devinfo -v | awk '/hca_id/ {d = $2} /::ffff:10\.77/ {print d; exit}')
ours_gid=$(ours ibv_devinfo -v -d "$device" | sed -n 's/^.*GID\[ *\([0-9]*\)\]:[[:space:]]*::ffff:10\.77.*/\1/p' | head -1)
export -f ours
once() { # WHO PROGRAM OPTIONS: its line of results
  local who=$1 d=rxe0 g=$theirs_gid run=env; shift
  case $who in shm) d=$device g=$ours_gid run=ours; export FARLANE_SHM=1;; udp) d=$device g=$ours_gid run=ours; export FARLANE_SHM=0;; esac
  $run "$@" -F -d "$d" -x "$g" >/tmp/served 2>&1 </dev/null & local pid=$!
  until_true 20 grep -qE '^ *[0-9]+: [0-9A-F]+:4853 .* 0A ' /proc/net/tcp || { cat /tmp/served; return 1; }
  $run "$@" -F -d "$d" -x "$g" 10.77.0.11 >/tmp/called 2>&1 </dev/null || { cat /tmp/called /tmp/served; kill $pid; return 1; }
  wait $pid
  awk -v bw="$([[ $1 = *_bw ]] && echo 1)" '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ {v = bw ? $4 : $5} END {print v}' /tmp/called
}
for ((r = 0; r < ROUNDS; r++)); do
  for op in write send read; do
    for what in "bw -s 65536 -t 16 -n 500" "lat -s 64 -n 500"; do
      for who in rxe shm udp; do
        # shellcheck disable=SC2086
        v=$(once $who ib_${op}_$what) || { echo "FAILED $who ib_${op}_$what: $v"; exit 1; }
        echo "ROW $op ${what%% *} $who $v"
      done
    done
  done
done
exit 0
GUEST
sed -i '1i exec 2>\&1; set +e' "$dir/guest"
"$HERE/lab/lab.sh" run -t "${LIMIT:-300}" -i "$LABDIR/$kernel" -c "${CPUS:-2}" -u 4200 -d "$dir" -1 "$dir/guest" ROUNDS="$rounds" >"$dir/log" 2>&1 ||
  { tail -40 "$dir/log"; exit 1; }
python3 - "$dir/log" <<'TABLE'
import collections, statistics, sys
rows = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(sys.argv[1]):
    words = line.split()
    if words[:1] == ["ROW"]:
        rows[" ".join(words[1:3])][words[3]].append(float(words[4]))
print("| what | rxe | farlane, UDP | farlane, shared memory | UDP / rxe | shared memory / rxe |\n|---|---|---|---|---|---|")
for what, by in rows.items():
    op, kind = what.split()
    name = f"ib_{op}_{kind}, " + ("64 KiB, depth 16, MiB/s" if kind == "bw" else "64 bytes, us")
    median = {who: statistics.median(values) for who, values in by.items()}
    ratio = lambda who: "{:.2f} ({:.2f}–{:.2f})".format(
        statistics.median(pairs := sorted(a / b for a, b in zip(by[who], by["rxe"]))), pairs[0], pairs[-1])
    print(f"| {name} | {median['rxe']:.5g} | {median['udp']:.5g} | {median['shm']:.5g} | {ratio('udp')} | {ratio('shm')} |")
TABLE
