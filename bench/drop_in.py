#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the drop-in library costs: perftest through it, beside our own benchmark of the same operation, without it and through it.

bench/drop_in.py [BUILD] [ROUNDS]     in turn, two processes of this host, one CPU each; medians, and medians of the rounds' ratios
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
BENCH = str(BUILD / "tests/verbs/verbs_bench")
PLAIN = dict(os.environ, FARLANE_ROCE_PORT="14990")
DROP_IN = dict(PLAIN, LD_PRELOAD=str(BUILD / "src/preload/libfarlane-verbs.so"))
PORT = 18515
PATIENCE = 20
MIB = 1.048576  # MB

# what, perftest's command, ours, and by what ours is to be multiplied
ROWS = (
    ("READ of 4096, depth 1, us", "ib_read_lat -s 4096 -n 10000", "--op read --size 4096 --count 10000", 1),
    ("SEND of 64, one way, us", "ib_send_lat -s 64 -I 64 -n 10000", "--op pingpong --size 64 --count 10000", 0.5),
    ("WRITE of 64, one way, us", "ib_write_lat -s 64 -I 64 -n 10000", "--op write-pingpong --size 64 --count 10000", 0.5),
    ("WRITE of 64 KiB, depth 16, MiB/s", "ib_write_bw -s 65536 -t 16 -n 5000", "--op write --size 65536 --depth 16 --count 5000", 1),
    ("SEND of 64 KiB, depth 16, MiB/s", "ib_send_bw -s 65536 -t 16 -r 64 -n 5000", "--op send --size 65536 --depth 16 --count 5000", 1),
    ("READ of 64 KiB, depth 16, MiB/s", "ib_read_bw -s 65536 -t 16 -n 5000", "--op read --size 65536 --depth 16 --count 5000", 1),
)


def listens():
    lines = [line.split() for path in ("/proc/net/tcp", "/proc/net/tcp6") for line in pathlib.Path(path).read_text().splitlines()[1:]]
    return any(f[3] == "0A" and int(f[1].rsplit(":", 1)[1], 16) == PORT for f in lines)


def pair(server, client, env):
    """What the client says; the server has CPU 0, the client CPU 1."""
    s = subprocess.Popen(["taskset", "-c", "0", *server], env=env, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not listens():
            if time.monotonic() > deadline:
                sys.exit(f"{server[0]} does not listen")
            time.sleep(0.005)
        said = subprocess.run(["taskset", "-c", "1", *client], env=env, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout
        s.wait(PATIENCE)
        return said
    finally:
        if s.poll() is None:
            s.kill()
            s.wait()


def perftest(command):
    command = [*command.split(), "-F"]
    said = pair(command, [*command, "127.0.0.1"], DROP_IN)
    rows = [line for line in said.splitlines() if re.match(r"^ *\d+ +\d+ +[\d.]+", line)]
    if not rows:
        sys.exit(f"{command[0]} has no result:\n{said}")
    row = rows[-1].split()
    return float(row[3] if "_bw" in command[0] else row[4])  # the average rate; the typical time


def own(args, env):
    command = [BENCH, *args.split(), "--no-check", *(["--verbs", "hardware"] if env is DROP_IN else [])]
    said = pair([*command, "--server", str(PORT)], [*command, "--client", f"127.0.0.1:{PORT}"], env)
    rate, median = re.search(r"([\d.]+) MB/s(?:, [\d.]+ us \(median ([\d.]+))?", said).groups()
    return float(median) if median else float(rate) / MIB


def ratio(results, a, b):
    ratios = sorted(r[a] / r[b] for r in results)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"


def main():
    results = {row[0]: [] for row in ROWS}
    for _ in range(ROUNDS):
        for name, theirs, ours, factor in ROWS:
            results[name].append((perftest(theirs), own(ours, PLAIN) * factor, own(ours, DROP_IN) * factor))
    print("| what | perftest, drop-in | own, linked | own, drop-in | perftest / own | drop-in / linked |\n|---|---|---|---|---|---|")
    for name, rounds in results.items():
        medians = (f"{statistics.median(r[i] for r in rounds):.4g}" for i in range(3))
        print(f"| {name} | {' | '.join(medians)} | {ratio(rounds, 0, 1)} | {ratio(rounds, 2, 1)} |")


main()
