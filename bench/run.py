#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures farlane's NVMe/TCP, NVMe/RDMA and software RNIC as ratios within one run and prints a Markdown table.

Each row compares two things that are run in turn, A B A B ..., several rounds; the figures are medians and the ratio is the
median of the rounds' ratios. 'floor' is bench/floor: the same bytes over loopback TCP and nothing else; for ram, out of as much memory.
"""
import argparse
import datetime
import json
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NQN = "nqn.2026-01.io.farlane:bench"


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="build folder (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=5, help="rounds of each pair (default: %(default)s)")
    p.add_argument("--seconds", type=float, default=2, help="seconds of each measurement (default: %(default)s)")
    p.add_argument("--only", default="", help="only rows whose name matches this regular expression")
    p.add_argument("--file", default="", help="file for the file back end (default: one that is made and removed)")
    p.add_argument("--file-size", default="1G", help="size of that file (default: %(default)s)")
    p.add_argument("--json", default="", metavar="PATH", help="also write every figure there")
    return p.parse_args()


ARGS = parse_arguments()
FARLANE = os.path.join(ARGS.build, "farlane")
if not os.path.exists(FARLANE):
    FARLANE = os.path.join(ARGS.build, "tools", "farlane", "farlane")
FLOOR = os.path.join(ARGS.build, "bench", "floor")
VERBS = os.path.join(ARGS.build, "bench", "verbs")
COPY = os.path.join(ARGS.build, "bench", "copy")
LINE = os.path.join(ARGS.build, "bench", "line")
UDP_FLOOR = os.path.join(ARGS.build, "bench", "udp_floor")
CPUS = sorted(os.sched_getaffinity(0))
HOST_CPU, TARGET_CPU = CPUS[0], CPUS[1 % len(CPUS)]
if len(CPUS) < 2:
    sys.exit("bench: this needs two CPUs: one for each end")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rnic_env(**more):
    """A UDP port and a hub that nobody else on this machine has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    return {**os.environ, "FARLANE_ROCE_PORT": str(port), "FARLANE_HUB": f"farlane-bench-{os.getpid()}-{port}", **more}


class Target:
    """farlane serve with one namespace, on a CPU of its own, from its first use on. rdma: the environment of its RNIC and of
    its hosts. filled: all of the namespace is written first, so that no row pays for its pages."""

    def __init__(self, spec, poll="busy", rdma=None):
        self.spec, self.poll, self.env = spec, poll, rdma
        self.port, self.rdma_port = free_port(), free_port()
        self.process, self.filled = None, False

    def start(self):
        if self.process:
            return
        self.process = subprocess.Popen(
            [FARLANE, "serve", "--listen", f"tcp://127.0.0.1:{self.port}",
             *(["--listen", f"rdma://127.0.0.1:{self.rdma_port}"] if self.env else []),
             "--nqn", NQN, "--ns", self.spec, "--cores", str(TARGET_CPU), "--poll", self.poll],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.env)
        self.wait_until_it_listens()
        if self.filled:
            run_json([FARLANE, "bench", self.url(), "--rw", "write", "--bs", "1M", "--depth", "4", "--seconds", "5", "--destroy-data", "--json"])

    def wait_until_it_listens(self):
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"bench: farlane serve ended: {self.process.stderr.read()}")
                time.sleep(0.05)
        sys.exit("bench: farlane serve does not listen")

    def url(self, query=""):
        self.start()
        return f"nvme+tcp://127.0.0.1:{self.port}/{NQN}?ns=1{query}"

    def rdma_url(self):
        self.start()
        return f"nvme+rdma://127.0.0.1:{self.rdma_port}/{NQN}?ns=1"

    def beside(self, measure):
        """Runs measure() while the target, which polls, is off its CPU."""
        self.start()
        self.process.send_signal(signal.SIGSTOP)
        try:
            return measure()
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if not self.process:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def run_json(command, env=None):
    r = subprocess.run(command, capture_output=True, text=True, timeout=ARGS.seconds * 10 + 60, env=env)
    if r.returncode:
        sys.exit(f"bench: {' '.join(command)} failed: {r.stderr.strip()}")
    got = json.loads(r.stdout)
    return got[0] if isinstance(got, list) else got


def bench(url, rw="randread", bs=4096, depth=1, env=None):
    extra = [] if rw in ("read", "randread") else ["--destroy-data"]
    return run_json([FARLANE, "bench", url, "--rw", rw, "--bs", str(bs), "--depth", str(depth), "--seconds", str(ARGS.seconds),
                     "--cpus", str(HOST_CPU), "--json"] + extra, env)


def floor(bs=4096, depth=1, write=False, memory=0):
    return run_json([FLOOR, "--bs", str(bs), "--depth", str(depth), "--seconds", str(ARGS.seconds), "--memory", str(memory), "--cpus",
                     f"{HOST_CPU},{TARGET_CPU}"] + (["--write"] if write else []))


ROWS = []
RAW = []
LINES = []  # round trips of a cache line between the two CPUs, one before each row: some machines have two speeds


def look_at_line():
    LINES.append(run_json([LINE, "--cpus", f"{HOST_CPU},{TARGET_CPU}"])["round_trip_us"])


def line_text():
    return f"a cache line's round trip between the two CPUs: {statistics.median(LINES):.2f} us ({min(LINES):.2f}–{max(LINES):.2f})" if LINES else ""


def compare(name, bar, key, measure_a, measure_b, unit, better, scale=1.0, difference=False):
    """One row: ours (a) against the other (b), in turn. bar None: for information, there is none."""
    if ARGS.only and not re.search(ARGS.only, name):
        return
    a, b = [], []
    look_at_line()
    for _ in range(ARGS.rounds):
        a.append(measure_a()[key] * scale)
        b.append(measure_b()[key] * scale)
    each = [x - y if difference else x / y for x, y in zip(a, b)]
    ratio = statistics.median(each)
    met = "" if bar is None else "yes" if (ratio <= bar if better == "less" else ratio >= bar) else "no"
    sign = "≤" if better == "less" else "≥"
    ROWS.append((name, f"{statistics.median(a):.4g} {unit}", f"{statistics.median(b):.4g} {unit}",
                 f"{ratio:+.1f} {unit}" if difference else f"{ratio:.2f}",
                 f"{min(each):.2f}–{max(each):.2f}",
                 "" if bar is None else f"{sign} {bar:g}" + (f" {unit}" if difference else ""), met))
    RAW.append({"name": name, "ours": a, "other": b, "key": key, "bar": bar, "better": better, "line_us": LINES[-1]})
    print(f"  {name}: {ROWS[-1][1]} against {ROWS[-1][2]}: {ROWS[-1][3]}" + (f" (bar {ROWS[-1][5]})" if met else ""),
          file=sys.stderr, flush=True)


def absolute(name, bar, key, measure, unit, better, scale=1.0):
    """One row with a bar of its own."""
    if ARGS.only and not re.search(ARGS.only, name):
        return
    look_at_line()
    each = [measure()[key] * scale for _ in range(ARGS.rounds)]
    value = statistics.median(each)
    met = value <= bar if better == "less" else value >= bar
    sign = "≤" if better == "less" else "≥"
    ROWS.append((name, f"{value:.4g} {unit}", "", "", f"{min(each):.3g}–{max(each):.3g}", f"{sign} {bar:g} {unit}", "yes" if met else "no"))
    RAW.append({"name": name, "ours": each, "key": key, "bar": bar, "better": better, "line_us": LINES[-1]})
    print(f"  {name}: {ROWS[-1][1]} (bar {ROWS[-1][5]})", file=sys.stderr, flush=True)


def with_target(spec, rows, poll="busy", rdma=None):
    target = Target(spec, poll, rdma)
    try:
        rows(target)
    finally:
        target.stop()


RAM_LEN = 256 << 20


def ram_rows(t):
    """Against a floor whose data lies in as much memory; once also against one that has it in its caches."""
    t.filled = True

    def beside(bs=4096, depth=1, write=False, memory=RAM_LEN):
        return lambda: t.beside(lambda: floor(bs, depth, write, memory))

    compare("4 KiB random read, depth 1, mean: ram / floor", 1.25, "mean_us", lambda: bench(t.url()), beside(), "us", "less")
    compare("4 KiB random read, depth 32: ram / floor", 0.8, "iops", lambda: bench(t.url(), depth=32), beside(depth=32), "kIOPS", "more", 1e-3)
    compare("4 KiB random read, depth 32: ram / floor in caches", None, "iops", lambda: bench(t.url(), depth=32), beside(depth=32, memory=0),
            "kIOPS", "more", 1e-3)
    compare("4 KiB random write, depth 32: ram / floor", None, "iops", lambda: bench(t.url(), "randwrite", depth=32),
            beside(depth=32, write=True), "kIOPS", "more", 1e-3)
    compare("128 KiB sequential read, depth 8: ram / floor", 0.9, "gb_per_s", lambda: bench(t.url(), "read", 131072, 8),
            beside(131072, 8), "GB/s", "more")
    compare("128 KiB sequential write, depth 8: ram / floor", 0.9, "gb_per_s", lambda: bench(t.url(), "write", 131072, 8),
            beside(131072, 8, True), "GB/s", "more")
    compare("128 KiB sequential read, depth 8: data digest / none", 0.9, "gb_per_s",
            lambda: bench(t.url("&ddgst=1"), "read", 131072, 8), lambda: bench(t.url(), "read", 131072, 8), "GB/s", "more")
    compare("128 KiB sequential write, depth 8: data digest / none", 0.9, "gb_per_s",
            lambda: bench(t.url("&ddgst=1"), "write", 131072, 8), lambda: bench(t.url(), "write", 131072, 8), "GB/s", "more")
    compare("4 KiB random read, depth 32: both digests / none", None, "iops", lambda: bench(t.url("&hdgst=1&ddgst=1"), depth=32),
            lambda: bench(t.url(), depth=32), "kIOPS", "more", 1e-3)


def null_rows(t):
    compare("4 KiB random read, depth 32: null / floor", 0.8, "iops", lambda: bench(t.url(), depth=32), lambda: t.beside(lambda: floor(depth=32)), "kIOPS",
            "more", 1e-3)


def file_rows(path):
    # The target holds a lock on the file, so the local side reads a second one beside it, of the same kind.
    def rows(t):
        compare("4 KiB random read, depth 1, mean: file remote − local", 12, "mean_us", lambda: bench(t.url()),
                lambda: t.beside(lambda: bench(f"file:{path}.local")), "us", "less", difference=True)
    with_target(f"file:{path}", rows)


def shared_memory_rows():
    def verbs(*args):
        return lambda: run_json([VERBS, "--seconds", str(ARGS.seconds), "--cpus", f"{HOST_CPU},{TARGET_CPU}", *args])

    absolute("RDMA by shared memory: READ of 4 KiB, depth 1, mean, pool memory", 1.0, "mean_us", verbs("--pool"), "us", "less")
    absolute("RDMA by shared memory: READ of 4 KiB, depth 1, mean, other memory", 2.5, "mean_us", verbs(), "us", "less")
    absolute("RDMA by shared memory: WRITE of 64 bytes, one way", 0.6, "mean_us", verbs("--op", "pingpong", "--bs", "64", "--pool"), "us",
             "less")
    absolute("RDMA by shared memory: WRITEs of 64 bytes, one core", 4, "iops",
             verbs("--op", "write", "--bs", "64", "--depth", "64", "--pool"), "M/s", "more", 1e-6)


def rdma_bench(t, *args):
    r = bench(t.rdma_url(), *args, env=t.env)
    cores = (r["host_cores"] or 0) + (r["target_cores"] or 0)
    return {**r, "cores_each_miops": cores / r["iops"] * 1e6, "target_share": (r["target_cores"] or 0) / cores}


def copy(bs, write=False):
    return lambda: run_json([COPY, "--bs", str(bs), "--memory", str(RAM_LEN), "--seconds", str(ARGS.seconds), "--cpu", str(TARGET_CPU)] +
                            (["--write"] if write else []))


def rdma_shared_rows(t):
    """Within a host, over shared memory."""
    name = "NVMe/RDMA by shared memory: "
    t.filled = True
    absolute(name + "4 KiB random read, depth 1, mean", 2, "mean_us", lambda: rdma_bench(t), "us", "less")
    compare(name + "4 KiB random read, depth 1, mean: RDMA / TCP", 0.25, "mean_us", lambda: rdma_bench(t), lambda: bench(t.url()), "us", "less")
    absolute(name + "4 KiB random read, depth 32", 2, "iops", lambda: rdma_bench(t, "randread", 4096, 32), "M/s", "more", 1e-6)
    compare(name + "4 KiB random read, depth 32: RDMA / TCP", 1, "iops", lambda: rdma_bench(t, "randread", 4096, 32),
            lambda: bench(t.url(), depth=32), "kIOPS", "more", 1e-3)
    absolute(name + "cores of both ends for a million I/Os", 1, "cores_each_miops", lambda: rdma_bench(t, "randread", 4096, 32), "", "less")
    absolute(name + "of these the target's", 1, "target_share", lambda: rdma_bench(t, "randread", 4096, 32), "", "less")
    compare(name + "1 MiB sequential read, depth 1: RDMA / memcpy", 0.85, "gb_per_s", lambda: rdma_bench(t, "read", 1 << 20, 1),
            lambda: t.beside(copy(1 << 20)), "GB/s", "more")
    compare(name + "1 MiB sequential write, depth 1: RDMA / memcpy", 0.85, "gb_per_s", lambda: rdma_bench(t, "write", 1 << 20, 1),
            lambda: t.beside(copy(1 << 20, True)), "GB/s", "more")


def rdma_cached_rows(t):
    absolute("NVMe/RDMA by shared memory: 4 KiB random read, depth 32, namespace of 16 MiB", 2, "iops",
             lambda: rdma_bench(t, "randread", 4096, 32), "M/s", "more", 1e-6)
    absolute("NVMe/RDMA by shared memory: its cores of both ends for a million I/Os", 1, "cores_each_miops",
             lambda: rdma_bench(t, "randread", 4096, 32), "", "less")


def rdma_udp_rows(t):
    """The same without shared memory: RoCE v2 over UDP on the loopback, and as bare verbs on a port of their own."""
    env = rnic_env(FARLANE_SHM="0")
    name = "NVMe/RDMA by UDP: "

    def verbs(*args):
        return lambda: t.beside(lambda: run_json([VERBS, "--seconds", str(ARGS.seconds), "--cpus", f"{HOST_CPU},{TARGET_CPU}", *args], env))

    def less_3us():
        r = rdma_bench(t)
        return {"mean_us": r["mean_us"] - 3}

    compare(name + "4 KiB random read, depth 1, mean less 3 us: NVMe / verbs READ", 1.25, "mean_us", less_3us, verbs(), "us", "less")
    compare(name + "4 KiB random read, depth 32: NVMe / verbs READ", 0.8, "iops", lambda: rdma_bench(t, "randread", 4096, 32),
            verbs("--depth", "32"), "kIOPS", "more", 1e-3)
    for rw in ("read", "write"):
        compare(name + f"1 MiB sequential {rw}, depth 2: NVMe / verbs", 0.85, "gb_per_s", lambda: rdma_bench(t, rw, 1 << 20, 2),
                verbs("--op", rw, "--bs", "1048576", "--depth", "2"), "GB/s", "more")


def rdma_file_rows(path):
    def rows(t):
        compare("NVMe/RDMA by shared memory: 4 KiB random read, depth 1, mean: file remote − local", 5, "mean_us", lambda: rdma_bench(t),
                lambda: t.beside(lambda: bench(f"file:{path}.local")), "us", "less", difference=True)
    with_target(f"file:{path}", rows, rdma=rnic_env())


def connection_rows():
    def connections(nr):
        return lambda: run_json([os.path.join(ARGS.build, "bench", "rnic_cm"), "--json", str(nr)])

    absolute("RDMA connections set up a second, 32 at a time", 2000, "per_second", connections(2000), "1/s", "more")
    absolute("RDMA connections: memory of each, with queues of 16", 64, "kib", connections(1000), "KiB", "less")
    absolute("RDMA connections: CPU of 1,000 that are idle", 1, "idle_percent", connections(1000), "%", "less")


class Apart:
    """Two network namespaces and a veth pair: packets go from one to the other as between hosts."""

    def __init__(self):
        tag = f"flb{os.getpid()}"
        self.names = (f"{tag}a", f"{tag}b")
        a, b = self.names
        self.made = []
        for name in self.names:
            subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
            self.made.append(name)
        self.ip("link", "add", "v0", "netns", a, "type", "veth", "peer", "name", "v0", "netns", b)
        for name, address in zip(self.names, ("10.99.0.1", "10.99.0.2")):
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "v0")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "v0", "mtu", "4200", "up")

    @staticmethod
    def ip(*args):
        subprocess.run(["ip", *args], check=True, capture_output=True)

    def run(self, program, *args):
        return lambda: run_json([program, "--netns", ",".join(self.names), "--addresses", "10.99.0.1,10.99.0.2", "--seconds",
                                 str(ARGS.seconds), "--cpus", f"{HOST_CPU},{TARGET_CPU}", *args])

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def udp_rows():
    names = ("RDMA by UDP: READ of 4 KiB, depth 1, mean: verbs / bare datagrams",
             "RDMA by UDP: WRITEs of 1 MiB: verbs / bare GSO and GRO with ICRC",
             "RDMA by UDP: READs of 1 MiB: verbs / bare GSO and GRO with ICRC")
    if ARGS.only and not any(re.search(ARGS.only, name) for name in names):
        return
    if os.geteuid() != 0:
        print("  RDMA by UDP is left out: it takes network namespaces, so root", file=sys.stderr)
        return
    apart = Apart()
    try:
        compare(names[0], 1.35, "mean_us", apart.run(VERBS), apart.run(UDP_FLOOR), "us", "less")
        for name, op in zip(names[1:], ("write", "read")):
            compare(name, 0.8, "gb_per_s", apart.run(VERBS, "--op", op, "--bs", "1048576", "--depth", "2"),
                    apart.run(UDP_FLOOR, "--stream"), "GB/s", "more")
    finally:
        apart.remove()


def make_file(path, size):
    n = int(size[:-1]) << {"M": 20, "G": 30}[size[-1]]
    with open(path, "wb") as f:
        block = os.urandom(1 << 20)
        for _ in range(n >> 20):
            f.write(block)
        f.flush()
        os.fsync(f.fileno())


def cpu_name():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())


def print_table():
    head = ("what", "ours", "other", "ratio", "spread", "bar", "met")
    rows = [head] + ROWS
    width = [max(len(r[i]) for r in rows) for i in range(len(head))]
    print(f"\n{cpu_name()}, {os.cpu_count()} CPUs, Linux {platform.release()}, {datetime.date.today()}; "
          f"{ARGS.rounds} rounds of {ARGS.seconds:g} s; {line_text()}\n")
    for i, r in enumerate(rows):
        print("| " + " | ".join(r[j].ljust(width[j]) for j in range(len(head))) + " |")
        if i == 0:
            print("|" + "|".join("-" * (w + 2) for w in width) + "|")


def main():
    with_target(f"ram:{RAM_LEN}", ram_rows)
    with_target("null:1T", null_rows)
    with tempfile.TemporaryDirectory(dir=ARGS.build) as folder:
        path = ARGS.file or os.path.join(folder, "namespace.img")
        if not ARGS.only or re.search(ARGS.only, "NVMe/RDMA by shared memory: 4 KiB random read, depth 1, mean: file remote − local"):
            if not ARGS.file:
                make_file(path, ARGS.file_size)
                make_file(path + ".local", ARGS.file_size)
            file_rows(path)
            rdma_file_rows(path)
    shared_memory_rows()
    with_target(f"ram:{RAM_LEN}", rdma_shared_rows, rdma=rnic_env())
    with_target("ram:16M", rdma_cached_rows, rdma=rnic_env())
    with_target("ram:64M", rdma_udp_rows, rdma=rnic_env(FARLANE_SHM="0"))
    connection_rows()
    udp_rows()
    print_table()
    if ARGS.json:
        with open(ARGS.json, "w") as f:
            json.dump(RAW, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
