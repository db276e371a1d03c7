#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzzer for a time, two at once: tests/fuzz/run.sh [SECONDS [BUILD_DIR [NAME...]]]
# FUZZ_SEED: 1 unless set, so that CI goes the same way each time; 0 is another way each time.
# BUILD_DIR was built by clang with -Dfuzz=true (scripts/test.sh fuzz does). Writes "pass NAME" and "fail NAME" lines
# to $FL_RESULTS if that is set. What was found stays in BUILD_DIR/findings: copy it into corpus/<name>/ with the mend.
set -u

seconds=${1:-60} build=${2:-build-fuzz}
here=$(cd "$(dirname "$0")" && pwd)
results=${FL_RESULTS:-/dev/null}
names=("${@:3}")
if ((!${#names[@]})); then
    for program in "$build"/tests/fuzz/fuzz_*; do
        [ -f "$program" ] && [ -x "$program" ] && names+=("${program##*/fuzz_}")
    done
fi
((${#names[@]})) || { echo "$0: no fuzzers in $build/tests/fuzz" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$build/findings"

fuzz() {
    local name=$1 dict=()
    mkdir "$work/$name" # new inputs go here, and not into the source tree
    [ ! -e "$here/$name.dict" ] || dict=("-dict=$here/$name.dict")
    if "$build/tests/fuzz/fuzz_$name" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        "${dict[@]}" -artifact_prefix="$build/findings/$name-" "$work/$name" "$here/corpus/$name" \
        >"$work/$name.log" 2>&1; then
        echo "pass $name" >>"$results"
        echo "pass $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log") inputs"
    else
        echo "fail $name" >>"$results"
        echo "FAIL $name"
        tail -n 40 "$work/$name.log"
        return 1
    fi
}

rc=0
for name in "${names[@]}"; do
    while (($(jobs -pr | wc -l) >= 2)); do
        wait -n || rc=1
    done
    fuzz "$name" &
done
while (($(jobs -p | wc -l))); do
    wait -n || rc=1
done
exit $rc
