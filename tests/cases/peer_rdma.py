# SPDX-License-Identifier: Apache-2.0
"""A host over RDMA that does what a case asks of it: the verbs are rdma_peer's (plain libibverbs), the bytes are made here.
RdmaQueue has the methods of peer_host.Queue, so that what a case does over TCP it can do over RDMA, too."""
import mmap
import os
import re
import struct
import subprocess
import tempfile
import time

import peer_host
from peer_host import Answer, Ended
from wire import *

SGL_LAST_SEGMENT, SGL_KEYED, SGL_KEYED_INVALIDATE = 0x31, 0x40, 0x4F
HEAP_LEN = 64 << 20
MAX_PIECES = 16
REJ_LEN, REJ_RECFMT, REJ_QID, REJ_HSQSIZE, REJ_HRQSIZE, REJ_RESOURCES, REJ_IRD = 1, 2, 3, 4, 5, 6, 7
SGL_SEGMENT_INVALID, SGL_COUNT_INVALID, SGL_TYPE_INVALID, SGL_OFFSET_INVALID = 0x0D, 0x0E, 0x11, 0x16

# A UDP port and a hub of this test's own, for the server too.
os.environ.setdefault("FARLANE_ROCE_PORT", str(20000 + os.getpid() % 12000))
os.environ.setdefault("FARLANE_HUB", f"farlane-cases-{os.getpid()}")


class Refused(Exception):
    """The target rejected the connection: the CM's reason, and the status in its private data (None without)."""

    def __init__(self, reason, sts):
        super().__init__(f"rejected, reason {reason}, status {sts}")
        self.reason, self.sts = reason, sts


def request_data(qid, hrqsize, hsqsize, cntlid=0, recfmt=0):
    return struct.pack("<HHHHH22x", recfmt, qid, hrqsize, hsqsize, cntlid)


def keyed(addr, length, key, kind=SGL_KEYED):
    return struct.pack("<Q", addr) + struct.pack("<I", length)[:3] + struct.pack("<IB", key, kind)


class Peer:
    """One process with queue pairs."""

    def __init__(self):
        self.file = tempfile.TemporaryFile(prefix="farlane-heap-")
        self.file.truncate(HEAP_LEN)
        self.heap = mmap.mmap(self.file.fileno(), HEAP_LEN)
        env = dict(os.environ, LD_PRELOAD=os.environ["FL_VERBS_LIB"])
        said = subprocess.run(["ldd", os.environ["FL_VERBS_LIB"]], capture_output=True, text=True).stdout
        first = re.findall(r"=> (\S*lib(?:a|ub)san\S*)", said)
        if first:
            env["LD_PRELOAD"] = ":".join([*first, env["LD_PRELOAD"]])
            env["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"
        self.proc = subprocess.Popen([os.environ["FL_RDMA_PEER"], f"/proc/{os.getpid()}/fd/{self.file.fileno()}"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        self.nr_queues, self.at, self.base = 0, 0, None

    def tell(self, *words):
        """A line to the process, without waiting for what it says."""
        self.proc.stdin.write(" ".join(map(str, words)) + "\n")
        self.proc.stdin.flush()

    def hear(self):
        line = self.proc.stdout.readline()
        assert line, "the peer has ended"
        return line.split()

    def ask(self, *words):
        self.tell(*words)
        return self.hear()

    def room(self, length):
        """Where in the heap; what was there longest ago is used again."""
        length = -(-max(length, 1) // 4096) * 4096
        if self.at + length > HEAP_LEN:
            self.at = 0
        self.at += length
        return self.at - length

    def key(self, *words):
        said = self.ask(*words)
        assert said[0] == "key", (words, said)
        return int(said[1])

    def learn(self):
        if self.base is None:
            _, key, base = self.ask("key")
            self.heap_key, self.base = int(key), int(base)

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        self.proc.stdin.close()
        self.proc.stdout.close()


_peer = None


def the_peer():
    global _peer
    if _peer is None or _peer.proc.poll() is not None or _peer.nr_queues >= 250:
        _peer = Peer()
    return _peer


class RdmaQueue:
    def __init__(self, addr, qid=0, sqsize=31, hrqsize=None, hsqsize=None, ird=16, ord_=0, private=None, hold=False, cntlid=0, peer=None,
                 nr_recv=None, **_):
        self.p = peer or the_peer()
        self.n = self.p.nr_queues
        self.p.nr_queues += 1
        self.last_cid, self.answers, self.read_at, self.invalidated, self.is_closed = 0, {}, {}, [], False
        hrqsize = min(sqsize + 1, 65535) if hrqsize is None else hrqsize
        if private is None:
            private = request_data(qid, hrqsize, sqsize if hsqsize is None else hsqsize, cntlid)
        said = self.p.ask("connect", self.n, addr[0], addr[1], ird, ord_, min(hrqsize if nr_recv is None else nr_recv, 1024),
                          1 if hold else 0, private.hex() or "-")
        if said[0] == "rejected":
            data = b"" if said[1] == "-" else bytes.fromhex(said[1])
            self.close()
            raise Refused(int(said[2]), struct.unpack_from("<H", data, 2)[0] if int(said[2]) == 28 and len(data) >= 4 else None)
        assert said[0] == "established", said
        self.p.learn()
        self.crqsize = struct.unpack_from("<H", bytes.fromhex(said[1]), 2)[0]

    def new_cid(self):
        self.last_cid = self.last_cid % 60000 + 1
        return self.last_cid

    def send(self, raw):
        said = self.p.ask("send", self.n, raw.hex())
        if said[0] != "ok":
            raise Ended()

    def describe(self, data=None, length=0):
        """A keyed descriptor of room for data; where it is in the heap."""
        length = len(data) if data is not None else length
        at = self.p.room(length)
        if data is not None:
            self.p.heap[at:at + length] = data
        return (SGL_KEYED, self.p.base + at, length, self.p.heap_key), at

    def start(self, opcode, nsid=0, cdw=(), write=None, read_len=0, in_capsule=False, sgl=None, behind=b"", flags=0x40):
        """Sends a command; its cid. sgl: type, address, length, key instead of the truth; behind: bytes of the capsule behind it."""
        cid = self.new_cid()
        at = None
        if write is not None and in_capsule:
            sgl = sgl or (SGL_IN_CAPSULE, 0, len(write))
            behind = write
        elif write is not None:
            sgl = sgl or self.describe(write)[0]
        elif read_len:
            truth, at = self.describe(length=read_len)
            sgl = sgl or truth
        self.read_at[cid] = (at, read_len)
        self.send(self.sqe(opcode, cid, nsid, sgl, cdw, flags) + behind)
        return cid

    @staticmethod
    def sqe(opcode, cid, nsid=0, sgl=None, cdw=(), flags=0x40):
        raw = bytearray(sqe(opcode, cid, nsid, (0, 0, 0), cdw, flags))
        raw[24:40] = RdmaQueue.sgl(sgl)
        return bytes(raw)

    @staticmethod
    def sgl(s):
        if s is None:
            return keyed(0, 0, 0)
        return keyed(s[1], s[2], s[3] if len(s) > 3 else 0, s[0]) if s[0] >= 0x40 else struct.pack("<QI3xB", s[1], s[2], s[0])

    def take(self, said):
        if said[0] in ("failed", "event"):
            raise Ended(said)
        if said[0] == "nothing":
            return False
        raw = bytes.fromhex(said[1])
        assert len(raw) == 16, f"a response of {len(raw)} bytes"
        dw0, dw1, sqhd, _, cid, word = struct.unpack("<IIHHHH", raw)
        assert cid not in self.answers, f"command {cid} is answered twice"
        at, length = self.read_at.pop(cid, (None, 0))
        data = bytes(self.p.heap[at:at + length]) if at is not None else b""
        if int(said[2]):
            self.invalidated.append(int(said[2]))
        self.answers[cid] = Answer(word >> 1 & 0x7FF, bool(word & 0x8000), dw0, dw1, sqhd, data)
        return True

    def step(self, timeout=30):
        return self.take(self.p.ask("recv", self.n, int(timeout * 1000)))

    def finish(self, cid, timeout=30):
        until = time.monotonic() + timeout
        while cid not in self.answers:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer to command {cid}")
            self.step(left)
        return self.answers.pop(cid)

    def command(self, *args, **more):
        return self.finish(self.start(*args, **more))

    def ended(self, timeout=20):
        until = time.monotonic() + timeout
        while True:
            try:
                self.step(max(until - time.monotonic(), 0.01))
            except Ended as e:
                return e
            assert time.monotonic() < until, "the connection does not end"

    # ---- Fabrics ----

    def raw_command(self, cid, raw, data=b""):
        raw = bytearray(raw)
        raw[24:40] = self.sgl(self.describe(data)[0] if data else None)
        self.read_at[cid] = (None, 0)
        self.send(bytes(raw))
        return self.finish(cid)

    connect = peer_host.Queue.connect
    property = peer_host.Queue.property
    set_property = peer_host.Queue.set_property
    identify = peer_host.Queue.identify
    log_page = peer_host.Queue.log_page
    read = peer_host.Queue.read
    write = peer_host.Queue.write

    def close(self):
        """Without a word, as a process that is killed."""
        if not self.is_closed and self.p.proc.poll() is None:
            self.p.ask("destroy", self.n)
        self.is_closed = True

    def disconnect(self):
        self.p.ask("disconnect", self.n)


class RdmaController(peer_host.Controller):
    def queue(self, qid, sqsize, cntlid=0, **options):
        return RdmaQueue(self.addr, qid=qid, sqsize=sqsize, cntlid=cntlid, **options)
