# SPDX-License-Identifier: Apache-2.0
"""Live control: the JSON interface and `farlane ctl` on top of it. Cases of public bug reports by their names."""
import os
import subprocess
import threading

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
HOST = "nqn.2026-01.org.example:host"
SS = f"/v1/subsystems/{NQN}"


def error(answer, code, field, *words):
    e = answer["error"]
    assert e["code"] == code and e["field"] == field, e
    for w in words:
        assert w in e["message"], f"wanted '{w}' in: {e['message']}"


def spaces(s):
    return {n["nsid"]: n for n in s.get(SS)["namespaces"]}


def test_shows_what_there_is():
    with Serve("--ns", "ram:1M,bs=4096", "--nqn", NQN, "--serial", "S1", "--model", "M one") as s:
        status = s.get("/v1/status")
        assert status["pid"] == s.pid and status["subsystems"] == 1 and status["namespaces"] == 1, status
        assert status["listening"] == 1 and len(status["loops"]) >= 1, status
        ss = s.get("/v1/subsystems")["subsystems"]
        assert [x["nqn"] for x in ss] == [NQN] and ss[0]["serial"] == "S1" and ss[0]["model"] == "M one", ss
        ns = s.get("/v1/namespaces")["namespaces"][0]
        assert ns["size"] == 1 << 20 and ns["block"] == 4096 and ns["spec"] == "ram:1M,bs=4096" and ns["subsystem"] == NQN, ns
        assert s.get("/v1/listeners")["listeners"][0]["state"] == "listening"
        assert s.get("/v1/hosts")["hosts"] == []
        assert s.get("/v1/connections")["controllers"] == []


def test_namespaces_come_and_go():
    with Serve("--nqn", NQN) as s:
        assert s.urls == []
        assert s.request("POST", SS + "/namespaces", {"spec": "ram:1M"}, status=201)["nsid"] == 1
        assert s.request("POST", SS + "/namespaces", {"spec": "ram:2M,bs=4096", "nsid": 9,
                         "uuid": "11111111-2222-3333-4444-555555555555"}, status=201)["nsid"] == 9
        assert spaces(s)[9]["uuid"] == "11111111-2222-3333-4444-555555555555"
        base = f"{s.discovery}/{NQN}"
        assert run_json("info", base + "?ns=9", "--json")["size"] == 2 << 20
        s.request("DELETE", SS + "/namespaces/1", status=200)
        assert set(spaces(s)) == {9}
        refused("info", base + "?ns=1", status=NOT_FOUND, says="1")
        error(s.request("DELETE", SS + "/namespaces/1", status=404), "ENOENT", None, "1")
        error(s.request("POST", SS + "/namespaces", {"spec": "ram:1M", "nsid": 9}, status=409), "EEXIST", "nsid", "9")
        error(s.request("POST", SS + "/namespaces", {"spec": "ram:1M", "nsid": 10, "uuid": "11111111-2222-3333-4444-555555555555"}, status=409),
              "EEXIST", "uuid", "same UUID as namespace 9")
        error(s.request("POST", SS + "/namespaces", {"spec": "ram:1M", "nsid": 0}, status=400), "EINVAL", "nsid", "allowed")
        error(s.request("POST", SS + "/namespaces", {"spec": "rom:1M"}, status=400), "EINVAL", "spec")
        error(s.request("POST", SS + "/namespaces", {"spec": "file:/no/such/file"}, status=404), "ENOENT", "spec", "/no/such/file")
        error(s.request("POST", SS + "x/namespaces", {"spec": "ram:1M"}, status=404), "ENOENT", "nqn", NQN + "x")


def test_a12_grow_and_shrink():
    """A12: growing is seen at once; a shrink is refused with both sizes; by force it works, and reads past the end fail."""
    with open("f", "wb") as f:
        f.truncate(4 << 20)
    with Serve("--ns", "ram:4M", "--ns", "file:f", "--nqn", NQN) as s:
        for nsid in (1, 2):
            path = f"{SS}/namespaces/{nsid}"
            url = f"{s.discovery}/{NQN}?ns={nsid}"
            s.request("PATCH", path, {"size": "8M"}, status=200)
            assert spaces(s)[nsid]["size"] == 8 << 20 and run_json("info", url, "--json")["size"] == 8 << 20
            answer = s.request("PATCH", path, {"size": 2 << 20})
            assert answer[0] in (400, 409, 422), answer
            words = answer[1]["error"]["message"]
            assert answer[1]["error"]["field"] == "size" and str(8 << 20) in words and str(2 << 20) in words, words
            assert spaces(s)[nsid]["size"] == 8 << 20
            s.request("PATCH", path, {"size": "2M", "force": True}, status=200)
            assert run_json("info", url, "--json")["size"] == 2 << 20
            error(s.request("PATCH", path, {"size": 0}, status=400), "EINVAL", "size")
            error(s.request("PATCH", path, {"size": "1000"}, status=400), "EINVAL", "size")
            error(s.request("PATCH", path, {"size": "much"}, status=400), "EINVAL", "size")
        with open("f", "r+b") as f:
            f.truncate(6 << 20)
        s.ctl("ns", "resize", 2, "file")
        assert spaces(s)[2]["size"] == 6 << 20
        # A file that was cut beside the target shrinks the namespace by force only, too.
        os.truncate("f", 3 << 20)
        refused("ctl", "--control", s.control, "ns", "resize", 2, "file", status=USAGE, says=[str(6 << 20), str(3 << 20), "--force"])
        assert spaces(s)[2]["size"] == 6 << 20
        s.ctl("ns", "resize", 2, "file", "--force")
        assert spaces(s)[2]["size"] == 3 << 20
        s.ctl("ns", "resize", 2, "file")


def test_a12_size_is_right_for_a_host_that_is_connected():
    with Serve("--ns", "ram:4M", "--nqn", NQN) as s:
        bench = subprocess.Popen([EXE, "bench", s.url, "--seconds", "3", "--ramp", "0", "--depth", "4", "--json"], stdout=subprocess.PIPE)
        wait_until("the host", lambda: s.get("/v1/status")["connections"] >= 2)
        s.ctl("ns", "resize", 1, "64M")
        out = bench.communicate(timeout=PATIENCE)[0]
        assert bench.returncode == 0 and json.loads(out)[0]["iops"] > 0
        assert run_json("info", s.url, "--json")["size"] == 64 << 20


def test_a3_clashing_listeners():
    """A3: the same again is 'exists'; a clash is refused with the reason; port 0 is a free one."""
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        address = f"tcp://127.0.0.1:{s.ports[0]}"
        error(s.request("POST", "/v1/listeners", {"address": address}, status=409), "EEXIST", "address", "there already")
        error(s.request("POST", "/v1/listeners", {"address": address, "ddgst": False}, status=409), "EADDRINUSE", "address", "other options")
        error(s.request("POST", "/v1/listeners", {"address": f"tcp://0.0.0.0:{s.ports[0]}"}, status=409), "EADDRINUSE", "address")
        new = s.request("POST", "/v1/listeners", {"address": "tcp://127.0.0.1:0"}, status=201)
        listeners = {l["id"]: l for l in s.get("/v1/listeners")["listeners"]}
        assert len(listeners) == 2 and listeners[new["id"]]["state"] == "listening"
        run("discover", "nvme+" + listeners[new["id"]]["url"])
        s.request("DELETE", f"/v1/listeners/{new['id']}", status=200)
        refused("discover", "nvme+" + listeners[new["id"]]["url"], status=UNREACHABLE, says="127.0.0.1")
        error(s.request("DELETE", f"/v1/listeners/{new['id']}", status=404), "ENOENT", "id")
        for bad in ("", "127.0.0.1", "udp://127.0.0.1", "tcp://127.0.0.1:99999", "tcp://[::1", "rdma://[::1"):
            code, answer = s.request("POST", "/v1/listeners", {"address": bad})
            assert code in (400, 422) and answer["error"]["field"] == "address", (bad, answer)


def test_a4_address_that_is_not_there():
    """A4: waits for the address and says so; strict fails at once."""
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        error(s.request("POST", "/v1/listeners", {"address": "tcp://192.0.2.77:4420", "strict": True}, status=409), "EADDRNOTAVAIL",
              "address", "192.0.2.77")
        new = s.request("POST", "/v1/listeners", {"address": "tcp://192.0.2.77:4420"}, status=201)
        l = [l for l in s.get("/v1/listeners")["listeners"] if l["id"] == new["id"]][0]
        assert l["state"] == "waiting for address" and "192.0.2.77" in l["reason"], l
        assert "waiting for address" in s.ctl("list").stdout
        assert new["state"] == l["state"] and new["reason"] == l["reason"], new
        said = s.ctl("listener", "add", "tcp://192.0.2.78:4420").stdout
        assert "listener added: id" in said and "waiting for address: " in said and "192.0.2.78" in said, said
        said = s.ctl("listener", "add", "tcp://127.0.0.1:0").stdout
        assert "listener added: id" in said and "waiting" not in said and "listening" not in said, said
    refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", "tcp://192.0.2.77", "--strict", status=UNREACHABLE,
            says="192.0.2.77")


def test_a15_removed_host():
    """A15: a removed host is cut at once, unless --keep; then it stays until it leaves, and a note says so."""
    with Serve("--ns", "ram:16M", "--nqn", NQN, "--host", HOST) as s:
        for keep in (False, True):
            if keep:
                s.ctl("host", "add", HOST)
            reader = subprocess.Popen([EXE, "read", s.url, "--hostnqn", HOST], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            reader.stdout.read(1)
            mine = lambda: [c for c in s.get("/v1/connections")["controllers"] if c["host"] == HOST]
            assert mine()
            done = s.ctl("host", "rm", HOST, *(["--keep"] if keep else []))
            assert ("stays connected" in done.stderr) == keep, done.stderr
            if keep:
                assert mine()
            else:
                wait_until("the cut", lambda: not mine())
            reader.kill()
            reader.wait()
            reader.stdout.close()
            refused("info", s.url, "--hostnqn", HOST, status=DENIED, says=HOST)
        refused("ctl", "--control", s.control, "host", "rm", HOST, status=NOT_FOUND, says=HOST)


def test_host_that_is_refused_for_good_gives_up_at_once():
    """It said nothing for ten minutes before: now what, who, and what to do."""
    with Serve("--ns", "ram:16M", "--nqn", NQN, "--host", HOST) as s:
        for command, status, says in ((["host", "rm", HOST], DENIED, [f"does not allow this host, {HOST}, to use {NQN}", "let it be allowed there"]),
                                      (["subsystem", "rm", NQN], NOT_FOUND, [f"has no subsystem {NQN}", "farlane discover nvme+tcp://127.0.0.1:"])):
            for job in (["bench", s.url, "--seconds", "600", "--depth", "4", "--wait", "sleep", "--ramp", "0"],
                        ["read", s.url]):
                if not s.get("/v1/hosts")["hosts"]:
                    s.ctl("host", "add", HOST)
                p = subprocess.Popen([EXE, *job, "--hostnqn", HOST], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False)
                wait_until("the queue", lambda: s.get("/v1/status")["connections"] >= 2)
                if job[0] == "read":
                    p.stdout.read(1)
                start = time.monotonic()
                s.ctl(*command)
                said = p.communicate(timeout=PATIENCE)[1].decode()
                assert p.returncode == status and time.monotonic() - start < PATIENCE, (job, p.returncode, said)
                assert "given up as lost: the target refuses to take this host back" in said, (job, said)
                for words in says:
                    assert words in said.splitlines()[-1], (job, words, said)
                if command[0] == "subsystem":
                    break


def test_a15_everybody_or_the_named():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        run("info", s.url, "--hostnqn", HOST)
        s.ctl("subsystem", "set", NQN, "--no-any-host")
        refused("info", s.url, "--hostnqn", HOST, status=DENIED, says=HOST)
        s.ctl("host", "add", NQN, HOST)
        run("info", s.url, "--hostnqn", HOST)
        assert s.get("/v1/hosts")["hosts"] == [{"subsystem": NQN, "nqn": HOST}]
        error(s.request("POST", SS + "/hosts", {"nqn": HOST}, status=409), "EEXIST", "nqn", HOST)
        error(s.request("POST", SS + "/hosts", {"nqn": "someone"}, status=400), "EINVAL", "nqn")
        s.ctl("subsystem", "set", NQN, "--any-host")
        run("info", s.url, "--hostnqn", HOST + "2")


def test_subsystems_come_and_go():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        other = NQN + "2"
        s.request("POST", "/v1/subsystems", {"nqn": other, "hosts": [HOST], "namespaces": [{"spec": "ram:1M", "nsid": 3}]}, status=201)
        assert run_json("info", f"{s.discovery}/{other}?ns=3", "--json", "--hostnqn", HOST)["nsid"] == 3
        error(s.request("POST", "/v1/subsystems", {"nqn": other}, status=409), "EEXIST", "nqn", other)
        error(s.request("POST", "/v1/subsystems", {"nqn": "disk"}, status=400), "EINVAL", "nqn")
        # One that cannot be made whole is not made at all.
        error(s.request("POST", "/v1/subsystems", {"nqn": NQN + "3", "namespaces": [{"spec": "ram:1M"}, {"spec": "file:/no"}]},
                        status=404), "ENOENT", "namespaces[1].spec", "/no")
        wait_until("the roll-back", lambda: len(s.get("/v1/subsystems")["subsystems"]) == 2)
        refused("ctl", "--control", s.control, "ns", "rm", 1, status=USAGE, says="2 subsystems")
        s.ctl("subsystem", "rm", other)
        assert [x["nqn"] for x in s.get("/v1/subsystems")["subsystems"]] == [NQN]
        refused("ctl", "--control", s.control, "subsystem", "rm", other, status=NOT_FOUND, says=other)


def test_removal_under_load():
    """A6: removing a namespace or a subsystem ends while a host does I/O on it, and the target goes on."""
    with Serve("--ns", "ram:16M", "--ns", "ram:16M", "--nqn", NQN) as s:
        load = subprocess.Popen([EXE, "bench", s.urls[0], "--seconds", "30", "--depth", "32"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        wait_until("the load", lambda: spaces(s)[1]["io"]["reads"] > 100)
        s.ctl("ns", "rm", 1)
        assert load.wait(PATIENCE) != 0
        run("info", s.urls[1])
        load = subprocess.Popen([EXE, "bench", s.urls[1], "--seconds", "30", "--depth", "32"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        wait_until("the load", lambda: spaces(s)[2]["io"]["reads"] > 100)
        s.ctl("subsystem", "rm", NQN)
        load.terminate()
        load.wait(PATIENCE)
        wait_until("all to leave", lambda: s.get("/v1/status")["connections"] == 0)


def test_connections_tell_asked_and_used():
    with Serve("--ns", "ram:16M", "--nqn", NQN, "--max-depth", 16, "--max-queues", 3) as s:
        reader = subprocess.Popen([EXE, "read", s.url + "&hdgst=1", "--hostnqn", HOST], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        reader.stdout.read(1)
        c = s.get("/v1/connections")["controllers"][0]
        assert c["host"] == HOST and c["subsystem"] == NQN and c["queues"]["granted"] <= 3 and c["queues"]["used"] >= 1, c
        q = [q for q in c["connections"] if q["queue"] == 1][0]
        assert q["digests"]["asked"]["header"] and q["digests"]["used"]["header"] and not q["digests"]["used"]["data"], q
        assert 2 <= q["depth"]["used"] <= 16 and q["transport"] == "tcp" and q["bytes"]["out"] > 0, q
        said = s.ctl("connections").stdout
        assert HOST in said and "admin" in said and "header" in said, said
        reader.kill()
        reader.wait()
        reader.stdout.close()
        wait_until("the host to be gone", lambda: "No host" in s.ctl("connections").stdout)


def test_bad_requests():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        error(s.request("GET", "/v1/nothing", status=404), "ENOENT", "path", "/v1/status")
        error(s.request("PUT", "/v1/status", {}, status=405), "EOPNOTSUPP", "method", "GET")
        error(s.request("POST", "/v1/subsystems", raw="{", status=400), "EINVAL", "body", "not JSON")
        error(s.request("POST", "/v1/subsystems", raw="x" * 70000, status=413), "EMSGSIZE", "body", "64 KiB")
        error(s.request("POST", "/v1/subsystems", {"nqn": NQN + "2", "colour": "red"}, status=400), "EINVAL", "colour", "allowed")
        error(s.request("POST", "/v1/subsystems", raw="[" * 50000, status=400), "EINVAL", "body")
        error(s.request("POST", SS + "/namespaces", raw=b'{"spec": "file:\xff"}', status=400), "EINVAL", "body")
        # Rubbish, and clients that hang, do not disturb others.
        hanging = []
        for text in (b"", b"GET", b"\0" * 3000, b"POST /v1/subsystems HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"):
            h = socket.socket(socket.AF_UNIX)
            h.connect(s.control)
            h.send(text)
            hanging.append(h)
        threads = [threading.Thread(target=lambda: [s.get("/v1/status") for _ in range(20)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE)
            assert not t.is_alive()
        for h in hanging:
            h.close()


def test_idle_connections_keep_nobody_out():
    """Connections that ask nothing, and such that stop in the middle of a request, give way when there are many."""
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        idle = []
        for i in range(150):
            h = socket.socket(socket.AF_UNIX)
            h.settimeout(PATIENCE)
            h.connect(s.control)
            if i % 3 == 0:
                h.send(b"POST /v1/subsystems HTTP/1.1\r\nHost: farlane\r\nContent-Length: 100\r\n\r\n{")
            idle.append(h)
            if i % 10 == 9:
                start = time.monotonic()
                assert s.get("/v1/status")["pid"] == s.pid
                s.ctl("status", "--timeout", 10)
                assert time.monotonic() - start < 10
        # Who was silent longest had to go, the latest are still there.
        assert idle[0].recv(1) == b""
        idle[-1].settimeout(0.2)
        try:
            assert idle[-1].recv(1) != b"", "the latest was cut"
        except TimeoutError:
            pass
        for h in idle:
            h.close()


def test_mute_control_socket():
    """A server that takes the connection and answers nothing, and one that does not even take it."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("mute")
    listening.listen(0)
    start = time.monotonic()
    refused("ctl", "--control", "mute", "list", "--timeout", 1, status=UNREACHABLE,
            says=["no answer at the control socket mute within 1 s", "--timeout"])
    full = []
    for _ in range(8):
        h = socket.socket(socket.AF_UNIX)
        h.setblocking(False)
        try:
            h.connect("mute")
        except BlockingIOError:
            h.close()
            break
        full.append(h)
    refused("ctl", "--control", "mute", "ns", "add", "ram:1M", "--timeout", 1, status=UNREACHABLE, says="within 1 s")
    assert time.monotonic() - start < 15
    refused("ctl", "--control", "mute", "list", "--timeout", 0, status=USAGE, says="--timeout")
    for h in full:
        h.close()
    listening.close()


def test_ctl_speaks_to_people():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        c = ["ctl", "--control", s.control]
        assert "nsid 2" in s.ctl("ns", "add", "null:1G").stdout
        assert "nsid 7" in s.ctl("ns", "add", NQN, "ram:1M", "--nsid", 7).stdout
        assert run_json(*c, "list", "--json")["subsystems"][0]["nqn"] == NQN
        said = s.ctl("list").stdout
        assert NQN in said and "null:1G" in said and "listening" in said, said
        refused(*c, "lst", status=USAGE, says="did you mean 'list'")
        refused(*c, "ns", "ad", "x", status=USAGE, says="ns add")
        refused(*c, "ns", "add", status=USAGE, says="ns add")
        refused(*c, status=USAGE, says="do what?")
        refused(*c, "ns", "rm", 99, status=NOT_FOUND, says="99")
        refused(*c, "ns", "add", "ram:x", status=USAGE, says="ram:x")
        refused(*c, "host", "rm", "x", "--keep", "--disconnect", status=USAGE, says="exclude")
        refused("ctl", "--control", "nowhere", "list", status=UNREACHABLE, says=["nowhere", "farlane serve"])
        assert "farlane_uptime_seconds" in s.ctl("metrics").stdout
        s.ctl("listener", "add", "tcp://127.0.0.3:0")
        url = s.get("/v1/listeners")["listeners"][1]["url"]
        s.ctl("listener", "rm", url)
        assert len(s.get("/v1/listeners")["listeners"]) == 1


def test_paths_mean_the_same_in_every_folder():
    os.mkdir("other")
    make_file("other/f", 1 << 20)
    make_file("g", 2 << 20)
    with Serve("--ns", "file:g", "--nqn", NQN) as s:
        s.ctl("ns", "add", "file:f,bs=4096", cwd="other")
        assert spaces(s)[2]["size"] == 1 << 20
        s.ctl("save", "saved.yaml")
    with open("saved.yaml") as f:
        text = f.read()
    assert f"file:{os.getcwd()}/g" in text and f"file:{os.getcwd()}/other/f,bs=4096" in text, text


def test_listener_with_ana_states():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        add = {"address": "tcp://127.0.0.1:0", "ana": [{"group": 1, "state": "inaccessible"}]}
        s.request("POST", "/v1/listeners", add, status=201)
        url = s.get("/v1/listeners")["listeners"][1]["url"]
        refused("read", f"nvme+{url}/{NQN}?ns=1", status=FAILED, says="cannot be reached by this path now")
        run("read", s.url, text=False)
        for ana, wrong in (({"group": 1, "state": "asleep"}, "state"), ({"group": 0, "state": "optimized"}, "group"), ({"group": 33, "state": "optimized"}, "group")):
            error(s.request("POST", "/v1/listeners", {"address": "tcp://127.0.0.1:0", "ana": [ana]}, status=400), "EINVAL", f"ana[0].{wrong}", "ANA")
        assert len(s.get("/v1/listeners")["listeners"]) == 2


def test_save_load_save():
    """What is saved loads to the same, with everything that was changed live."""
    make_file("f", 4 << 20)
    with Serve("--ns", f"file:{os.getcwd()}/f,bs=4096", "--ns", "ram:1M", "--nqn", NQN, "--max-queues", 5, "--mdts", "256K",
               "--poll", "sleep", listen=["tcp://127.0.0.1:0", "tcp://[::1]:0"]) as s:
        s.ctl("ns", "resize", 2, "3M")
        s.ctl("subsystem", "set", NQN, "--no-any-host")
        s.ctl("host", "add", HOST)
        s.ctl("subsystem", "add", NQN + "2", "--host", HOST, "--host", HOST + "2", "--serial", "SN 1")
        s.ctl("ns", "add", NQN + "2", "null:1G", "--nsid", 40, "--ana-group", 2)
        for group, state in ((2, "inaccessible"), (1, "non-optimized"), (5, "inaccessible"), (5, "optimized")):
            s.ctl("listener", "ana", s.get("/v1/listeners")["listeners"][1]["id"], state, "--ana-group", group)
        assert "farlane serve -c saved.yaml" in s.ctl("save", "saved.yaml").stdout
        first = s.ctl("save").stdout
        before = s.get("/v1/subsystems")
        assert first == open("saved.yaml").read()
    assert "- group: 1\n    state: non-optimized" in first and first.count("state:") == 2, first
    with Serve("-c", "saved.yaml", listen=None, control=s.control) as s:
        assert s.ctl("save").stdout == first
        # A read through the second listener: there is no way to group 2.
        url = s.get("/v1/listeners")["listeners"][1]["url"]
        s.ctl("subsystem", "set", NQN + "2", "--any-host")
        refused("read", f"nvme+{url}/{NQN}2?ns=40", "--length", "4k", status=FAILED, says="cannot be reached by this path now")
        assert s.ctl("save").stdout != first
        s.ctl("subsystem", "set", NQN + "2", "--no-any-host")
        after = s.get("/v1/subsystems")
        for x in before["subsystems"] + after["subsystems"]:
            for n in x["namespaces"]:
                n.pop("io")
                n.pop("spec")  # says the new size after a restart
        assert after == before
        assert s.get("/v1/status")["config_file"] == "saved.yaml"
    refused("ctl", "--control", s.control, "save", status=UNREACHABLE, says="no farlane serves")


main()
