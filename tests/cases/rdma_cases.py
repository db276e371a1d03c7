# SPDX-License-Identifier: Apache-2.0
"""NVMe over RDMA, by hosts of all kinds: honest ones, that lie in each field, and that vanish. Those of the cases that TCP has
too: admin_cases.py with FL_CASES_TRANSPORT=rdma."""
import os
import struct
import subprocess
import time

os.environ["FL_CASES_TRANSPORT"] = "rdma"
from gated import Gated
from peer_host import Ended
from peer_rdma import *
from product import NQN, SANITIZED, Server, run, wait_until
from runner import main
from transport import Controller, Queue
from wire import *


def in_flight(s):
    return sum(conn["in_flight"] for ctrl in s.get("connections")["controllers"] for conn in ctrl["connections"] if conn["queue"])


def refusal(s, **how):
    try:
        Queue(s.addr, **how).close()
    except Refused as r:
        return r
    raise AssertionError(f"the connection was not refused: {how}")


# ---- connecting ----

def case_R1_queue_depth_arithmetic():
    """SQSIZE and HSQSIZE count from zero, HRQSIZE from one; with 32 entries at most, 1 to 31 are right, and both have to agree."""
    with Server("ram:16M", args=("--max-depth", 32)) as s, Controller(s.addr, NQN) as c:
        for sqsize in (1, 2, 31):
            q = c.queue(1, sqsize, c.cntlid)
            assert q.crqsize == sqsize + 1, q.crqsize
            a = q.connect(NQN, 1, sqsize, c.cntlid)
            assert a.status == OK, (sqsize, a)
            cids = [q.start(NVM_READ, 1, rw_cdw(i, 1), read_len=512) for i in range(sqsize)]
            for cid in cids:
                assert q.finish(cid).status == OK
            q.close()
            wait_until("the queue to be free", lambda: s.counts()["connections"] == 1)
        for hsqsize, sqsize in ((127, 127), (32, 32), (31, 0), (31, 32), (31, 30), (15, 31), (31, 65535)):
            q = c.queue(1, hsqsize, c.cntlid)
            a = q.connect(NQN, 1, sqsize, c.cntlid)
            assert a.status == CONNECT_INVALID and a.dw0 == 44 and a.dnr, (hsqsize, sqsize, a)
            q.close()
        for hsqsize in (0, 1024, 65535):
            assert refusal(s, qid=1, sqsize=hsqsize, nr_recv=1).sts == REJ_HSQSIZE, hsqsize
        assert refusal(s, qid=0, sqsize=32).sts == REJ_HSQSIZE, "an admin queue has at most 32 entries"
        for hrqsize in (0, 1, 30):
            assert refusal(s, qid=1, sqsize=31, hrqsize=hrqsize).sts == REJ_HRQSIZE, hrqsize
        q = c.queue(1, 31, c.cntlid, hrqsize=31) # as many as there can be responses under way
        assert q.connect(NQN, 1, 31, c.cntlid).status == OK
        q.close()


def case_R1_private_data_that_lies():
    with Server("ram:16M") as s:
        assert refusal(s, private=b"\0" * 8).sts in (REJ_LEN, REJ_HSQSIZE) # padded by the CM, it is zeros
        assert refusal(s, private=b"").sts in (REJ_LEN, REJ_HSQSIZE)
        assert refusal(s, private=struct.pack("<HHHHH22x", 1, 0, 32, 31, 0)).sts == REJ_RECFMT
        assert refusal(s, private=os.urandom(56)).sts is not None
        s.serves()


def case_R3_rdma_reads_outstanding():
    """As many as the host says in the CM message, whatever the number of writes; none at all is refused."""
    with Server("ram:16M") as s:
        for ird in (16, 4, 1):
            with Controller(s.addr, NQN, ird=ird) as c:
                q = c.io()
                data = [os.urandom(8192) for _ in range(16)]
                cids = [q.start(NVM_WRITE, 1, rw_cdw(i * 16, 16), write=data[i]) for i in range(16)]
                for cid in cids:
                    assert q.finish(cid).status == OK
                for i in range(16):
                    assert q.read(i * 16, 16).data == data[i]
        assert refusal(s, ird=0).sts == REJ_IRD


def case_capsule_before_the_connection_is_established():
    """A host may send as soon as it has the reply; the message that tells the target so may come later, or never."""
    with Server("ram:16M") as s:
        q = Queue(s.addr, hold=True)
        assert q.connect(NQN).status == OK
        assert q.p.ask("rtu", q.n) == ["ok"]
        assert q.set_property(PROP_CC, 0x460001).status == OK
        q.close()
        for kill in (False, True): # never told
            q = Queue(s.addr, hold=True)
            cid = q.new_cid()
            q.send(os.urandom(64))
            if kill:
                q.p.kill()
            else:
                time.sleep(0.2)
                q.close()
            s.wait_empty()


def case_connect_beside_a_connect():
    """Two at once, whose data the target fetches: one becomes the queue, the other one is refused."""
    with Server("ram:16M") as s:
        for _ in range(5):
            with Controller(s.addr, NQN) as c:
                for qid in (0, 2):
                    q = Queue(s.addr, qid=qid)
                    cids = [q.new_cid() for _ in range(2)]
                    for i, cid in enumerate(cids):
                        raw = bytearray(connect_sqe(cid, qid + i if qid else 0, 31))
                        data = connect_data(NQN, peer_host.HOSTNQN, peer_host.HOSTID, c.cntlid if qid else 0xFFFF)
                        raw[24:40] = q.sgl(q.describe(data)[0])
                        q.read_at[cid] = (None, 0)
                        q.send(bytes(raw))
                    assert [q.finish(cid).status for cid in cids] == [OK, SEQUENCE]
                    q.close()
            s.wait_empty()
        s.serves()


def case_capsules_of_wrong_length():
    """Shorter than a command: the end of this connection, and of no other."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        for n in (1, 16, 63):
            q = c.io()
            q.send(bytes(n))
            q.ended()
            q.close()
            wait_until("the queue to be free", lambda: s.counts()["connections"] == 1)
        q = c.io()
        q.send(bytes(64 + 8192 + 64)) # more than IOCCSZ says
        q.ended()
        q.close()
        wait_until("the queue to be free", lambda: s.counts()["connections"] == 1)
        assert c.io().read(0, 1).status == OK


# ---- descriptors ----

def case_descriptors_that_are_wrong():
    """Each is answered with its status, and the connection lives on."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        q = c.io()
        key, base = q.p.heap_key, q.p.base
        seg = lambda n, off=0: (SGL_LAST_SEGMENT, off, 16 * n)
        one = keyed(base, 512, key)
        wrong = [
            ((SGL_TRANSPORT, 0, 512), b"", SGL_TYPE_INVALID), ((SGL_DATA_BLOCK, base, 512), b"", SGL_TYPE_INVALID),
            ((0x10, 0, 512), b"", SGL_TYPE_INVALID), ((0x20, base, 16), one, SGL_TYPE_INVALID), ((0x30, base, 16), one, SGL_TYPE_INVALID),
            ((0x21, 0, 16), one, SGL_TYPE_INVALID), ((0x41, base, 512, key), b"", SGL_TYPE_INVALID),
            (seg(1), b"", SGL_SEGMENT_INVALID), (seg(2), one, SGL_SEGMENT_INVALID), ((SGL_LAST_SEGMENT, 0, 17), one * 2, SGL_SEGMENT_INVALID),
            ((SGL_LAST_SEGMENT, 0, 0), one, SGL_SEGMENT_INVALID), ((SGL_LAST_SEGMENT, 0, 0xFFFFFFF0), one, SGL_SEGMENT_INVALID),
            (seg(1, 16), one * 2, SGL_OFFSET_INVALID), (seg(1, 1 << 63), one, SGL_OFFSET_INVALID),
            (seg(MAX_PIECES + 1), one * (MAX_PIECES + 1), SGL_COUNT_INVALID),
            (seg(2), one + struct.pack("<QI3xB", 0, 512, SGL_IN_CAPSULE), SGL_TYPE_INVALID),
            (seg(2), one + struct.pack("<QI3xB", 0, 16, SGL_LAST_SEGMENT), SGL_TYPE_INVALID),
            (seg(1), one, INVALID_SGL_LEN), (seg(3), one * 3, INVALID_SGL_LEN), ((SGL_KEYED, base, 512, key), b"", INVALID_SGL_LEN),
            ((SGL_KEYED, base, 0xFFFFFF, key), b"", None),
        ]
        for sgl, behind, status in wrong:
            for opcode in (NVM_READ, NVM_WRITE):
                a = q.command(opcode, 1, rw_cdw(0, 2), sgl=sgl, behind=behind)
                assert a.status if status is None else a.status == status, (opcode, sgl, a)
        # in the capsule: for writes only, and all of it
        assert q.command(NVM_READ, 1, rw_cdw(0, 1), sgl=(SGL_IN_CAPSULE, 0, 512), behind=bytes(512)).status == INVALID_FIELD
        for sgl, status in (((SGL_IN_CAPSULE, 0, 1024), INVALID_SGL_LEN), ((SGL_IN_CAPSULE, 513, 0), SGL_OFFSET_INVALID),
                            ((SGL_IN_CAPSULE, 1 << 40, 512), SGL_OFFSET_INVALID), ((SGL_IN_CAPSULE, 1, 512), INVALID_SGL_LEN)):
            assert q.command(NVM_WRITE, 1, rw_cdw(0, 1), sgl=sgl, behind=bytes(512)).status == status, sgl
        # admin and Fabrics commands have one descriptor
        a = c.admin.command(ADM_IDENTIFY, 0, (1,), sgl=seg(1), behind=keyed(base, 4096, key))
        assert a.status == SGL_TYPE_INVALID, a
        assert q.read(0, 1).status == OK


def case_keys_that_are_wrong():
    """The host's own RNIC refuses the transfer: the end of that connection, with the reason in the log, and of no other."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        for opcode in (NVM_READ, NVM_WRITE):
            for how in ("no such key", "beyond the memory", "rights", "gone", "second of two"):
                q = c.io()
                at = q.p.room(8192)
                key, addr, length = q.p.heap_key, q.p.base + at, 8192
                behind, sgl = b"", None
                if how == "no such key":
                    key ^= 0x5A5A00
                elif how == "beyond the memory":
                    addr = q.p.base + HEAP_LEN - 4096
                elif how == "rights":
                    key = q.p.key("reg", at, 8192, 0)
                elif how == "gone":
                    key = q.p.key("reg", at, 8192, 6)
                    q.p.ask("dereg", key)
                else:
                    sgl, behind = (SGL_LAST_SEGMENT, 0, 32), keyed(addr, 4096, key) + keyed(addr, 4096, key ^ 0x5A5A00)
                q.start(opcode, 1, rw_cdw(0, 16), sgl=sgl or (SGL_KEYED, addr, length, key), behind=behind)
                q.ended()
                q.close()
                wait_until("the queue to be free", lambda: s.counts()["connections"] == 1)
        assert c.io().read(0, 1).status == OK


def case_several_descriptors():
    """A host whose data lies in pieces describes each: both ways, of all numbers that MSDBD allows, in any order, some of nothing."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        assert c.admin.identify(1).data[1803] == MAX_PIECES
        q = c.io()
        for nr in (1, 2, 3, 7, 15, 16):
            lens = [512 * (1 + (i * 5) % 4) for i in range(nr)]
            lens[nr // 2] += 512 * 8 - sum(lens) % 4096
            total = sum(lens)
            ats = [q.p.room(n) for n in lens]
            ats.reverse() if all(n <= 4096 for n in lens) else None
            ats = [q.p.room(n) for n in lens][::1]
            data = os.urandom(total)
            at = 0
            for where, n in zip(ats, lens):
                q.p.heap[where:where + n] = data[at:at + n]
                at += n
            behind = b"".join(keyed(q.p.base + where, n, q.p.heap_key) for where, n in zip(ats, lens))
            sgl = (SGL_LAST_SEGMENT, 0, 16 * nr)
            assert q.command(NVM_WRITE, 1, rw_cdw(0, total // 512), sgl=sgl, behind=behind).status == OK, nr
            assert q.read(0, total // 512).data == data, nr
            for where, n in zip(ats, lens):
                q.p.heap[where:where + n] = bytes(n)
            assert q.command(NVM_READ, 1, rw_cdw(0, total // 512), sgl=sgl, behind=behind).status == OK, nr
            got = b"".join(q.p.heap[where:where + n] for where, n in zip(ats, lens))
            assert got == data, nr
        at = q.p.room(4096)
        behind = keyed(0, 0, 0) + keyed(q.p.base + at, 512, q.p.heap_key) + keyed(0, 0, 7)
        q.p.heap[at:at + 512] = b"\xaa" * 512
        assert q.command(NVM_WRITE, 1, rw_cdw(5, 1), sgl=(SGL_LAST_SEGMENT, 0, 48), behind=behind).status == OK
        assert q.read(5, 1).data == b"\xaa" * 512


def case_send_with_invalidate():
    """Where the host asks for it, the response invalidates its key: the last of several; the data was moved before."""
    with Server("ram:16M") as s, Controller(s.addr, NQN) as c:
        q = c.io()
        for opcode in (NVM_WRITE, NVM_READ):
            at = q.p.room(4096)
            key = q.p.key("mw", q.n, at, 4096)
            q.p.heap[at:at + 4096] = bytes([opcode]) * 4096
            a = q.command(opcode, 1, rw_cdw(0, 8), sgl=(SGL_KEYED_INVALIDATE, 0 + q.p.base + at, 4096, key))
            assert a.status == OK and q.invalidated == [key], (a, q.invalidated, key)
            assert q.p.heap[at:at + 4096] == bytes([NVM_WRITE]) * 4096
            q.invalidated.clear()
            # also with an error, which moves no data
            key = q.p.key("mw", q.n, at, 4096)
            a = q.command(opcode, 1, rw_cdw(1 << 40, 8), sgl=(SGL_KEYED_INVALIDATE, q.p.base + at, 4096, key))
            assert a.status == LBA_RANGE and q.invalidated == [key], (a, q.invalidated)
            q.invalidated.clear()
        at = [q.p.room(4096) for _ in range(3)]
        keys = [q.p.key("mw", q.n, x, 4096) for x in at]
        kinds = (SGL_KEYED_INVALIDATE, SGL_KEYED_INVALIDATE, SGL_KEYED)
        behind = b"".join(keyed(q.p.base + x, 4096, k, kind) for x, k, kind in zip(at, keys, kinds))
        a = q.command(NVM_READ, 1, rw_cdw(0, 24), sgl=(SGL_LAST_SEGMENT, 0, 48), behind=behind)
        assert a.status == OK and q.invalidated == [keys[1]], (a, q.invalidated, keys)
        # the key is gone: who uses it again has lost the connection
        q.start(NVM_READ, 1, rw_cdw(0, 8), sgl=(SGL_KEYED, q.p.base + at[1], 4096, keys[1]))
        q.ended()
        q.close()


def case_T13_capsule_sizes():
    """IOCCSZ and MSDBD say what a capsule may hold; writes come in it or by RDMA READ."""
    for size in (0, 16, 4096, 8192):
        with Server("ram:16M", args=("--capsule", size)) as s, Controller(s.addr, NQN) as c:
            page = c.admin.identify(1).data
            assert struct.unpack_from("<I", page, 1792)[0] == (64 + size) // 16
            assert page[1803] == max(1, min(MAX_PIECES, size // 16)), page[1803]
            q = c.io()
            for n in (512, 4096):
                data = os.urandom(n)
                assert q.write(0, data, in_capsule=n <= size).status == OK
                assert q.read(0, n // 512).data == data


# ---- the end at any moment ----

def cut_states(g):
    """What a request may be doing: name, and a function that brings a queue there."""
    def waiting_for_a_buffer(q):
        g.hold()
        for i in range(8):
            q.start(NVM_READ, 1, rw_cdw(i * 2048, 2048), read_len=1 << 20)
        wait_until("requests that wait for a buffer", lambda: sum(l["buffers"]["waits"] for l in g.s.get("status")["loops"]) > 0)

    def fetching(q):
        for i in range(8):
            q.start(NVM_WRITE, 1, rw_cdw(i * 2048, 2048), write=bytes(1 << 20))

    def fetching_pieces(q):
        for i in range(8):
            at = q.p.room(65536)
            behind = b"".join(keyed(q.p.base + at + k * 4096, 4096, q.p.heap_key) for k in range(16))
            q.start(NVM_WRITE, 1, rw_cdw(i * 128, 128), sgl=(SGL_LAST_SEGMENT, 0, 256), behind=behind)

    def in_the_back_end(q):
        g.hold()
        q.start(NVM_READ, 1, rw_cdw(0, 8), read_len=4096)
        q.start(NVM_WRITE, 1, rw_cdw(64, 8), write=bytes(4096))
        q.start(NVM_WRITE, 1, rw_cdw(64, 8), write=bytes(4096), in_capsule=True)
        wait_until("requests in the back end", lambda: in_flight(g.s) >= 3)

    def sending_data(q):
        for i in range(8):
            q.start(NVM_READ, 1, rw_cdw(i * 2048, 2048), read_len=1 << 20)

    def idle(q):
        pass

    return [f for f in locals().values() if callable(f)]


def cut(g, state, how):
    peer = Peer()
    c = Controller(g.s.addr, NQN, kato_ms=500 if how == "silence" else 0, peer=peer)
    q = c.io()
    state(q)
    if how == "kill":
        peer.kill()
    elif how == "destroy":
        c.close()
    elif how == "disconnect":
        q.disconnect()
        c.admin.disconnect()
    else:
        said = len(g.s.said())
        wait_until(f"keep alive to run out ({state.__name__})", lambda: "keep alive" in g.s.said()[said:] or g.s.counts()["controllers"] == 0)
    if g.held():
        time.sleep(0.1)
        g.release()
    g.s.wait_empty(f"after {state.__name__} and {how}")
    peer.kill()


def case_T14_cut_in_every_state():
    """By death of the process, by the queue pair's end, by DREQ, and in silence until keep alive runs out, with a pool of 4 buffers."""
    with Gated(size=32 << 20, args=("--buffers", "4M", "--mdts", "1M"), growth_kib=16000) as g:
        for i in range(len(cut_states(None))):
            for how in ("kill", "destroy", "disconnect", "silence"):
                cut(g, cut_states(g)[i], how)
            g.s.serves()


def case_T14_cut_in_every_state_on_two_loops():
    with Gated(size=32 << 20, args=("--buffers", "4M", "--mdts", "1M", "--cores", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))),
               growth_kib=16000) as g:
        for i in range(len(cut_states(None))):
            cut(g, cut_states(g)[i], "kill")
        g.s.serves()


def case_R8_hosts_that_vanish():
    """Killed at each step of connecting, over and over: counts and memory stay level."""
    rounds = 10 if SANITIZED else 40
    with Server("ram:16M", growth_kib=16000) as s:
        for i in range(rounds):
            p = Peer()
            private = request_data(0, 32, 31).hex()
            step = i % 5
            if step == 0: # REQ is out, and nothing more
                p.tell("connect", 0, *s.addr, 16, 0, 32, 1, private)
                time.sleep(0.001 * i)
            elif step == 1: # no RTU
                p.ask("connect", 0, *s.addr, 16, 0, 32, 1, private)
            elif step == 2: # RTU, and no command
                p.ask("connect", 0, *s.addr, 16, 0, 32, 0, private)
            elif step == 3: # Connect is out
                q = RdmaQueue(s.addr, peer=p)
                cid = q.new_cid()
                raw = bytearray(connect_sqe(cid, 0, 31))
                raw[24:40] = q.sgl(q.describe(connect_data(NQN, peer_host.HOSTNQN, peer_host.HOSTID, 0xFFFF))[0])
                q.send(bytes(raw))
            else: # a controller
                RdmaController(s.addr, NQN, peer=p).io()
            p.kill()
        s.wait_empty()
        s.serves()


def case_R8_memory_of_many_hosts_goes_back():
    """What lies between blocks that are in use stays with malloc: the target gives it back once many connections have ended."""
    with Server("null:16M") as s:
        p = Peer()
        queues = [RdmaQueue(s.addr, qid=1, sqsize=127, peer=p) for _ in range(120)]
        assert len(queues) == 120
        p.kill()
        s.wait_empty()
        until = time.monotonic() + 20
        while not SANITIZED and s.rss_kib() - s.rss > 8000:
            assert time.monotonic() < until, f"memory grew by {s.rss_kib() - s.rss} KiB"
            time.sleep(0.1)


def case_R10_more_commands_than_receives():
    """A host that sends more than its queue has entries: they wait in its RNIC until receives are there, and nothing is lost."""
    with Gated() as g, Controller(g.s.addr, NQN) as c:
        q = c.io(1, sqsize=3)
        g.hold()
        cids = [q.start(NVM_READ, 1, rw_cdw(i, 1), read_len=512) for i in range(12)]
        time.sleep(0.3)
        assert in_flight(g.s) <= 4, in_flight(g.s)
        g.release()
        for cid in cids:
            assert q.finish(cid).status == OK


def case_R6_slow_back_end():
    slow_back_end()


def case_R6_slow_back_end_with_shared_receives():
    """64 receives for four hosts with 64 commands each."""
    slow_back_end("--shared-receives", 64)


def slow_back_end(*args):
    """Four hosts fill their queues; a fifth connects, and keep alive goes on, all within a second."""
    with Gated(args=("--max-depth", 128, *args)) as g:
        slow = [Controller(g.s.addr, NQN, hostid=bytes([i + 1] * 16), hostnqn=f"nqn.2026-01.org.example:h{i}") for i in range(4)]
        queues = [c.io(1, sqsize=64) for c in slow]
        g.hold()
        for q in queues:
            for i in range(64):
                q.start(NVM_WRITE, 1, rw_cdw(i * 8, 8), write=bytes([i]) * 4096, in_capsule=i & 1 == 0)
        wait_until("requests in the target", lambda: in_flight(g.s) == 256)
        for _ in range(5): # a machine may be busy for as long
            at = time.monotonic()
            with Controller(g.s.addr, NQN, hostid=bytes([9] * 16), hostnqn="nqn.2026-01.org.example:fifth") as c:
                c.io(1)
                assert c.admin.command(ADM_KEEP_ALIVE).status == OK
                for s in slow:
                    assert s.admin.command(ADM_KEEP_ALIVE).status == OK
            took = time.monotonic() - at
            if took < 1:
                break
        assert took < (5 if SANITIZED else 1), f"{took:.1f} s"
        g.release()
        for q in queues:
            for cid in range(2, 66):
                assert q.finish(cid).status == OK
        for i in range(64):
            assert queues[0].read(i * 8, 8).data == bytes([i]) * 4096
        for s in slow:
            s.close()


def case_shared_receives():
    """With the fewest there can be: data in capsules and beside them, more than there are receives at once, hosts that vanish."""
    with Gated(size=32 << 20, args=("--shared-receives", 8, "--mdts", "1M", "--buffers", "4M")) as g:
        with Controller(g.s.addr, NQN) as c:
            queues = [c.io(1 + k, sqsize=31) for k in range(3)]
            for turn in range(4):
                cids = [(q, q.start(NVM_WRITE, 1, rw_cdw(8 * (k * 32 + i), 8), write=bytes([turn + k + i]) * 4096, in_capsule=i & 1 == 0))
                        for i in range(31) for k, q in enumerate(queues)]
                for q, cid in cids:
                    assert q.finish(cid).status == OK
                for k, q in enumerate(queues):
                    for i in range(0, 31, 5):
                        assert queues[0].read(8 * (k * 32 + i), 8).data == bytes([turn + k + i]) * 4096
            queues[0].send(bytes(10))
            queues[0].ended()
            q = queues[1] # a transfer in pieces that fails: not to be taken for a receive
            at = q.p.room(8192)
            behind = keyed(q.p.base + at, 4096, q.p.heap_key ^ 0x5A5A00) + keyed(q.p.base + at, 4096, q.p.heap_key)
            for opcode in (NVM_READ, NVM_WRITE):
                q.start(opcode, 1, rw_cdw(0, 16), sgl=(SGL_LAST_SEGMENT, 0, 32), behind=behind)
            q.ended()
        for i in range(len(cut_states(None))):
            for how in ("kill", "disconnect"):
                cut(g, cut_states(g)[i], how)
            g.s.serves()


main()
