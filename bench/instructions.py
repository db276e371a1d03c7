#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that farlane spends on one I/O, target and host apart, and the RoCE engine on one request, counted by callgrind
(so not the kernel's).

With --check it compares them with bench/instructions.json and fails when one has grown by more than 10 %; with --update it
writes that file. The counts depend on the compiler a little, and on the machine's load hardly:
what the kernel delivers late is looked for more than once, so a count that is too high is taken again.
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
         ("read", 131072, "none"), ("read", 4096, "rdma"), ("write", 4096, "rdma")]  # no large write: its copy by "rep movsb" counts as an instruction a byte here
# Of the RoCE engine, requester and responder
ROCE_CASES = [("write", 64, "plain"), ("write", 4096, "plain"), ("send", 4096, "plain"), ("read", 4096, "plain"),
              ("write", 64, "selective"), ("write", 4096, "selective"), ("read", 4096, "selective")]
ROUNDS = 40
ALLOWED = 1.10
AGAIN = 2 # times, where it is more than that


def count(program, sides, rw, bs, kind, folder):
    out = os.path.join(folder, "callgrind.out")
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *(f"--toggle-collect={side}_turn" for side in sides),
         program, rw, str(bs), str(ROUNDS), kind], capture_output=True, text=True, timeout=300)
    if run.returncode:
        sys.exit(f"instructions: {rw} {bs} {kind}: {run.stderr[-2000:]}")
    nr = int(run.stdout.split()[-1])
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", out], capture_output=True, text=True, check=True).stdout
    costs = {}
    for side in sides:
        m = re.search(r"^\s*([\d,]+)\s.*:" + side + r"_turn\b", text, re.M)
        if not m:
            sys.exit(f"instructions: no {side}_turn in callgrind's output")
        costs[side] = round(int(m.group(1).replace(",", "")) / nr)
    return costs


def grown(found, known):
    return [side for side, n in found.items() if side in known and n > known[side] * ALLOWED]


def least(known, *what):
    found = count(*what)
    for _ in range(AGAIN):
        if not grown(found, known):
            break
        found = {side: min(n, found[side]) for side, n in count(*what).items()}
    return found


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
    more = []
    found = {}
    roce = os.path.join(os.path.dirname(args.program), "roce_instructions")
    cases = [(f"{rw} {bs}" + {"none": "", "digest": " digests", "rdma": " rdma"}[kind], args.program, ("target", "host"), rw, bs, kind)
             for rw, bs, kind in CASES]
    cases += [(f"roce {rw} {bs}" + (" selective" if kind == "selective" else ""), roce, ("requester", "responder"), rw, bs, kind)
              for rw, bs, kind in ROCE_CASES]
    print(f"{'':<26}{'target':>10}{'host':>10}   (instructions; in brackets what is recorded)")
    with tempfile.TemporaryDirectory() as folder:
        for name, program, sides, rw, bs, kind in cases:
            if args.only and not re.search(args.only, name):
                continue
            if name == f"roce {ROCE_CASES[0][0]} {ROCE_CASES[0][1]}":
                print(f"{'':<26}{'requester':>10}{'responder':>10}")
            was = known.get(name, {})
            found[name] = least(was, program, sides, rw, bs, kind, folder)
            print(f"{name:<26}" + "".join(f"{found[name][side]:>10}" for side in sides) +
                  "   (" + ", ".join(str(was.get(side, "-")) for side in sides) + ")", flush=True)
            more += [f"{name}, {side}: {found[name][side]} instead of {was[side]}" for side in grown(found[name], was)]
    if args.update:
        with open(path, "w") as f:
            json.dump({**known, **found}, f, indent=1)
            f.write("\n")
    if args.check:
        missing = set(found) - set(known)
        for line in more + [f"{m}: not recorded" for m in sorted(missing)]:
            print(f"FAILED: {line}")
        return 1 if more or missing else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
