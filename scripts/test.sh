#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds in every way and runs every test: scripts/test.sh [STEP...], all steps by default.
#
# Tests plug in by meson suites, without a change here:
#   unit   quick, in one process                      run in the steps gcc, clang and asan
#   check  of the sources and of what was built; with unit, as it is quick
#   func   starts processes                           gcc, asan
#   tsan   has two threads (give it unit or func too) tsan
#   foreign  judges that need no kernel of their own  gcc, judges
#   interop  all the foreign judges, in QEMU              judges (make judges; not a step by default)
# A test that exits with 77 is skipped: counted, shown, and a failure in CI.
# tests/fuzz/run.sh SECONDS BUILD_DIR runs the fuzzers; it may write "pass NAME", "fail NAME" or "skip NAME" lines
# to the file $FL_RESULTS, else it counts as one result.
#
# The last line is "N passed, N failed, N skipped". Exit status 1 if any failed.
set -u
cd "$(dirname "$0")/.."

steps=(gcc clang asan tsan fuzz)
(($# == 0)) || steps=("$@")
: "${FUZZ_SECONDS:=5}"

python=/usr/bin/python3 # the one that meson uses; another in the PATH may lack what Debian's has
[ -x "$python" ] || python=python3
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

# build STEP [-n] DIR OPTION...: a build that fails is a failed test.
build() {
    local step=$1 log=$results/$1.build
    shift
    scripts/build.sh "$@" >"$log" 2>&1 && return
    echo "fail build" >>"$results/$step"
    grep -E 'error|warning|FAILED' -A6 "$log" | head -n 60 || tail -n 30 "$log"
    return 1
}

# suites STEP DIR WRAPPER SUITE...: runs meson's tests and takes over their results.
suites() {
    local step=$1 dir=$2 wrapper=$3 log=$2/meson-logs/testlog.json args=()
    shift 3
    args=("${@/#/--suite=}")
    [ -z "$wrapper" ] || args+=("--wrapper=$wrapper")
    rm -f "$dir"/meson-logs/testlog*.json
    # They end what hangs; what is only slow, since the machine is busy, is let go on.
    case $step in asan | tsan) args+=(--timeout-multiplier=10) ;; *) args+=(--timeout-multiplier=4) ;; esac
    meson test -C "$dir" "${args[@]}" >"$results/$step.log" 2>&1
    log=$(ls -t "$dir"/meson-logs/testlog*.json 2>/dev/null | head -n 1)
    if [ -n "$log" ]; then
        "$python" scripts/results.py take "$log" >>"$results/$step" 2>&3
    elif ! grep -q 'No suitable tests defined' "$results/$step.log"; then
        tail -n 20 "$results/$step.log" >&3
        echo "fail meson-test" >>"$results/$step"
    fi
}

step_gcc() {
    build gcc build -Dtests=enabled && suites gcc build '' unit func foreign
}

step_clang() {
    CC=clang build clang build-clang -Dtests=enabled && suites clang build-clang '' unit
}

# Sanitizers make gcc warn of truncation where there is none: warnings are the other steps' business.
step_asan() {
    build asan build-asan -Dtests=enabled -Dbench=false -Dwerror=false -Doptimization=1 \
        -Db_sanitize=address,undefined -Dc_args='-fno-sanitize-recover=all -fno-omit-frame-pointer' && suites asan build-asan '' unit func
}

step_tsan() {
    local wrapper=''
    # TSan of this age wants its shadow memory where random addresses of newer kernels may lie.
    ! setarch "$(uname -m)" -R true 2>/dev/null || wrapper="setarch $(uname -m) -R"
    # Only what the tests of this suite need is built, by meson test.
    build tsan -n build-tsan -Dtests=enabled -Dbench=false -Dwerror=false -Doptimization=1 \
        -Db_sanitize=thread -Dc_args=-fno-omit-frame-pointer && suites tsan build-tsan "$wrapper" tsan
}

step_fuzz() {
    local out=$results/fuzz.log
    [ -x tests/fuzz/run.sh ] || return 0
    CC=clang build fuzz build-fuzz -Dtests=disabled -Dbench=false -Dfuzz=true -Db_lundef=false \
        -Db_sanitize=address,undefined -Doptimization=1 \
        -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer' || return
    if FL_RESULTS=$results/fuzz tests/fuzz/run.sh "$FUZZ_SECONDS" build-fuzz >"$out" 2>&1; then
        [ -s "$results/fuzz" ] || echo "pass fuzzers" >>"$results/fuzz"
    else
        tail -n 60 "$out" >&3
        grep -qs ^fail "$results/fuzz" || echo "fail fuzzers" >>"$results/fuzz"
    fi
}

step_judges() {
    build judges build -Dtests=enabled || return
    if ! tests/interop/kernels.sh >"$results/judges.log" 2>&1; then
        tail -n 20 "$results/judges.log" >&3
        echo "fail kernels" >>"$results/judges"
        return
    fi
    suites judges build '' interop
}

exec 3>&1
for step in "${steps[@]}"; do
    if ! declare -F "step_$step" >/dev/null; then
        echo "$0: there is no step \"$step\"; there are gcc, clang, asan, tsan, fuzz, judges" >&2
        exit 2
    fi
    : >"$results/$step"
    from=$SECONDS
    "step_$step"
    echo $((SECONDS - from)) >"$results/$step.seconds"
    "$python" scripts/results.py row "$results" "$step"
done
"$python" scripts/results.py total "$results" "${steps[@]}"
