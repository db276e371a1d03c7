# SPDX-License-Identifier: Apache-2.0
"""NVMe/TCP: what broken, hostile and merely unusual hosts send to `farlane serve`. The names are those of docs/cases.md."""
import concurrent.futures
import os
import random
import socket
import struct
import time

from gated import Gated
from peer_host import HOSTNQN, Controller, Queue
from product import NQN, Server, run, wait_until
from runner import main
from wire import *


def fatal(q, *fes, fei=None, timeout=20):
    e = q.ended(timeout)
    assert e.fes in fes, f"wanted FES {fes}, the connection ended with {e.fes} (FEI {e.fei})"
    assert fei is None or e.fei == fei, f"wanted FEI {fei}, got {e.fei}"
    q.close()


def pattern(length, seed=1):
    return random.Random(seed).randbytes(length)


# ---- set-up ----

def case_T1_port_scanner():
    """200 connections that send rubbish and go away at once, half of them by a reset."""
    rnd = random.Random(1)
    good = pack(IC_REQ, ic_req())
    kinds = [
        lambda: rnd.randbytes(rnd.randrange(1, 400)),
        lambda: pack(IC_REQ, ic_req(), plen=rnd.choice((0, 8, 127, 129, 0xFFFFFFFF))),
        lambda: pack(IC_REQ, ic_req(), hlen=rnd.choice((0, 8, 24, 127, 129, 255))),
        lambda: pack(IC_REQ, ic_req(pfv=1)),
        lambda: good[:rnd.randrange(0, 128)],
        lambda: pack(CMD, sqe(NVM_READ, 1, 1)),
        lambda: good + rnd.randbytes(100),
        lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    with Server("ram:16M") as s:
        before = s.fds()
        for i in range(200):
            sock = socket.create_connection(s.addr)
            sock.sendall(kinds[i % len(kinds)]())
            if i % 2:
                Stream(sock).reset()
            else:
                sock.close()
        s.serves()
        wait_until("all descriptors to be closed", lambda: s.fds() <= before)


def case_T1_goodbye_is_said_where_it_can_be():
    """The same faults from somebody who stays: a termination request, then the end."""
    with Server("ram:16M") as s:
        for bad, fes, fei in ((pack(IC_REQ, ic_req(), hlen=8), FES_HEADER, 2), (pack(IC_REQ, ic_req(), plen=129), FES_HEADER, 4),
                              (pack(IC_REQ, ic_req(pfv=1)), FES_UNSUPPORTED, 8), (pack(IC_REQ, ic_req(hpda=32)), FES_HEADER, 10),
                              (pack(CMD, sqe(NVM_READ, 1, 1)), FES_SEQUENCE, None)):
            st = Stream(socket.create_connection(s.addr))
            st.raw(bad)
            p = st.recv()
            assert p is not None and p.kind == C2H_TERM and p.u16(8) == fes, (p, fes)
            assert fei is None or struct.unpack_from("<I", p.body, 2)[0] == fei, p
            assert bad.startswith(p.data) and p.data, "the header at fault comes back"
            assert st.recv() is None
            st.close()


def case_T1_spoiled_sessions():
    """What a real host sends, from ICReq to I/O, with a few bytes of it changed, left out or doubled: 300 times."""
    rnd = random.Random(2)
    with Server("ram:16M") as s:
        sent = []

        class Recorded(Stream):
            def raw(self, raw, pieces=None):
                sent.append(raw)
                super().raw(raw, pieces)

        def session(recorder):
            with Controller(s.addr, NQN) as c:
                q = c.admin if recorder == "admin" else Queue(s.addr)
                q.s.__class__ = Recorded
                if recorder == "admin":
                    for cns, nsid in ((0, 1), (1, 0), (2, 0), (3, 1), (6, 0)):
                        q.identify(cns, nsid)
                    for lid in (1, 2, 3, 4, 5, 12):
                        q.log_page(lid, 512)
                    q.command(ADM_SET_FEATURES, 0, (11, 0x100))
                    q.command(ADM_ABORT, 0, (1 << 16 | 1,))
                    q.start(ADM_AER)
                    return
                sent.append(pack(IC_REQ, ic_req()))
                assert q.connect(NQN, 1, 31, c.cntlid).status == OK
                for n in (512, 4096, 65536):
                    q.write(8, pattern(n), in_capsule=n < 65536)
                    q.read(8, n // 512)
                q.command(9, 1, (0, 4), write=struct.pack("<IIQ", 0, 8, 0), in_capsule=True)
                q.command(NVM_COMPARE, 1, rw_cdw(0, 1), write=bytes(512))
                q.command(0x0D, 1, (0,), write=bytes(16), in_capsule=True)   # Reservation Register
                q.command(0x19, 1, (64, 0, 0), write=struct.pack("<8xQH14x", 0, 7), in_capsule=True) # Copy
                q.close()

        session("io")
        io, sent = sent, []
        session("admin")
        admin = [pack(IC_REQ, ic_req()), pack(CMD, connect_sqe(1, 0, 31), connect_data(NQN, HOSTNQN, bytes([7] * 16), 0xFFFF)),
                 pack(CMD, property_set_sqe(2, PROP_CC, 0x460001))] + sent
        for n in range(300):
            with Controller(s.addr, NQN) if n % 2 else Nothing() as c:
                pdus = list(io if n % 2 else admin)
                if n % 2: # an I/O queue of the controller that stands now
                    pdus[1] = pack(CMD, connect_sqe(1, 1, 31), connect_data(NQN, HOSTNQN, bytes(range(1, 17)), c.cntlid))
                first = rnd.choice((0, 0, 2, 3))
                for _ in range(rnd.randrange(1, 4)):
                    i = rnd.randrange(first, len(pdus))
                    what, b = rnd.randrange(5), bytearray(pdus[i])
                    at = rnd.randrange(min(len(b), 128) if what < 3 else len(b)) if b else 0
                    if what < 2 and b:
                        b[at] = rnd.choice((0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)))
                    elif what == 2 and b:
                        b[at] ^= 1 << rnd.randrange(8)
                    elif what == 3:
                        del b[at:at + rnd.choice((1, 4, 1000))]
                    else:
                        b = b + b
                    pdus[i] = bytes(b)
                st = Stream(socket.create_connection(s.addr))
                try:
                    for p in pdus:
                        st.raw(p)
                    st.sock.shutdown(socket.SHUT_WR)
                    while n % 7 and st.sock.recv(1 << 16): # all of it is to be looked at
                        pass
                except OSError:
                    pass
                st.close() if n % 7 else st.reset()
        s.serves()


class Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        pass


def case_T3_healthy_but_quiet():
    """Longer than the time that set-up may take (10 s): a queue with a light load, one without a PDU, and one command that is
    as long in the back end. Only somebody who never gets to Connect is dropped."""
    with Gated() as g, Controller(g.s.addr, NQN, kato_ms=3000) as c:
        steady, quiet, slow = c.io(1), c.io(2), c.io(3)
        silent = Stream(socket.create_connection(g.s.addr))
        connected = Queue(g.s.addr)
        g.hold()
        held = slow.start(NVM_READ, 1, rw_cdw(0, 8), read_len=4096)
        at = time.monotonic()
        while time.monotonic() - at < 12:
            assert c.admin.command(ADM_KEEP_ALIVE).status == OK
            assert steady.command(NVM_WRITE_ZEROES, 1, rw_cdw(1 << 40, 1)).status == LBA_RANGE
            time.sleep(0.5)
        g.release()
        assert slow.finish(held).status == OK
        assert quiet.read(0, 8).status == OK
        assert silent.recv(20) is None, "who says nothing is not kept for ever"
        connected.ended(20)
        silent.close()
        connected.close()


def case_T4_header_length_lies():
    """HLEN is checked before anything is computed over it, with and without a header digest."""
    with Server("ram:16M") as s:
        for hdgst in (False, True):
            for kind, body in ((CMD, sqe(NVM_READ, 1, 1)), (H2C_DATA, data_header(1, 1, 0, 512)), (H2C_TERM, bytes(16))):
                for hlen in (0, 7, 8, HLEN[kind] - 1, HLEN[kind] + 1, 255):
                    q = Queue(s.addr, hdgst=hdgst)
                    q.s.send(kind, body, bytes(512) if kind == H2C_DATA else b"", hlen=hlen, plen=max(hlen, 200) + 16)
                    fatal(q, FES_HEADER, fei=2)
            for kind in (IC_RESP, C2H_TERM, RESP, C2H_DATA, R2T, 8, 10, 255): # what a host never sends
                q = Queue(s.addr, hdgst=hdgst)
                q.s.raw(struct.pack("<BBBBI", kind, 0, 24, 0, 24) + bytes(16))
                fatal(q, FES_HEADER, FES_SEQUENCE)
        s.serves()


# ---- data that nobody asked for ----

def case_T5_a_h2cdata_with_unknown_tag():
    with Server("ram:16M") as s:
        for ttag in (0, 1, 0x1234, 0xFFFF):
            with Controller(s.addr, NQN) as c:
                q = c.io()
                q.send_data(1, ttag, 0, bytes(512))
                fatal(q, FES_HEADER, FES_SEQUENCE, fei=10)
        s.serves()


def case_T5_b_h2cdata_while_the_command_waits_for_a_buffer():
    """No R2T has gone out: the command has no tag yet, neither an old one nor its identifier."""
    with Gated(size=8 << 20, args=("--buffers", "1M", "--mdts", "1M")) as g:
        for old in (True, False):
            with Controller(g.s.addr, NQN) as c:
                q, holder = c.io(1), c.io(2)
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, 128), write=bytes(65536))
                tag = q.next_r2t()
                q.answer_r2t(tag)
                assert q.finish(cid).status == OK
                g.hold()
                for i in range(4):
                    holder.start(NVM_READ, 1, rw_cdw(i * 2048, 2048), read_len=1 << 20)
                wait_until("the pool to be empty", lambda: waits(g.s))
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, 2048), write=bytes(1 << 20))
                time.sleep(0.1)
                q.send_data(cid, tag.ttag if old else cid, 0, bytes(4096), last=False)
                fatal(q, FES_HEADER, FES_SEQUENCE)
                g.release()
            g.s.wait_empty()


def waits(s):
    return sum(l["buffers"]["waits"] for l in s.get("status")["loops"])


def case_T5_c_h2cdata_twice_for_one_r2t():
    with Server("ram:16M") as s:
        for length in (4096, 65536):
            with Controller(s.addr, NQN) as c:
                q = c.io()
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, length // 512), write=bytes(length))
                r = q.next_r2t()
                q.answer_r2t(r)
                assert q.finish(cid).status == OK
                q.send_data(cid, r.ttag, 0, bytes(length))
                fatal(q, FES_HEADER, FES_SEQUENCE)
            with Controller(s.addr, NQN) as c: # the two in one piece, before any answer
                q = c.io()
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, length // 512), write=bytes(length))
                r = q.next_r2t()
                one = pack(H2C_DATA, data_header(cid, r.ttag, 0, length), bytes(length), flags=F_LAST)
                q.s.raw(one + one)
                fatal(q, FES_HEADER, FES_SEQUENCE, FES_RANGE)
        s.serves()


def case_T5_d_connect_without_its_data():
    """Connect as a plain command. Its data may come by R2T; without a description of data it is refused, and data that
    comes all the same is nobody's."""
    with Server("ram:16M") as s:
        q = Queue(s.addr)
        cid = q.new_cid()
        q.out[cid], q.got[cid] = connect_data(NQN, HOSTNQN, bytes(range(16)), 0xFFFF), bytearray()
        q.s.send(CMD, connect_sqe(cid, 0, 31, sgl=(SGL_TRANSPORT, 0, 1024)))
        assert q.finish(cid).status == OK
        q.close()
        for sgl in ((SGL_TRANSPORT, 0, 0), (SGL_IN_CAPSULE, 0, 1024), (0, 0, 0), (SGL_TRANSPORT, 0, 1 << 30)):
            q = Queue(s.addr)
            cid = q.new_cid()
            q.s.send(CMD, connect_sqe(cid, 0, 31, sgl=sgl))
            a = q.finish(cid)
            assert a.status != OK, (sgl, a)
            q.send_data(cid, 0, 0, bytes(1024))
            fatal(q, FES_HEADER, FES_SEQUENCE)
        q = Queue(s.addr) # and data right behind it, before anything is answered
        q.hold_r2t = True
        q.s.raw(pack(CMD, connect_sqe(1, 0, 31, sgl=(SGL_TRANSPORT, 0, 1024))) +
                pack(H2C_DATA, data_header(1, 0xFFFF, 0, 1024), bytes(1024), flags=F_LAST))
        fatal(q, FES_HEADER, FES_SEQUENCE)
        s.serves()


# ---- data out of range ----

def write_asked(c, length=8192):
    q = c.io()
    cid = q.start(NVM_WRITE, 1, rw_cdw(0, length // 512), write=bytes(length))
    return q, cid, q.next_r2t()


def case_T6_h2cdata_out_of_range():
    #        first data  then: offset, data, DATAL said, LAST; what may come
    table = [(None, (4096, 4096, None, True), (FES_RANGE,)),             # starts behind the window's start
             (None, (8192, 4096, None, True), (FES_RANGE,)),
             (None, (0xFFFFF000, 4096, None, True), (FES_RANGE,)),       # wraps
             (None, (0, 12288, None, True), (FES_RANGE,)),               # longer than the window
             (4096, (0, 4096, None, True), (FES_RANGE,)),                # backwards
             (4096, (4096, 8192, None, True), (FES_RANGE,)),             # past the end
             (4096, (4100, 4092, None, True), (FES_RANGE,)),             # a gap
             (None, (0, 0, 0, True), (FES_HEADER, FES_RANGE)),           # nothing
             (None, (0, 4096, 0, True), (FES_HEADER, FES_RANGE)),
             (None, (0, 4096, 8192, True), (FES_HEADER, FES_RANGE)),     # more than PLEN has room for
             (None, (0, 8192, 4096, True), (FES_HEADER, FES_RANGE)),
             (None, (0, 4096, 0xFFFFFFFF, True), (FES_HEADER, FES_RANGE, FES_LIMIT)),
             (None, (0, 4096, None, True), (FES_HEADER,)),               # LAST too early
             (None, (0, 8192, None, False), (FES_HEADER,))]              # no LAST at the end
    with Server("ram:16M") as s:
        for first, (offset, length, said, last), fes in table:
            with Controller(s.addr, NQN) as c:
                q, cid, r = write_asked(c)
                assert r.offset == 0 and r.length == 8192, r
                if first:
                    q.send_data(cid, r.ttag, 0, bytes(first), last=False)
                q.send_data(cid, r.ttag, offset, bytes(length), last=last, length=said)
                fatal(q, *fes)
        s.serves()


def case_T6_more_than_maxh2cdata():
    with Server("ram:16M") as s:
        with Controller(s.addr, NQN) as c:
            q, cid, r = write_asked(c, 1 << 20)
            q.s.raw(pack(H2C_DATA, data_header(cid, r.ttag, 0, q.maxh2c + 4096), b"", flags=F_LAST, pdo=24, plen=24 + q.maxh2c + 4096)
                    + bytes(1000))
            fatal(q, FES_LIMIT, FES_RANGE)
        with Controller(s.addr, NQN) as c:
            q, cid, r = write_asked(c, 1 << 20)
            q.s.raw(pack(H2C_DATA, data_header(cid, r.ttag, 0, 0xFFFFFF00), b"", flags=F_LAST, pdo=24, plen=0xFFFFFFFF))
            fatal(q, FES_LIMIT, FES_RANGE, FES_HEADER)
        s.serves()


def case_T6_sgl_of_4_gib():
    """Compared with MDTS before anything is allocated; the connection lives on."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        q = c.io()
        for opcode in (NVM_WRITE, NVM_READ, NVM_COMPARE):
            for kind in (SGL_TRANSPORT, SGL_IN_CAPSULE, SGL_DATA_BLOCK, 0x4A, 0x30, 0xFF):
                for nr_blocks in (1, 8, 65536):
                    a = q.finish(q.start(opcode, 1, rw_cdw(0, nr_blocks), sgl=(kind, 0, 0xFFFFFFFF)))
                    assert a.status in (INVALID_FIELD, INVALID_SGL_LEN, LBA_RANGE, 0x11, 0x12, 0x13, 0x16), (opcode, kind, nr_blocks, a)
        a = q.finish(q.start(NVM_WRITE, 1, rw_cdw(0, 8), write=bytes(4096), in_capsule=True, sgl=(SGL_IN_CAPSULE, 1 << 32, 4096)))
        assert a.status not in (OK, TRANSIENT_TRANSPORT), a
        assert q.read(0, 8).status == OK
        a = c.admin.finish(c.admin.start(ADM_IDENTIFY, 0, (1,), sgl=(SGL_TRANSPORT, 0, 0xFFFFFFFF)))
        assert a.status in (OK, INVALID_FIELD, INVALID_SGL_LEN), a


def case_T7_data_pdu_at_the_limit():
    """One PDU of MAXH2CDATA, that and 4 bytes less, and the cuts that TCP may make."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        q = c.io()
        limit = min(q.maxh2c, 1 << 20)
        data = pattern(limit)
        cuts = (None, [1] * 200 + [65536], [12, 12, 16384], [3] * 300 + [7, 1, 100001], [24, 65536])
        for most, some in ((limit, cuts), (limit - 4, cuts[1:3]), (limit // 2 + 4, cuts[2:3])):
            for n, cut in enumerate(some):
                q.pieces = cut
                data = data[n + 1:] + data[:n + 1]
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, limit // 512), write=data)
                assert finish_write(q, cid, most).status == OK
                q.pieces = None
                assert q.read(0, limit // 512).data == data, (most, cut)
        # two commands and what follows in one piece
        q.hold_r2t = True
        cids = [q.start(NVM_WRITE, 1, rw_cdw(i * 16, 16), write=data[i * 8192:(i + 1) * 8192]) for i in range(2)]
        rs = [q.next_r2t() for _ in cids]
        q.s.raw(b"".join(pack(H2C_DATA, data_header(r.cid, r.ttag, o, 4096), q.out[r.cid][o:o + 4096], flags=F_LAST if o else 0)
                         for o in (0, 4096) for r in rs))
        for cid in cids:
            assert q.finish(cid).status == OK
        assert q.read(0, 32).data == data[:16384]


def finish_write(q, cid, most):
    """With PDUs of that length."""
    q.hold_r2t = True
    while cid not in q.answers:
        q.step()
        while q.r2ts:
            q.answer_r2t(q.r2ts.pop(0), most)
    return q.answers.pop(cid)


# ---- digests ----

def case_T11_data_digest_error_fails_one_command():
    """In the capsule and by R2T, alone and among 30 others, in the first and in the last of several PDUs."""
    with Server("ram:16M") as s, Controller(s.addr, NQN, ddgst=True, hdgst=True) as c:
        q = c.io()
        good = pattern(4096)
        assert q.write(0, good).status == OK

        def bad_one(how):
            others = [q.start(NVM_READ, 1, rw_cdw(i * 8, 8), read_len=4096) for i in range(15)]
            if how == "capsule":
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, 8), write=bytes(4096), in_capsule=True, spoil_data=True)
            else:
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, 8), write=bytes(4096))
            others += [q.start(NVM_READ, 1, rw_cdw(i * 8, 8), read_len=4096) for i in range(14)]
            if how == "r2t":
                q.answer_r2t(q.next_r2t(), spoil_data=True)
            elif how != "capsule":
                r = q.next_r2t()
                for at in range(0, 4096, 1024):
                    q.send_data(cid, r.ttag, at, bytes(1024), last=at == 3072, spoil_data=at == how)
            a = q.finish(cid)
            assert a.status == TRANSIENT_TRANSPORT and not a.dnr, (how, a)
            for o in others:
                assert q.finish(o).status == OK
            q.hold_r2t = False

        for how in ("capsule", "r2t", 0, 3072):
            bad_one(how)
        errors = [conn["digest_errors"] for ctrl in s.get("connections")["controllers"] for conn in ctrl["connections"]]
        assert sum(errors) == 4, errors
        assert q.write(0, good[::-1]).status == OK and q.read(0, 8).data == good[::-1]


def case_T11_header_digest_error_ends_the_connection():
    with Server("ram:16M") as s:
        for ddgst in (False, True):
            with Controller(s.addr, NQN, hdgst=True, ddgst=ddgst) as c:
                q = c.io()
                q.s.send(CMD, sqe(NVM_READ, 1, 1, (SGL_TRANSPORT, 0, 4096), rw_cdw(0, 8)), spoil_header=True)
                fatal(q, FES_HDGST)
                q = c.io(2)
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, 8), write=bytes(4096))
                r = q.next_r2t()
                q.send_data(cid, r.ttag, 0, bytes(4096), spoil_header=True)
                fatal(q, FES_HDGST)
        s.serves()


def case_T11_socket_dies_within_a_digest():
    with Server("ram:16M") as s:
        for cut in (1, 3, 4, 2000):
            with Controller(s.addr, NQN, hdgst=True, ddgst=True) as c:
                q = c.io()
                cid = q.start(NVM_WRITE, 1, rw_cdw(0, 8), write=bytes(4096))
                r = q.next_r2t()
                q.s.raw(pack(H2C_DATA, data_header(cid, r.ttag, 0, 4096), bytes(4096), flags=F_LAST, hdgst=True, ddgst=True)[:-cut])
                q.s.reset()
        s.serves()


# ---- sizes ----

def case_T13_capsule_sizes():
    for size in (0, 16, 4096, 8192):
        with Server("ram:16M", args=("--capsule", size)) as s, Controller(s.addr, NQN) as c:
            ioccsz = struct.unpack_from("<I", c.admin.identify(1).data, 1792)[0]
            assert ioccsz == (64 + size) // 16, (size, ioccsz)
            # the admin queue takes 8192 bytes whatever the size; the command itself has no such data and may say so
            cid = c.admin.start(ADM_SET_FEATURES, 0, (0x16,), write=bytes(8192), in_capsule=True)
            c.admin.finish(cid)
            assert c.admin.command(ADM_KEEP_ALIVE).status == OK
            for qid, length in enumerate((512, 4096, 8192), 1):
                q = c.io(qid)
                data = pattern(length, qid)
                assert q.write(64, data).status == OK
                assert q.read(64, length // 512).data == data
                data = data[::-1]
                if length <= size:
                    assert q.write(64, data, in_capsule=True).status == OK
                    assert q.read(64, length // 512).data == data
                else:
                    q.start(NVM_WRITE, 1, rw_cdw(64, length // 512), write=data, in_capsule=True)
                    fatal(q, FES_LIMIT, FES_HEADER)


# ---- the end at any moment ----

def cut_states(g):
    """What a request may be doing: name, and a function that brings a queue there."""
    def waiting_for_a_buffer(q):
        g.hold()
        for i in range(8):
            q.start(NVM_READ, 1, rw_cdw(i * 2048, 2048), read_len=1 << 20)
        wait_until("requests that wait for a buffer", lambda: waits(g.s) > g.waits)

    def between_r2t_and_data(q):
        q.start(NVM_WRITE, 1, rw_cdw(0, 128), write=bytes(65536))
        q.next_r2t()

    def waiting_for_r2t_credit(q):
        for i in range(3):
            q.start(NVM_WRITE, 1, rw_cdw(i * 2048, 2048), write=bytes(1 << 20))
        q.next_r2t()

    def within_data(q):
        cid = q.start(NVM_WRITE, 1, rw_cdw(0, 2048), write=bytes(1 << 20))
        r = q.next_r2t()
        q.s.raw(pack(H2C_DATA, data_header(cid, r.ttag, 0, r.length), bytes(r.length), flags=F_LAST)[:r.length // 2])

    def in_the_back_end(q):
        g.hold()
        q.start(NVM_READ, 1, rw_cdw(0, 8), read_len=4096)
        cid = q.start(NVM_WRITE, 1, rw_cdw(64, 8), write=bytes(4096))
        q.answer_r2t(q.next_r2t())
        wait_until("requests in the back end", lambda: in_flight(g.s) >= 2)

    def sending_data(q):
        for i in range(8):
            q.start(NVM_READ, 1, rw_cdw(i * 2048, 2048), read_len=1 << 20)
        time.sleep(0.2) # nobody reads: the socket is full

    def waiting_for_the_digest(q):
        cid = q.start(NVM_WRITE, 1, rw_cdw(0, 8), write=bytes(4096))
        r = q.next_r2t()
        q.s.raw(pack(H2C_DATA, data_header(cid, r.ttag, 0, 4096), bytes(4096), flags=F_LAST, ddgst=True)[:-2])

    def within_a_capsule(q):
        q.s.raw(pack(CMD, sqe(NVM_WRITE, 9, 1, (SGL_IN_CAPSULE, 0, 4096), rw_cdw(0, 8)), bytes(4096), ddgst=q.s.ddgst)[:1000])

    return [f for f in locals().values() if callable(f)]


def in_flight(s):
    return sum(conn["in_flight"] for ctrl in s.get("connections")["controllers"] for conn in ctrl["connections"] if conn["queue"])


def case_T14_cut_in_every_state():
    """By RST, by a plain close, and in silence until keep alive runs out, with a pool of 4 buffers."""
    cut_in_every_state(("reset", "close", "silence"))


def case_T14_cut_in_every_state_on_two_loops():
    """The admin queue lives on one loop, the I/O queue on another."""
    cut_in_every_state(("reset",), "--cores", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])))


def cut_in_every_state(ways, *args):
    """A server for each state, all at a time: silence takes keep alive's time, and then that of a goodbye nobody takes."""
    def one(index):
        # the pool itself is touched: 4 MiB more of memory
        with Gated(size=32 << 20, args=("--buffers", "4M", "--mdts", "1M", *args), growth_kib=9000) as g:
            for how in ways:
                cut(g, cut_states(g)[index], how)
            g.s.serves()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for f in [pool.submit(one, i) for i in range(len(cut_states(None)))]:
            f.result()


def cut(g, state, how):
    g.waits, said = waits(g.s), len(g.s.said())
    c = Controller(g.s.addr, NQN, kato_ms=500 if how == "silence" else 0, ddgst=state.__name__ == "waiting_for_the_digest")
    q = c.io()
    state(q)
    if how == "reset":
        q.s.reset()
        c.admin.s.reset()
    elif how == "close":
        c.close()
    else:
        wait_until(f"keep alive to run out ({state.__name__})", lambda: "keep alive" in g.s.said()[said:])
    if g.held():
        time.sleep(0.1)
        g.release()
    g.s.wait_empty(f"after {state.__name__} and {how}")
    c.close()


# ---- depth ----

def case_R1_queue_depth_arithmetic():
    """SQSIZE counts from zero: with 32 entries at most, 1 to 31 are right."""
    with Server("ram:16M", args=("--max-depth", 32)) as s, Controller(s.addr, NQN) as c:
        assert c.admin.property(PROP_CAP, wide=True) & 0xFFFF == 31
        assert struct.unpack_from("<H", c.admin.identify(1).data, 514)[0] <= 32
        for sqsize, good in ((1, True), (2, True), (31, True), (0, False), (32, False), (127, False), (65535, False)):
            q = Queue(s.addr)
            a = q.connect(NQN, 1, sqsize, c.cntlid)
            if good:
                assert a.status == OK, (sqsize, a)
                cids = [q.start(NVM_READ, 1, rw_cdw(i, 1), read_len=512) for i in range(sqsize)]
                for cid in cids:
                    assert q.finish(cid).status == OK
            else:
                assert a.status == CONNECT_INVALID and a.dw0 == 44, (sqsize, a)
            q.close()
            wait_until("the queue to be free", lambda: s.counts()["connections"] == 1)
        for sqsize, good in ((1, True), (31, True), (0, False), (65535, False)):
            q = Queue(s.addr)
            a = q.connect(NQN, 0, sqsize)
            assert (a.status == OK) == good and (good or a.dw0 == 44), (sqsize, a)
            q.close()


def case_R1_more_commands_than_the_queue_has_entries():
    with Gated() as g, Controller(g.s.addr, NQN) as c:
        q = c.io(1, sqsize=3)
        g.hold()
        try:
            for i in range(6):
                q.start(NVM_READ, 1, rw_cdw(i, 1), read_len=512)
        except OSError:
            pass
        fatal(q, FES_HEADER, FES_SEQUENCE, FES_LIMIT)
        g.release()


# ---- addresses ----

def case_T15_ipv6():
    """::1, in brackets, and written in 39 characters; what is printed can be pasted back."""
    longest = "0000:0000:0000:0000:0000:0000:0000:0001"
    with Server("ram:16M", listen=("tcp://[::1]:0", f"tcp://[{longest}]:0"), settle=False) as s:
        for l in s.ready["listeners"]:
            addr = s.addr_of(l["url"])
            with Controller(addr, NQN) as c:
                assert c.io().read(0, 1).status == OK
            for host in ("[::1]", f"[{longest}]"):
                url = f"nvme+tcp://{host}:{addr[1]}"
                found = run("discover", url, "--json").stdout
                assert f"[::1]:{addr[1]}/{NQN}" in found, found
                assert len(run("read", f"{url}/{NQN}?ns=1", "--length", 512, "-f", text=False).stdout) == 512
        for ns in s.ready["namespaces"]:
            run("info", ns["url"])


main()
