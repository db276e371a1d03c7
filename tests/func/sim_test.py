# SPDX-License-Identifier: Apache-2.0
"""farlane sim: a seed is the same run each time, traced and captured; what cannot be is refused."""
import struct

from farlane import *


def test_seeds():
    said = run("sim", "--seed", 7, "--seeds", 40).stdout
    assert said.startswith("40 seeds, ") and said.endswith("all invariants hold\n"), said
    assert run("sim").stdout.startswith("300 seeds, ")


def test_a_seed_is_the_same_run_each_time():
    first = run("sim", "--seed", 5, "--trace").stdout
    assert first == run("sim", "--seed=5", "--trace").stdout
    assert " send " in first and " complete " in first and "psn " in first
    assert first != run("sim", "--seed", 6, "--trace").stdout


def test_capture():
    said = run("sim", "--seed", 3, "--pcap", "a.pcap").stdout
    nr = int(said.split("seeds, ")[1].split()[0])
    data = open("a.pcap", "rb").read()
    magic, = struct.unpack_from("<I", data)
    assert magic == 0xa1b23c4d
    at, found = 24, 0
    while at < len(data):
        length, = struct.unpack_from("<I", data, at + 8)
        assert data[at + 16] == 0x45 and data[at + 25] == 17, "IPv4 and UDP"
        at += 16 + length
        found += 1
    assert at == len(data) and found == nr, (found, nr)


def test_refused():
    refused("sim", "--seeds", "0", status=USAGE, says="--seeds")
    refused("sim", "--seed", "x", status=USAGE, says="--seed")
    refused("sim", "5", status=USAGE, says="'5' is too much")
    refused("sim", "--seed", "1", "--seeds", "2", "--trace", status=USAGE, says=["--trace", "one seed"])
    refused("sim", "--seeds", "2", "--pcap", "x", status=USAGE, says=["--pcap", "one seed"])
    refused("sim", "--seed", "1", "--pcap", "/no/such/folder/x", status=NOT_FOUND, says="/no/such/folder/x")
    with open("/dev/full", "wb"):
        refused("sim", "--seed", "1", "--pcap", "/dev/full", status=FAILED, says="/dev/full")


main()
