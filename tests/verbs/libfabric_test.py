# SPDX-License-Identifier: Apache-2.0
"""libfabric's verbs provider, unmodified, over the software RNIC: datagrams. Of connected endpoints it makes none on a loopback interface."""
from programs import *

need("fi_info", "fi_pingpong")

PORT = 47592 # of its control connection


def test_info():
    assert "domain: farlane0-dgram" in run("fi_info -p verbs -t FI_EP_DGRAM")


def test_datagrams():
    command = "fi_pingpong -p verbs -e dgram -I 20"
    for said in pair(command, command + " 127.0.0.1", ready=lambda: listening(PORT)):
        assert re.search(r"^1k +20 +=20 ", said, re.M), said


main()
