# SPDX-License-Identifier: Apache-2.0
"""NVMe over RDMA as a user runs it: beside TCP on one subsystem, by every command, over the software RNIC."""
import os
import time

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
BOTH = ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]

# A UDP port and a hub of this test's own.
os.environ["FARLANE_ROCE_PORT"] = str(20000 + os.getpid() % 12000)
os.environ["FARLANE_HUB"] = f"farlane-func-{os.getpid()}"


def connections(s):
    return [q for c in s.get("/v1/connections")["controllers"] for q in c["connections"]]


def by(s, transport):
    return next(url for url in s.urls if url.startswith(f"nvme+{transport}://"))


def test_discover_and_info():
    with Serve("--ns", "ram:8M", "--nqn", NQN, listen=BOTH) as s:
        assert len(s.urls) == 2, s.urls
        for listener in s.ready["listeners"]:
            found = run_json("discover", "nvme+" + listener["url"], "--json")
            text = json.dumps(found)
            assert f":{s.ports[0]}" in text or s.ports[0] in text, text
            for transport in ("rdma", "tcp"):
                assert transport in text, text
        said = run("info", by(s, "rdma")).stdout
        assert "rdma" in said and "8.00 MiB" in said, said


def test_data_by_both_ways():
    make_file("a", 3 << 20)
    with Serve("--ns", "ram:8M,bs=4096", "--nqn", NQN, listen=BOTH) as s:
        rdma, tcp = by(s, "rdma"), by(s, "tcp")
        data = pathlib.Path("a").read_bytes()
        run("write", rdma, "--offset", "1M", input=data, text=False)
        for url in (tcp, rdma):
            got = run("read", url, "--offset", "1M", "--length", str(len(data)), text=False).stdout
            assert got == data, url
        run("copy", rdma, "back", "--verify")
        assert pathlib.Path("back").read_bytes()[1 << 20:(1 << 20) + len(data)] == data
        run("copy", "back", tcp, "--verify")


def test_file_backend():
    make_file("disk", 8 << 20, seed=7)
    with Serve("--ns", "file:disk,bs=512", "--nqn", NQN, listen=BOTH) as s:
        got = run("read", by(s, "rdma"), text=False).stdout
        assert got == pathlib.Path("disk").read_bytes()
        run("write", by(s, "rdma"), "--offset", "512", input=b"x" * 512, text=False)
    assert pathlib.Path("disk").read_bytes()[512:1024] == b"x" * 512


def counted(s):
    """What the namespace's counters say of copies."""
    def search(x):
        if isinstance(x, dict) and "copied_bytes" in x:
            return x
        for y in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
            if found := search(y):
                return found
        return None
    return search(s.get("/v1/subsystems"))


def test_no_copy_but_that_of_shared_memory():
    """Reads and writes go between the host's memory and the back end's: the target counts no copy of its own but of what is
    written to memory, which is received beside it, and what moves the data within this host is one copy into or out of the peer's
    memory."""
    make_file("disk", 8 << 20, seed=9)
    for spec in ("ram:8M,bs=4096", "file:disk,bs=4096"):
        with Serve("--ns", spec, "--nqn", NQN, listen=BOTH) as s:
            before, back = counted(s), f"copied-{spec[:3]}"
            assert before["copied_bytes"] == 0, before
            run("copy", by(s, "rdma"), back, "--verify")
            run("copy", back, by(s, "rdma"), "--verify")
            io = counted(s)
            written = 8 << 20 if spec.startswith("ram") else 0
            assert io["copied_bytes"] == written and io["zero_copy_bytes"] >= 3 * (8 << 20) - written, io
            mine, = [p for p in run_json("rnic", "stats", "--json")["processes"] if p["pid"] == s.pid]
            assert mine["details"], mine
            total = {}
            for device in mine["devices"]:
                for name, value in device["counters"].items():
                    total[name] = total.get(name, 0) + value
            # Before the two processes have mapped each other's memory, some goes by packets.
            assert total["direct_bytes"] + total["tx_bytes"] + total["rx_bytes"] >= io["zero_copy_bytes"], total
            assert total["direct_bytes"] >= 2 * (8 << 20) and total["message_tx_bytes"] < 1 << 20, total


def test_null_backend():
    with Serve("--ns", "null:64M", "--nqn", NQN, listen=BOTH) as s:
        got = run("read", by(s, "rdma"), "--length", "2M", text=False).stdout
        assert got == bytes(2 << 20)
        run("write", by(s, "rdma"), input=b"x" * 8192, text=False)
        assert run("read", by(s, "rdma"), "--length", "8192", text=False).stdout == bytes(8192)


def test_bench_that_checks():
    with Serve("--ns", "ram:16M", "--nqn", NQN, "--cores", "0", listen=BOTH) as s:
        for bs, jobs in (("4k", 1), ("128k", 2)):
            rs = run_json("bench", by(s, "rdma"), "--json", "--verify", "--destroy-data", "--rw", "randrw:50", "--bs", bs, "--jobs", jobs,
                          "--depth", "1,16", "--seconds", "0.5", "--ramp", "0.1")
            assert len(rs) == 2 and all(r["reads"] > 0 and r["writes"] > 0 for r in rs), rs


def test_latency_of_what_begins_and_ends_in_one_poll():
    """With --verify an I/O is begun after the look at the clock that those of its poll share, and may complete in that poll."""
    with Serve("--ns", "ram:16M", "--nqn", NQN, listen=BOTH) as s:
        rs = run_json("bench", by(s, "rdma"), "--json", "--verify", "--destroy-data", "--rw", "randrw:50", "--bs", "512", "--jobs", 2,
                      "--depth", "64", "--seconds", "1", "--ramp", "0.1")
        assert all(0 < r["min_us"] <= r["max_us"] < 1e9 for r in rs), rs


def test_refusals():
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen=BOTH) as s:
        rdma = by(s, "rdma")
        refused("info", rdma.split("?")[0] + "?ns=1&hdgst=1", status=USAGE, says="digests")
        refused("info", rdma.split("?")[0] + "?ns=1&dev=mlx5_99", status=NOT_FOUND, says=["no such RDMA device; it has", "farlane0"])
        refused("info", rdma.split("?")[0] + "?ns=1&dev=lo", status=NOT_FOUND, says="dev=farlane")
        refused("info", rdma.replace(NQN, "nqn.2026-01.org.example:other"), status=NOT_FOUND,
                says=["no subsystem", "farlane discover " + rdma.split("/nqn")[0] + " lists"])
        gone = s.ready["listeners"][0]["id"] if "id" in s.ready["listeners"][0] else 1
        s.request("DELETE", f"/v1/listeners/{gone}", status=200)
        refused("info", rdma, status=UNREACHABLE, says="nobody listens")


def test_a_port_that_is_taken():
    """Who starts the software RNIC where another program holds its UDP port is told so, and what else there is."""
    port = int(os.environ["FARLANE_ROCE_PORT"]) + 1
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        s.bind(("::", port))
        env = {**os.environ, "FARLANE_ROCE_PORT": str(port), "FARLANE_HUB": f"farlane-func-taken-{os.getpid()}"}
        says = ["the software RNIC cannot start", "rdma_rxe", "dev=hardware"]
        done = run("info", "nvme+rdma://127.0.0.1:9/" + NQN, status=FAILED, env=env)
        assert done.stderr.count("holds it") == 1, done.stderr  # once, and not by the log too
        refused("info", "nvme+rdma://127.0.0.1:9/" + NQN, status=FAILED, says=says, env=env)
        refused("serve", "--ns", "ram:1M", "--control", "none", "--strict", "--listen", "rdma://127.0.0.1:0", status=FAILED, says=says, env=env)


def test_wildcards_of_both_families():
    """Each is for its family alone, over RDMA as over TCP, and may be removed alone."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        number = held.getsockname()[1]
    both = [f"{transport}://{any}:{number}" for transport in ("rdma", "tcp") for any in ("0.0.0.0", "[::]")]
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen=both) as s:
        assert len(s.urls) == len(set(s.urls)), s.urls
        for transport in ("rdma", "tcp"):
            for address in ("127.0.0.1", "[::1]"):
                url = f"nvme+{transport}://{address}:{number}/{NQN}?ns=1"
                assert url in s.urls, (url, s.urls)
                run("info", url)
        # Ourselves, which the reason says.
        for taken in (f"rdma://[::1]:{number}", f"rdma://127.0.0.1:{number}"):
            answer = s.request("POST", "/v1/listeners", {"address": taken}, status=409)["error"]
            assert answer["code"] == "EADDRINUSE" and f"has port {number} on all addresses" in answer["message"], answer
        six = next(l for l in s.get("/v1/listeners")["listeners"] if l["url"].startswith("rdma://[::]"))
        s.request("DELETE", f"/v1/listeners/{six['id']}", status=200)
        refused("info", f"nvme+rdma://[::1]:{number}/{NQN}?ns=1", status=UNREACHABLE, says="::1")
        run("info", f"nvme+rdma://127.0.0.1:{number}/{NQN}?ns=1")


def test_wrong_device_to_listen_on():
    """Is an error at once, with those that there are, unless the address may still come, and the device with it."""
    serve = ["serve", "--ns", "ram:1M", "--control", "none", "--listen"]
    refused(*serve, "rdma://127.0.0.1:0?dev=foo", status=NOT_FOUND, says=["dev=foo", "no such RDMA device; it has farlane0"])
    refused(*serve, "rdma://0.0.0.0:0?dev=foo", status=NOT_FOUND, says="no such RDMA device; it has farlane0")
    refused(*serve, "rdma://127.0.0.1:0?dev=lo", status=NOT_FOUND, says="the RDMA device on it is farlane")
    for dev, words in ("foo", "neither the address 192.0.2.77 nor the device is there"), ("soft", "has the address 192.0.2.77"):
        with Serve("--ns", "ram:1M", listen=f"rdma://192.0.2.77:0?dev={dev}") as s:
            listener = s.get("/v1/listeners")["listeners"][0]
            assert listener["state"] == "waiting for address" and words in listener["reason"], listener
            s.ctl("listener", "add", "rdma://127.0.0.1:0?dev=foo", status=NOT_FOUND)
            answer = s.request("POST", "/v1/listeners", {"address": "rdma://127.0.0.1:0?dev=foo"}, status=404)["error"]
            assert answer["code"] == "ENXIO" and "no such RDMA device; it has farlane0" in answer["message"], answer


def test_listener_that_waits_for_its_device():
    """Of an address that is there, as no hardware has one of loopback: the device is what it waits for."""
    with Serve("--ns", "ram:1M", listen=["tcp://127.0.0.1:0", "rdma://127.0.0.1:4431?dev=hardware"]) as s:
        listener = s.get("/v1/listeners")["listeners"][1]
        assert listener["state"] == "waiting for device" and listener["reason"], listener
        said = s.ctl("list").stdout
        assert "waiting for device: " in said and "waiting for address" not in said, said


def test_no_network():
    """TCP is offered where it can be of help, which it is not without a route."""
    url = "nvme+rdma://10.1.1.1/" + NQN
    done = subprocess.run(["unshare", "-rn", EXE, "info", url], capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        print(done.stderr, end="")
        return
    assert done.returncode == UNREACHABLE and "no route" in done.stderr and "tcp" not in done.stderr, done.stderr


def test_device_and_fallback():
    """Which device, TCP only where it is allowed, and never where RDMA is required."""
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen="tcp://127.0.0.1:0") as s:
        tcp = s.url
        rdma = tcp.replace("nvme+tcp", "nvme+rdma")
        refused("info", rdma, status=UNREACHABLE, says=["nobody listens", "nvme+tcp://", "fallback=tcp"])
        done = run("info", rdma + "&fallback=tcp", "--json")
        assert done.stderr.count("\n") == 1 and "going by TCP, as fallback=tcp allows" in done.stderr, done.stderr
        info = json.loads(done.stdout)
        assert (info["path"], info["transport"]) == ("tcp", "tcp") and "RDMA cannot be had" in info["path_why"], info
        refused("info", rdma + "&fallback=tcp", "--require", "rdma", status=LESSER_PATH, says=["RDMA is required", "nobody listens"])
        refused("info", tcp, "--require", "rdma", status=LESSER_PATH, says="write nvme+rdma://")
        refused("read", tcp, "--require", "gpudirect", status=USAGE, says="not supported yet")
        refused("info", rdma + "&fallback=udp", status=USAGE, says="fallback is tcp")
        # What is wrong behind the connection is no reason to go another way.
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen=["rdma://127.0.0.1:0?dev=soft", "tcp://127.0.0.1:0"]) as s:
        rdma = by(s, "rdma")
        assert "dev=" not in rdma, rdma
        info = run_json("info", rdma, "--json", "--require", "rdma")
        assert info["path"] in ("shm", "udp") and info["rdma_device"].startswith("farlane"), info
        assert run_json("info", rdma + "&dev=" + info["rdma_device"], "--json")["rdma_device"] == info["rdma_device"]
        other = rdma.replace(NQN, "nqn.2026-01.org.example:other") + "&fallback=tcp"
        done = refused("info", other, status=NOT_FOUND, says="no subsystem")
        assert "going by TCP" not in done.stderr, done.stderr
        refused("info", rdma, "--require", "hardware", status=LESSER_PATH, says="RDMA by hardware is required")
        refused("info", rdma + "&dev=soft", "--require", "hardware", status=LESSER_PATH, says="hardware is required")
        os.environ["FARLANE_SHM"] = "0"
        try:
            assert run_json("info", rdma, "--json")["path"] == "udp"
        finally:
            del os.environ["FARLANE_SHM"]
        saved = s.ctl("save").stdout
        assert "?dev=soft" in saved, saved
    for bad in ("tcp://127.0.0.1:0?dev=soft", "rdma://127.0.0.1:0?dev=", "rdma://127.0.0.1:0?device=soft"):
        refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", bad, status=USAGE, says="option")


def test_ends_that_sleep_are_woken():
    """A target that is kept awake by its disk reads what a peer's wake-up was for, and must be woken for the next all the same: a lost wake-up
    lasts half a second here."""
    make_file("disk", 16 << 20)
    with Serve("--ns", "file:disk", "--nqn", NQN, listen=BOTH) as s:
        for wait in ("adaptive", "sleep"):
            for _ in range(5): # a machine that is busy enough keeps a thread waiting as long
                r = run_json("bench", by(s, "rdma"), "--wait", wait, "--depth", 1, "--seconds", 1, "--ramp", 0.1, "--json")[0]
                if r["p99_us"] < 200e3:
                    break
            assert r["p99_us"] < 200e3, r


def test_a_host_that_is_killed():
    """Its connections end, and everything that they held is free again."""
    with Serve("--ns", "ram:16M", "--nqn", NQN, listen=BOTH) as s:
        bench = subprocess.Popen([EXE, "bench", by(s, "rdma"), "--seconds", "30", "--depth", "8"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        wait_until("the host is connected", lambda: len(connections(s)) >= 2)
        assert all(c["transport"] == "rdma" for c in connections(s)), connections(s)
        time.sleep(0.5)
        bench.kill()
        bench.wait()
        wait_until("its connections are gone", lambda: not connections(s))
        run("info", by(s, "rdma"))


main()
