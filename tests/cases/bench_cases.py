# SPDX-License-Identifier: Apache-2.0
"""Measurements: what `farlane bench` says is what happened; an idle target costs nothing."""
import json
import re
import resource
import time

from peer_host import Controller
from product import NQN, SANITIZED, Server, run
from runner import main
from wire import *

FIELDS = ("url", "rw", "bs", "depth", "iops", "gb_per_s", "mean_us", "p50_us", "p99_us", "p999_us", "p9999_us", "host_cores",
          "target_cores", "cores_per_miops")


def bench(*args):
    """The rows, and the CPU time and elapsed time of the whole process as the kernel counts them."""
    before, at = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    for _ in range(3): # a machine may be so busy that the job does not run at all in that time; bench says so
        done = run("bench", *args, "--json", "--ramp", "0.2", timeout=120, check=False)
        if "no I/O ended within" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - at


def case_D9_local_and_fabric_rows_of_one_job():
    """One job on a null device, here and over the fabric, at depth 1, 32 and 128: rows that can be subtracted."""
    with Server("null:1G", args=("--max-depth", "256")) as s:
        cpu, reads = s.cpu_s(), s.ctl("list")["subsystems"][0]["namespaces"][0]["io"]["reads"]
        rows, _, _ = bench("null:1G", s.url, "--depth", "1,32,128", "--seconds", "0.5")
        cpu, reads = s.cpu_s() - cpu, s.ctl("list")["subsystems"][0]["namespaces"][0]["io"]["reads"] - reads
        assert [(r["url"], r["depth"]) for r in rows] == [(u, d) for u in ("null:1G", s.url) for d in (1, 32, 128)], rows
        for r in rows:
            assert all(f in r for f in FIELDS), r
            assert r["rw"] == "randread" and r["bs"] == 4096 and r["iops"] > 0, r
            assert 0 < r["p50_us"] <= r["p99_us"] <= r["p999_us"] <= r["p9999_us"], r
            assert abs(r["gb_per_s"] * 1e9 / 4096 / r["iops"] - 1) < 0.01, r
            # Little's law; what began before the measured time and ended in it adds its latency
            assert r["iops"] * r["mean_us"] / 1e6 < 1.05 * r["depth"] * (1 + r["max_us"] / 5e5), f"more in flight than the depth: {r}"
            assert 0 < r["host_cores"] < 1.3 and abs(r["cores_per_miops"] * r["iops"] / 1e6 - r["host_cores"] - r["target_cores"]) < 0.05, r
        local, remote = rows[:3], rows[3:]
        for l, r in zip(local, remote):
            assert l["target_cores"] == 0 and r["target_cores"] > 0 and r["target_pid"] == s.pid
            assert r["p50_us"] > l["p50_us"] and r["mean_us"] > l["mean_us"], "a fabric takes time"
        done = sum(r["iops"] * 0.5 for r in remote)
        assert done * 0.9 < reads, f"bench tells of {done:.0f} reads, the target saw {reads}"
        claimed = sum(r["target_cores"] * 0.5 for r in remote)
        assert claimed <= cpu + 0.1, f"bench tells of {claimed:.2f} s of the target's CPU, the kernel of {cpu:.2f}"


def case_D9_cores_by_cpu_time():
    """What sleeps takes no core, however many threads there are."""
    with Server("null:1G") as s:
        rows, cpu, elapsed = bench(s.url, "--depth", "1", "--jobs", "4", "--seconds", "2", "--wait", "sleep")
        assert rows[0]["jobs"] == 4 and rows[0]["host_cores"] * 2 < cpu + 0.2, (rows[0], cpu)
        assert rows[0]["host_cores"] > cpu / elapsed * 0.5, (rows[0], cpu, elapsed)


def case_D9_scaling_that_goes_down_fails():
    with Server("null:1G") as s:
        done = run("bench", s.url, "--depth", "4", "--jobs", "1,2", "--seconds", "0.4", "--expect-scaling", "--json", check=False)
        rows = json.loads(done.stdout)
        fell = rows[1]["iops"] < rows[0]["iops"]
        assert done.returncode == 0 or fell, (done.returncode, done.stderr, [r["iops"] for r in rows])
        assert done.returncode != 0 or rows[1]["iops"] > 0.9 * rows[0]["iops"], [r["iops"] for r in rows]


def case_D9_idle_volumes_do_not_count():
    """One busy volume and nine idle ones, each with a host: figures are of what was done, not a mean over who is there."""
    with Server(*["null:1G"] * 10) as s:
        idle = [Controller(s.addr, NQN, hostnqn=f"nqn.2026-01.org.example:idle{i}", hostid=bytes([i + 1] * 16)) for i in range(9)]
        for i, c in enumerate(idle):
            assert c.io().read(0, 8, nsid=i + 2).status == OK
        before = {n["nsid"]: n["io"]["reads"] for n in s.get("namespaces")["namespaces"]}
        rows, _, _ = bench(s.url, "--depth", "8", "--seconds", "0.5")
        after = {n["nsid"]: n["io"]["reads"] - before[n["nsid"]] for n in s.get("namespaces")["namespaces"]}
        assert len(rows) == 1 and rows[0]["url"] == s.url, rows
        done = rows[0]["iops"] * rows[0]["seconds"]
        assert done * 0.98 - 8 <= after[1], (rows[0], after)
        assert all(n == 0 for nsid, n in after.items() if nsid != 1), after
        # Nine rows that do nothing would make a tenth of it; Little's law holds for what one volume did.
        if rows[0]["max_us"] < 50e3: # the job was not left waiting for a processor
            assert 0.8 * 8 < rows[0]["iops"] * rows[0]["mean_us"] / 1e6 < 1.2 * 8, rows[0]
        metrics = s.ctl("metrics").stdout
        reads = {int(m[1]): float(m[2]) for m in re.finditer(r'farlane_namespace_reads_total\{[^}]*nsid="(\d+)"[^}]*\} ([0-9.e+]+)', metrics)}
        assert len(reads) == 10 and reads[1] > 100 and all(reads[n] == 1 for n in range(2, 11)), reads
        for c in idle:
            c.close()


def case_D10_idle_target():
    """One namespace, one idle host: 10 s, with keep-alives, on every polling mode that sleeps."""
    for poll in ("adaptive", "sleep"):
        with Server("ram:64M", poll=poll) as s, Controller(s.addr, NQN, kato_ms=10000) as c:
            q = c.io()
            assert q.read(0, 8).status == OK
            time.sleep(0.5)
            cpu, at = s.cpu_s(), time.monotonic()
            for _ in range(5):
                time.sleep(1)
                assert c.admin.command(ADM_KEEP_ALIVE).status == OK
            used = (s.cpu_s() - cpu) / (time.monotonic() - at)
            assert used < 0.01, f"{poll}: {used:.2%} of a core"
            if not SANITIZED:
                assert s.rss_kib() < 40 << 10, f"{s.rss_kib()} KiB"


main()
