# SPDX-License-Identifier: Apache-2.0
"""UCX, unmodified, over the software RNIC: its transports over RC and UD queue pairs, and what it builds of them."""
from programs import *

need("ucx_perftest", "ucx_info")

PORT = 13337


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


main()
