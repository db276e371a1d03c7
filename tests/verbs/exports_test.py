#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the drop-in library exports equals its map, and docs/drop-in.md tells the state of each function.

exports_test.py LIBFARLANE-VERBS.so MAP DROP-IN.md
"""
import glob
import pathlib
import re
import subprocess
import sys

STATES = ("works", "not supported", "real ones only")
# Without a version, so that they answer to any: names under private versions, and what is libc's.
UNVERSIONED = {"access", "dlopen", "ibv_query_gid_type", "open", "open64", "stat", "stat64"}


def exports(library):
    """{name: version}: default versions only."""
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True, capture_output=True).stdout
    found = {}
    for line in out.splitlines():
        kind, name = line.split()[1:3]
        if kind != "A" and ("@@" in name or "@" not in name):
            found[name.split("@")[0]] = name.split("@@")[1] if "@@" in name else None
    return found


def mapped(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    return {name: version for version, body in re.findall(r"([A-Z]+_[\d.]+)\s*\{(.*?)\}", text, flags=re.S)
            for name in re.findall(r"\w+", re.search(r"global:(.*?)(?:local:|$)", body, flags=re.S)[1])}


def main():
    library, map_file, doc = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()
    ours, wanted, faults = exports(library), mapped(map_file), []
    for name in sorted(set(ours) | set(wanted) | UNVERSIONED):
        if name not in ours:
            faults.append(f"{name} is in the map, but not in the library")
        elif ours[name] != wanted.get(name):
            faults.append(f"{name} is exported as {ours[name]}, and in the map as {wanted.get(name)}")
        elif not ours[name] and name not in UNVERSIONED:
            faults.append(f"{name} has no version")
    states = {}
    for names, state in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", doc, re.M):
        for name in re.findall(r"\w+", names):
            states[name] = state.strip()
            if not state.startswith(STATES):
                faults.append(f"{name}: the document has the state '{state}'")
    faults += [f"{name} is exported, and the document does not know it" for name in sorted(set(ours) - set(states))]
    left = set(re.findall(r"\w+", re.search(r"Left to the real library: (.*?)\n\n", doc, re.S)[1]))
    for real in glob.glob("/usr/lib/*/libibverbs.so.1")[:1] + glob.glob("/usr/lib/*/librdmacm.so.1")[:1]:
        theirs = {n: v for n, v in exports(real).items()
                  if v and v.startswith(("IBVERBS_1.", "RDMACM_1.")) and (n.startswith("rdma_") or not n.startswith("r"))}
        for name in sorted(set(theirs) - left):
            if name not in ours:
                faults.append(f"{name} of {real} is missing")
            elif ours[name] != theirs[name]:
                faults.append(f"{name} is {ours[name]}, and {theirs[name]} in {real}")
    print("\n".join(faults) or f"{len(ours)} functions")
    sys.exit(1 if faults or len(ours) < 70 else 0)


main()
