# SPDX-License-Identifier: Apache-2.0
"""farlane rnic: what processes, queue pairs and counters it shows, to whom; what is forged is counted. After the command: rnic_peers."""
import re
import zlib

from farlane import *

PEERS = os.path.abspath(sys.argv.pop(2))
NR_HUBS = 0

COUNTERS = {"tx_packets", "rx_packets", "tx_bytes", "rx_bytes", "ring_tx_packets", "direct_mapped", "direct_process_vm", "direct_left",
            "direct_bytes", "resent_packets", "resent_by_timeout", "resent_by_gap", "resent_selectively", "rnr_nak_tx", "rnr_nak_rx",
            "nak_tx_sequence", "nak_tx_invalid_request", "nak_tx_remote_access", "nak_tx_remote_operational", "nak_rx_sequence",
            "nak_rx_invalid_request", "nak_rx_remote_access", "nak_rx_remote_operational", "cnp_tx", "cnp_rx", "duplicates_rx",
            "dropped_rx", "foreign_rx"}
PROCESS_COUNTERS = {"udp_tx_packets", "udp_rx_packets", "bad_icrc", "bad_packet", "unknown_qpn", "foreign_packets"}


def own_hub(**more):
    """An environment with a UDP port and a hub that nobody else has."""
    global NR_HUBS
    NR_HUBS += 1
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind(("::", 0))
    port = s.getsockname()[1]
    s.close()
    return dict(os.environ, FARLANE_ROCE_PORT=str(port), FARLANE_HUB=f"farlane-rnic-test-{os.getpid()}-{NR_HUBS}", **more)


class Peers:
    def __init__(self, **more):
        self.env = own_hub(**more)
        self.port = int(self.env["FARLANE_ROCE_PORT"])
        self.process = subprocess.Popen([PEERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env)
        line = self.process.stdout.readline()
        assert line, "rnic_peers did not start"
        self.said = json.loads(line)

    def json(self, *args, **more):
        document = run_json("rnic", *args, "--json", env=self.env, **more)
        check_schema(document, args[:1] and args[0])
        return document

    def processes(self):
        return {p["pid"]: p for p in self.json()["processes"]}

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0 or why[0]
        self.process.stdout.close()


def check_schema(document, what):
    assert set(document) == {"devices": {"devices"}, "qps": {"udp_port", "processes"}, "stats": {"udp_port", "processes"}}.get(
        what, {"devices", "udp_port", "processes"}), document.keys()
    for d in document.get("devices", []):
        assert set(d) == {"name", "interface", "state", "mtu", "interface_mtu", "speed_mbps", "gids"}
        assert d["state"] in ("active", "down") and d["mtu"] in (256, 512, 1024, 2048, 4096)
        assert d["gids"] and all(set(g) == {"index", "gid", "assigned"} for g in d["gids"])
    for p in document.get("processes", []):
        known = {"pid", "command", "uid", "user", "slot", "role", "details"}
        assert set(p) == known | ({"counters", "devices", "queue_pairs"} if p["details"] else {"why"}), p.keys()
        assert p["role"] in ("hub", "member") and p["slot"] > 0
        if not p["details"]:
            continue
        assert PROCESS_COUNTERS <= set(p["counters"])
        for d in p["devices"]:
            assert set(d) == {"name", "interface", "counters"} and COUNTERS <= set(d["counters"])
        for q in p["queue_pairs"]:
            assert set(q) == {"number", "type", "state", "device", "mtu", "sends_posted", "receives_posted", "gid", "peer_gid",
                              "peer_number", "path", "how", "source_ports", "reason", "limited_to_bytes_per_s", "counters"}
            assert COUNTERS <= set(q["counters"]) and all(isinstance(n, int) and n >= 0 for n in q["counters"].values())
            assert q["path"] in ("shm", "udp", "none") and q["reason"] and q["type"] in ("RC", "UC", "UD")


def test_nobody():
    env = own_hub()
    said = run("rnic", env=env).stdout
    assert "DEVICE" in said and "no process here uses the software RNIC" in said and env["FARLANE_ROCE_PORT"] in said
    assert run("rnic", "devices", env=env).stdout in said
    document = run_json("rnic", "--json", env=env)
    check_schema(document, None)
    assert document["processes"] == [] and any(d["interface"] == "lo" for d in document["devices"])
    for what in ("qps", "stats"):
        refused("rnic", what, status=NOT_FOUND, says="no process here uses the software RNIC", env=env)
        assert json.loads(run("rnic", what, "--json", status=NOT_FOUND, env=env).stdout)["processes"] == []
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        s.bind(("::", int(env["FARLANE_ROCE_PORT"])))
        refused("rnic", "qps", status=NOT_FOUND, says=["is not farlane's", "rdma_rxe"], env=env)


def test_shared_memory():
    with Peers() as peers:
        said = peers.said
        here = peers.processes()
        assert set(here) == set(said["pids"])
        first, second = (here[pid] for pid in said["pids"])
        assert first["command"] == "rnic_peers" and first["uid"] == os.getuid() and first["details"]
        assert [first, second][said["hub"]]["role"] == "hub" and [second, first][said["hub"]]["role"] == "member"
        assert first["slot"] != second["slot"]
        (q,), (r,) = first["queue_pairs"], second["queue_pairs"]
        assert [q["number"], r["number"]] == said["qpns"] == [r["peer_number"], q["peer_number"]]
        assert q["gid"] == r["peer_gid"] and (q["type"], q["state"], q["mtu"]) == ("RC", "RTS", 4096)
        assert (q["path"], q["how"]) == ("shm", "mapped+process_vm+message+engine") and "not from farlane's pools" in q["reason"]
        c = q["counters"]
        for name in ("tx_packets", "tx_bytes", "direct_mapped", "direct_process_vm"):
            assert c[name] == said[name], (name, c[name], said[name])
        # the wait for a mapping reads once or more, before it is there by process_vm
        assert c["direct_process_vm"] >= 3 and c["direct_mapped"] >= 6 and c["ring_tx_packets"] >= 40, c
        assert (c["message_tx"], c["message_tx_bytes"]) == (100, 6400) == (r["counters"]["message_rx"], r["counters"]["message_rx_bytes"])
        assert r["counters"]["rx_packets"] == c["tx_packets"] and r["counters"]["rx_bytes"] == c["tx_bytes"] >= 4 * 40000
        assert r["how"] == "engine" and "SENDs" in r["reason"]
        (device,) = [d for d in first["devices"] if d["name"] == q["device"]]
        assert device["interface"] == "lo" and device["counters"] == c

        table = run("rnic", env=peers.env).stdout
        line, = [l for l in table.splitlines() if f" {said['qpns'][0]:#08x} " in l and "RTS" in l and str(said["pids"][0]) in l.split()[0]]
        assert "shm" in line and "mapped+process_vm+message+engine" in line and "127.0.0.1" in line or "::1" in line, line
        assert f" {(c['tx_bytes'] + 6400) / 1024:.0f} KiB " in line, (line, c)  # also what went without packets
        stats = run("rnic", "stats", env=peers.env).stdout
        assert re.search(rf"^ +{said['direct_process_vm']}  direct_process_vm  ", stats, re.M), stats
        qpn = said["qpns"][0]
        for written in qpn, f"{qpn:#x}", f"0x{qpn:08X}":  # as in --json, of ib_write_bw, of others
            one = run("rnic", "stats", "--qp", written, env=peers.env).stdout
            assert f"queue pair {qpn:#08x} ({qpn}) of process {said['pids'][0]} " in one and "peer" in one and "direct_mapped" in one, one
        refused("rnic", "stats", "--qp", 2, status=NOT_FOUND, says="no queue pair 0x000002", env=peers.env)
        for wrong in "0x", "0x1", "0x1000000", "0x12g", "12h", "0x-5":
            refused("rnic", "stats", "--qp", wrong, status=USAGE, says="--qp", env=peers.env)
        assert [p["pid"] for p in peers.json("qps", "--pid", said["pids"][1])["processes"]] == [said["pids"][1]]
        refused("rnic", "qps", "--pid", os.getpid(), status=NOT_FOUND, says="does not use", env=peers.env)


def test_watch():
    with Peers() as peers:
        watch = subprocess.Popen([EXE, "rnic", "qps", "--json", "--watch", "1"], stdout=subprocess.PIPE, text=True, env=peers.env)
        for _ in range(2):
            check_schema(json.loads(watch.stdout.readline()), "qps")
        watch.kill()
        watch.wait()
        watch.stdout.close()
        watch = subprocess.Popen([EXE, "rnic", "--watch", "1"], stdout=subprocess.PIPE, text=True, env=peers.env)
        heads = []
        while len(heads) < 2:
            line = watch.stdout.readline()
            if line.split()[:1] == ["PID"] and "MOVED" in line:
                heads.append(line)
        watch.kill()
        watch.wait()
        watch.stdout.close()
        assert "RATE" not in heads[0] and "RATE" in heads[1], heads


def test_prometheus():
    with Peers() as peers:
        text = run("rnic", "stats", "--prometheus", env=peers.env).stdout
        family, seen = None, {}
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split()[2]
                assert re.fullmatch(r"farlane_rnic_[a-z_]+", family)
            elif line.startswith("# TYPE "):
                assert line.split()[2:] == [family, "counter" if family.endswith("_total") else "gauge"]
            else:
                m = re.fullmatch(r'([a-z_]+)(\{pid="\d+",command="[^"]+"(?:,device="[^"]+")?\}) (\d+)', line)
                assert m and m[1] == family and m[1] + m[2] not in seen, line
                seen[m[1] + m[2]] = int(m[3])
        pid = peers.said["pids"][0]
        assert seen[f'farlane_rnic_queue_pairs{{pid="{pid}",command="rnic_peers"}}'] == 1
        sums = [n for name, n in seen.items() if name.startswith(f'farlane_rnic_direct_process_vm_total{{pid="{pid}"')]
        assert sum(sums) == 3


def packet(qpn, sport, dport, src, dst, right=True):
    """SEND only, with an ICRC over the fields as RoCE v2 masks them (identification 0, DF)."""
    bth = bytes([0x04, 0x40, 0xff, 0xff, 0]) + qpn.to_bytes(3, "big") + bytes([0x80, 0, 0, 7])
    body = bth + b"forged??"
    length = 8 + len(body) + 4
    masked = (b"\xff" * 8 + bytes([0x45, 0xff]) + (20 + length).to_bytes(2, "big") + b"\0\0\x40\0\xff\x11\xff\xff" + src + dst +
              sport.to_bytes(2, "big") + dport.to_bytes(2, "big") + length.to_bytes(2, "big") + b"\xff\xff" + body[:4] + b"\xff" + body[5:])
    icrc = zlib.crc32(masked) ^ (0 if right else 0xffffffff)
    return body + icrc.to_bytes(4, "little")


def test_forged_packets_are_counted():
    with Peers(FARLANE_SHM="0") as peers:
        q = peers.processes()[peers.said["pids"][0]]["queue_pairs"][0]
        assert q["path"] == "udp" and q["how"] == "go-back-N" and "switched off" in q["reason"] and "selective" in q["reason"]
        assert q["gid"].startswith("::ffff:127."), q["gid"]
        dst = socket.inet_aton(q["gid"].rsplit(":", 1)[1])
        hub = peers.said["pids"][peers.said["hub"]]
        before = peers.processes()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: DO, as every RoCE v2 sender
            s.bind(("127.0.0.2", 0))
            sport, src = s.getsockname()[1], socket.inet_aton("127.0.0.2")
            for qpn, right, times in ((q["number"], True, 5), (q["number"], False, 7), (5, True, 11)):
                for _ in range(times):
                    s.sendto(packet(qpn, sport, peers.port, src, dst, right), (socket.inet_ntoa(dst), peers.port))

        def grown(pid, name):
            return now[pid]["counters"][name] - before[pid]["counters"][name]

        def counted():
            nonlocal now
            now = peers.processes()
            return grown(hub, "unknown_qpn") == 11 and grown(peers.said["pids"][0], "bad_icrc") == 7 and \
                grown(peers.said["pids"][0], "foreign_packets") == 5
        now = {}
        wait_until("forged packets are counted", counted)
        after = now[peers.said["pids"][0]]["queue_pairs"][0]
        assert after["counters"]["foreign_rx"] == 5 and after["state"] == "RTS"
        assert after["counters"]["rx_packets"] == q["counters"]["rx_packets"]
        stats = run("rnic", "stats", "--pid", peers.said["pids"][0], env=peers.env).stdout
        for count, name in ((7, "bad_icrc"), (5, "foreign_packets"), (5, "foreign_rx")):
            assert re.search(rf"^ +{count}  {name}  ", stats, re.M), stats


def test_another_user_sees_less():
    if os.geteuid() != 0:
        raise NotTested("another user's view, since only root can start a process of one")
    os.chmod(".", 0o755)
    shutil.copy(EXE, "farlane")
    with Peers() as peers:
        def as_nobody(*args):
            return subprocess.run([os.path.abspath("farlane"), "rnic", *args], env=peers.env, user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True)
        done = as_nobody("--json")
        assert done.returncode == OK, done
        document = json.loads(done.stdout)
        check_schema(document, None)
        seen = {p["pid"]: p for p in document["processes"]}
        assert set(seen) == set(peers.said["pids"])
        for p in seen.values():
            assert not p["details"] and "another user's" in p["why"] and p["user"] == "root"
        assert seen[peers.said["pids"][peers.said["hub"]]]["role"] == "hub"
        done = as_nobody()
        assert done.returncode == OK and "another user's" in done.stdout and f'{peers.said["qpns"][0]:06x}' not in done.stdout
        for what in ("qps", "stats"):
            done = as_nobody(what)
            assert done.returncode == DENIED and "another user's" in done.stderr and (what == "stats" or done.stdout == ""), done


def test_killed_and_stopped_processes():
    for victim in (0, 1):  # the hub, the other one
        with Peers() as peers:
            pid = peers.said["pids"][peers.said["hub"] ^ victim]
            stop(pid)
            if victim == 0:
                refused("rnic", "qps", status=UNREACHABLE, says=[f"process {pid}", "is it stopped?"], env=peers.env)
            else:
                seen = peers.processes()
                assert seen[pid]["why"] == "does not answer: is it stopped?" and sum(p["details"] for p in seen.values()) == 1
            os.kill(pid, signal.SIGCONT)
            wait_until("it goes on", lambda: peers.processes().get(pid, {}).get("details"))
            if pid == peers.said["pids"][0]:
                continue  # it holds the other one's life
            os.kill(pid, signal.SIGKILL)
            wait_until("it is off the list", lambda: set(peers.processes()) == {peers.said["pids"][0]})


def test_at_exit():
    with Peers(FARLANE_RNIC_STATS="stats.txt") as peers:
        said = peers.said
    text = open("stats.txt").read()
    assert f"software RNIC of process {said['pids'][0]} (rnic_peers)" in text
    for name in ("tx_packets", "direct_process_vm"):
        assert re.search(rf"^ +{said[name]}  {name}  ", text, re.M), text


def test_refused():
    env = own_hub()
    refused("rnic", "qqs", status=USAGE, says="did you mean 'qps'?", env=env)
    refused("rnic", "devices", "qps", status=USAGE, says="'qps' is too much", env=env)
    refused("rnic", "--watch", "0", status=USAGE, says="--watch", env=env)
    refused("rnic", "qps", "--prometheus", status=USAGE, says="--prometheus goes with 'stats'", env=env)
    refused("rnic", "stats", "--prometheus", "--json", status=USAGE, says="--json", env=env)
    refused("rnic", "--qp", "17", status=USAGE, says="--qp goes with 'stats'", env=env)
    refused("rnic", "stats", "--qp", "17", "--json", status=USAGE, says="--qp", env=env)


main()
