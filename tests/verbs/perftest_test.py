# SPDX-License-Identifier: Apache-2.0
"""perftest, unmodified, on the software RNIC: every operation by every transport that has it."""
from programs import *

need("ib_write_bw", "ib_send_lat")


def perftest(name, *options, line=r"^ *\d+ +\d+ +[\d.]+"):
    command = f"{name} -F -n 200 {' '.join(options)}"
    said, _ = pair(command, command + " 127.0.0.1")
    assert re.search(line, said, re.M), said


def test_write():
    perftest("ib_write_bw")
    perftest("ib_write_lat")


def test_read():
    perftest("ib_read_bw")
    perftest("ib_read_lat")


def test_atomic():
    for op in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        perftest("ib_atomic_bw", f"-A {op}")
        perftest("ib_atomic_lat", f"-A {op}")


def test_write_uc():
    perftest("ib_write_bw", "-c UC")
    perftest("ib_write_lat", "-c UC")


main()
