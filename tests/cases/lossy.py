# SPDX-License-Identifier: Apache-2.0
"""Two networks of their own with a wire between them that a case may cut, and that loses, doubles and delays what the case says.
The wire is a TUN device in each network; every packet passes through this process."""
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
ROCE_PORT = 4791
CM_QPN = 1
CM_REQ, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16


def cm_message(packet):
    """Which of the connection manager's messages an IPv4 packet carries; None."""
    if packet[0] >> 4 != 4 or packet[9] != 17:
        return None
    at = (packet[0] & 15) * 4
    if struct.unpack_from(">H", packet, at + 2)[0] != ROCE_PORT or len(packet) < at + 8 + 12 + 8 + 24:
        return None
    bth = at + 8
    if packet[bth] != 0x64 or int.from_bytes(packet[bth + 5:bth + 8], "big") != CM_QPN: # UD SEND only
        return None
    mad = bth + 12 + 8
    return struct.unpack_from(">H", packet, mad + 16)[0] if packet[mad + 1] == 7 else None # class CM


class Network:
    """A process that holds a network namespace with one TUN device; None in tun where that is not allowed."""

    def __init__(self, addr, peer):
        ready, self.end = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(ready[0])
                os.close(self.end[1])
                import ctypes
                ok = ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
                os.write(ready[1], b"1" if ok else b"0")
                os.read(self.end[0], 1) # until told
            finally:
                os._exit(0)
        os.close(ready[1])
        os.close(self.end[0])
        self.ok = os.read(ready[0], 1) == b"1"
        os.close(ready[0])
        self.addr, self.tun = addr, None
        if self.ok:
            self.tun = self.within(self.make_tun)
            for command in (f"ip addr add {addr}/32 dev wire", "ip link set wire mtu 4400 up", "ip link set lo up", f"ip route add {peer}/32 dev wire"):
                subprocess.run([*self.prefix(), *command.split()], check=True)

    def prefix(self):
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def within(self, what):
        """Runs what() in the network and comes back."""
        libc = __import__("ctypes").CDLL(None, use_errno=True)
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            assert libc.setns(there, CLONE_NEWNET) == 0
            return what()
        finally:
            libc.setns(home, CLONE_NEWNET)
            os.close(home)
            os.close(there)

    @staticmethod
    def make_tun():
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN | IFF_NO_PI))
        return fd

    def close(self):
        if self.tun is not None:
            os.close(self.tun)
        os.write(self.end[1], b"x") # others were forked with this descriptor open: its end alone says nothing
        os.close(self.end[1])
        os.waitpid(self.pid, 0)


def late_copies(chance, share=0.1, delay=0.02):
    """A rule: nothing is lost, and that share of the packets comes once more, long after it was answered."""
    return lambda packet, from_host: [0, delay] if chance.random() < share else [0]


class Wire:
    """rule(packet, from_host) says what happens to one: a list of delays in seconds, one for each copy that arrives; [] loses it."""

    def __init__(self):
        self.target, self.host = Network("10.77.0.1", "10.77.0.2"), Network("10.77.0.2", "10.77.0.1")
        self.rule = lambda packet, from_host: [0]
        self.over, self.nr_lost, self.seen = False, 0, []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        fds = {self.target.tun: (self.host.tun, False), self.host.tun: (self.target.tun, True)}
        late, order = [], itertools.count()
        while not self.over:
            wait = min(0.1, late[0][0] - time.monotonic()) if late else 0.1
            for fd in select.select(list(fds), [], [], max(wait, 0))[0]:
                try:
                    packet = os.read(fd, 65536)
                except BlockingIOError:
                    continue
                to, from_host = fds[fd]
                kind = cm_message(packet)
                if kind is not None:
                    self.seen.append((kind, from_host))
                copies = self.rule(packet, from_host)
                self.nr_lost += not copies
                for delay in copies:
                    heapq.heappush(late, (time.monotonic() + delay, next(order), to, packet))
            while late and late[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(late)
                try:
                    os.write(to, packet)
                except OSError:
                    pass

    def close(self):
        self.over = True
        self.thread.join()
        self.target.close()
        self.host.close()


def allowed():
    """Network namespaces and TUN devices may be had here."""
    if os.getuid() or not os.path.exists("/dev/net/tun"):
        return False
    n = Network("10.77.0.1", "10.77.0.2") if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0 else None
    if n is None:
        return False
    n.close()
    return True
