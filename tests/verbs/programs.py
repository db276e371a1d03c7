# SPDX-License-Identifier: Apache-2.0
"""What the tests with foreign verbs programs share: two processes under the drop-in library, on a network of their own.

A test is a script: SCRIPT LIBFARLANE-VERBS.so [PATH-OF-FARLANE]. Its functions test_* are run in order.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

LIBRARY = os.path.abspath(sys.argv[1])
EXE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
SANITIZED = os.environ.get("FL_SANITIZED") == "1"
PATIENCE = 300  # for what hangs: two that poll for each other take a second alone, and two minutes where fifty wait for two CPUs
GRACE = 15 if SANITIZED else 2  # for one of a pair whose other has failed, to end and to say why
SKIP = 77


def sanitizers():
    """The sanitizers' libraries that the drop-in wants: they must come first."""
    said = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True).stdout
    return re.findall(r"=> (\S*lib(?:a|ub)san\S*)", said)


def environment(**more):
    env = dict(os.environ, LD_PRELOAD=":".join([*sanitizers(), LIBRARY]))
    env.update(more)
    if SANITIZED:  # the programs' own leaks are not our business
        env["ASAN_OPTIONS"] = "detect_leaks=0:abort_on_error=1:verify_asan_link_order=0"
    return env


def need(*programs):
    lacking = [p for p in programs if not shutil.which(p)]
    if lacking:
        print("not installed: " + " ".join(lacking))
        sys.exit(SKIP)


def own_network():
    """This script again in a network namespace of its own, where there is one device, farlane0, and every port is free."""
    if os.environ.get("FL_OWN_NETWORK") == "1":
        return
    for command in (["unshare", "-n"], ["unshare", "-rn"]):
        if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            os.environ["FL_OWN_NETWORK"] = "1"
            os.execvp(command[0], [*command, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    print("no network namespaces here")
    sys.exit(SKIP)


def run(command, status=0, **more):
    done = subprocess.run(command.split(), env=environment(**more), capture_output=True, text=True, timeout=PATIENCE)
    said = done.stdout + done.stderr
    if done.returncode != status:
        raise AssertionError(f"{command}: status {done.returncode}, wanted {status}\n{said}")
    return said


def real_interface(address):
    """One that is no loopback interface, of which there is none yet: some programs leave that out. Returns its name."""
    for command in ("link add v0 type veth peer name v1", f"addr add {address}/24 dev v0", "link set v0 up", "link set v1 up"):
        subprocess.run(["ip", *command.split()], check=True)
    # It settles within two seconds: the kernel takes note of its carrier, and tries its IPv6 address.
    state = ""
    while "state UP" not in state or "fe80" not in state or "tentative" in state:
        time.sleep(0.02)
        state = subprocess.run(["ip", "addr", "show", "v0"], capture_output=True, text=True, check=True).stdout
    return "v0"


def listening(port):
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(path).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def cm_listening(log):
    """The server listens by the connection manager, as the drop-in library has logged."""
    log.seek(0)
    return "listens on port" in log.read()


def started(process, ready):
    deadline = time.monotonic() + PATIENCE
    while not ready() and process.poll() is None:
        assert time.monotonic() < deadline, "the server does not get ready"
        time.sleep(0.02)


def stop(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def wait_for(process, other, other_status):
    """Until process ends. When the other has ended with an error, it has little time left: it may wait for that for ever."""
    deadline = time.monotonic() + PATIENCE
    failed = False
    while process.poll() is None:
        if not failed and other.poll() not in (None, other_status):
            failed = True
            deadline = min(deadline, time.monotonic() + GRACE)
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, PATIENCE)
        time.sleep(0.01)


def pair(server, client, ready=lambda: listening(18515), status=(0, 0), again=None, afresh=None, **more):
    """Both must end with these statuses, without being killed. Returns what the client and what the server said.

    ready: whether the server is; cm_listening is asked with what the server has said.
    again: words (a pattern) of the client that say that the server was not ready yet, where nothing else tells; then it is tried again.
    afresh: words of either by which a race of the program's own is known; then both are started once more, a few times."""
    for attempt in range(6):
        try:
            return pair_once(server, client, ready, status, again, more)
        except AssertionError as fault:
            if not afresh or attempt == 5 or not re.search(afresh, str(fault), re.M):
                raise


def pair_once(server, client, ready, status, again, more):
    env = environment(**more)
    with tempfile.NamedTemporaryFile("w+") as server_log, tempfile.TemporaryFile("w+") as client_log:
        def said():
            logs = []
            for log in (client_log, server_log):
                log.seek(0)
                logs.append(log.read())
            return logs

        def start(command, log, **also):
            p = subprocess.Popen(command.split(), env=dict(env, **also), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            running.append(p)
            return p
        running = []
        deadline = time.monotonic() + PATIENCE
        try:
            s = start(server, server_log, FARLANE_LOG="debug" if ready is cm_listening else env.get("FARLANE_LOG", "warn"))
            if ready is cm_listening:
                with open(server_log.name) as copy:  # with a position of its own
                    started(s, lambda: cm_listening(copy))
            elif ready:
                started(s, ready)
            while True:
                client_log.truncate(0)
                client_log.seek(0)
                c = start(client, client_log)
                wait_for(c, s, status[0])
                if not again or c.returncode == status[1] or s.poll() is not None or not re.search(again, said()[0]):
                    break
                assert time.monotonic() < deadline, "the server does not get ready"
                time.sleep(0.1)
            wait_for(s, c, status[1])
        except subprocess.TimeoutExpired as late:
            raise AssertionError("{}: does not end\n--- client\n{}\n--- server\n{}".format(" ".join(late.cmd), *said())) from None
        finally:
            for process in running:
                stop(process)
        if (s.returncode, c.returncode) != status:
            raise AssertionError("{}: statuses {}, {}, wanted {}\n--- client\n{}\n--- server\n{}".format(
                client, s.returncode, c.returncode, status, *said()))
        return said()


def main():
    own_network()
    failed = 0
    for name, test in [(n, f) for n, f in sys.modules["__main__"].__dict__.items() if n.startswith("test_")]:
        start = time.monotonic()
        try:
            test()
            result = "ok"
        except Exception:
            traceback.print_exc()
            result = "FAILED"
            failed += 1
        print(f"{result:6} {name} ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)
