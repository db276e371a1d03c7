# SPDX-License-Identifier: Apache-2.0
"""icrc.py FILE.pcap ADDRESS...: the ICRC of every RoCE v2 packet; each address must have sent some. Knows no code of farlane."""
import ipaddress
import struct
import sys
import zlib


def packets(path):
    data = open(path, "rb").read()
    at = 24
    while at < len(data):
        kept, length = struct.unpack_from("<II", data, at + 8)
        assert kept == length, "a packet was not captured whole"
        yield data[at + 16 : at + 16 + kept]
        at += 16 + kept


def parts(frame):
    """Sender, header of IP with what may change on the way as ones, and what follows it."""
    kind = struct.unpack_from(">H", frame, 12)[0]
    ip = frame[14:]
    if kind == 0x0800:
        ip = ip[: struct.unpack_from(">H", ip, 2)[0]]
        head = bytearray(ip[:20])
        assert head[0] == 0x45
        head[1] = head[8] = head[10] = head[11] = 0xFF  # TOS, TTL, checksum
        return ipaddress.ip_address(ip[12:16]), bytes(head), ip[20:]
    assert kind == 0x86DD
    ip = ip[: 40 + struct.unpack_from(">H", ip, 4)[0]]
    head = bytearray(ip[:40])
    head[0] |= 0x0F
    head[1] = head[2] = head[3] = head[7] = 0xFF  # traffic class, flow label, hop limit
    return ipaddress.ip_address(ip[8:24]), bytes(head), ip[40:]


def right(head, rest):
    udp, bth, tail, icrc = bytearray(rest[:8]), bytearray(rest[8:20]), rest[20:-4], rest[-4:]
    udp[6] = udp[7] = 0xFF
    bth[4] = 0xFF
    covered = b"\xff" * 8 + head + udp + bth + tail
    return zlib.crc32(covered) == struct.unpack("<I", icrc)[0]


def main():
    seen, wrong = {}, 0
    for n, frame in enumerate(packets(sys.argv[1]), 1):
        sender, head, rest = parts(frame)
        seen[sender] = seen.get(sender, 0) + 1
        if not right(head, rest):
            wrong += 1
            print(f"FAILED: packet {n} of {sender}: its ICRC is wrong")
    for address in sys.argv[2:]:
        sent = seen.get(ipaddress.ip_address(address), 0)
        print(f"{address}: {sent} packets")
        wrong += sent == 0
    sys.exit(1 if wrong else 0)


main()
