# SPDX-License-Identifier: Apache-2.0
"""UCX, unmodified, over the software RNIC: its transports over RC and UD queue pairs, and what it builds of them."""
from programs import *

need("ucx_perftest", "ucx_info", "io_demo", "ip")

PORT = 13337
ADDRESS = "10.77.0.1"


def perftest(transports, test, size=8):
    """Its server binds its port before it looks for a client; both poll, so few turns."""
    command = f"ucx_perftest -t {test} -s {size} -n 50 -w 5 -p {PORT}"
    said, _ = pair(command, command + " 127.0.0.1", ready=lambda: listening(PORT), UCX_TLS=transports, UCX_NET_DEVICES="farlane0:1")
    assert re.search(r"^Final: +50 ", said, re.M), said


def test_devices():
    said = run("ucx_info -d")
    for words in ("rc_verbs", "ud_verbs", "Device: farlane0:1"):
        assert words in said, f"{words}\n{said}"


def test_reliable_connection():
    for test in ("tag_lat", "tag_bw", "stream_bw", "ucp_am_lat", "ucp_put_lat", "ucp_get", "ucp_fadd", "ucp_cswap"):
        perftest("rc_v,self", test)
    perftest("rc_v,self", "tag_bw", 1 << 20)


def test_datagrams():
    for test in ("tag_lat", "tag_bw", "ucp_put_bw"):
        perftest("ud_v,self", test)


def test_connections_by_the_connection_manager():
    """Its client tries again by itself; its server goes on until it is killed."""
    real_interface(ADDRESS)
    for transport in ("rc_v", "ud_v"):
        env = environment(UCX_TLS=transport + ",self", UCX_NET_DEVICES="farlane1:1", UCX_SOCKADDR_TLS_PRIORITY="rdmacm")
        server = subprocess.Popen(["io_demo", "-p", str(PORT)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            client = ["io_demo", "-i", "50", "-o", "read,write", f"{ADDRESS}:{PORT}"]
            done = subprocess.run(client, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
            assert done.returncode == 0 and "status 'OK'" in done.stdout, done.stdout
        finally:
            server.kill()
            server.wait()


main()
