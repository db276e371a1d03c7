# SPDX-License-Identifier: Apache-2.0
"""Rules of the old iptables in this network namespace, set without its program."""
import ctypes
import os
import socket
import struct

DROP, ACCEPT = -1, -2


def set_old_iptables(rules):
    """The old iptables' table of filters: INPUT with these entries, then dropped; without a program that may not be there. False: this
    kernel has none."""
    base, libc = 64, ctypes.CDLL(None, use_errno=True)  # <linux/netfilter_ipv4/ip_tables.h>

    def entry(verdict, matches=b"", protocol=0):
        target = struct.pack("<H29sBi4x", 40, b"", 0, verdict) if verdict is not None else struct.pack("<H29sB30s2x", 64, b"ERROR", 0, b"ERROR")
        return struct.pack("<80xHxxIHHI16x", protocol, 0, 112 + len(matches), 112 + len(matches) + len(target), 0) + matches + target

    inputs = b"".join(entry(verdict, matches, protocol) for verdict, matches, protocol in rules)
    offsets = [0, len(inputs), len(inputs) + 152, len(inputs) + 304]
    blob = inputs + entry(DROP) + entry(ACCEPT) + entry(ACCEPT) + entry(None)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        info, size = ctypes.create_string_buffer(b"filter", 84), ctypes.c_uint(84)
        if libc.getsockopt(s.fileno(), 0, base, info, ctypes.byref(size)):
            return False
        valid, old = struct.unpack("<32xI40xI4x", info.raw)
        counters = ctypes.create_string_buffer(16 * old)
        table = struct.pack("<32sIII5I5IIQ", b"filter", valid, len(rules) + 4, len(blob), 0, offsets[0], offsets[2], offsets[3], 0,
                            0, offsets[1], offsets[2], offsets[3], 0, old, ctypes.addressof(counters)) + blob
        assert libc.setsockopt(s.fileno(), 0, base, table, len(table)) == 0, os.strerror(ctypes.get_errno())
    return True


def xt(name, revision, info):
    size = 32 + (len(info) + 7) // 8 * 8
    return struct.pack("<H29sB", size, name, revision) + info.ljust(size - 32, b"\0")


def lose(share):
    """A match of so many packets at random."""
    return xt(b"statistic", 0, struct.pack("<HHI8xQ", 0, 0, int(share * 2**31), 0))
