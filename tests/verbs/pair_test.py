# SPDX-License-Identifier: Apache-2.0
"""How the tests with two programs end when a program does not."""
import programs
from programs import *

programs.GRACE = 0.2


def script(folder, name, text):
    path = pathlib.Path(folder) / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def fault(*args, **more):
    start = time.monotonic()
    try:
        pair(*args, ready=None, **more)
    except AssertionError as said:
        assert time.monotonic() - start < PATIENCE / 4, "it waited for long"
        return str(said)
    raise RuntimeError("no fault was found")


def test_one_that_fails_does_not_make_the_other_wait():
    assert "sleep 1000: does not end" in fault("sleep 1000", "false")
    assert "sleep 1000: does not end" in fault("false", "sleep 1000")


def test_statuses():
    pair("true", "true", ready=None)
    pair("false", "false", ready=None, status=(1, 1))
    assert "statuses 1, 0" in fault("false", "true")
    assert "statuses 0, 1" in fault("true", "false")
    assert "statuses 0, 0" in fault("true", "true", status=(0, 1))


def test_what_is_tried_again():
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "lines"

        def starts():
            return lines.read_text() if lines.exists() else ""
        server = script(folder, "server", f"echo s >>{lines}\nwhile [ $(grep -c c {lines}) -lt $1 ]; do sleep 0.1; done")
        client = script(folder, "client", f"echo c >>{lines}\n[ $(grep -c c {lines}) = 3 ] || {{ echo not yet; exit 1; }}")
        pair(f"{server} 3", client, ready=None, again="^not yet")
        assert starts() == "s\nc\nc\nc\n" or starts() == "c\ns\nc\nc\n", starts()
        lines.unlink()
        pair(f"{server} 1", client, ready=None, afresh="^not yet$")
        assert sorted(starts()) == sorted("s\nc\n" * 3), starts()
        lines.unlink()
        assert "not yet" in fault(f"{server} 1000", client, afresh="^another")
        assert sorted(starts()) == sorted("s\nc\n"), starts()


main()
