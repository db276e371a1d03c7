#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts test results for scripts/test.sh.

results.py take TESTLOG.json    meson's results as "pass NAME" lines; logs of failures go to standard error
results.py row DIR STEP         one line of the table, from the files DIR/STEP and DIR/STEP.seconds
results.py total DIR STEP...    names what failed or was skipped, and counts; exit status 1 if any failed
"""
import json
import pathlib
import sys

KINDS = {"OK": "pass", "EXPECTEDFAIL": "pass", "SKIP": "skip"}  # all else failed


def take(path):
    for line in pathlib.Path(path).read_text(errors="replace").splitlines():
        test = json.loads(line)
        name = test["name"].split(" / ")[-1].split(":")[-1]
        kind = KINDS.get(test["result"], "fail")
        print(kind, name)
        if kind == "pass":
            continue
        log = (test.get("stdout") or "") + (test.get("stderr") or "")
        print(f"---- {name}: {test['result']} after {test['duration']:.1f} s", file=sys.stderr)
        print("\n".join("     " + text for text in log.splitlines()[-60:]), file=sys.stderr)


def read(folder, step):
    path = pathlib.Path(folder) / step
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(None, 1) for line in lines if line.strip()]


def count(results):
    return {kind: sum(r[0] == kind for r in results) for kind in ("pass", "fail", "skip")}


def row(folder, step):
    n = count(read(folder, step))
    seconds = (pathlib.Path(folder) / f"{step}.seconds").read_text().strip()
    print(f"{step:8} {n['pass']:4} passed {n['fail']:3} failed {n['skip']:3} skipped {seconds:>5} s", flush=True)


def total(folder, *steps):
    results = [(kind, f"{step}: {name}") for step in steps for kind, name in read(folder, step)]
    for kind, name in results:
        if kind != "pass":
            print({"fail": "failed ", "skip": "skipped"}.get(kind, kind), name)
    n = count(results)
    print(f"{n['pass']} passed, {n['fail']} failed, {n['skip']} skipped")
    return 1 if n["fail"] or not n["pass"] else 0


if __name__ == "__main__":
    sys.exit({"take": take, "row": row, "total": total}[sys.argv[1]](*sys.argv[2:]))
