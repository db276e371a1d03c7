#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One table of what `farlane bench --json` measured by each path: scripts/run_table.py RESULTS.json...

Each path has its row, or it is an error: a row that is missing, of another path than it says, or without a figure.
"""
import json
import sys

ROWS = [("local", "read locally"), ("shm", "RDMA on shared memory"), ("udp", "RDMA by RoCE v2 over UDP"), ("tcp", "TCP")]
SMALL, LARGE = 4096, 1 << 20
DISTURBED = 0.03  # of the time waited for a CPU: as farlane bench says it
HEAD = ["", "4 KiB, depth 1", "p99", "4 KiB, depth 32", "cores", "1 MiB, sequential", "cores"]


def cores(result):
    """Of both ends. Polling counts as use."""
    target = result["target_cores"]
    return "?" if target is None else f"{result['host_cores'] + target:.2f}"


def row_of(path, name, results):
    found = {(r["bs"], r["depth"]): r for r in results if r["path"] == path}
    latency, iops = found.get((SMALL, 1)), found.get((SMALL, 32))
    stream = next((r for r in results if r["path"] == path and r["bs"] == LARGE), None)
    for what, r in (("latency", latency), ("IOPS", iops), ("throughput", stream)):
        if r is None or r["reads"] <= 0:
            others = sorted({r["path"] for r in results})
            sys.exit(f"run_table.py: there is no {what} of the path '{path}' ({name}); measured were: {', '.join(others)}")
    return [name, f"{latency['mean_us']:.1f} us", f"{latency['p99_us']:.1f} us", f"{iops['iops'] / 1e3:.1f} kIOPS", cores(iops),
            f"{stream['gb_per_s']:.2f} GB/s", cores(stream)]


def main():
    results = []
    for file in sys.argv[1:]:
        with open(file) as f:
            results += json.load(f)
    table = [HEAD] + [row_of(path, name, results) for path, name in ROWS]
    width = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
    for row in table:
        print("  ".join(cell.ljust(width[i]) if i == 0 else cell.rjust(width[i]) for i, cell in enumerate(row)).rstrip())
    waited = max(r["waited"] or 0 for r in results)
    if waited >= DISTURBED:
        print(f"The machine was disturbed: other programs kept a thread from its CPU for up to {waited:.0%} of a run.")


main()
