# SPDX-License-Identifier: Apache-2.0
"""Administration: Connect, listeners, namespaces, the discovery log and Identify, as hosts of all kinds meet them."""
import os
import socket
import struct
import tempfile
import threading
import time

from gated import Gated
from peer_host import HOSTNQN
from product import NQN, Server, run, wait_until
from runner import main
from transport import SGL_OF_DATA, TRANSPORT, Controller, Queue
from wire import *

EVENT_NS_CHANGED = 2 | 0 << 8 | 4 << 16 # notice, namespace attribute changed, changed namespace list


# ---- names ----

def case_A1_host_nqn():
    """Which names of hosts are right, and that a refusal tells the field."""
    name223 = "nqn.2026-01.org.example:" + "h" * (223 - 24)
    assert len(name223) == 223
    good = ["nqn.2026-01.org.example:h", name223, "nqn.2008-04.org.example.host1", "nqn.2026-01.org.example:a:b,c d",
            "nqn.2014-08.org.nvmexpress:uuid:6f9619ff-8b86-d011-b42d-00cf4fc964ff", "nqn.2026-01.org.example:grün"]
    bad = ["", "x", "2014-08.org.example:h", "2014-08.org.nvmexpress:uuid:6f9619ff-8b86-d011-b42d-00cf4fc964ff", "nqn.",
           "nqn.2026-13.org.example:h", "nqn.26-01.org.example:h", "NQN.2026-01.org.example:h", name223 + "h",
           (name223 + "h" * 33).encode(), b"\xff" * 256, b"nqn.2026-01.org.example:\xff\xfe".ljust(256, b"\0"),
           "nqn.2014-08.org.nvmexpress:uuid:6f9619ff8b86d011b42d00cf4fc964ff", "nqn.2026-01.org.example:a\nb"]
    with Server("ram:16M") as s:
        for nqn in good:
            q = Queue(s.addr)
            a = q.connect(NQN, hostnqn=nqn)
            assert a.status == OK, (nqn, a)
            q.close()
        for nqn in bad:
            q = Queue(s.addr)
            a = q.connect(NQN, hostnqn=nqn)
            assert a.status == CONNECT_INVALID and a.dw0 == 1 << 16 | 512 and a.dnr, (nqn, hex(a.dw0), a)
            q.close()
        for more, where in (({"hostid": bytes(16)}, 1 << 16 | 0), ({"cntlid": 7}, 1 << 16 | 16), ({"sqsize": 0}, 44)):
            q = Queue(s.addr)
            a = q.connect(NQN, **more)
            assert a.status == CONNECT_INVALID and a.dw0 == where, (more, hex(a.dw0), a)
            q.close()
        for subnqn in ("", "nqn.2026-01.org.example:other", b"\xff" * 256, (NQN + "x" * 256)[:256].encode()):
            q = Queue(s.addr)
            a = q.connect(subnqn)
            assert a.status == CONNECT_INVALID and a.dw0 == 1 << 16 | 256, (subnqn, hex(a.dw0), a)
            q.close()
        q = Queue(s.addr)
        assert q.connect(NQN, recfmt=1).status == CONNECT_FORMAT
        q.close()


# ---- listeners ----

def case_A3_clashing_listeners():
    with Server("ram:16M", settle=False) as s:
        port = s.addr[1]

        def add(url, *more):
            done = run("ctl", "--control", s.control, "listener", "add", url, *more, check=False)
            return done.returncode, done.stdout + done.stderr

        rc, said = add(f"{TRANSPORT}://127.0.0.1:{port}")
        assert rc and "already" in said, said
        rc, said = add(f"{TRANSPORT}://127.0.0.1:{port}", "--no-hdgst")
        assert rc and "other options" in said, said
        rc, said = add(f"{TRANSPORT}://0.0.0.0:{port}")
        assert rc and str(port) in said, said
        for url in (f"{TRANSPORT}://127.0.0.1:0",) * 2:
            rc, said = add(url)
            assert rc == 0, said
        listeners = s.ctl("list")["listeners"]
        assert len({l["url"] for l in listeners}) == 3 and all(l["state"] == "listening" for l in listeners), listeners
        for l in listeners:
            with Controller(s.addr_of(l["url"]), NQN):
                pass


def case_A4_address_not_there_yet():
    """That it comes at last: network_cases.py."""
    done = run("serve", "--ns", "ram:16M", "--control", "none", "--strict", "--listen", f"{TRANSPORT}://192.0.2.77:0", check=False)
    assert done.returncode and "192.0.2.77" in done.stderr, done
    with Server("ram:16M", listen=(f"{TRANSPORT}://127.0.0.1:0", f"{TRANSPORT}://192.0.2.77:4420"), settle=False) as s:
        late = [l for l in s.ctl("list")["listeners"] if "192.0.2.77" in l["url"]][0]
        assert late["state"] == "waiting for address" and late["reason"], late
        s.serves()


def queues_of_loops(s):
    loops = [q["loop"] for c in s.get("connections")["controllers"] for q in c["connections"] if q["queue"]]
    return [loops.count(i) for i in range(len(s.get("status")["loops"]))]


def case_queues_are_spread_over_cores():
    """Each I/O queue goes to the loop that has the fewest; what leaves makes room."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        cpus *= 2
    with Server("null:1G", args=("--cores", ",".join(map(str, cpus))), settle=False) as s:
        hosts = [Controller(s.addr, NQN, hostnqn=f"{HOSTNQN}{i}", hostid=bytes([i + 1] * 16)) for i in range(3)]
        for i in range(2):
            for qid in range(1, 9):
                assert hosts[i].io(qid).read(0, 8).status == OK
                counts = queues_of_loops(s)
                assert max(counts) - min(counts) <= 1, counts
        for q in hosts[0].queues[::2]: # all on one loop
            q.close()
        wait_until("they are gone", lambda: sum(queues_of_loops(s)) == 12)
        for qid in range(1, 5):
            hosts[2].io(qid)
        assert queues_of_loops(s) == [8, 8], queues_of_loops(s)
        for h in hosts[1:]:
            for q in h.queues:
                assert q.read(0, 8).status == OK
        for h in hosts:
            h.close()


# ---- namespaces ----

def idle_clients(path, nr):
    """Connections to the control socket that ask nothing: many make the oldest go, but not one whose change is in progress."""
    socks = []
    for _ in range(nr):
        socks.append(socket.socket(socket.AF_UNIX))
        socks[-1].settimeout(30)
        socks[-1].connect(path)
    return socks


def case_A6_remove_namespace_with_slow_io():
    """Keep-alive is answered at once while a removal waits for the back end."""
    for deadline in (None, 1):
        with Gated(settle=False) as g, Controller(g.s.addr, NQN, kato_ms=10000) as c:
            q = c.io()
            g.hold()
            held = q.start(NVM_READ, 1, rw_cdw(0, 8), read_len=4096)
            time.sleep(0.2)
            result = []
            args = ("ns", "rm", "1") + (("--deadline", str(deadline)) if deadline else ())
            remover = threading.Thread(target=lambda: result.append(run("ctl", "--control", g.s.control, *args, check=False)))
            remover.start()
            time.sleep(0.3)
            idle = idle_clients(g.s.control, 100)
            slowest, until = 0, time.monotonic() + 3
            while time.monotonic() < until:
                at = time.monotonic()
                assert c.admin.command(ADM_KEEP_ALIVE).status == OK
                slowest = max(slowest, time.monotonic() - at)
                time.sleep(0.2)
            assert slowest < 3, f"a keep-alive took {slowest:.2f} s"
            assert q.command(NVM_READ, 1, rw_cdw(0, 1), read_len=512).status == INVALID_NS, "gone for hosts at once"
            if deadline:
                wait_until("the deadline", lambda: result)
                assert result[0].returncode and "not ended" in result[0].stderr, result
            else:
                assert not result, f"removed below a command: {result}"
            g.release()
            assert q.finish(held).status == OK
            remover.join(30)
            assert result and (deadline or result[0].returncode == 0), result
            for i in idle:
                i.close()
            wait_until("the namespace to be gone", lambda: g.s.ctl("status")["namespaces"] == 0)
            assert c.admin.command(ADM_KEEP_ALIVE).status == OK


def case_A12_grow_and_shrink():
    with Server("ram:16M", settle=False) as s, Controller(s.addr, NQN) as c:
        q = c.io()
        assert c.admin.command(ADM_SET_FEATURES, 0, (11, 1 << 8)).status == OK
        for size, force in ((32 << 20, False), (8 << 20, True)):
            event = c.admin.start(ADM_AER)
            cids = [q.start(NVM_READ, 1, rw_cdw(i, 1), read_len=512) for i in range(16)] # under load
            args = ("ns", "resize", "1", str(size)) + (("--force",) if force else ())
            at = time.monotonic()
            s.ctl(*args)
            assert c.admin.finish(event).dw0 == EVENT_NS_CHANGED
            assert struct.unpack_from("<Q", c.admin.identify(0, 1).data)[0] == size // 512
            assert time.monotonic() - at < 5
            for cid in cids:
                assert q.finish(cid).status == OK
            changed = c.admin.log_page(4, 4096).data
            assert struct.unpack_from("<II", changed) == (1, 0), changed[:8]
            assert not any(c.admin.log_page(4, 4096).data), "reading clears it"
            assert q.read(size // 512 - 1, 1).status == OK
            a = q.read(size // 512, 1)
            assert a.status == LBA_RANGE and a.dnr, a
        done = run("ctl", "--control", s.control, "ns", "resize", "1", "4M", check=False)
        assert done.returncode and str(8 << 20) in done.stderr and str(4 << 20) in done.stderr, done
        done = run("ctl", "--control", s.control, "ns", "resize", "1", "0", "--force", check=False)
        assert done.returncode and "0" in done.stderr, done
        assert struct.unpack_from("<Q", c.admin.identify(0, 1).data)[0] == (8 << 20) // 512


def case_A13_range_arithmetic():
    for block in (512, 4096):
        with Server(f"ram:16M,bs={block}") as s, Controller(s.addr, NQN) as c:
            q, end = c.io(), (16 << 20) // block
            for opcode in (NVM_READ, NVM_WRITE, NVM_COMPARE):
                def ask(slba, nr, length=None, sgl=None, in_capsule=False):
                    length = nr * block if length is None else length
                    if opcode == NVM_READ:
                        return q.command(opcode, 1, rw_cdw(slba, nr), read_len=length, sgl=sgl)
                    return q.command(opcode, 1, rw_cdw(slba, nr), write=bytes(length), sgl=sgl, in_capsule=in_capsule)

                assert ask(end - 1, 1).status == OK
                for slba, nr in ((end - 1, 2), (end, 1), (1 << 63, 1), ((1 << 64) - 1, 1), ((1 << 64) - 1, 2), ((1 << 64) - 8, 8),
                                 ((1 << 64) - 8, 16), (1 << 32, 1), (end - 7, 8), ((1 << 55) + 1, 1)):
                    a = ask(slba, nr)
                    assert a.status == LBA_RANGE and a.dnr, (opcode, slba, nr, a)
                for nr, length in ((10, 4096 if block == 512 else 4096 * 9), (8, 8 * block - 4), (8, 8 * block + 4), (1, 2 * block)):
                    a = ask(0, nr, length)
                    assert a.status == INVALID_SGL_LEN, (opcode, nr, length, a)
                for sgl in ((SGL_OF_DATA, 0, 0), (0, 0, 0)):
                    a = ask(0, 1, 0, sgl=sgl)
                    assert a.status in (INVALID_SGL_LEN, INVALID_FIELD), (opcode, a)
            for opcode in (NVM_WRITE_ZEROES, 0x0C):
                assert q.command(opcode, 1, rw_cdw(end - 1, 1)).status == OK
                for slba, nr in ((end, 1), (end - 1, 2), ((1 << 64) - 1, 1), ((1 << 64) - 1, 65536)):
                    assert q.command(opcode, 1, rw_cdw(slba, nr)).status == LBA_RANGE, (opcode, slba, nr)
            for slba, nr in ((end, 1), ((1 << 64) - 1, 2), (end - 1, 0xFFFFFFFF)): # Dataset Management, deallocate
                a = q.command(9, 1, (0, 4), write=struct.pack("<IIQ", 0, nr, slba))
                assert a.status == LBA_RANGE, (slba, nr, a)


# ---- hosts ----

def case_A15_removed_host_is_cut():
    other = "nqn.2026-01.org.example:other"
    for keep in (False, True):
        with Server("ram:16M", args=("--host", HOSTNQN, "--host", other), settle=False) as s:
            with Controller(s.addr, NQN) as c, Controller(s.addr, NQN, hostnqn=other, hostid=bytes([9] * 16)) as o:
                q, oq = c.io(), o.io()
                assert q.read(0, 1).status == OK
                done = run("ctl", "--control", s.control, "host", "rm", HOSTNQN, *(("--keep",) if keep else ()))
                if keep:
                    assert "stays connected" in done.stdout + done.stderr, done
                    assert q.read(0, 1).status == OK
                else:
                    q.ended()
                    c.admin.ended()
                assert oq.read(0, 1).status == OK, "another host is not concerned"
                new = Queue(s.addr)
                a = new.connect(NQN)
                assert a.status == CONNECT_HOST and a.dnr, a
                new.close()
                if keep: # also another queue of the controller that stays
                    new = Queue(s.addr)
                    assert new.connect(NQN, 2, 31, c.cntlid).status in (OK, CONNECT_HOST)
                    new.close()


# ---- the discovery log ----

def discovery_log(c, piece=4096, between=None):
    """GENCTR, the entries, GENCTR afterwards; read in pieces."""
    head = c.admin.log_page(0x70, 1024).data
    genctr, nr = struct.unpack_from("<QQ", head)
    text = b""
    for at in range(1024, 1024 + nr * 1024, piece):
        text += c.admin.log_page(0x70, min(piece, 1024 + nr * 1024 - at), at).data
        if between and at == 1024:
            between()
    after = struct.unpack_from("<Q", c.admin.log_page(0x70, 1024).data)[0]
    return genctr, [text[i:i + 1024] for i in range(0, len(text), 1024)], after


def case_A8_discovery_log_changes_under_the_reader():
    """200 subsystems, read in 4 KiB pieces; each change raises GENCTR."""
    config = f"listeners:\n  - address: {TRANSPORT}://127.0.0.1:0\nsubsystems:\n" + "".join(
        f"  - nqn: nqn.2026-01.org.example:s{i}\n    namespaces:\n      - spec: null:1G\n" for i in range(200))
    with Server(listen=(), args=("-c", config_file(config)), settle=False) as s:
        with Controller(s.addr, DISCOVERY_NQN) as c:
            def names(entries):
                return {e[256:512].split(b"\0")[0].decode() for e in entries}
            genctr, entries, after = discovery_log(c)
            assert genctr == after and len(entries) == 202 and len(names(entries)) == 202, (genctr, after, len(entries))
            for e in entries:
                assert e[0] == (1 if TRANSPORT == "rdma" else 3) and e[1] == 1 and e[512:768].rstrip(b" \0") == b"127.0.0.1" and int(e[32:64].rstrip(b" \0")) == s.addr[1]
                assert e[3] & 3 == 2, "not required"
                assert e[768:771] == (b"\1\4\1" if TRANSPORT == "rdma" else b"\0\0\0"), "no TLS; RDMA: connected, RoCE v2, IP_CM"
            was = genctr
            genctr, entries, after = discovery_log(c, between=lambda: s.ctl("subsystem", "add", "nqn.2026-01.org.example:new"))
            assert genctr == was and after != genctr, "the change shows"
            seen = {after}
            for change in (("subsystem", "rm", "nqn.2026-01.org.example:new"), ("listener", "add", f"{TRANSPORT}://127.0.0.1:0"),
                           ("subsystem", "set", "nqn.2026-01.org.example:s3", "--no-any-host"),
                           ("host", "add", "nqn.2026-01.org.example:s3", HOSTNQN)):
                s.ctl(*change)
                genctr = discovery_log(c)[0]
                assert genctr not in seen, f"GENCTR does not tell of {change}"
                seen.add(genctr)
        found = run("discover", f"nvme+{TRANSPORT}://127.0.0.1:{s.addr[1]}", "--json").stdout
        assert found.count('"type": "nvm"') == 2 * 201 - 2, found.count('"type": "nvm"') # s3 is not for that host; two listeners


def config_file(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".yaml")
    f.write(text)
    f.flush()
    KEEP.append(f)
    return f.name


KEEP = [] # files that go with the program


# ---- identify ----

def case_A10_identify_that_new_hosts_take():
    """What careful hosts look at before they use a controller."""
    for capsule, depth in ((8192, 128), (0, 16)):
        with Server("ram:16M", args=("--capsule", capsule, "--max-depth", depth)) as s:
            with Controller(s.addr, NQN) as c:
                page = c.admin.identify(1).data

                def u(form, at):
                    return struct.unpack_from("<" + form, page, at)[0]
                nn, mnan = u("I", 516), u("I", 540)
                assert 0 < mnan <= nn, (nn, mnan)
                assert u("H", 320), "KAS"
                assert u("I", 536) & 3 and u("I", 536) >> 20 & 1, "SGLS: SGLs, and an offset in the capsule"
                assert u("I", 1792) == (64 + capsule) // 16 and u("I", 1796) == 1, "IOCCSZ, IORCSZ"
                assert u("H", 1800) == 0, "ICDOFF"
                assert 0 < u("H", 514) <= 65535 and u("H", 514) == depth, "MAXCMD"
                assert c.admin.property(PROP_CAP, wide=True) & 0xFFFF == depth - 1
                assert u("H", 78) == c.cntlid and page[111] == 1 and page[512] == 0x66 and page[513] == 0x44
                name = page[768:1024].split(b"\0")[0].decode()
                assert name == NQN and not any(page[768 + len(name):1024]), name
                assert u("I", 80) == c.admin.property(PROP_VS)
                for field in (page[4:24], page[24:64], page[64:72]):
                    assert all(32 <= b < 127 for b in field), field
                if page[76] & 8: # ANA
                    assert u("I", 344) and u("I", 348) and mnan
            with Controller(s.addr, DISCOVERY_NQN) as c:
                page = c.admin.identify(1).data
                assert page[111] == 2 and page[768:1024].split(b"\0")[0].decode() == DISCOVERY_NQN


main()
