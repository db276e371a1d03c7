#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone, in C11 and in C++17, without a warning, and all are installed.

headers.py ROOT CC CXX
"""
import pathlib
import re
import subprocess
import sys

root, cc, cxx = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
folder = root / "include" / "farlane"
headers = sorted(p.name for p in folder.glob("*.h"))
bad = 0

listed = sorted(re.findall(r"'([a-z0-9_]+\.h)'", (folder / "meson.build").read_text()))
if listed != headers:
    print(f"include/farlane/meson.build lists {listed}, but there are {headers}")
    bad += 1

for header in headers:
    for compiler, language, std in ((cc, "c", "c11"), (cxx, "c++", "c++17")):
        run = subprocess.run(
            compiler.split() + ["-x", language, f"-std={std}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                                "-I", str(root / "include"), "-"],
            input=f"#include <farlane/{header}>\n#include <farlane/{header}>\n", text=True, capture_output=True)
        print(f"{header} {std}: {'ok' if run.returncode == 0 else 'FAILS'}")
        if run.returncode:
            print(run.stderr)
            bad += 1
sys.exit(1 if bad else 0)
