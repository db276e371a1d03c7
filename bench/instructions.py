#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that farlane spends on one I/O, target and host apart, counted by callgrind (so not the kernel's).

With --check it compares them with bench/instructions.json and fails when one has grown by more than 10 %; with --update it
writes that file. The counts depend on the compiler a little, on the machine's load not at all.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [("read", 4096, "none"), ("write", 4096, "none"), ("read", 4096, "digest"), ("write", 4096, "digest"),
         ("read", 131072, "none")]  # no large write: its copy by "rep movsb" counts as an instruction a byte here
ROUNDS = 40
ALLOWED = 1.10


def count(program, rw, bs, digest, folder):
    out = os.path.join(folder, "callgrind.out")
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=target_turn", "--toggle-collect=host_turn",
         program, rw, str(bs), str(ROUNDS), digest], capture_output=True, text=True, timeout=300)
    if run.returncode:
        sys.exit(f"instructions: {rw} {bs} {digest}: {run.stderr[-2000:]}")
    nr = int(run.stdout.split()[-1])
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", out], capture_output=True, text=True, check=True).stdout
    costs = {}
    for side in ("target", "host"):
        m = re.search(r"^\s*([\d,]+)\s.*:" + side + r"_turn\b", text, re.M)
        if not m:
            sys.exit(f"instructions: no {side}_turn in callgrind's output")
        costs[side] = round(int(m.group(1).replace(",", "")) / nr)
    return costs


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("program", help="build/bench/instructions")
    p.add_argument("--check", action="store_true", help="fail when a count has grown by more than 10 %%")
    p.add_argument("--update", action="store_true", help="write bench/instructions.json")
    p.add_argument("--only", default="", help="only cases whose name matches")
    args = p.parse_args()
    if not shutil.which("valgrind"):
        print("instructions: needs valgrind")
        return 77
    path = os.path.join(HERE, "instructions.json")
    known = json.load(open(path)) if os.path.exists(path) else {}
    grown = []
    found = {}
    print(f"{'I/O':<22}{'target':>10}{'host':>10}   (instructions; in brackets what is recorded)")
    with tempfile.TemporaryDirectory() as folder:
        for rw, bs, digest in CASES:
            name = f"{rw} {bs}" + (" digests" if digest == "digest" else "")
            if args.only and not re.search(args.only, name):
                continue
            found[name] = count(args.program, rw, bs, digest, folder)
            was = known.get(name, {})
            print(f"{name:<22}{found[name]['target']:>10}{found[name]['host']:>10}   "
                  f"({was.get('target', '-')}, {was.get('host', '-')})", flush=True)
            for side, n in found[name].items():
                if side in was and n > was[side] * ALLOWED:
                    grown.append(f"{name}, {side}: {n} instead of {was[side]}")
    if args.update:
        with open(path, "w") as f:
            json.dump({**known, **found}, f, indent=1)
            f.write("\n")
    if args.check:
        missing = set(found) - set(known)
        for line in grown + [f"{m}: not recorded" for m in sorted(missing)]:
            print(f"FAILED: {line}")
        return 1 if grown or missing else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
