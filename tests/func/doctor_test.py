# SPDX-License-Identifier: Apache-2.0
"""farlane doctor on the machine that runs the test: forms of the report, no privileges, and a mend that doctor then sees."""
import re
import struct

from farlane import *
from old_iptables import *

LEVELS = ["bad", "slow", "hint", "unseen", "ok", "absent"]


def report(*args, **more):
    done = subprocess.run([EXE, "doctor", "--json", *args], capture_output=True, text=True, timeout=60, **more)
    found = json.loads(done.stdout)
    faults = found["counts"]["bad"] + found["counts"]["slow"]
    assert done.returncode == (1 if faults else 0), (done.returncode, found["counts"])
    return found


def of(found, check, subject=None):
    return [f for f in found["findings"] if f["check"] == check and subject in (None, f["subject"])]


def check_form(found):
    assert found["version"] == 1 and found["host"] and found["peer"] is None
    assert sorted(found["counts"]) == sorted(LEVELS)
    for level in LEVELS:
        assert found["counts"][level] == sum(f["level"] == level for f in found["findings"])
    for f in found["findings"]:
        fault = f["level"] in LEVELS[:3]
        assert f["evidence"] and f["what"] and f["how"] and f["sure"] in ("certain", "likely", "maybe"), f
        assert bool(f["cause"]) == fault and bool(f["remedy"]) == fault, f
        assert f["subject"] or f["level"] == "absent", f


def test_json():
    found = report()
    check_form(found)
    listed = [line.split()[0] for line in run("doctor", "--list").stdout.splitlines()[1:]]
    assert {f["check"] for f in found["findings"]} <= set(listed)
    for name in ("rdma-devices", "net-link", "mem-lock", "box-uring", "pci-numa", "cpu-isolated"):
        assert of(found, name), name
    limits = pathlib.Path("/proc/self/limits").read_text()
    assert re.search(r"Max open files +(\d+)", limits)[1] in of(found, "limit-files")[0]["evidence"]


def test_text():
    done = subprocess.run([EXE, "doctor", "--all"], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1) and not done.stderr
    assert re.search(r"^\d+ bad, \d+ slow, \d+ hints, \d+ could not be seen, \d+ right, \d+ of nothing here$", done.stdout, re.M)
    assert "\033" not in done.stdout
    for line in done.stdout.splitlines():
        assert len(line) <= 140, line


def test_one_check():
    found = report("--check", "mem-lock", "--plan", "1")
    assert {f["check"] for f in found["findings"]} == {"mem-lock"} and found["counts"]["ok"] == 1
    refused("doctor", "--check", "no-such", status=USAGE, says="--list")
    refused("doctor", "--json", "--fix", status=USAGE, says="choose one")
    refused("doctor", "--plan", "x", status=USAGE, says="x")


def test_as_nobody():
    """Without privileges: all that can be seen is seen, the rest is told, and the lock limit counts."""
    shutil.copy(EXE, "farlane")
    os.chmod(".", 0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "prlimit", "--memlock=65536:65536"]
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        raise NotTested("no process of another user may be started")
    done = subprocess.run([*command, "./farlane", "doctor", "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done
    found = json.loads(done.stdout)
    check_form(found)
    lock = of(found, "mem-lock")[0]
    assert lock["level"] == "bad" and "64.0 KiB may be locked" in lock["evidence"] and "ulimit -l 1048576" in lock["remedy"], lock
    firewall = of(found, "net-firewall", "nftables")[0]
    assert firewall["level"] == "unseen" and "root" in firewall["evidence"], firewall


def test_counters_under_load():
    start = time.monotonic()
    report("--during", "1", "--check", "congestion-counters")
    assert time.monotonic() - start >= 1


def test_mend():
    """In a network of its own: settings are broken, --fix prints what mends them, and doctor sees that it did."""
    if os.environ.get("FL_OWN_NETWORK") != "1":
        raise NotTested("no network of its own is allowed")
    if not shutil.which("sysctl"):
        raise NotTested("sysctl is not installed")
    conf = pathlib.Path("/proc/sys/net/ipv4")
    (conf / "tcp_sack").write_text("0")
    (conf / "tcp_window_scaling").write_text("0")
    before = report()
    for name in ("tcp_sack", "tcp_window_scaling"):
        assert of(before, "net-tcp-options", name)[0]["level"] == "slow"
    script = subprocess.run([EXE, "doctor", "--fix"], capture_output=True, text=True, timeout=60)
    assert script.returncode == 1
    assert (conf / "tcp_sack").read_text() == "0\n", "--fix ran something"
    mine = [line for line in script.stdout.splitlines() if line.startswith("sysctl -w net/ipv4/")]
    assert "sysctl -w net/ipv4/tcp_sack=1" in mine and "sysctl -w net/ipv4/tcp_window_scaling=1" in mine, script.stdout
    subprocess.run(["sh", "-e"], input="\n".join(mine), text=True, check=True, stdout=subprocess.DEVNULL)
    after = report()
    for name in ("tcp_sack", "tcp_window_scaling"):
        assert of(after, "net-tcp-options", name)[0]["level"] == "ok"
    again = subprocess.run([EXE, "doctor", "--fix"], capture_output=True, text=True, timeout=60).stdout
    assert "net/ipv4/tcp_sack" not in again


def test_old_iptables():
    """Real rules in a network of its own, which doctor reads back."""
    if os.environ.get("FL_OWN_NETWORK") != "1":
        raise NotTested("no network of its own is allowed")
    udp = ACCEPT, xt(b"udp", 0, struct.pack("<4HB", 0, 65535, 4791, 4791, 0)), socket.IPPROTO_UDP
    ports = ACCEPT, xt(b"multiport", 1, struct.pack("<BB15H15BB", 1, 2, 22, 4420, *[0] * 28, 0)), socket.IPPROTO_TCP
    before = pathlib.Path("/proc/net/ip_tables_names")
    if before.exists() and "filter" not in before.read_text():
        assert not of(report(), "net-iptables") and "filter" not in before.read_text(), "a question loaded the table"
    if not set_old_iptables([udp]):
        raise NotTested("this kernel has no old iptables")
    f, = of(report(), "net-iptables", "iptables/INPUT")
    assert f["level"] == "bad" and "rules name 4791 and no 4420" in f["evidence"] and f["remedy"].startswith("iptables -I INPUT"), f
    set_old_iptables([udp, ports])
    f, = of(report(), "net-iptables", "iptables/INPUT")
    assert f["level"] == "ok" and "rules name 4791 and 4420" in f["evidence"], f


own_network()
main()
