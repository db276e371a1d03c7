# SPDX-License-Identifier: Apache-2.0
"""Runs the functions case_* of the file that calls main(): FILE.py [NAME...]. One line each; status 1 if one failed."""
import os
import sys
import time
import traceback


def main():
    cases = {n: f for n, f in vars(sys.modules["__main__"]).items() if n.startswith("case_") and callable(f)}
    wanted = sys.argv[1:]
    failed = 0
    for name, case in cases.items():
        if wanted and not any(w in name for w in wanted):
            continue
        at = time.monotonic()
        try:
            case()
            verdict = "pass"
        except Exception:
            verdict = "FAIL"
            failed += 1
            traceback.print_exc(file=sys.stdout)
        print(f"{verdict} {name} ({time.monotonic() - at:.1f} s)", flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0) # threads of a peer may still sleep
