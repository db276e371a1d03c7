# SPDX-License-Identifier: Apache-2.0
"""A host that does what a case asks of it: one connection (Queue), and what it takes to have a controller."""
import collections
import socket
import struct
import time

from wire import *

HOSTNQN = "nqn.2026-01.org.example:case-host"
HOSTID = bytes(range(1, 17))

Answer = collections.namedtuple("Answer", "status dnr dw0 dw1 sqhd data")


class Ended(Exception):
    """The target closed the connection; fes is what its termination request said, None without one."""

    def __init__(self, fes=None, fei=0):
        super().__init__(f"the target ended the connection, FES {fes}, FEI {fei}")
        self.fes, self.fei = fes, fei


class Queue:
    def __init__(self, addr, hdgst=False, ddgst=False, nr_r2t=1, hpda=0):
        self.s = Stream(socket.create_connection(addr, timeout=30))
        self.s.send(IC_REQ, ic_req(hdgst, ddgst, nr_r2t, hpda))
        resp = self.s.recv()
        assert resp is not None and resp.kind == IC_RESP, f"wanted ICResp, got {resp}"
        self.s.hdgst, self.s.ddgst = bool(resp.u16(10) >> 8 & 1), bool(resp.u16(10) >> 8 & 2)
        self.s.pda = ((resp.u16(10) & 255) + 1) * 4
        self.maxh2c = resp.u32(12)
        self.hpda = (hpda + 1) * 4
        self.last_cid = 0
        self.out, self.got, self.answers = {}, {}, {}
        self.pieces = None # how what is sent is cut, see Stream.raw
        self.hold_r2t = False
        self.r2ts = []

    def new_cid(self):
        self.last_cid = self.last_cid % 60000 + 1
        return self.last_cid

    def start(self, opcode, nsid=0, cdw=(), write=None, read_len=0, in_capsule=False, sgl=None, spoil_data=False):
        """Sends a command; its cid. sgl: what the command says instead of the truth."""
        cid = self.new_cid()
        data = b""
        if write is not None and in_capsule:
            sgl = sgl or (SGL_IN_CAPSULE, 0, len(write))
            data = write
        elif write is not None:
            sgl = sgl or (SGL_TRANSPORT, 0, len(write))
            self.out[cid] = write
        elif read_len:
            sgl = sgl or (SGL_TRANSPORT, 0, read_len)
        self.got[cid] = bytearray(read_len)
        self.s.send(CMD, sqe(opcode, cid, nsid, sgl or (0, 0, 0), cdw), data, pieces=self.pieces, spoil_data=spoil_data)
        return cid

    def step(self, timeout=30):
        """Takes one PDU; R2Ts are answered unless hold_r2t."""
        p = self.s.recv(timeout)
        if p is None:
            raise Ended()
        assert p.digests_ok, f"a digest of the target is wrong: {p}"
        if p.kind == C2H_TERM:
            raise Ended(p.u16(8), struct.unpack_from("<I", p.body, 2)[0])
        if p.kind == R2T:
            self.r2ts.append(p)
            if not self.hold_r2t:
                self.answer_r2t(self.r2ts.pop())
        elif p.kind == C2H_DATA:
            assert p.pdo % self.hpda == 0 and p.length == len(p.data), f"data of the target lies wrong: {p}"
            self.got[p.cid][p.offset:p.offset + p.length] = p.data
            if p.flags & F_SUCCESS:
                assert p.flags & F_LAST
                self.answers[p.cid] = Answer(0, False, 0, 0, None, bytes(self.got.pop(p.cid)))
        elif p.kind == RESP:
            cid, word = p.u16(20), p.u16(22)
            assert cid not in self.answers, f"command {cid} is answered twice"
            self.answers[cid] = Answer(word >> 1 & 0x7FF, bool(word & 0x8000), p.u32(8), p.u32(12), p.u16(16),
                                       bytes(self.got.pop(cid, b"")))
        else:
            raise AssertionError(f"a target does not send this: {p}")
        return p

    def answer_r2t(self, r, most=None, spoil_data=False):
        most = min(most or self.maxh2c, self.maxh2c)
        at, end = r.offset, r.offset + r.length
        while at < end:
            n = min(most, end - at)
            self.send_data(r.cid, r.ttag, at, self.out[r.cid][at:at + n], last=at + n == end, spoil_data=spoil_data)
            at += n

    def send_data(self, cid, ttag, offset, data, last=True, length=None, **more):
        self.s.send(H2C_DATA, data_header(cid, ttag, offset, len(data) if length is None else length), data,
                    flags=F_LAST if last else 0, pieces=self.pieces, **more)

    def next_r2t(self, timeout=30):
        self.hold_r2t = True
        while not self.r2ts:
            self.step(timeout)
        return self.r2ts.pop(0)

    def finish(self, cid, timeout=30):
        until = time.monotonic() + timeout
        while cid not in self.answers:
            self.step(max(until - time.monotonic(), 0.01))
        self.out.pop(cid, None)
        return self.answers.pop(cid)

    def command(self, *args, **more):
        return self.finish(self.start(*args, **more))

    def ended(self, timeout=20):
        """Waits for the end of the connection: the Ended, whatever came before it."""
        until = time.monotonic() + timeout
        while True:
            try:
                self.step(max(until - time.monotonic(), 0.01))
            except Ended as e:
                return e

    # ---- Fabrics ----

    def raw_command(self, cid, raw, data=b""):
        self.got[cid] = bytearray()
        self.s.send(CMD, raw, data, pieces=self.pieces)
        return self.finish(cid)

    def connect(self, subnqn, qid=0, sqsize=31, cntlid=0xFFFF, hostnqn=HOSTNQN, hostid=HOSTID, kato_ms=0, cattr=0, recfmt=0):
        cid = self.new_cid()
        return self.raw_command(cid, connect_sqe(cid, qid, sqsize, kato_ms, cattr, recfmt),
                                connect_data(subnqn, hostnqn, hostid, cntlid))

    def property(self, offset, wide=False):
        cid = self.new_cid()
        a = self.raw_command(cid, property_get_sqe(cid, offset, wide))
        assert a.status == OK, a
        return a.dw0 | a.dw1 << 32

    def set_property(self, offset, value):
        cid = self.new_cid()
        return self.raw_command(cid, property_set_sqe(cid, offset, value))

    # ---- commands that many cases use ----

    def identify(self, cns, nsid=0, cdw11=0):
        return self.command(ADM_IDENTIFY, nsid, (cns, cdw11), read_len=4096)

    def log_page(self, lid, length, offset=0, nsid=0xFFFFFFFF, rae=False):
        words = length // 4 - 1
        return self.command(ADM_GET_LOG, nsid, (lid | (1 << 15 if rae else 0) | (words & 0xFFFF) << 16, words >> 16,
                                                offset & 0xFFFFFFFF, offset >> 32), read_len=length)

    def read(self, slba, nr_blocks, block=512, nsid=1):
        return self.command(NVM_READ, nsid, rw_cdw(slba, nr_blocks), read_len=nr_blocks * block)

    def write(self, slba, data, block=512, nsid=1, in_capsule=False):
        return self.command(NVM_WRITE, nsid, rw_cdw(slba, len(data) // block), write=data, in_capsule=in_capsule)

    def close(self):
        self.s.close()


class Controller:
    """An admin queue, enabled, and I/O queues on request. A context manager: all is closed at its end."""

    def __init__(self, addr, subnqn, hostnqn=HOSTNQN, hostid=HOSTID, kato_ms=0, cattr=0, **options):
        self.addr, self.subnqn, self.who, self.options = addr, subnqn, {"hostnqn": hostnqn, "hostid": hostid}, options
        self.cattr = cattr
        self.queues = []
        self.admin = self.queue(qid=0, sqsize=31, **options)
        a = self.admin.connect(subnqn, kato_ms=kato_ms, cattr=cattr, **self.who)
        if a.status != OK:
            self.admin.close()
            raise AssertionError(f"Connect: {a}")
        self.cntlid = a.dw0 & 0xFFFF
        discovery = subnqn == DISCOVERY_NQN
        assert self.admin.set_property(PROP_CC, 1 if discovery else 0x460001).status == OK
        until = time.monotonic() + 20
        while not self.admin.property(PROP_CSTS) & 1:
            assert time.monotonic() < until, "the controller does not become ready"
        if not discovery:
            a = self.admin.command(ADM_SET_FEATURES, 0, (7, 7 << 16 | 7))
            assert a.status == OK, a

    def queue(self, qid, sqsize, cntlid=0, **options):
        """A connection that Connect can be sent on; over TCP it does not say for which queue."""
        return Queue(self.addr, **options)

    def io(self, qid=1, sqsize=31, **options):
        q = self.queue(qid=qid, sqsize=sqsize, cntlid=self.cntlid, **{**self.options, **options})
        a = q.connect(self.subnqn, qid, sqsize, self.cntlid, cattr=self.cattr, **self.who)
        assert a.status == OK, f"Connect of queue {qid}: {a}"
        self.queues.append(q)
        return q

    def close(self):
        for q in self.queues + [self.admin]:
            q.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
