# SPDX-License-Identifier: Apache-2.0
"""libibverbs' own programs, unmodified, on the software RNIC."""
from programs import *

need("ibv_devices", "ibv_devinfo", "ibv_rc_pingpong")

ITERS = 200


def pingpong(name, *options):
    command = f"ibv_{name}_pingpong -g 0 -n {ITERS} {' '.join(options)}"
    for said in pair(command, command + " 127.0.0.1"):
        assert f"{ITERS} iters in" in said, said


def test_devices():
    assert re.search(r"^ *farlane0\s+\w{16}$", run("ibv_devices"), re.M)


def test_devinfo():
    said = run("ibv_devinfo -v")
    for words in ("hca_id:\tfarlane0", "state:\t\t\tPORT_ACTIVE (4)", "link_layer:\t\tEthernet", "::ffff:127.0.0.1, RoCE v2",
                  "atomic_cap:\t\t\tATOMIC_HCA (1)"):
        assert words in said, f"{words}\n{said}"
    assert "farlane0" in run("ibv_devinfo -l")


def test_rc():
    pingpong("rc")


def test_rc_events():
    pingpong("rc", "-e")


def test_rc_validates_data():
    pingpong("rc", "-c", "-s 100000")


def test_rc_timestamps():
    pingpong("rc", "-t")


def test_rc_extended_posts():
    pingpong("rc", "-N")


def test_uc():
    pingpong("uc")
    pingpong("uc", "-e")


def test_ud():
    pingpong("ud")
    pingpong("ud", "-e", "-c")


def test_srq():
    pingpong("srq", "-q 4")


def test_srq_events():
    pingpong("srq", "-e", "-q 4")


def test_what_is_not_supported():
    """XRC, on-demand paging, device memory: a clear error at both ends, and no crash."""
    for command, words in (("ibv_xsrq_pingpong -g 0", "Couldn't Open the XRC Domain"),
                           ("ibv_rc_pingpong -g 0 -o", "isn't ODP capable"),
                           ("ibv_rc_pingpong -g 0 -j", "doesn't support dm allocation")):
        assert words in run(command, status=1)


main()
