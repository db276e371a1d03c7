# SPDX-License-Identifier: Apache-2.0
"""Addresses that tests of several folders add, in a network of their own."""
import subprocess
import time

PATIENCE = 60 # seconds; a guard only, for busy machines


def add_ipv6(address, length):
    """The kernel makes the route of an address a moment after the address, which cannot be used before."""
    subprocess.run(["ip", "addr", "add", f"{address}/{length}", "dev", "lo", "nodad"], check=True)
    until = time.monotonic() + PATIENCE
    while subprocess.run(["ip", "-6", "route", "get", address, "oif", "lo"], capture_output=True).returncode:
        assert time.monotonic() < until, f"there is no route to {address} after {PATIENCE} s"
        time.sleep(0.05)
