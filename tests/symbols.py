#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libfarlane.so exports equals its map, and both equal what the public headers mark FL_API.

symbols.py LIBFARLANE.so MAP INCLUDE_DIR
"""
import pathlib
import re
import subprocess
import sys

library, map_file, include = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])

nm = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True, capture_output=True).stdout
exported = {line.split()[2].split("@")[0] for line in nm.splitlines() if line.split()[1] != "A"}

text = re.sub(r"/\*.*?\*/|#[^\n]*", "", map_file.read_text(), flags=re.S)
mapped = {name for part in re.findall(r"global:(.*?)(?:local:|\})", text, flags=re.S)
          for name in re.findall(r"[A-Za-z0-9_]+", part)}

declared = set()
for header in sorted(include.glob("farlane/*.h")):
    code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
    for line in re.findall(r"^FL_API\s+([^;{]*)", code, flags=re.M):
        declared.add(re.match(r"[^(]*?([A-Za-z0-9_]+)\s*(\(|$|\[)", line)[1])

bad = False
for name, have in (("the library", exported), ("the map", mapped), ("the headers", declared)):
    lacks = sorted((exported | mapped | declared) - have)
    if lacks:
        print(f"{name} lacks: {' '.join(lacks)}")
        bad = True
print(f"{len(exported)} exported, {len(mapped)} in the map, {len(declared)} declared")
sys.exit(1 if bad or not exported else 0)
