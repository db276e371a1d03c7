#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the order of the folders: each may include headers of itself and of those above it, never of those below.

layering.py ROOT
"""
import pathlib
import re
import sys

ORDER = ["base", "wire", "loop", "mem", "rnic", "verbs", "nvme", "fabric", "backend", "target", "host", "preload",
         "tools"]
# Apart from the order: two sides that meet on the wire only.
STRANGERS = [("target", "host"), ("host", "target")]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def folder_of(path):
    return path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else path.parts[0]


def faults(root):
    sources = [p for top in ("src", "tools", "include") for p in sorted((root / top).rglob("*.[ch]"))]
    if not sources:
        yield f"{root}: no sources found"
    for path in sources:
        here = path.relative_to(root)
        folder = folder_of(here)
        if folder != "include" and folder not in ORDER:
            yield f"{here}: the folder {folder} has no place in the order of tests/layering.py"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                fault = judge(root, here, folder, match[1], match[2])
                if fault:
                    yield f"{here}:{number}: {fault}"


def judge(root, here, folder, quote, name):
    first = name.split("/")[0]
    if quote == "<":
        if first == "farlane" and not (root / "include" / name).exists():
            return f"<{name}> does not exist"
        return None
    if folder == "include":
        return f'a public header includes "{name}": only <farlane/...> is installed'
    if folder == "tools" and (root / here.parent / name).exists():
        return None
    if not (root / "src" / name).exists():
        return f'"{name}" is not a path below src/'
    if (folder, first) in STRANGERS:
        return f"{folder} must not know {first}"
    if first not in ORDER or ORDER.index(first) > ORDER.index(folder):
        return f'"{name}" lies below: {folder} comes before {first}'
    return None


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)
