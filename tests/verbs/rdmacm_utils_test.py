# SPDX-License-Identifier: Apache-2.0
"""librdmacm's own programs, unmodified, over the software RNIC's connection manager."""
import glob

from programs import *

need("rping", "ucmatose", "udaddy", "cmtime", "mckey", "rdma_client", "rdma_xclient", "rstream", "riostream", "rcopy")

H = "127.0.0.1"
# rping's thread for events comes back to the channel when the main thread has destroyed it and is about to end.
LATE = r"^rdma_get_cm_event: Bad file descriptor$"


def both(server, client, **more):
    return pair(server, client, ready=cm_listening, **more)


def test_rping():
    both("rping -s -C 10", f"rping -c -a {H} -C 10", afresh=LATE)


def test_rping_validates_data():
    both("rping -s -C 5 -V -S 60000", f"rping -c -a {H} -C 5 -V -S 60000", afresh=LATE)


def test_rping_ipv6():
    both("rping -s -C 3 -a ::1", "rping -c -a ::1 -C 3", afresh=LATE)


def test_ucmatose():
    said, _ = both("ucmatose -c 4 -C 10", f"ucmatose -c 4 -C 10 -s {H}")
    assert "return status 0" in said, said


def test_udaddy():
    said, _ = both("udaddy -c 3", f"udaddy -c 3 -s {H}")
    assert "return status 0" in said, said


def test_synchronous():
    said, _ = both("rdma_server", f"rdma_client -s {H}")
    assert "rdma_client: end 0" in said, said


def test_synchronous_without_a_word_of_inline_data():
    said, _ = both("rdma_xserver", f"rdma_xclient -s {H}")
    assert "rdma_xclient: end 0" in said, said


def test_cmtime():
    """Its server does not end by itself."""
    server = subprocess.Popen(["cmtime", "-c", "20"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            done = subprocess.run(["cmtime", "-c", "20", "-s", H], env=environment(), capture_output=True, text=True, timeout=PATIENCE)
            if re.search(r"^connect +: .*[1-9]", done.stdout, re.M):
                break
            assert time.monotonic() < deadline and server.poll() is None, done.stdout + done.stderr
            time.sleep(0.1)
    finally:
        stop(server)


def stream(program, *options, address=H, **more):
    """Few turns: both ends poll, and a core may be all that there is for both. Its -T a takes it for an error that the peer
    has closed, even with the last data there, so it is not used here."""
    line = f"{program} -I 5 -C 20 {' '.join(options)}"
    said, _ = both(line + (f" -b {address}" if address != H else ""), f"{line} -s {address}", **more)
    assert re.search(r"^custom ", said, re.M), said


def test_sockets():
    for size in (16, 5000, 300000):  # its own hello has 16 bytes
        stream("rstream", f"-S {size} -T v")
    for way in ("b", "n", "r"):
        stream("rstream", "-S 5000", f"-T {way}")
    stream("rstream", "-S 5000", address="::1")


def test_sockets_with_mapped_memory():
    """Its server listens first and sets its options then; a connection that librdmacm's thread has taken in between has none, and
    lets its client map no memory."""
    for size in (64, 5000, 300000):
        stream("riostream", f"-S {size} -T v", afresh="^riomap: Cannot allocate memory$")


def test_a_file_by_sockets():
    with tempfile.TemporaryDirectory() as folder:
        source, copy = pathlib.Path(folder) / "source", pathlib.Path(folder) / "copy"
        source.write_bytes(os.urandom(3000000))
        server = subprocess.Popen(["rcopy"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + PATIENCE
        try:
            while True:
                done = subprocess.run(["rcopy", source, f"{H}:{copy}"], env=environment(), capture_output=True, text=True,
                                      timeout=PATIENCE)
                if done.returncode == 0:
                    break
                assert "refused" in done.stderr and time.monotonic() < deadline, done.stdout + done.stderr
                time.sleep(0.1)
            assert copy.read_bytes() == source.read_bytes()
        finally:
            server.kill()
            server.wait()


def test_sockets_of_a_program_that_knows_none():
    """rstream's ordinary sockets, by librspreload: nothing goes by TCP."""
    found = glob.glob("/usr/lib/*/rsocket/librspreload.so")
    assert found, "librspreload.so is not there"
    libraries = environment()["LD_PRELOAD"] + ":" + found[0]
    said, _ = both("rstream -I 5 -C 20 -S 5000 -T s", f"rstream -I 5 -C 20 -S 5000 -T s -s {H}",
                   LD_PRELOAD=libraries, FARLANE_RNIC_STATS="stderr")
    assert re.search(r"^custom ", said, re.M) and "farlane0" in said, said


def test_sockets_are_refused_with_a_release_that_is_not_known():
    real = [os.path.realpath(path) for path in glob.glob("/usr/lib/*/librdmacm.so.1")]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(real[0], f"{folder}/librdmacm.so.1.3.999.0")
        os.symlink("librdmacm.so.1.3.999.0", f"{folder}/librdmacm.so.1")
        said = run("rstream", status=255, LD_LIBRARY_PATH=folder)
    assert "sockets over RDMA are not supported" in said and "rsocket failed: Protocol not supported" in said, said


def test_what_is_not_supported():
    """Multicast, and datagrams by sockets, which are for InfiniBand: a clear refusal, and no crash."""
    assert "failure joining: Operation not supported" in run(f"mckey -m 239.1.1.1 -b {H}", status=255)
    server = subprocess.Popen(["udpong"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        assert "RoCE needs a GID" in run(f"udpong -s {H}", status=255)
    finally:
        server.kill()
        server.wait()


main()
