# SPDX-License-Identifier: Apache-2.0
"""NVMe over RDMA on a wire that loses, doubles, delays and reorders, farlane at both ends. Status 77 where networks of our own are
not allowed."""
import json
import os
import random
import subprocess
import sys
import time

os.environ["FL_CASES_TRANSPORT"] = "rdma"
os.environ["FARLANE_ROCE_PORT"] = str(4791) # that of the standard, in networks of our own
os.environ["FARLANE_HUB"] = f"farlane-wire-{os.getpid()}" # a process of each network is the only one in it
import lossy
import product
from lossy import CM_DREP, CM_DREQ, CM_MRA, CM_REJ, CM_REP, CM_REQ, CM_RTU, Wire, cm_message
from product import EXE, NQN, PATIENCE, SANITIZED, Server, die_with_us, sanitizer_complaint, wait_until
from runner import main


class Target(Server):
    """In the target's network; looked at through its control socket."""

    def __init__(self, wire, *spec, args=()):
        self.wire = wire
        prefix = wire.target.prefix()
        product.EXE_PREFIX[:] = prefix
        try:
            super().__init__(*spec, args=args, listen=(f"rdma://{wire.target.addr}:4420",), growth_kib=40960, warm=False)
        finally:
            product.EXE_PREFIX[:] = []

    def serves(self):
        pass


def host(wire, *args, timeout=PATIENCE):
    done = subprocess.run([*wire.host.prefix(), EXE, *map(str, args)], capture_output=True, timeout=timeout)
    complaint = sanitizer_complaint(done.stderr.decode(errors="replace"))
    assert not complaint, complaint
    assert done.returncode >= 0, f"killed by signal {-done.returncode}: {done.stderr}"
    return done


def url(wire):
    return f"nvme+rdma://{wire.target.addr}/{NQN}?ns=1"


def with_wire(case):
    def run():
        wire = Wire()
        try:
            with Target(wire, "ram:16M") as s:
                wire.server = s
                case(wire)
                wire.rule = lambda packet, from_host: [0]
                assert host(wire, "read", url(wire), "--length", 4096, "-f").returncode == 0
        finally:
            wire.close()
    run.__doc__ = case.__doc__
    return run


def once(kind, copies, times=1):
    """What happens to the first so many messages of a kind in each direction; all others pass."""
    left = {True: times, False: times}

    def rule(packet, from_host):
        if cm_message(packet) != kind or not left[from_host]:
            return [0]
        left[from_host] -= 1
        return copies
    rule.left = left
    return rule


@with_wire
def case_R8_cm_messages_lost(wire):
    """Each kind of message, the first one and the first two: they are sent again, and the host does not notice."""
    for kind in (CM_REQ, CM_REP, CM_RTU, CM_DREQ, CM_DREP):
        for times in (1, 2):
            wire.rule = once(kind, [], times)
            done = host(wire, "read", url(wire), "--length", 65536, "-f")
            assert done.returncode == 0 and len(done.stdout) == 65536, (hex(kind), times, done)
            wire.rule = lambda packet, from_host: [0]
            wire.server.wait_empty(f"after message {kind:#x} was lost {times} times")
    assert wire.nr_lost >= 8 and {CM_REQ, CM_REP, CM_RTU, CM_DREQ} <= {k for k, _ in wire.seen}, wire.seen


@with_wire
def case_R8_cm_messages_doubled_and_late(wire):
    """Twice, and so late that what follows overtakes them."""
    for kind in (CM_REQ, CM_REP, CM_RTU, CM_DREQ, CM_DREP):
        for copies in ([0, 0], [0, 0.3], [0.3], [0.05, 0.01, 0]):
            wire.rule = once(kind, copies, 100)
            done = host(wire, "read", url(wire), "--length", 65536, "-f")
            assert done.returncode == 0 and len(done.stdout) == 65536, (hex(kind), copies, done)
            wire.server.wait_empty(f"after message {kind:#x} came as {copies}")


@with_wire
def case_R8_hosts_cut_off(wire):
    """After so many packets nothing passes any more, at every step of connecting and of the first commands; then the host is killed."""
    for n in (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25, 40):
        passed = [0]

        def rule(packet, from_host):
            passed[0] += 1
            return [0] if passed[0] <= n else []
        wire.rule = rule
        job = subprocess.Popen([*wire.host.prefix(), EXE, "bench", url(wire), "--seconds", "30", "--depth", "8", "--rw", "randrw:50", "--destroy-data",
                                "--bs", "64k"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_us)
        time.sleep(1.5 if SANITIZED else 0.6)
        job.kill()
        job.wait()
    wire.server.wait_empty("after hosts were cut off")


@with_wire
def case_V7_lossy_wire(wire):
    """One packet in a hundred lost, some doubled, some late: the data is right all the same."""
    chance = random.Random(5)

    def rule(packet, from_host):
        x = chance.random()
        return [] if x < 0.01 else [0, 0] if x < 0.02 else [0.002] if x < 0.04 else [0]
    wire.rule = rule
    for job in (("4k", 16), ("64k", 4)):
        done = host(wire, "bench", url(wire), "--json", "--verify", "--destroy-data", "--rw", "randrw:50", "--bs", job[0], "--depth", job[1],
                    "--seconds", 2, "--ramp", 0.1, timeout=120)
        assert done.returncode == 0, done
        r = json.loads(done.stdout)
        assert (r[0] if isinstance(r, list) else r)["reads"] > 0
    assert wire.nr_lost > 10, wire.nr_lost


@with_wire
def case_late_copies(wire):
    """One packet in ten comes once more 20 ms later, when the memory it is about has been closed: nothing fails."""
    wire.rule = lossy.late_copies(random.Random(7))
    done = host(wire, "bench", url(wire), "--json", "--verify", "--destroy-data", "--rw", "randrw:50", "--bs", "64k", "--depth", 4,
                "--seconds", 2, "--ramp", 0.1, timeout=120)
    assert done.returncode == 0, done
    assert b"lost" not in done.stderr, done.stderr
    for _ in range(5):
        for job in (("write", url(wire)), ("read", url(wire), "--length", "64k", "-f")):
            done = subprocess.run([*wire.host.prefix(), EXE, *job], input=b"x" * 40000, capture_output=True, timeout=PATIENCE)
            assert done.returncode == 0, done.stderr
            assert b"lost" not in done.stderr, done.stderr
    assert wire.nr_lost == 0, wire.nr_lost


if not lossy.allowed():
    print("no networks of our own here")
    sys.exit(77)
main()
