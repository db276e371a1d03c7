# SPDX-License-Identifier: Apache-2.0
"""bench: its fields, its honesty, and what it checks."""
import os
import signal
import subprocess
import threading

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
FIELDS = ["url", "rw", "bs", "depth", "iops", "gb_per_s", "mean_us", "p50_us", "p99_us", "p999_us", "p9999_us", "host_cores",
          "target_cores", "cores_per_miops"]
SHORT = ["--seconds", "0.5", "--ramp", "0.1"]


def bench(*args, **more):
    command = ["bench", "--json", *SHORT, *map(str, args)]
    for _ in range(3): # a machine may be so busy that the job does not run at all in that time; bench says so
        done = subprocess.run([EXE, *command], capture_output=True, text=True, timeout=300, **more)
        if "no I/O ended within" not in done.stderr:
            break
    assert done.returncode == OK, done
    return json.loads(done.stdout)


def check(r):
    for f in FIELDS:
        assert f in r, f
    assert r["iops"] > 0 and abs(r["gb_per_s"] - r["iops"] * r["bs"] / 1e9) < 1e-3 * r["gb_per_s"] + 1e-9, r
    assert 0 < r["min_us"] <= r["p50_us"] <= r["p99_us"] <= r["p999_us"] <= r["p9999_us"] <= r["max_us"] * 1.01, r
    assert r["mean_us"] <= r["max_us"] and 0 < r["host_cores"] and 0 <= r["host_busy"] <= 1, r
    if "rate" in r:
        return
    # Little's law: what is in flight is the depth; what ended in this time may have begun before it.
    in_flight = r["iops"] * r["mean_us"] / 1e6
    assert in_flight < 1.05 * r["depth"] * r["jobs"] * (1 + r["max_us"] / 1e6 / r["seconds"]), (in_flight, r)


def test_fields_local_and_remote():
    make_file("f", 8 << 20)
    with Serve("--ns", "file:f", "--nqn", NQN) as s:
        rs = bench("file:f", s.url, "--depth", "1,8", "--jobs", "1,2")
        assert len(rs) == 8
        assert [(r["depth"], r["jobs"]) for r in rs[:4]] == [(1, 1), (8, 1), (1, 2), (8, 2)]
        for r in rs:
            check(r)
        for r in rs[:4]:
            assert r["url"] == "file:f" and r["target_cores"] == 0 and r["target_pid"] is None
        for r in rs[4:]:
            assert r["url"] == s.url and r["target_pid"] == s.pid and r["target_cores"] > 0, r
            assert abs(r["cores_per_miops"] - (r["host_cores"] + r["target_cores"]) / r["iops"] * 1e6) < 1e-3 * r["cores_per_miops"]
        io = s.get("/v1/namespaces")["namespaces"][0]["io"]
        assert io["reads"] > 0 and io["writes"] == 0, "a read benchmark wrote"


def test_table():
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        said = run("bench", "ram:8M", s.url, *SHORT).stdout
        assert "A = ram:8M" in said and f"B = {s.url}" in said and "B-A" in said and "CORES/MIOPS" in said, said
        head = next(line for line in said.splitlines() if "DEPTH" in line)
        assert all(f" {of} us" in head for of in ("MEAN", "P50", "P99", "P99.9", "P99.99")), head
        rows = [line for line in said.splitlines() if line.startswith("  A ") or line.startswith("  B ")]
        assert len(rows) == 2 + 4 and "\033" not in said, said


def test_depth_of_the_url():
    """It limits what the target has at a time: a greater --depth is run, and said."""
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        url = s.url + ("&" if "?" in s.url else "?") + "depth=8"
        done = run("bench", url, "--depth", "4,32", *SHORT)
        assert done.stderr.count("depth=8 of the URL lets the target have 7 commands at a time") == 1, done
        assert "entries" not in run("info", url).stdout
        assert "with up to 7 commands each" in run("info", url).stdout
        run("bench", s.url, "--depth", "300", *SHORT, status=USAGE)


def test_kinds_of_io():
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        for rw, reads, writes in [("read", 1, 0), ("write", 0, 1), ("randwrite", 0, 1), ("randrw:70", 1, 1), ("rw:30", 1, 1)]:
            r = bench(s.url, "--rw", rw, "--destroy-data", "--depth", 4, "--bs", "16k")[0]
            check(r)
            assert (r["reads"] > 0) == reads and (r["writes"] > 0) == writes, r
            if rw == "randrw:70":
                assert 0.6 < r["reads"] / (r["reads"] + r["writes"]) < 0.8, r
        r = bench(s.url, "--bs", "2M", "--rw", "read", "--depth", 2)[0]  # larger than one command may be
        check(r)


def test_verify():
    with Serve("--ns", "ram:8M,bs=4096", "--nqn", NQN) as s:
        for more in (["--rw", "randrw:50"], ["--rw", "read", "--bs", "64k"], ["--rw", "randrw:50", "--jobs", 2, "--bs", "8k"]):
            r = bench(s.url + "&ddgst=1", "--verify", "--destroy-data", "--depth", 8, *more)[0]
            assert r["verified"] is True and r["iops"] > 0, r
    refused("bench", "null:1G", "--verify", status=USAGE, says="keeps nothing")


def test_verify_finds_wrong_data():
    """A sector that changes behind its back."""
    with open("f", "wb") as f:
        f.truncate(1 << 20)
    with Serve("--ns", "file:f", "--nqn", NQN) as s:
        p = subprocess.Popen([EXE, "bench", s.url, "--verify", "--destroy-data", "--rw", "randread", "--depth", "4", "--seconds", "20"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until("reads", lambda: s.get("/v1/namespaces")["namespaces"][0]["io"]["reads"] > 50)
        run("write", s.url, "--offset", 777, "-q", input="wrong")
        out, err = p.communicate(timeout=PATIENCE)
        assert p.returncode == DIFFERENT and "wrong data at offset 512" in err, (p.returncode, err)


def stopped_for(s, after, seconds):
    """In the background: the target stands still, as in a failover."""
    def work():
        time.sleep(after)
        stop(s.pid)
        time.sleep(seconds)
        os.kill(s.pid, signal.SIGCONT)
    t = threading.Thread(target=work)
    t.start()
    return t


def with_a_pause(s, *args):
    """A run of 2 s in which the target stands still for 0.6 s; again while the machine is so busy that the run itself stands still."""
    for _ in range(6):
        t = stopped_for(s, 0.7, 0.6)
        r = bench(s.url, "--depth", 1, "--seconds", 2, *args)[0]
        t.join()
        if r["reads"] > 1500:
            break
    return r


def test_open_loop_counts_the_time_in_which_nothing_could_start():
    """One I/O at a time sees the pause once; users who go on arriving see it all that time."""
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        for more in (["--arrivals", "even"], ["--wait", "sleep"]):
            r = with_a_pause(s, "--rate", 1000, *more)
            check(r)
            assert r["rate"] == 1000 and 1500 < r["reads"] < 2500, r
            assert r["p99_us"] > 400e3 and r["mean_us"] > 50e3, r
        r = with_a_pause(s)
        assert r["p99_us"] < 400e3 and "rate" not in r, r


def test_open_loop_says_that_it_fell_behind():
    r = bench("ram:8M", "--depth", 4, "--rate", "500M")[0]
    assert r["fell_behind"] is True and r["behind"] > 1000 and r["iops"] < 500e6, r
    assert "did not follow" in run("bench", "ram:8M", "--depth", 4, "--rate", "500M", *SHORT).stdout


def test_stages():
    """Where the time goes: the parts add up to the latency, and the slow part is named."""
    make_file("f", 8 << 20)
    with Serve("--ns", "file:f", "--ns", "ram:8M", "--nqn", NQN) as s:
        for url in ["file:f,ro=1,lock=0", *s.urls]:
            r = bench(url, "--depth", 1, "--stages")[0]
            check(r)
            means = {k: v["mean_us"] for k, v in r["stages"].items()}
            assert list(means) == ["submit", "wire", "backend", "complete"], means
            assert abs(sum(means.values()) - r["mean_us"]) < 0.2 * r["mean_us"] + 1, (means, r)
            assert (means["wire"] > 1) == (url in s.urls) and means["backend"] > 0, (url, means)
        r = bench(s.url, "--depth", 1, "--rate", 500)[0]
        assert "stages" not in r
        said = run("bench", s.url, "--stages", *SHORT).stdout
        assert "back end" in said and "?" not in said.split("STAGE")[1], said


def test_slo():
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        r = bench(s.url, "--depth", 8, "--slo", "p50:100000")[0]
        slo = r["slo"]
        assert slo["of"] == "p50" and slo["us"] <= 100000 and r["rate"] > 0 and not r["fell_behind"], r
        assert slo["steps"][-1]["holds"] is True and slo["steps"][-1]["rate"] == r["rate"], slo
        refused("bench", s.url, "--depth", 8, "--slo", "mean:0.001", *SHORT, status=FAILED, says=["mean at 0.001 us", "no rate"])


def test_rounds_go_in_turn_and_are_saved_and_compared():
    args = ["ram:8M", "null:8M", "--depth", "1,4", "--rounds", 3, "--seconds", 0.2, "--ramp", 0]
    rs = json.loads(run("bench", *args, "--save", "old", "--json").stdout)
    assert [(r["url"], r["depth"]) for r in rs] == [("ram:8M", 1), ("ram:8M", 4), ("null:8M", 1), ("null:8M", 4)], rs
    for r in rs:
        assert len(r["round_iops"]) == 3 and r["iops"] == sorted(r["round_iops"])[1] and r["seconds"] >= 0.6, r
    assert "SPREAD" in run("bench", *args, "--save", "new").stdout
    old = json.load(open("old"))
    assert old["machine"]["cpus"] == os.cpu_count() and len(old["results"]) == 4, old
    r = old["results"][0]
    assert sum(n for _, n in r["histogram_us"]) == r["reads"], "the histogram is not all of the run"
    said = run("bench", "--compare", "old", "new").stdout
    assert said.count("randread") == 4 and "VERDICT" in said, said
    # What is known to be different is told apart, in both directions; the noise is that of the rounds.
    for name, factor, spread in (("calm", 1, 0.01), ("fast", 2, 0.01), ("wild", 2, 1.5)):
        for r in old["results"]:
            r["iops"] = 1000 * factor
            r["spread"] = spread
        json.dump(old, open(name, "w"))
    for files, verdict in ((("calm", "fast"), "faster"), (("fast", "calm"), "slower"), (("calm", "calm"), "same"), (("calm", "wild"), "same")):
        said = run("bench", "--compare", *files).stdout
        assert said.count(verdict) == 4, said
    del old["results"][1:]
    json.dump(old, open("one", "w"))
    assert "1 of 1 and 4" in run("bench", "--compare", "one", "new").stdout
    old["results"][0]["bs"] = 512
    json.dump(old, open("other", "w"))
    refused("bench", "--compare", "other", "new", status=NOT_FOUND, says=["no job in common"])
    refused("bench", "--compare", "other", "missing", status=NOT_FOUND, says="missing")
    make_file("rubbish", 1000)
    refused("bench", "--compare", "rubbish", "new", status=FAILED, says="rubbish")
    # One result among good ones that is none, and a run in which nothing was done
    for key, value in (("bs", "4k"), ("iops", None), ("iops", -1), ("mean_us", 1e300), ("rw", 4), ("url", [])):
        bad = json.load(open("new"))
        bad["results"][2][key] = value
        json.dump(bad, open("bad", "w"))
        refused("bench", "--compare", "new", "bad", status=FAILED, says="bad holds no results")
    still = json.load(open("calm"))
    for r in still["results"]:
        r["iops"] = 0
    json.dump(still, open("still", "w"))
    for files, verdict in ((("still", "calm"), "faster"), (("calm", "still"), "slower"), (("still", "still"), "same")):
        said = run("bench", "--compare", *files).stdout
        assert said.count(verdict) == 4 and "nan" not in said and "inf" not in said, said
    refused("bench", *args, "--save", "no/such/folder", status=NOT_FOUND, says="no/such/folder")


def test_wrong_options():
    for args, says in ((["--rate", "0"], "--rate 0"), (["--rate", "1q"], "50k"), (["--arrivals", "odd"], "poisson"), (["--slo", "p98:3"], "p99.9"),
                       (["--slo", "p99"], "p99:200"), (["--slo", "p99:-1"], "p99:200"), (["--rounds", "0"], "--rounds"),
                       (["--rate", "5", "--slo", "p50:1"], "--slo"), (["--rounds", "2", "--slo", "p50:1"], "--rounds")):
        refused("bench", "null:1G", *args, status=USAGE, says=says)
    refused("bench", "--compare", "one", status=USAGE, says="two files")


def test_limits():
    with Serve("--ns", "ram:1M,bs=4096", "--nqn", NQN, "--max-depth", 16) as s:
        refused("bench", s.url, "--depth", 1000, *SHORT, status=USAGE, says=["1000", "at most"])
        refused("bench", s.url, "--bs", 512, *SHORT, status=USAGE, says=["512", "4096"])
        refused("bench", s.url, "--bs", "2M", "--depth", 1, *SHORT, status=USAGE, says="no room")
        refused("bench", s.url, "--jobs", 300, *SHORT, "--depth", 1, status=USAGE, says="300")
    refused("bench", s.url, *SHORT, status=UNREACHABLE, says=s.ports[0])


def lose_target(comes_back):
    """Two runs are asked for; the target is killed in the first one. Returns what bench left with, and said."""
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        p = subprocess.Popen([EXE, "bench", s.url, "--json", "--seconds", "2", "--ramp", "0", "--depth", "4,8", "--wait", "sleep"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until("the load", lambda: s.get("/v1/namespaces")["namespaces"][0]["io"]["reads"] > 100)
        time.sleep(0.7)
        s.kill()
    if not comes_back:
        said, errors = p.communicate(timeout=PATIENCE)
        return p.returncode, said, errors
    time.sleep(2)  # the measured time is over
    with Serve("--ns", "ram:8M", "--nqn", "nqn.2026-01.org.example:another", listen=f"tcp://127.0.0.1:{s.ports[0]}"):
        said, errors = p.communicate(timeout=PATIENCE)
        return p.returncode, said, errors


def test_target_lost_at_the_end():
    """What was measured is shown, but not as if all was well, whether nobody is there any more or the target refuses this host."""
    for comes_back, status, cause in (False, UNREACHABLE, "not back within 5 s"), (True, NOT_FOUND, "given up as lost"):
        code, said, errors = lose_target(comes_back)
        assert code == status and cause in errors and "too low" in errors, (code, errors)
        assert [r["depth"] for r in json.loads(said)] == [4], said


def test_a_namespace_that_shrinks():
    """Says what has happened, not what errno that is."""
    with Serve("--ns", "ram:64M", "--nqn", NQN) as s:
        p = subprocess.Popen([EXE, "bench", s.url, "--seconds", "60", "--depth", "4", "--wait", "sleep"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        wait_until("the load runs", lambda: s.get("/v1/status")["connections"] >= 2)
        time.sleep(0.3)
        s.ctl("ns", "resize", 1, "1M", "--force")
        said = p.communicate(timeout=PATIENCE)[1]
        assert p.returncode == FAILED and "Invalid argument" not in said and "Numerical" not in said, said
        assert "has shrunk from 67108864 to 1048576 bytes" in said or "beyond the end of the namespace" in said, said


def test_a_target_that_dies():
    with Serve("--ns", "ram:8M", "--nqn", NQN) as s:
        p = subprocess.Popen([EXE, "bench", s.url, "--seconds", "60", "--depth", "8"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
        wait_until("the load", lambda: s.get("/v1/namespaces")["namespaces"][0]["io"]["reads"] > 100)
        p.terminate()
        p.communicate(timeout=PATIENCE)
        wait_until("the host to be gone", lambda: s.get("/v1/status")["connections"] == 0)


main()
