# SPDX-License-Identifier: Apache-2.0
"""Cases with addresses that come and go: in a network of their own. Status 77 where that is not allowed."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from network import add_ipv6
from peer_host import Controller
from product import NQN, Server, run, wait_until
from runner import main
from wire import *


def own_network():
    """A network of our own, for addresses that come and go; False where that is not allowed."""
    if not shutil.which("ip"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(0x40000000 if uid == 0 else 0x50000000) != 0:
        return False
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as f:
                f.write(text)
    return subprocess.run(["ip", "link", "set", "lo", "up"]).returncode == 0


def case_A4_address_that_comes_later():
    with Server("ram:16M", listen=("tcp://127.0.0.1:0", "tcp://192.0.2.77:4420"), settle=False) as s:
        def late():
            return [l for l in s.ctl("list")["listeners"] if "192.0.2.77" in l["url"]][0]
        assert late()["state"] == "waiting for address", late()
        subprocess.run(["ip", "addr", "add", "192.0.2.77/32", "dev", "lo"], check=True)
        wait_until("the late listener", lambda: late()["state"] == "listening")
        with Controller(("192.0.2.77", 4420), NQN) as c:
            assert c.io().read(0, 1).status == OK


def case_T15_ipv6_addresses_of_all_lengths():
    """39 characters that do not get shorter, and an address that needs a scope. (::1 is a case of tcp_cases.py.)"""
    longest = "2001:db80:1111:2222:3333:4444:5555:6666"
    assert len(longest) == 39
    for address, length, written in ((longest, 128, longest), ("fe80::1", 64, "fe80::1%lo")):
        add_ipv6(address, length)
        with Server("ram:16M", listen=(f"tcp://[{written}]:0",), settle=False) as s:
            assert f"[{written}]" in s.ready["listeners"][0]["url"], s.ready
            s.serves()
            found = json.loads(run("discover", f"nvme+tcp://[{written}]:{s.addr[1]}", "--json").stdout)
            mine = [e for e in found if e["nqn"] == NQN]
            assert len(mine) == 1 and mine[0]["family"] == "ipv6", found
            for url in (mine[0]["url"], s.url): # what is printed can be pasted back
                assert json.loads(run("info", url, "--json").stdout)["size"] == 16 << 20


if not own_network():
    print("skipped: a network of our own is not allowed here")
    sys.exit(77)
main()
