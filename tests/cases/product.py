# SPDX-License-Identifier: Apache-2.0
"""farlane as the cases meet it: the command, and a server that has to come out of each case as it went in."""
import ctypes
import json
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time

from transport import LISTEN, TRANSPORT, Controller

EXE = os.environ.get("FARLANE", "farlane")
SANITIZED = bool(os.environ.get("FL_SANITIZED"))
EXE_PREFIX = [] # a command that the server is started by
NQN = "nqn.2026-01.org.example:cases"
PATIENCE = 60 # seconds; a guard only, for busy machines


def wait_until(what, check, seconds=PATIENCE, every=0.05):
    until = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < until, f"did not come within {seconds} s: {what}"
        time.sleep(every)


def run(*args, input=None, check=True, timeout=PATIENCE, text=True):
    done = subprocess.run([EXE, *map(str, args)], input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, text=text)
    if check and done.returncode:
        raise AssertionError(f"farlane {' '.join(map(str, args))}: status {done.returncode}: {done.stderr}")
    complaint = sanitizer_complaint(done.stderr if text else done.stderr.decode(errors="replace"))
    assert not complaint, complaint
    assert done.returncode >= 0, f"farlane {' '.join(map(str, args))}: killed by signal {-done.returncode}: {done.stderr}"
    return done


def sanitizer_complaint(text):
    at = re.search(r"(ERROR: \w+Sanitizer|runtime error:|: Assertion `)", text)
    return text[max(0, at.start() - 200):at.start() + 3000] if at else None


def die_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL) # PR_SET_PDEATHSIG


class Server:
    """`farlane serve` on free ports. At the end of the with block it has to be as it was at its start (settle), and to
    leave with status 0 when told."""

    def __init__(self, *spec, args=(), listen=(LISTEN,), settle=True, env=None, poll="adaptive", growth_kib=4096 if TRANSPORT == "tcp" else 12288, warm=True): # the RNIC allocates more at first
        self.dir = tempfile.mkdtemp(prefix="farlane-case-")
        self.control = os.path.join(self.dir, "control")
        self.want_settle, self.growth_kib = settle, growth_kib
        self.log = open(os.path.join(self.dir, "log"), "w+")
        cmd = [*EXE_PREFIX, EXE, "serve", "--json", "--nqn", NQN, "--control", self.control, "--poll", poll]
        for s in spec:
            cmd += ["--ns", s]
        for l in listen:
            cmd += ["--listen", l]
        self.proc = subprocess.Popen(cmd + [str(a) for a in args], stdout=subprocess.PIPE, stderr=self.log,
                                     env={**os.environ, **(env or {})}, text=True, preexec_fn=die_with_us)
        try:
            assert select.select([self.proc.stdout], [], [], PATIENCE)[0], "the server does not come up"
            line = self.proc.stdout.readline()
            assert line, f"the server did not come up: {self.said()}"
            self.ready = json.loads(line)
            self.pid = self.ready["pid"]
            self.addr = self.addr_of(self.ready["listeners"][0]["url"])
            self.url = self.ready["namespaces"][0]["url"] if self.ready["namespaces"] else None
            self.warm_up(warm)
        except BaseException:
            self.kill()
            raise

    @staticmethod
    def addr_of(url):
        host, port = re.fullmatch(r"(?:tcp|rdma)://(.*):(\d+)", url).groups()
        return host.strip("[]"), int(port)

    def warm_up(self, warm=True):
        """What is allocated once, at first use, is not growth."""
        if warm and self.want_settle and self.ready["namespaces"] and not self.ready_is_closed():
            with Controller(self.addr, NQN) as c:
                c.io(sqsize=3).close()
            self.wait_empty()
        self.before = self.counts()
        self.rss = self.rss_kib()

    def ready_is_closed(self):
        ss = self.get("subsystems")["subsystems"]
        return not ss or not ss[0]["allow_any_host"]

    # ---- looking ----

    def ctl(self, *args, check=True):
        done = run("ctl", "--control", self.control, *args, "--json", check=check)
        return json.loads(done.stdout) if done.stdout.strip().startswith(("{", "[")) else done

    def get(self, path):
        """As ctl asks, without a process for each question."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(self.control)
            sock.sendall(f"GET /v1/{path} HTTP/1.1\r\nHost: farlane\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: sock.recv(1 << 16), b""))
        head, body = answer.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 200"), head
        return json.loads(body)

    def counts(self):
        s = self.get("status")
        keys = ("subsystems", "namespaces", "listeners", "listening", "controllers", "connections")
        counts = {k: s[k] for k in keys}
        counts["buffers_used"] = sum(l["buffers"]["used"] for l in s["loops"])
        counts["loop_connections"] = sum(l["connections"] for l in s["loops"])
        counts["listener_connections"] = sum(l["connections"] for l in self.get("listeners")["listeners"])
        return counts

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def said(self):
        self.log.flush()
        with open(self.log.name) as f:
            return f.read()

    # ---- judging ----

    def wait_empty(self, when="at its end"):
        def empty():
            c = self.counts()
            return c["controllers"] == c["connections"] == c["buffers_used"] == c["listener_connections"] == 0
        try:
            wait_until("an empty server", empty)
        except AssertionError:
            raise AssertionError(f"the server does not become empty {when}: {self.counts()}")

    def serves(self):
        """It still does its work."""
        with Controller(self.addr, NQN) as c:
            a = c.io(sqsize=3).read(0, 8)
            assert a.status == 0 and len(a.data) == 4096, a

    def idle_share(self, seconds=0.7):
        before, at = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_s() - before) / (time.monotonic() - at)

    def settle(self):
        """Counts as at the start, no CPU, no memory kept."""
        self.wait_empty()
        counts = self.counts()
        assert self.ctl("status")["connections"] == 0
        assert counts == self.before, f"counts at the start {self.before}, now {counts}"
        wait_until("an idle server", lambda: self.idle_share() < 0.04, seconds=15)
        if not SANITIZED: # its quarantine grows
            grown = self.rss_kib() - self.rss
            assert grown < self.growth_kib, f"memory grew by {grown} KiB"

    def stop(self):
        self.proc.terminate()
        try:
            rc = self.proc.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server does not end: {self.said()[-2000:]}")
        complaint = sanitizer_complaint(self.said())
        assert not complaint, complaint
        assert rc == 0, f"the server left with {rc}: {self.said()[-2000:]}"

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        self.proc.stdout.close()
        self.log.close()
        for name in os.listdir(self.dir):
            os.unlink(os.path.join(self.dir, name))
        os.rmdir(self.dir)

    def __enter__(self):
        return self

    def __exit__(self, kind, exc, _):
        try:
            if kind is None:
                assert self.proc.poll() is None, f"the server died: {self.said()[-3000:]}"
                if self.want_settle:
                    self.settle()
                self.stop()
            elif self.proc.poll() is not None:
                print(f"    the server has died with {self.proc.returncode}:\n{self.said()[-4000:]}")
            else:
                print(f"    the server said:\n{self.said()[-1500:]}")
        finally:
            self.kill()
