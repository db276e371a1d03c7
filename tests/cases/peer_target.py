# SPDX-License-Identifier: Apache-2.0
"""A target that does what a case asks of it: one namespace in memory, a thread for each connection. Cases derive from
Target and tell the lies that they are about."""
import socket
import struct
import threading
import time

from wire import *

SUBNQN = "nqn.2026-01.org.example:case-target"


class Conn:
    """One connection; its queue number is known after Connect."""

    def __init__(self, sock):
        self.s = Stream(sock)
        self.qid = None
        self.maxr2t = 1
        self.fetch = {} # tag: cid, buffer, what to do with it
        self.last_tag = 0
        self.held_events = []
        self.term = None # FES of the host's termination request
        self.ended = threading.Event()

    def respond(self, cid, status=0, dw0=0, dw1=0):
        self.s.send(RESP, cqe(cid, status, dw0, dw1))

    def send_data(self, cid, data, flags=F_LAST, offset=0, length=None, **more):
        self.s.send(C2H_DATA, data_header(cid, 0, offset, len(data) if length is None else length), data, flags=flags, **more)

    def ask_data(self, cid, length, then):
        self.last_tag += 1
        self.fetch[self.last_tag] = (cid, bytearray(length), then)
        self.s.send(R2T, data_header(cid, self.last_tag, 0, length))


class Command:
    def __init__(self, raw, data):
        self.raw, self.data = raw, data
        self.opcode, self.flags, self.cid, self.nsid = struct.unpack_from("<BBHI", raw)
        self.fctype = raw[4]
        self.sgl_addr, self.sgl_len, self.sgl_type = struct.unpack_from("<QI3xB", raw, 24)
        self.cdw = struct.unpack_from("<6I", raw, 40)

    slba = property(lambda self: self.cdw[0] | self.cdw[1] << 32)
    nr_blocks = property(lambda self: (self.cdw[2] & 0xFFFF) + 1)


class Target:
    capsule_len = 8192
    maxh2cdata = 1 << 17
    block = 512

    def __init__(self, nr_blocks=8192, address="127.0.0.1"):
        self.disk = bytearray(nr_blocks * self.block)
        self.conns, self.seen = [], [] # seen: (time, qid, opcode)
        self.cc = {}
        self.listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.listener.bind((address, 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        host = f"[{address}]" if ":" in address else address
        self.discovery_url = f"nvme+tcp://{host}:{self.port}"
        self.url = f"{self.discovery_url}/{SUBNQN}?ns=1"
        self.last_cntlid = 0
        self.fault = None # what went wrong in a thread of ours
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.listener.close()
        for c in self.conns:
            c.s.close()
        if kind is None and self.fault:
            raise self.fault

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            conn = Conn(sock)
            self.conns.append(conn)
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            self.ic(conn)
            while self.step(conn):
                pass
        except (OSError, socket.timeout):
            pass
        except Exception as e:
            self.fault = self.fault or e
            conn.s.close()
        conn.ended.set()

    def ic(self, conn):
        req = conn.s.recv(600)
        assert req is not None and req.kind == IC_REQ, req
        digests = req.body[3]
        conn.s.pda = (req.body[2] + 1) * 4
        conn.maxr2t = req.u32(12) + 1
        conn.s.send(IC_RESP, self.ic_resp(conn, digests))
        conn.s.hdgst, conn.s.ddgst = bool(digests & 1), bool(digests & 2)

    def ic_resp(self, conn, digests):
        return ic_resp(digests & 1, digests & 2, self.maxh2cdata)

    def step(self, conn):
        p = conn.s.recv(600)
        if p is None:
            return False
        if p.kind == H2C_TERM:
            conn.term = p.u16(8)
            return False
        assert p.digests_ok, f"a digest of the host is wrong: {p}"
        if p.kind == CMD:
            c = Command(p.body, p.data)
            self.seen.append((time.monotonic(), conn.qid, c.opcode))
            self.command(conn, c)
        elif p.kind == H2C_DATA:
            self.data(conn, p)
        else:
            raise AssertionError(f"a host does not send this: {p}")
        return True

    def data(self, conn, p):
        cid, buf, then = conn.fetch[p.ttag]
        assert p.cid == cid and p.length == len(p.data) <= self.maxh2cdata, p
        assert p.offset + p.length <= len(buf), p
        buf[p.offset:p.offset + p.length] = p.data
        assert bool(p.flags & F_LAST) == (p.offset + p.length == len(buf)), f"LAST is wrong: {p}"
        if p.flags & F_LAST:
            del conn.fetch[p.ttag]
            then(bytes(buf))

    # ---- commands ----

    def command(self, conn, c):
        if c.opcode == FABRICS:
            self.fabrics(conn, c)
        elif conn.qid == 0:
            self.admin(conn, c)
        elif c.opcode == NVM_READ:
            self.read(conn, c)
        elif c.opcode == NVM_WRITE:
            self.with_data(conn, c, lambda data: self.write(conn, c, data))
        else:
            conn.respond(c.cid, OK if c.opcode == NVM_FLUSH else INVALID_OPCODE)

    def with_data(self, conn, c, then):
        if c.sgl_type == SGL_IN_CAPSULE:
            assert len(c.data) == c.sgl_len
            then(c.data)
        else:
            conn.ask_data(c.cid, c.sgl_len, then)

    def fabrics(self, conn, c):
        if c.fctype == FC_CONNECT:
            self.connect(conn, c)
        elif c.fctype == FC_PROP_GET:
            value = self.property(struct.unpack_from("<I", c.raw, 44)[0])
            conn.respond(c.cid, 0, value & 0xFFFFFFFF, value >> 32)
        elif c.fctype == FC_PROP_SET:
            self.cc[0] = struct.unpack_from("<Q", c.raw, 48)[0]
            conn.respond(c.cid)
        else:
            conn.respond(c.cid)

    def connect(self, conn, c):
        conn.qid, conn.cattr = struct.unpack_from("<H", c.raw, 42)[0], c.raw[46]
        cntlid = struct.unpack_from("<H", c.data, 16)[0]
        if not conn.qid:
            self.last_cntlid += 1
            cntlid = self.last_cntlid
            conn.subnqn = c.data[256:512].split(b"\0")[0].decode()
            conn.cntlid = cntlid
        conn.respond(c.cid, 0, cntlid)

    def property(self, offset):
        return {PROP_CAP: 127 | 1 << 16 | 20 << 24 | 1 << 37, PROP_VS: 0x00010400, PROP_CC: self.cc.get(0, 0),
                PROP_CSTS: 1 | (8 if self.cc.get(0, 0) & 0xC000 else 0)}[offset]

    def admin(self, conn, c):
        if c.opcode == ADM_IDENTIFY:
            page = self.identify(conn, c.cdw[0] & 255, c.nsid)
            if page is None:
                conn.respond(c.cid, INVALID_FIELD)
            else:
                self.answer_data(conn, c.cid, bytes(page))
        elif c.opcode == ADM_GET_LOG:
            length = ((c.cdw[0] >> 16 | (c.cdw[1] & 0xFFFF) << 16) + 1) * 4
            page = self.log_page(c.cdw[0] & 255, c.cdw[2] | c.cdw[3] << 32, length)
            self.answer_data(conn, c.cid, bytes(page[:length]).ljust(length, b"\0"))
        elif c.opcode == ADM_AER:
            conn.held_events.append(c.cid)
        elif c.opcode == ADM_SET_FEATURES:
            conn.respond(c.cid, 0, c.cdw[1] if c.cdw[0] & 255 == 7 else 0)
        else:
            conn.respond(c.cid)

    def answer_data(self, conn, cid, data):
        conn.send_data(cid, data)
        conn.respond(cid)

    def identify(self, conn, cns, nsid):
        page = bytearray(4096)
        if cns == 1:
            return self.identify_ctrl(conn, page)
        if cns == 0 and nsid == 1:
            blocks = len(self.disk) // self.block
            struct.pack_into("<QQQ", page, 0, blocks, blocks, blocks)
            page[130] = self.block.bit_length() - 1
        elif cns == 2 and nsid == 0:
            struct.pack_into("<I", page, 0, 1)
        elif cns == 3 and nsid == 1:
            page[0:4] = bytes([3, 16, 0, 0])
            page[4:20] = bytes(range(100, 116))
        elif cns != 0:
            return None
        return page

    def identify_ctrl(self, conn, page):
        def put(form, at, value):
            struct.pack_into(form, page, at, value)
        discovery = conn.subnqn == DISCOVERY_NQN
        page[4:24] = b"CASE".ljust(20)
        page[24:64] = b"a target of the cases".ljust(40)
        page[64:72] = b"1".ljust(8)
        put("<B", 77, 8)                           # MDTS: 1 MiB
        put("<H", 78, conn.cntlid)
        put("<I", 80, 0x00010400)                  # VER
        put("<B", 111, 2 if discovery else 1)      # CNTRLTYPE
        put("<H", 320, 10)                         # KAS
        put("<B", 512, 0x66)
        put("<B", 513, 0x44)
        put("<H", 514, 128)                        # MAXCMD
        put("<I", 516, 0 if discovery else 1024)   # NN
        put("<I", 536, 1 | 1 << 20)                # SGLS: supported, in-capsule offset
        put("<I", 540, 0 if discovery else 1024)   # MNAN
        page[768:1024] = conn.subnqn.encode().ljust(256, b"\0")
        put("<I", 1792, (64 + self.capsule_len) // 16)
        put("<I", 1796, 1)
        return page

    def log_page(self, lid, offset, length):
        return bytes(length)

    def read(self, conn, c):
        at = c.slba * self.block
        self.answer_data(conn, c.cid, bytes(self.disk[at:at + c.nr_blocks * self.block]))

    def write(self, conn, c, data):
        at = c.slba * self.block
        self.disk[at:at + len(data)] = data
        conn.respond(c.cid)


def discovery_entry(subnqn=SUBNQN, traddr="127.0.0.1", trsvcid="4420", treq=0, sectype=0, subtype=2, raw_traddr=None):
    e = bytearray(1024)
    e[0:4] = bytes([3, 1, subtype, treq])
    struct.pack_into("<HHH", e, 4, 1, 0xFFFF, 32)
    e[32:64] = trsvcid.encode().ljust(32)
    e[256:512] = subnqn.encode().ljust(256, b"\0")
    e[512:768] = raw_traddr if raw_traddr is not None else traddr.encode().ljust(256)
    e[768] = sectype
    return bytes(e)


class DiscoveryTarget(Target):
    """Its log: a generation and entries; before each piece is read, on_read(offset) may change them."""

    def __init__(self, entries):
        self.entries, self.genctr = list(entries), 1
        self.nr_said = None
        self.reads = []
        super().__init__(nr_blocks=8)

    def on_read(self, offset):
        pass

    def log_page(self, lid, offset, length):
        assert lid == 0x70, lid
        self.on_read(offset)
        self.reads.append((offset, length))
        head = struct.pack("<QQH1006x", self.genctr, len(self.entries) if self.nr_said is None else self.nr_said, 0)
        return (head + b"".join(self.entries))[offset:offset + length]
