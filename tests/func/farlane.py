# SPDX-License-Identifier: Apache-2.0
"""What the functional tests share: run the command, serve, talk to the control socket. Standard library only.

A test is a script whose functions test_* are run in order, in a temporary folder that is removed:
    SCRIPT PATH-OF-FARLANE
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

EXE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "farlane"
SANITIZED = os.environ.get("FL_SANITIZED") == "1"
PATIENCE = 60 if SANITIZED else 20

OK, FAILED, USAGE, UNREACHABLE, DENIED, NOT_FOUND, DIFFERENT, LESSER_PATH = range(8)

os.environ.pop("FARLANE_CONTROL", None)
os.environ.pop("NOTIFY_SOCKET", None)
os.environ["TERM"] = "dumb"


def run(*args, status=OK, input=None, text=True, **more):
    """Runs farlane; the status must be the one that is wanted. Returns what subprocess.run returns."""
    done = subprocess.run([EXE, *map(str, args)], input=input, capture_output=True, text=text, timeout=300, **more)
    if done.returncode != status:
        raise AssertionError(f"farlane {' '.join(map(str, args))}: status {done.returncode}, wanted {status}\n"
                             f"{done.stdout}\n{done.stderr}")
    return done


def refused(*args, status, says, **more):
    """A run that must fail, with all of these words on standard error and nothing on standard output."""
    done = run(*args, status=status, **more)
    for words in [says] if isinstance(says, str) else says:
        assert words in done.stderr, f"wanted '{words}' in: {done.stderr}"
    assert "\033" not in done.stderr, "colours without a terminal"
    return done


def run_json(*args, **more):
    return json.loads(run(*args, **more).stdout)


class NotTested(Exception):
    """What a test needs is not to be had on this machine. It is no failure, and told with each test and at the end."""


class Serve:
    """A running `farlane serve`; at the end of the with-block it must leave on SIGTERM with status 0."""

    def __init__(self, *args, listen="tcp://127.0.0.1:0", control=None, wait=True, **more):
        self.folder = tempfile.mkdtemp(prefix="s", dir=os.getcwd())
        self.control = control or os.path.join(self.folder, "c")
        listens = [listen] if isinstance(listen, str) else listen
        command = [EXE, "serve", "--json", "--control", self.control, *map(str, args)]
        for address in listens or []:
            command += ["--listen", address]
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, **more)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(PATIENCE)
            raise AssertionError(f"serve did not start: {self.errors()}")
        self.ready = json.loads(line)
        self.urls = [ns["url"] for ns in self.ready["namespaces"]]
        self.url = self.urls[0] if self.urls else None
        self.ports = [l["url"].rsplit(":", 1)[1] for l in self.ready["listeners"]]
        self.discovery = "nvme+" + self.ready["listeners"][0]["url"] if self.ready["listeners"] else None

    def errors(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def request(self, method, path, body=None, raw=None, status=None):
        """(status, answer): over the Unix socket."""
        c = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(PATIENCE)
        c.sock.connect(self.control)
        c.request(method, path, raw if raw is not None else None if body is None else json.dumps(body))
        r = c.getresponse()
        answer = r.read().decode()
        c.close()
        if r.getheader("Content-Type") == "application/json":
            answer = json.loads(answer)
        if status is not None:
            assert r.status == status, f"{method} {path}: {r.status}, wanted {status}: {answer}"
            return answer
        return r.status, answer

    def get(self, path):
        return self.request("GET", path, status=200)

    def ctl(self, *args, **more):
        return run("ctl", "--control", self.control, *args, **more)

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def rss(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self, signo=signal.SIGTERM, status=0):
        self.process.send_signal(signo)
        code = self.process.wait(PATIENCE)
        assert code == status, f"serve left with {code}, wanted {status}: {self.errors()}"
        assert not os.path.exists(self.control), "the control socket was left behind"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.returncode = 0  # as was wanted

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            if kind is None:
                self.stop()
            else:
                self.process.kill()
                self.process.wait()
                sys.stderr.write(f"--- serve said:\n{self.errors()}\n")
        elif kind is None:
            assert self.process.returncode == 0, f"serve left with {self.process.returncode}: {self.errors()}"
        self.process.stdout.close()
        self.log.close()


def make_file(path, size, seed=1):
    """A file of bytes that do not repeat within a sector's length."""
    block = b"".join((i * 2654435761 + seed & 0xffffffff).to_bytes(4, "little") for i in range(min(size, 1 << 20) // 4 + 1))
    with open(path, "wb") as f:
        left = size
        while left > 0:
            f.write(block[:min(left, 1 << 20)])
            left -= 1 << 20
            block = block[4:] + block[:4]
    return path


def wait_until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {patience} s in vain: {what}")


def stop(pid):
    """Stops a process; when this returns, none of its threads runs: the signal stops the others only once one has taken it."""
    def state(thread):
        with open(f"/proc/{pid}/task/{thread}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]

    os.kill(pid, signal.SIGSTOP)
    wait_until(f"process {pid} has stopped", lambda: all(state(t) == "T" for t in os.listdir(f"/proc/{pid}/task")))


def own_network():
    """Runs this script again in a network namespace of its own, if this machine allows that. True there; False: not possible."""
    if os.environ.get("FL_OWN_NETWORK") == "1":
        return True
    for command in (["unshare", "-n"], ["unshare", "-rn"]):
        if not shutil.which("unshare") or not shutil.which("ip"):
            break
        if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            os.environ["FL_OWN_NETWORK"] = "1"
            os.execvp(command[0], [*command, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    return False


def main():
    tests = [(name, f) for name, f in sys.modules["__main__"].__dict__.items() if name.startswith("test_")]
    wanted = sys.argv[2:]
    failed, not_tested = 0, []
    for name, test in tests:
        if wanted and name not in wanted:
            continue
        folder = tempfile.mkdtemp(prefix="farlane-")
        home = os.getcwd()
        os.chdir(folder)
        start = time.monotonic()
        try:
            test()
            result = "ok"
        except NotTested as why:
            result = "NOT TESTED"
            not_tested.append(f"{name}: {why}")
        except Exception:
            traceback.print_exc()
            result = "FAILED"
            failed += 1
        finally:
            os.chdir(home)
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{result:6} {name} ({time.monotonic() - start:.1f} s)", flush=True)
    for what in not_tested:
        print(f"NOT TESTED on this machine: {what}", flush=True)
    sys.exit(1 if failed else 0)
