#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every meson.build of the source tree takes part in this build: a folder that no subdir() names is built by nobody.

folders.py ROOT BUILD_DIR
"""
import json
import pathlib
import sys

root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
used = {pathlib.Path(p).resolve() for p in json.loads((build / "meson-info/intro-buildsystem_files.json").read_text())}
bad = False
for top in ("", "include", "src", "tools", "tests", "bench", "docs", "man"):
    for path in sorted((root / top).glob("**/meson.build" if top else "meson.build")):
        if path.resolve() not in used:
            print(f"{path.relative_to(root)} takes no part: name its folder in the meson.build above it, "
                  f"or, if it is named there, meson setup --reconfigure {build}")
            bad = True
sys.exit(1 if bad else 0)
