# SPDX-License-Identifier: Apache-2.0
"""advise: a verdict that follows from the figures beside it, on one screen; and a clear word where it cannot give one."""
import fcntl
import pty
import re
import signal
import struct
import termios

from farlane import *

SHORT = ["--seconds", "0.1", "--size", "16M"]
VERDICTS = ["rdma", "tcp", "both", "neither"]


def advise(*args):
    os.makedirs("work", exist_ok=True)
    found = run_json("advise", "--folder", "work", "--json", *args, *SHORT)
    assert os.listdir("work") == [], "left a folder behind"
    return found


def p50(found, key):
    fits = [p["p50_us"]["median"] for p in found["paths"] if key in (p["key"], p.get("path"))]
    assert len(fits) == 1, (key, found["paths"])
    return fits[0]


def near(a, b):
    assert abs(a - b) < 0.01 + 1e-4 * abs(b), (a, b)


def check_screen(text, width=100):
    lines = text.splitlines()
    assert len(lines) <= 24, text
    for line in lines:
        assert len(line) <= width or line.startswith("  ") and re.search(r"\d$|-$|THERE$", line), (len(line), line)
    assert "nan" not in text and "\033" not in text, text


def test_by_itself():
    found = advise()
    assert [p["key"] for p in found["paths"]] == ["local", "rdma-shm", "rdma-udp", "tcp"], found["paths"]
    assert [a["where"] for a in found["advice"]] == ["within this host", "to other machines"], found["advice"]
    for a, key in zip(found["advice"], ("rdma-shm", "rdma-udp")):
        assert a["verdict"] in VERDICTS[:3] or a["reason"] == "rounds-differ", a
        near(a["device_us"], p50(found, "local"))
        near(a["added_rdma_us"], p50(found, key) - p50(found, "local"))
        near(a["added_tcp_us"], p50(found, "tcp") - p50(found, "local"))
        assert a["text"] and all(c["text"] for c in a["changes"]), a
    assert found["size"] == 16 << 20 and found["peer"] is None and found["budget_us"] is None, found
    seen = found["seen"]
    assert seen["tcp_sent"] > 100 and seen["rnic_known"] and seen["rnic_sent"] > 100, seen
    assert 0 <= found["cores_free"] <= os.cpu_count(), found
    assert all(p["gb_per_s"] is None for p in found["paths"]), "a figure that was not measured"


def test_a_device_of_the_users_and_a_budget():
    found = advise("ram:32M", "--budget-us", "1000000")
    assert found["device"] == "ram:32M" and found["budget_us"] == 1000000, found
    for a in found["advice"]:
        assert a["verdict"] == "both" or a["reason"] == "loss", a
    found = advise("ram:32M", "--budget-us", "0.1")
    assert [a["verdict"] for a in found["advice"]] in (["neither", "neither"], ["rdma", "neither"]), found["advice"]
    make_file("mine", 32 << 20)
    before = os.stat("mine").st_mtime_ns
    assert advise("file:mine")["device"].startswith("file:mine,") and os.stat("mine").st_mtime_ns == before


def test_screen():
    os.makedirs("work")
    said = run("advise", "ram:32M", "--folder", "work", *SHORT).stdout
    check_screen(said)
    for words in ("within this host:", "to other machines:", "NVMe/TCP", "Sent again: TCP", "CPU: ", "cores were free"):
        assert words in said, said


def test_narrow_terminal():
    os.makedirs("work")
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    p = subprocess.Popen([EXE, "advise", "ram:32M", "--folder", "work", *SHORT], stdout=end, stderr=subprocess.DEVNULL, env=dict(os.environ, TERM="xterm"))
    os.close(end)
    said = b""
    try:
        while data := os.read(terminal, 65536):
            said += data
    except OSError:
        pass
    os.close(terminal)
    assert p.wait(PATIENCE) == 0
    text = re.sub(r"\033\[\d*m", "", said.decode().replace("\r", ""))
    assert "\033[1m" in said.decode() and text.count("\n") <= 40, text
    for line in text.splitlines():
        assert len(line) <= 60 or re.search(r"(\d|-|THERE) *$", line), line


def test_peer():
    with Serve("--ns", "ram:32M", "--nqn", "nqn.2026-01.org.example:d", listen=["tcp://127.0.0.1:0", "rdma://127.0.0.1:0"]) as s:
        host = f"127.0.0.1:{s.ports[0]}"
        found = advise("--peer", host)
        a, = found["advice"]
        assert found["peer"] == host and a["where"] == f"to {host}" and not a["rdma_not_measured"] and not a["tcp_not_measured"], found
        assert found["device"] is None and 0 <= a["device_us"] < 50, a  # as the target tells it
        near(a["added_tcp_us"], p50(found, "tcp") - a["device_us"])
        near(a["added_rdma_us"], p50(found, "shm") - a["device_us"])
        check_screen(run("advise", "--peer", host, *SHORT).stdout)
        found = advise("ram:32M", "--peer", host)  # held against the user's own device
        assert found["paths"][0]["key"] == "local" and len(found["paths"]) == 3, found["paths"]
        near(found["advice"][0]["device_us"], p50(found, "local"))


def test_peer_with_tcp_only():
    with Serve("--ns", "ram:32M", "--nqn", "nqn.2026-01.org.example:d") as s:
        for args in (["--peer", f"127.0.0.1:{s.ports[0]}"], [s.url]):
            a, = advise(*args)["advice"]
            assert a["verdict"] == "tcp" and a["reason"] == "only-one-measured" and a["rdma_not_measured"], a
            assert a["where"] == f"to 127.0.0.1:{s.ports[0]}" and not a["tcp_not_measured"], a
        a, = advise(s.url, "--budget-us", "0.1")["advice"]
        assert a["verdict"] == "neither", a


LOSSY = """
from old_iptables import *
subprocess = __import__("subprocess")
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
if set_old_iptables([(DROP, lose(0.02), 0), (ACCEPT, b"", 0)]):
    os.execvp(%r, ["farlane", "advise", "ram:32M", "--json", "--seconds", "0.3", "--size", "16M"])
"""


def test_loss():
    """Packets are really lost, in a network of its own: RDMA over a network is not advised, whatever else was measured."""
    done = subprocess.run(["unshare", "-n" if os.geteuid() == 0 else "-rn", sys.executable, "-c", LOSSY % EXE], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__))))
    if not done.stdout:
        raise NotTested(f"loss cannot be made: {''.join(done.stderr.strip().splitlines()[-1:])}")
    found = json.loads(done.stdout)
    seen, (within, outside) = found["seen"], found["advice"]
    assert seen["rnic_sent_again"] > 0.005 * seen["rnic_sent"] and seen["tcp_sent_again"] > 0.005 * seen["tcp_sent"], seen
    assert outside["verdict"] == "tcp" and outside["reason"] == "loss", outside
    assert within["reason"] != "loss", within


def test_no_peer_there():
    refused("advise", "--peer", "127.0.0.1:1", status=UNREACHABLE, says=["--peer 127.0.0.1:1", "farlane serve", "refused"])
    refused("advise", "--peer", "no-such-host.invalid", status=UNREACHABLE, says="cannot be found")
    refused("advise", "nvme+tcp://127.0.0.1:1/nqn.2026-01.org.example:d", status=UNREACHABLE, says="refused")
    with Serve("--ns", "ram:32M", "--nqn", "nqn.2026-01.org.example:d", "--host", "nqn.2026-01.org.example:friend") as s:
        refused("advise", "--peer", f"127.0.0.1:{s.ports[0]}", status=NOT_FOUND, says="no namespace that this host may see")
        refused("advise", s.url, status=DENIED, says="nqn.2026-01.org.example:d")
        refused("advise", s.url.replace("example:d", "example:e"), status=NOT_FOUND, says="example:e")
    assert os.listdir(".") == [os.path.basename(s.folder)], os.listdir(".")


def test_wrong_use():
    refused("advise", "disk.img", status=USAGE, says="file:disk.img")
    refused("advise", "ram:1M", "ram:2M", status=USAGE, says="one device at a time")
    refused("advise", "--budjet-us", "1", status=USAGE, says="did you mean --budget-us?")
    for value in ("0", "-1", "x", "nan", "1e7", ""):
        refused("advise", "--budget-us", value, status=USAGE, says=["--budget-us", "0.1 to 1000000"])
    refused("advise", "--peer", "h", "nvme+tcp://h/nqn.2026-01.org.example:d", status=USAGE, says="choose one")
    refused("advise", "--peer", ":", status=USAGE, says="host is missing")
    refused("advise", "nvme+tcp://h/", status=USAGE, says="names no subsystem")
    refused("advise", "--size", "5", status=USAGE, says="at least 1M")
    refused("advise", "--folder", "/no/such/folder", status=NOT_FOUND, says=["/no/such/folder", "--folder"])
    refused("advise", "--size", "900T", "--folder", ".", status=FAILED, says=["no room", "--size"])
    refused("advise", "file:none", *SHORT, status=NOT_FOUND, says="none")
    refused("adivse", status=USAGE, says="did you mean 'farlane advise'?")
    assert os.listdir(".") == [], os.listdir(".")


def test_stopped():
    os.makedirs("work")
    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        p = subprocess.Popen([EXE, "advise", "--folder", "work", "--size", "16M"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until("it measures", lambda: any("result" in files for _, _, files in os.walk("work")))
        children = subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True).stdout.split()
        assert len(children) >= 4, children
        p.send_signal(signo)
        out, err = p.communicate(timeout=PATIENCE)
        assert p.returncode == (-signo if signo == signal.SIGKILL else 128 + signo) and not out, (p.returncode, out, err)
        for pid in children:
            wait_until(f"process {pid} ends", lambda: not os.path.exists(f"/proc/{pid}"))
        assert os.listdir("work") == [], os.listdir("work")


def test_nobody_reads():
    os.makedirs("work")
    p = subprocess.Popen([EXE, "advise", "ram:32M", "--folder", "work", *SHORT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    p.stdout.close()
    said = p.stderr.read()
    assert p.wait(PATIENCE) == FAILED and not said and os.listdir("work") == [], said
    p.stderr.close()


main()
