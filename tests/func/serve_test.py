# SPDX-License-Identifier: Apache-2.0
"""serve, discover, info, read, write, copy: the main job from end to end, and how it ends."""
import hashlib
import os
import pathlib
import signal
import socket
import subprocess

from farlane import *

NQN = "nqn.2026-01.org.example:disk"


def sha(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def test_main_job_on_a_file():
    make_file("disk", 16 << 20)
    make_file("data", 5 << 20, seed=7)
    with Serve("--ns", "file:disk,bs=4096", "--nqn", NQN) as s:
        found = run_json("discover", s.discovery, "--json")
        mine = [e for e in found if e["nqn"] == NQN]
        assert len(mine) == 1 and mine[0]["type"] == "nvm" and mine[0]["transport"] == "tcp", found
        info = run_json("info", mine[0]["url"], "--json")
        assert info["size"] == 16 << 20 and info["block"] == 4096 and info["nsid"] == 1 and info["nqn"] == NQN, info
        run("write", s.url, "--offset", "1M", input=pathlib.Path("data").read_bytes(), text=False)
        back = run("read", s.url, "--offset", "1M", "--length", "5M", text=False).stdout
        assert back == pathlib.Path("data").read_bytes()
    # What was written and flushed is in the file, and nothing around it has changed.
    disk = pathlib.Path("disk").read_bytes()
    assert len(disk) == 16 << 20 and disk[1 << 20:6 << 20] == back
    make_file("old", 16 << 20)
    old = pathlib.Path("old").read_bytes()
    assert disk[:1 << 20] == old[:1 << 20] and disk[6 << 20:] == old[6 << 20:]


def test_bytes_anywhere():
    """Offsets and lengths that end inside blocks: the rest of the block stays as it was."""
    with Serve("--ns", "ram:4M,bs=4096", "--nqn", NQN) as s:
        image = bytearray(4 << 20)
        run("write", s.url, "-q", input=bytes(image), text=False)
        for off, size in [(0, 1), (1, 4095), (4095, 2), (4096, 4096), (777, 100000), (1048575, 2), (1048576 - 3, 2 << 20),
                          ((4 << 20) - 1, 1), ((4 << 20) - 5000, 5000)]:
            data = os.urandom(size)
            image[off:off + size] = data
            run("write", s.url, "--offset", off, "-q", input=data, text=False)
            assert run("read", s.url, "--offset", off, "--length", size, text=False).stdout == data, (off, size)
        assert run("read", s.url, text=False).stdout == bytes(image)
        assert run("read", s.url, "--length", 0, text=False).stdout == b""


def test_limits_are_named():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        refused("read", s.url, "--offset", "2M", status=USAGE,
                says=["offset 2097152 bytes (2.00 MiB)", "1048576 bytes (1.00 MiB)"])
        refused("read", s.url, "--offset", "1M", "--length", 1, status=USAGE,
                says=["1 bytes", "from offset 1048576 bytes", "1048576 bytes (1.00 MiB)"])
        refused("write", s.url, "--offset", "2M", status=USAGE, says="2097152", input="x")
        refused("write", s.url, "--offset", "1M", status=FAILED, says="longer than", input="x")
        with open("big", "wb") as f:
            f.truncate((1 << 20) + 1)
        with open("big") as f:
            done = subprocess.run([EXE, "write", s.url], stdin=f, capture_output=True, text=True)
        assert done.returncode == FAILED and "1048577 bytes do not fit" in done.stderr, done.stderr
        # A stream shows its length only at its end.
        refused("write", s.url, status=FAILED, says="longer than", input="x" * ((1 << 20) + 1))


def test_copy_both_ways_and_verified():
    make_file("a", (8 << 20) + 12345)
    with Serve("--ns", "ram:9M", "--ns", "ram:9M", "--ns", "ram:1M", "--nqn", NQN) as s:
        r = run_json("copy", "a", s.urls[0], "--verify", "--json")
        assert r["bytes"] == (8 << 20) + 12345 and r["verified"] is True, r
        run("copy", s.urls[0], s.urls[1], "--verify", "--depth", 3, "--chunk", "64k")
        said = run("copy", s.urls[1], "b", "--verify")
        assert "read back and equal" in said.stdout, said.stdout
        assert pathlib.Path("b").read_bytes()[:(8 << 20) + 12345] == pathlib.Path("a").read_bytes()
        assert os.path.getsize("b") == 9 << 20
        refused("copy", "a", s.urls[2], status=FAILED, says=["too small", "nothing was written", "1048576"])
        assert not any(run("read", s.urls[2], text=False).stdout)
        refused("copy", s.urls[0], "b", status=FAILED, says=["b is there already", "--force"])
        run("copy", s.urls[2], "b", "--force", "-q")
        assert os.path.getsize("b") == 1 << 20
        refused("copy", "missing", s.urls[0], status=NOT_FOUND, says="missing")
        refused("copy", ".", s.urls[0], status=FAILED, says="a folder")
        refused("copy", s.urls[0], "no/such/folder", status=NOT_FOUND, says="no/such/folder")


def test_digests():
    make_file("a", 3 << 20)
    with Serve("--ns", "ram:4M", "--nqn", NQN) as s:
        url = s.url + "&hdgst=1&ddgst=1"
        info = run_json("info", url, "--json")
        assert info["hdgst"] and info["ddgst"], info
        run("copy", "a", url, "--verify")
    with Serve("--ns", "ram:4M", "--nqn", NQN, "--no-ddgst") as s:
        assert run_json("info", s.url, "--json")["ddgst"] is False
        refused("info", s.url + "&ddgst=1", status=FAILED, says="digest")


def test_several_listeners_and_namespaces():
    with Serve("--ns", "ram:1M", "--ns", "null:2M,bs=4096", "--nqn", NQN,
               listen=["tcp://127.0.0.1:0", "tcp://127.0.0.2:0", "tcp://[::1]:0"]) as s:
        assert len(s.urls) == 6, s.urls
        for url in s.urls:
            assert run_json("info", url, "--json")["size"] in (1 << 20, 2 << 20)
        subsystem = s.url.split("?")[0]
        assert [n["nsid"] for n in run_json("info", subsystem, "--json")["namespaces"]] == [1, 2]
        refused("info", subsystem + "?ns=3", status=NOT_FOUND, says="3")
        refused("info", subsystem + "x?ns=1", status=NOT_FOUND, says="disk")


def test_wildcards_of_both_families():
    """Together they have each address of IPv4 twice, which is told once."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen=[f"tcp://0.0.0.0:{port}", f"tcp://[::]:{port}"]) as s:
        assert len(s.urls) == len(set(s.urls)) and any("//127.0.0.1:" in u for u in s.urls) and any("//[::1]:" in u for u in s.urls), s.urls
        for url in s.urls:
            run("info", url)


def test_hosts_that_are_not_named_stay_out():
    me = "nqn.2026-01.org.example:me"
    with Serve("--ns", "ram:1M", "--nqn", NQN, "--host", me) as s:
        run("info", s.url, "--hostnqn", me)
        refused("info", s.url, "--hostnqn", me + "2", status=DENIED, says=me + "2")
        assert not [e for e in run_json("discover", s.discovery, "--json", "--hostnqn", me + "2") if e["nqn"] == NQN]


def test_nobody_there():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        for command in ("discover", "info"):
            refused(command, f"nvme+tcp://127.0.0.1:{port}/{NQN if command == 'info' else ''}", status=UNREACHABLE,
                    says=[str(port), "127.0.0.1"])
    refused("info", f"nvme+tcp://no.such.host.invalid/{NQN}", status=UNREACHABLE, says="no.such.host.invalid")


def test_somebody_else_there():
    """A port where somebody listens who says nothing, as a stopped target or a server of another protocol does."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused("info", f"nvme+tcp://127.0.0.1:{other.getsockname()[1]}/{NQN}", "--timeout", 1, status=UNREACHABLE,
                says=["does not answer as an NVMe/TCP target", "is it stopped?", "(no answer to ICReq within 1000 ms)"])


def test_says_that_it_is_ready():
    r, w = os.pipe()
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind("n")
    notify.settimeout(PATIENCE)
    env = dict(os.environ, NOTIFY_SOCKET=os.path.abspath("n"))
    with Serve("--ns", "ram:1M", "--ready-fd", w, pass_fds=[w], env=env) as s:
        os.close(w)
        assert os.read(r, 100) == b"ready\n" and os.read(r, 100) == b""
        assert notify.recv(100) == b"READY=1"
        s.stop()
        assert notify.recv(100) == b"STOPPING=1"
    os.close(r)
    notify.close()


def test_many_loops():
    """Queues are spread over the loops, and all see the same namespace."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    with Serve("--ns", "ram:16M", "--nqn", NQN, "--cores", ",".join(map(str, cpus))) as s:
        assert len(s.get("/v1/status")["loops"]) == len(cpus)
        load = subprocess.Popen([EXE, "bench", s.url, "--verify", "--destroy-data", "--rw", "randrw:50", "--jobs", "4", "--depth", "8",
                                 "--wait", "sleep", "--seconds", "2", "--json"], stdout=subprocess.PIPE, text=True)
        wait_until("the queues", lambda: s.get("/v1/status")["connections"] >= 5)
        loops = {q["loop"] for c in s.get("/v1/connections")["controllers"] for q in c["connections"] if q["queue"]}
        assert len(loops) == len(cpus), loops
        s.ctl("ns", "add", "ram:1M")
        s.ctl("ns", "rm", 2)
        out = load.communicate(timeout=PATIENCE)[0]
        assert load.returncode == 0 and json.loads(out)[0]["verified"], out


def test_signals():
    for signo in (signal.SIGTERM, signal.SIGINT):
        with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
            reader = subprocess.Popen([EXE, "read", s.url], stdout=subprocess.PIPE)
            reader.stdout.read(1)
            s.process.send_signal(signal.SIGHUP)
            wait_until("the word on SIGHUP", lambda: "SIGHUP changes nothing" in s.errors())
            s.stop(signo)
            reader.stdout.close()
            reader.kill()
            reader.wait()


def test_a_port_that_is_taken():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", f"tcp://127.0.0.1:{s.ports[0]}", status=FAILED,
                says=[f"127.0.0.1:{s.ports[0]}", "another program listens there"])
        run("info", s.url)


def test_one_control_socket_one_server():
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        refused("serve", "--ns", "ram:1M", "--control", s.control, "--listen", "tcp://127.0.0.1:0", status=FAILED,
                says="another farlane serves")
        assert os.stat(s.control).st_mode & 0o777 == 0o600
    pathlib.Path("f").write_text("not a socket")
    refused("serve", "--ns", "ram:1M", "--control", "f", "--listen", "tcp://127.0.0.1:0", status=FAILED, says="no socket")
    assert pathlib.Path("f").read_text() == "not a socket"
    # One that was left behind by a kill is replaced.
    s = Serve("--ns", "ram:1M", control=os.path.abspath("dead"))
    s.process.kill()
    s.process.wait()
    assert os.path.exists("dead")
    with Serve("--ns", "ram:1M", control=os.path.abspath("dead")):
        pass


def test_who_may_connect():
    """Said for the subsystems that it is true of."""
    nqn = lambda name: f"nqn.2026-01.org.example:{name}"
    for opened, closed, says in (("a", "", "Any host may connect;"), ("a", "b", f"Any host may connect to {nqn('a')}; the others"),
                                 ("ac", "b", f"Any host may connect to {nqn('a')} and 1 more; the others"), ("", "b", None)):
        subsystems = [f"{{nqn: '{nqn(c)}', namespaces: [{{spec: 'ram:1M'}}]}}" for c in opened]
        subsystems += [f"{{nqn: '{nqn(c)}', hosts: ['{nqn('me')}'], namespaces: [{{spec: 'ram:1M'}}]}}" for c in closed]
        pathlib.Path("who.yaml").write_text(f"subsystems: [{', '.join(subsystems)}]\n")
        p = subprocess.Popen([EXE, "serve", "-c", "who.yaml", "--control", "none", "--listen", "tcp://127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        said = ""
        while "Ready." not in said:
            line = p.stdout.readline()
            assert line, said
            said += line
        p.terminate()
        assert p.wait(PATIENCE) == 0
        p.stdout.close()
        assert says in said if says else "Any host" not in said, said


def default_control_socket(name):
    os.mkdir("run", 0o700)
    env = dict(os.environ, XDG_RUNTIME_DIR=os.path.abspath("run"), FARLANE_CONTROL=os.path.abspath("run/" + name))
    p = subprocess.Popen([EXE, "serve", "--ns", "ram:1M", "--listen", "tcp://127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env=env)
    said = ""
    while "Ready." not in said:
        line = p.stdout.readline()
        assert line, said
        said += line
    assert name in said and "STANDS ON" in said and "this machine only" in said and "Any host may connect" in said, said
    assert "\033" not in said and "(farlane ctl status)" in said, said
    assert "1 namespace," in run("ctl", "status", env=env).stdout
    # A second one beside it takes a name of its own, and the hint leads to that one.
    p2 = subprocess.Popen([EXE, "serve", "--ns", "ram:1M", "--listen", "tcp://127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env=env)
    other = os.path.abspath(f"run/here-{p2.pid}.sock")
    said = ""
    while "Ready." not in said:
        line = p2.stdout.readline()
        assert line, said
        said += line
    assert f"Control: {other} (farlane ctl --control {other} status)" in said, said
    assert f"process {p2.pid}," in run("ctl", "--control", other, "status", env=env).stdout
    for q in (p2, p):
        q.terminate()
        assert q.wait(PATIENCE) == 0
        q.stdout.close()
    assert os.listdir("run") == []
    os.rmdir("run")


def test_default_control_socket():
    for name in ("here.sock", "here"):
        default_control_socket(name)


def test_wrong_port_of_the_rnic():
    for port in ("99999", "0", "abc", "47x", "-1"):
        for command in ("serve", "--ns", "ram:1M", "--listen", "rdma://127.0.0.1:0", "--strict"), ("rnic",), ("rnic", "qps", "--json"):
            refused(*command, status=USAGE, says=[f"FARLANE_ROCE_PORT is {port}", "1 to 65535"],
                    env=dict(os.environ, FARLANE_ROCE_PORT=port))


main()
