# SPDX-License-Identifier: Apache-2.0
"""librdmacm's own programs, unmodified, over the software RNIC's connection manager."""
from programs import *

need("rping", "ucmatose", "udaddy", "cmtime", "mckey", "rdma_client", "rdma_xclient", "rstream")

H = "127.0.0.1"


def both(server, client, again="REJECTED", **more):
    return pair(server, client, ready=None, again=again, **more)


def test_rping():
    both("rping -s -C 10", f"rping -c -a {H} -C 10", again="cma event RDMA_CM_EVENT_REJECTED")


def test_rping_validates_data():
    both("rping -s -C 5 -V -S 60000", f"rping -c -a {H} -C 5 -V -S 60000")


def test_rping_ipv6():
    both("rping -s -C 3 -a ::1", "rping -c -a ::1 -C 3")


def test_ucmatose():
    said, _ = both("ucmatose -c 4 -C 10", f"ucmatose -c 4 -C 10 -s {H}", again="cmatose: event")
    assert "return status 0" in said, said


def test_udaddy():
    said, _ = both("udaddy -c 3", f"udaddy -c 3 -s {H}", again="udaddy: event")
    assert "return status 0" in said, said


def test_synchronous():
    said, _ = both("rdma_server", f"rdma_client -s {H}", again="rdma_connect")
    assert "rdma_client: end 0" in said, said


def test_synchronous_without_a_word_of_inline_data():
    said, _ = both("rdma_xserver", f"rdma_xclient -s {H}", again="rdma_connect")
    assert "rdma_xclient: end 0" in said, said


def test_what_is_not_supported():
    """Multicast and sockets over RDMA: a clear refusal, and no crash."""
    assert "failure joining: Operation not supported" in run(f"mckey -m 239.1.1.1 -b {H}", status=255)
    assert "rsocket failed: Protocol not supported" in run("rstream", status=255)


main()
