# SPDX-License-Identifier: Apache-2.0
"""farlane explain: the path that is taken, why no better one, on this machine and on ones that are made up below a folder."""
import os

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
WAYS = ["hardware", "shm", "udp", "tcp"]

os.environ["FARLANE_ROCE_PORT"] = str(20000 + os.getpid() % 12000)
os.environ["FARLANE_HUB"] = f"farlane-explain-{os.getpid()}"
os.environ.pop("FARLANE_SHM", None)


def put(path, text=""):
    path = pathlib.Path("root") / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def machine(state="4: ACTIVE", kind="RoCE v2", ifname="lo"):
    """One whose RNIC has the loopback's address, so that no root is needed to have a route by it."""
    shutil.rmtree("root", ignore_errors=True)
    pathlib.Path("root").mkdir()
    os.environ["FARLANE_ROOT"] = os.path.abspath("root")
    if state:
        port = "sys/class/infiniband/mlx5_0/ports/1/"
        put("sys/class/infiniband/mlx5_0/node_type", "1: CA")
        put(port + "state", state)
        put(port + "link_layer", "Ethernet")
        put(port + "gids/3", "0000:0000:0000:0000:0000:ffff:7f00:0001")
        put(port + "gid_attrs/types/3", kind)
        put(port + "gid_attrs/ndevs/3", ifname)
        put("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
        put("dev/infiniband/uverbs0")
        put("dev/infiniband/rdma_cm")


def explain(url, *args, status=OK):
    """As JSON, once it is clear that both forms tell the same and each better way has its reason."""
    text = run("explain", url, *args, status=status).stdout
    told = json.loads(run("explain", url, *args, "--json", status=status).stdout)
    if told["path"] != "local":
        assert (told["path"] is None) == bool(told["error"]), told
        better = WAYS[:WAYS.index(told["path"])] if told["path"] else WAYS
        assert list(told["why_not"]) == better, told
        for way in better:
            assert told["why_not"][way], told
            assert told["why_not"][way].split(":")[0] in text or not told["connected"], (told, text)
    return told


def test_what_is():
    machine(state=None)
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen=["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as s:
        rdma, tcp = s.urls if "rdma" in s.urls[0] else s.urls[::-1]
        told = explain(rdma)
        assert told["path"] == "shm" and told["connected"] and told["this_host"] and told["target_pid"] == s.pid, told
        assert told["source"] == "127.0.0.1" and told["route"]["kind"] == "local", told
        assert told["device"]["kind"] == "software" and told["device"]["gid"] == "::ffff:127.0.0.1", told
        assert "no RDMA device" in told["why_not"]["hardware"], told
        assert explain(rdma.split("/" + NQN)[0])["path"] == "shm"  # a discovery service
        told = explain(tcp)
        assert told["path"] == "tcp" and told["device"] is None and told["error"] is None, told
        assert "no RDMA device" in told["why_not"]["hardware"] and "write nvme+rdma://" in told["why_not"]["shm"], told
        os.environ["FARLANE_SHM"] = "0"
        try:
            told = explain(rdma)
            assert told["path"] == "udp" and "switched off" in told["why_not"]["shm"], told
        finally:
            del os.environ["FARLANE_SHM"]


def test_a_target_that_does_not_share():
    """What is expected differs from what is: explain tells what is."""
    machine(state=None)
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen="rdma://127.0.0.1:0", env={**os.environ, "FARLANE_SHM": "0"}) as s:
        assert explain(s.url, "--no-connect")["path"] == "shm"
        told = explain(s.url)
        assert told["path"] == "udp" and told["connected"] and told["why_not"]["shm"], told


def test_fallback():
    machine(state=None)
    with Serve("--ns", "ram:1M", "--nqn", NQN, listen="tcp://127.0.0.1:0") as s:
        rdma = s.url.replace("+tcp", "+rdma")
        told = explain(rdma, status=UNREACHABLE)
        assert not told["connected"] and told["path"] is None and "nobody listens" in told["error"], told
        why = told["why_not"]
        assert "no RDMA device" in why["hardware"] and why["shm"] == why["udp"] == "nobody listens for NVMe/RDMA there", told
        assert "write nvme+tcp://" in why["tcp"] and told["device"]["kind"] == "software", told
        assert "path      none" in run("explain", rdma, status=UNREACHABLE).stdout
        told = explain(rdma + "&fallback=tcp")
        assert told["path"] == "tcp" and told["connected"] and "nobody listens" in told["why_not"]["udp"], told
        refused("explain", rdma + "&fallback=tcp", "--require", "rdma", status=LESSER_PATH, says="RDMA is required")
        refused("explain", s.url, "--require", "rdma", status=LESSER_PATH, says="write nvme+rdma://")
        assert explain(rdma + "&fallback=tcp", "--require", "rdma", status=LESSER_PATH)["why_not"]["tcp"] == "RDMA is required"
        for command in "info", "explain":
            done = run(command, rdma, "--require", "hardware", status=LESSER_PATH)
            assert "RDMA by hardware is required and cannot be had: this machine has no RDMA device" in done.stderr, done
    told = explain(s.url, status=UNREACHABLE)
    assert "onnection refused" in told["why_not"]["tcp"] and "write nvme+rdma://" in told["why_not"]["shm"], told
    told = explain(rdma + "&fallback=tcp", status=UNREACHABLE)
    assert "onnection refused" in told["why_not"]["tcp"] and told["why_not"]["udp"] == "it could not be connected to", told


def test_machines():
    url = f"nvme+rdma://127.0.0.1/{NQN}"
    machine()
    told = explain(url, "--no-connect")
    assert told["path"] == "hardware" and not told["connected"], told
    assert told["device"] == {"name": "mlx5_0", "kind": "hardware", "port": 1, "gid_index": 3, "gid": "::ffff:127.0.0.1", "interface": "lo"}, told
    assert told["why_not"] == {}, told
    assert explain(url + "?dev=soft", "--no-connect")["path"] == "shm"
    assert explain(url.replace("rdma", "tcp"), "--no-connect")["why_not"]["hardware"].startswith("the URL asks for TCP")
    for made, says in (({"state": "1: DOWN"}, "mlx5_0 port 1 is DOWN"), ({"kind": "IB/RoCE v1"}, "RoCE v1 only"),
                       ({"ifname": "eth7"}, None), ({"state": None}, "no RDMA device")):
        machine(**made)
        told = explain(url, "--no-connect")
        if says is None:  # a peer of this host is reached whichever interface has the address
            assert told["path"] == "hardware", told
        else:
            assert told["path"] == "shm" and says in told["why_not"]["hardware"], told
    machine()
    (pathlib.Path("root") / "dev/infiniband/rdma_cm").unlink()
    assert "modprobe rdma_ucm" in explain(url, "--no-connect")["why_not"]["hardware"]
    machine(state=None)
    told = explain(url + "?dev=hardware", "--no-connect", status=NOT_FOUND)
    assert told["path"] is None and "no RDMA device" in told["error"], told
    assert explain(url + "?dev=hardware&fallback=tcp", "--no-connect")["path"] == "tcp"
    refused("explain", url + "?dev=mlx5_9", "--no-connect", status=NOT_FOUND, says=["no such RDMA device", "farlane"])


def test_local_and_wrong():
    assert explain("ram:1M")["path"] == "local"
    assert explain("file:nothing-there")["path"] == "local"
    refused("explain", status=USAGE, says="which URL")
    refused("explain", "disk.img", status=USAGE, says="not a URL")
    refused("explain", "rdma://127.0.0.1", status=USAGE, says="where a target listens: write nvme+rdma://127.0.0.1")
    refused("explain", "nvme+rdma://host.invalid/" + NQN, status=UNREACHABLE, says="cannot be found")


main()
