# SPDX-License-Identifier: Apache-2.0
"""libfabric's verbs provider, unmodified, over the software RNIC: datagrams, connections, and its layer of reliable datagrams on those."""
from programs import *

need("fi_info", "fi_pingpong", "ip")

PORT = 47592 # of its control connection
ADDRESS = "10.77.0.1"


def pingpong(provider, kind, address):
    command = f"fi_pingpong -p {provider} -e {kind} -I 20"
    for said in pair(command, f"{command} {address}", ready=lambda: listening(PORT)):
        assert re.search(r"^1k +20 +=20 ", said, re.M), said
        assert kind == "dgram" or re.search(r"^1m +20 +=20 ", said, re.M), said


def test_info():
    assert "domain: farlane0-dgram" in run("fi_info -p verbs -t FI_EP_DGRAM")


def test_datagrams():
    pingpong("verbs", "dgram", "127.0.0.1")


def test_connections():
    """It leaves the loopback interface out, and where there is no other it has no device for connections."""
    real_interface(ADDRESS)
    assert "type: FI_EP_MSG" in run("fi_info -p verbs")
    pingpong("verbs", "msg", ADDRESS)


def test_reliable_datagrams_on_connections():
    pingpong("verbs;ofi_rxm", "rdm", ADDRESS)


main()
