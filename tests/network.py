# SPDX-License-Identifier: Apache-2.0
"""Addresses that tests of several folders add, in a network of their own."""
import socket
import subprocess
import time

PATIENCE = 60 # seconds; a guard only, for busy machines


def reachable(address):
    with socket.socket(socket.AF_INET6) as server, socket.socket(socket.AF_INET6) as client:
        try:
            server.bind((address, 0, 0, socket.if_nametoindex("lo")))
            server.listen()
            client.connect(server.getsockname())
        except OSError:
            return False
        return True


def add_ipv6(address, length):
    """The kernel makes the routes of an address a moment after the address, which cannot be used before."""
    subprocess.run(["ip", "addr", "add", f"{address}/{length}", "dev", "lo", "nodad"], check=True)
    until = time.monotonic() + PATIENCE
    while not reachable(address):
        assert time.monotonic() < until, f"{address} cannot be reached after {PATIENCE} s"
        time.sleep(0.05)
