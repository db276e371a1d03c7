# SPDX-License-Identifier: Apache-2.0
"""Two doctors on two machines: network namespaces with a bridge between them, which is set right and wrong."""
import contextlib
import signal

from farlane import *

HERE, THERE, PORT = "10.9.0.1", "10.9.0.2", 4419


def ip(text, pid=None):
    inside = ["nsenter", "-t", str(pid), "-n"] if pid else []
    return subprocess.run([*inside, "ip", *text.split()], capture_output=True, text=True)


class Network:
    """Interface near0 here, a bridge on another machine, interface far0 on a third; all with the MTU 9000, or what is set later."""

    def __init__(self):
        self.machines = [subprocess.Popen(["unshare", "-n", "sleep", "1000"]) for _ in range(2)]
        self.middle, self.far = (m.pid for m in self.machines)
        own = os.readlink("/proc/self/ns/net")
        wait_until("network namespaces", lambda: all(os.readlink(f"/proc/{m.pid}/ns/net") != own for m in self.machines))
        steps = [("link set lo up", None), ("link set lo up", self.far),
                 (f"link add name near0 mtu 9000 type veth peer name left0 mtu 9000 netns {self.middle}", None),
                 (f"link add name right0 mtu 9000 type veth peer name far0 mtu 9000 netns {self.far}", self.middle),
                 ("link add name bridge0 mtu 9000 type bridge", self.middle), ("link set left0 master bridge0", self.middle),
                 ("link set right0 master bridge0", self.middle), ("link set left0 up", self.middle), ("link set right0 up", self.middle),
                 ("link set bridge0 up", self.middle), ("link set near0 up", None), ("link set far0 up", self.far),
                 (f"addr add {HERE}/24 dev near0", None), (f"addr add {THERE}/24 dev far0", self.far)]
        self.possible = True
        for text, pid in steps:
            done = ip(text, pid)
            if done.returncode:
                print(f"ip {text}: {done.stderr}", end="")
                self.possible = False
                return

    def end(self):
        for m in self.machines:
            m.kill()
            m.wait()
        ip("link del near0")


class Listener:
    def __init__(self, network, address=THERE):
        self.process = subprocess.Popen(["nsenter", "-t", str(network.far), "-n", EXE, "doctor", "--listen", address], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert f"{address}:{PORT}" in line, line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0
        self.process.stdout.close()


def ask(peer=THERE, **more):
    done = subprocess.run([EXE, "doctor", "--json", "--peer", peer], capture_output=True, text=True, timeout=120, **more)
    assert not done.stderr or "env" in more, done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["counts"]["bad"] + found["counts"]["slow"] else 0)
    return found


def expect(found, check, level, *words, subject=None):
    fits = [f for f in found["findings"] if f["check"] == check and (subject is None or subject in f["subject"])]
    assert fits, (check, [f["check"] for f in found["findings"]])
    assert any(f["level"] in level.split() and all(w in f["evidence"] for w in words) for f in fits), (level, words, fits)
    return fits


def test_paths():
    network = Network()
    try:
        if not network.possible:
            return
        with Listener(network):
            found = ask()
            assert found["peer"] == THERE
            expect(found, "peer-reach", "ok", THERE)
            expect(found, "peer-mtu-equal", "ok", "MTU 9000 here, 9000 there")
            expect(found, "peer-mtu", "ok", "9000 bytes with DF: there 9000, back 9000", "4096 bytes a packet")
            expect(found, "peer-roce-port", "ok", "pass")
            expect(found, "peer-nvme-port", "ok", "connection was made")
            expect(found, "peer-tcp", "ok slow", "arrived whole")  # a busy machine drops some itself
            expect(found, "peer-rdma-soft", "ok", "4096 bytes a packet", "all bytes compared")
            expect(found, "net-route", "ok", "by near0")

            ip("link set right0 mtu 1500", network.middle)  # both ends have 9000, a hop between has not: told by nobody
            found = ask()
            expect(found, "peer-mtu-equal", "ok", "9000 there")
            expect(found, "peer-mtu", "bad", "there only up to 1")
            expect(found, "peer-tcp", "unseen", "not tried")
            ip("link set right0 mtu 9000", network.middle)

            ip("link set far0 mtu 1500", network.far)
            found = ask()
            mend = expect(found, "peer-mtu-equal", "bad", "MTU 9000 here, 1500 there")[0]["remedy"]
            expect(found, "peer-mtu", "ok", "1500 bytes with DF: there 1500, back 1500", "1024 bytes a packet")
            expect(found, "peer-tcp", "ok slow", "arrived whole")  # a busy machine drops some itself
            # as the remedy says, at that end; then doctor sees that it is mended
            assert mend.startswith("# at that end: ip link set far0 mtu 9000"), mend
            ip("link set far0 mtu 9000", network.far)
            expect(ask(), "peer-mtu-equal", "ok", "9000 there")

            # a second path of another subnet is found by itself
            ip("addr add fd00:9::1/64 dev near0 nodad")
            ip("addr add fd00:9::2/64 dev far0 nodad", network.far)
            found = ask()
            fits = expect(found, "peer-reach", "hint", "fd00:9::2", "refused")  # its doctor listens at one address only
        with Listener(network, "0.0.0.0"):
            pathlib.Path("/proc/sys/net/ipv4/tcp_sack").write_text("1")
            subprocess.run(["nsenter", "-t", str(network.far), "-n", "sh", "-c", "echo 0 > /proc/self/root/proc/sys/net/ipv4/tcp_sack"], check=True)
            found = ask()
            there = expect(found, "net-tcp-options", "slow", "tcp_sack is 0", subject=f"on {THERE}: tcp_sack")
            assert any(f["remedy"].startswith(f"# on {THERE}: sysctl") for f in there), there
        found = ask()
        expect(found, "peer-reach", "bad", "refused")
    finally:
        network.end()


def test_bad_peers():
    """What answers may be anything: doctor says so, in time, and goes on."""
    for text in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"{}\n", b'{"version": 1}\n' + b"[" * 5000, b"{" * 3000000):
        with socket.create_server(("127.0.0.1", 0)) as s:
            pid = os.fork()
            if not pid:
                try:
                    for _ in range(3):
                        c, _ = s.accept()
                        with contextlib.suppress(OSError):
                            c.recv(100)
                            c.sendall(text)
                            c.close()
                finally:
                    os._exit(0)
            try:
                found = ask(f"127.0.0.1:{s.getsockname()[1]}")
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            assert any(f["level"] in ("bad", "unseen") for f in found["findings"] if f["check"].startswith("peer-")), text[:20]
    expect(ask("no-such-host.invalid"), "peer-reach", "bad")
    assert all("must let TCP 1 in" in f["remedy"] for f in expect(ask("127.0.0.1:1"), "peer-reach", "bad", "refused"))
    refused("doctor", "--listen", "no-address", status=USAGE, says="no-address")
    refused("doctor", "--peer", "x", "--during", "1", status=USAGE, says="--during")


def ask_badly(port):
    """What the last question was answered with."""
    asks = [b"\n", b"nonsense\n", b"[1,2]\n", b'{"ask":"no-such"}\n', b'{"ask":"take","len":99999999999}\n', b'{"ask":"give","len":-1}\n',
            b'{"ask":"probe","port":70000}\n', b'{"ask":"probe","port":9,"at":-5}\n', b'{"ask":"knock","port":0}\n', b'{"ask":7}\n',
            b'{"ask":"findings"}\n', b'{"ask":"give","len":100000000}\n', b"x" * 3000000, b'{"ask":"hello"}\n']
    for text in asks:
        with socket.create_connection(("127.0.0.1", port)) as c:
            try:
                c.sendall(text)
                c.settimeout(PATIENCE)
                answer = c.recv(1 << 16)
            except OSError:
                answer = b""
    return answer


def test_bad_askers():
    """A listener outlives every question."""
    process = subprocess.Popen([EXE, "doctor", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().split(":")[1].split(";")[0])
        answer = ask_badly(port)
        assert json.loads(answer)["version"] == 1
        wrong = {**os.environ, "FARLANE_ROCE_PORT": "99999"}
        expect(ask(f"127.0.0.1:{port}", env=wrong), "peer-roce-port", "unseen", "FARLANE_ROCE_PORT is 99999", "1 to 65535")
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if own_network():
    ip("link set lo up")
main()
