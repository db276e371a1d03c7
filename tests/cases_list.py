#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds docs/cases.md to what there is: each test that it names is in the file that it names, and is run.

cases_list.py ROOT
"""
import pathlib
import re
import sys

ENTRY = re.compile(r"`(\w+)` ((?:[\w/-]+\.(?:py|c)(?:, )?)+)")


def is_run(text, name, python):
    if python:  # the runner takes what is named case_* or test_*
        return re.search(rf"^def {name}\(", text, re.M)
    return len(re.findall(rf"\b{name}\b", text)) > 1  # what it does, and where it is called or listed


def faults(root):
    entries = 0
    for number, line in enumerate((root / "docs/cases.md").read_text().splitlines(), 1):
        if not line.startswith("| ") or line.startswith(("| `", "| file", "| case")):
            continue
        for name, files in ENTRY.findall(line):
            for file in files.split(", "):
                entries += 1
                path = root / (file if "/" in file else "tests/cases/" + file)
                if not path.exists():
                    yield f"docs/cases.md:{number}: {file} is not there"
                elif not is_run(path.read_text(), name, file.endswith(".py")):
                    yield f"docs/cases.md:{number}: {file} has no test {name}"
    if entries < 100:
        yield f"docs/cases.md: only {entries} tests found in its table"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
