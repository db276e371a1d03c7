# SPDX-License-Identifier: Apache-2.0
"""qperf's tests of RDMA, unmodified, over the software RNIC, as on any RoCE: those that can use the connection manager (-cm1)."""
from programs import *

need("qperf")

PORT = 19765
TESTS = ("rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat "
         "rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add").split()


def test_reliable_connections():
    said, _ = pair("qperf", "qperf -cm1 -t 1 127.0.0.1 " + " ".join(TESTS) + " quit", ready=lambda: listening(PORT))
    for test in TESTS:
        assert re.search(rf"^{test}:\n +(bw|latency|msg_rate) += +[\d.]+ ", said, re.M), said


def test_what_is_not_supported():
    """Its other tests name the peer by InfiniBand's LID alone: refused with words, as on other RoCE."""
    command = "qperf 127.0.0.1 uc_bw"
    server = subprocess.Popen(["qperf"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        started(server, lambda: listening(PORT))
        assert "failed to modify QP to RTR" in run(command, status=1)
    finally:
        server.kill()
        server.wait()


main()
