# SPDX-License-Identifier: Apache-2.0
"""T15: IPv6 in every form, and A4: an address that comes later. In a network of its own where that is allowed, else on ::1 only."""
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from farlane import *
from network import add_ipv6

NQN = "nqn.2026-01.org.example:disk"
LONGEST = "2001:db8:1111:2222:3333:4444:5555:6666"
OWN = own_network()


def ip(*args):
    subprocess.run(["ip", *args], check=True)


def works(address):
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen=f"tcp://{address}:0") as s:
        shown = s.ready["listeners"][0]["url"]
        assert address in shown, shown
        found = [e for e in run_json("discover", s.discovery, "--json") if e["nqn"] == NQN]
        assert len(found) == 1 and found[0]["family"] == "ipv6", found
        # What is printed can be pasted back.
        run("info", found[0]["url"])
        run("info", s.url)
        run("write", s.url, "-q", input="hello")
        assert run("read", s.url, "--length", 5).stdout == "hello"
        assert address.strip("[]").split("%")[0] in str(s.get("/v1/listeners")), s.get("/v1/listeners")


def test_t15_loopback():
    works("[::1]")


def test_name_that_cannot_be_asked_for():
    """No name server can be reached: nobody is there, as with a name that does not exist."""
    if OWN:
        for url in (f"nvme+tcp://host.example.com/{NQN}", f"nvme+rdma://host.example.com/{NQN}"):
            refused("info", url, status=UNREACHABLE, says="cannot be found")
    else:
        raise NotTested("no network of its own is allowed")


def test_t15_longest_address():
    if OWN:
        add_ipv6(LONGEST, 128)
        works(f"[{LONGEST}]")
    else:
        raise NotTested("no network of its own is allowed")


def test_t15_scope():
    if OWN:
        add_ipv6("fe80::1", 64)
        works("[fe80::1%lo]")
    else:
        raise NotTested("no network of its own is allowed")


def test_t15_all_addresses():
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen="tcp://[::]:0") as s:
        assert any("[::1]" in url for url in s.urls), s.urls
        for url in s.urls:  # no address that nobody listens on, as IPv4's
            run("info", url)


def test_t15_refused_forms():
    for bad in ("tcp://[::1", "tcp://[::1]x", "tcp://[1::2::3]", "tcp://[::1]:70000"):
        refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", bad, status=USAGE, says="::")


def test_a4_address_that_comes_later():
    if OWN:
        with Serve("--ns", "ram:1M", "--nqn", NQN, listen=["tcp://127.0.0.1:0", "tcp://192.0.2.77:4420"]) as s:
            late = lambda: [l for l in s.get("/v1/listeners")["listeners"] if "192.0.2.77" in l["url"]][0]
            assert late()["state"] == "waiting for address", late()
            ip("addr", "add", "192.0.2.77/32", "dev", "lo")
            wait_until("the listener", lambda: late()["state"] == "listening")
            run("info", f"nvme+tcp://192.0.2.77/{NQN}?ns=1")
    else:
        raise NotTested("no network of its own is allowed")


print(f"{'a network of its own' if OWN else 'no network of its own is allowed here: ::1 only'}")
main()
