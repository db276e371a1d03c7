# SPDX-License-Identifier: Apache-2.0
"""perftest, unmodified, on the software RNIC: every operation by every transport that has it, and the ways to ask for it."""
from programs import *

need("ib_write_bw", "ib_send_lat")

# Latency tests poll at both ends: few turns, as a core may be all that there is for both.
ITERS = 50


def perftest(name, *options, **more):
    command = f"{name} -F -n {ITERS} {' '.join(options)}"
    said, _ = pair(command, command + " 127.0.0.1", **more)
    assert re.search(r"^ *\d+ +\d+ +[\d.]+", said, re.M), said


def with_cm(name, *options):
    """Its server refuses what comes between its exchange of data and its second listen, and its client then breaks down."""
    for _ in range(6):
        try:
            perftest(name, "-R", *options, ready=cm_listening)
            return
        except AssertionError as fault:
            if "CM event" not in str(fault):
                raise
    raise AssertionError(f"{name} -R was refused each time")


def test_write():
    perftest("ib_write_bw")
    perftest("ib_write_lat")


def test_read():
    perftest("ib_read_bw", "-o 4")
    perftest("ib_read_lat")


def test_send():
    perftest("ib_send_bw")
    perftest("ib_send_lat")


def test_atomic():
    for op in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        perftest("ib_atomic_bw", f"-A {op}")
        perftest("ib_atomic_lat", f"-A {op}")


def test_unreliable_connection():
    perftest("ib_write_bw", "-c UC")
    perftest("ib_write_lat", "-c UC")
    perftest("ib_send_bw", "-c UC")
    perftest("ib_send_lat", "-c UC")


def test_datagrams():
    perftest("ib_send_bw", "-c UD")
    perftest("ib_send_lat", "-c UD")
    perftest("ib_send_bw", "-c UD", "-q 4", "-b")


def test_events():
    perftest("ib_send_bw", "-e")
    perftest("ib_send_lat", "-e")
    perftest("ib_read_lat", "-e")
    perftest("ib_atomic_lat", "-e")
    perftest("ib_send_lat", "-c UD", "-e")


def test_many_queue_pairs_both_ways():
    perftest("ib_write_bw", "-q 8", "-b")
    perftest("ib_read_bw", "-q 8", "-b")
    perftest("ib_send_bw", "-q 8", "-b")
    perftest("ib_write_bw", "-q 16")


def test_sizes():
    for size in (1, 64, 4096, 65536, 1 << 20):
        perftest("ib_write_bw", f"-s {size}")
        perftest("ib_send_bw", f"-s {size}")


def test_all_sizes_in_one_run():
    perftest("ib_write_bw", "-a -n 10", "-x 1")


def test_inline_and_lists():
    perftest("ib_write_bw", "-s 64", "-I 64")
    perftest("ib_write_lat", "-s 64", "-I 64")
    perftest("ib_write_bw", "-s 8", "-l 5")  # of which the turns are a multiple


def test_shared_receive_queue():
    perftest("ib_send_bw", "--use-srq", "-q 4")
    perftest("ib_send_lat", "--use-srq")


def test_old_and_new_ways_to_post():
    perftest("ib_write_bw", "--use_old_post_send")
    perftest("ib_write_bw", "-m 512", "-Q 1", "-x 0")


def test_by_the_connection_manager():
    with_cm("ib_write_bw")
    with_cm("ib_read_bw", "-q 4")
    with_cm("ib_send_bw", "-c UD")
    with_cm("ib_send_lat", "-c UD")


def test_what_is_not_supported():
    for kind, words in (("XRC", "Error opening XRC domain"), ("DC", "Unable to create QP")):
        command = f"ib_write_bw -F -c {kind}"
        for said in pair(command, command + " 127.0.0.1", status=(1, 1)):
            assert words in said, said


main()
