# SPDX-License-Identifier: Apache-2.0
"""Wrong usage of every command: a line on standard error that says what, and what is allowed; status 2; nothing done."""
import pathlib
import subprocess

from farlane import *

COMMANDS = ["serve", "ctl", "discover", "info", "read", "write", "copy", "bench", "sim", "help", "version"]


def test_help():
    overview = run("help").stdout
    assert run("--help").stdout == overview and run("-h").stdout == overview
    for c in COMMANDS:
        assert f"  {c} " in overview, c
        said = run(c, "--help").stdout
        assert said.startswith(f"farlane {c}: ") and f"Usage: farlane {c}" in said, said
        assert run("help", c).stdout == said
        assert "\033" not in said
        if c not in ("help", "version", "ctl"):
            assert "Example" in said, c
        for line in said.splitlines():
            assert len(line) <= 132, line
    assert run("version").stdout == run("--version").stdout and "farlane " in run("version").stdout


def test_unknown_commands_and_options():
    refused("sreve", status=USAGE, says="did you mean 'farlane serve'?")
    refused("xyzzy", status=USAGE, says="farlane help")
    refused("help", "xyzzy", status=USAGE, says="xyzzy")
    assert subprocess.run([EXE], capture_output=True).returncode == USAGE
    for c in COMMANDS[:9]:
        refused(c, "--no-such-option", status=USAGE, says=["--no-such-option", f"farlane {c} --help"])
        refused(c, "-Z", status=USAGE, says="-Z")
    refused("serve", "--listne", "x", status=USAGE, says="did you mean --listen?")
    refused("bench", "--seconds", status=USAGE, says="--seconds needs a value")
    refused("bench", "--json=1", "ram:1M", status=USAGE, says="--json takes no value")


def test_operands():
    refused("serve", status=USAGE, says="nothing to serve")
    refused("serve", "ram:1G", status=USAGE, says="--ns ram:1G")
    for c in ("discover", "info", "read", "write", "copy", "bench"):
        refused(c, status=USAGE, says=f"farlane {c} ")
    refused("info", "ram:1M", "ram:2M", status=USAGE, says="'ram:2M' is too much")
    refused("copy", "a", "b", "c", status=USAGE, says="'c' is too much")
    refused("copy", "a", "a", status=USAGE, says="the same")
    refused("version", "x", status=USAGE, says="'x'")


def test_values():
    for option, value in [("--max-queues", "0"), ("--max-queues", "x"), ("--max-depth", "1"), ("--ready-fd", "-1")]:
        refused("serve", "--ns", "ram:1M", option, value, status=USAGE, says=[option, value])
    for option, value in [("--rw", "randomly"), ("--rw", "randrw:0"), ("--rw", "randrw:100"), ("--rw", "read:50"), ("--bs", "0"),
                          ("--bs", "513"), ("--bs", "x"), ("--depth", "0"), ("--depth", "1,,2"), ("--depth", ""), ("--jobs", "x"),
                          ("--seconds", "0"), ("--seconds", "x"), ("--seconds", "nan"), ("--ramp", "-1"), ("--cpus", "x"),
                          ("--wait", "x"), ("--size", "x"), ("--timeout", "0")]:
        refused("bench", "ram:1M", option, value, status=USAGE, says=option)
    refused("read", "ram:1M", "--offset", "-1", status=USAGE, says="--offset")
    refused("copy", "ram:1M", "b", "--chunk", "3000", status=USAGE, says="--chunk")
    refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", "tcp://127.0.0.1:0", "--poll", "x", status=FAILED,
            says="adaptive, busy, sleep")
    refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", "nowhere", status=FAILED, says="nowhere")


def test_urls():
    for url in ("ram:", "ram:x", "null:1", "nvme+tcp://", "nvme+tcp://h/nqn?ns=0", "nvme+tcp://h/nqn.2026-01.org.example:a?what=1",
                "http://x/"):
        done = subprocess.run([EXE, "info", url], capture_output=True, text=True)
        assert done.returncode in (FAILED, NOT_FOUND) and len(done.stderr.splitlines()) == 1, (url, done)
    refused("info", "file:/no/such/file", status=NOT_FOUND, says="/no/such/file")
    refused("bench", "disk.img", status=USAGE, says="file:disk.img")


def test_writes_are_not_an_accident():
    make_file("f", 1 << 20)
    before = open("f", "rb").read()
    for more in (["--rw", "randwrite"], ["--rw", "rw:50"], ["--verify"]):
        refused("bench", "file:f", *more, status=USAGE, says=["file:f would be overwritten", "--destroy-data"])
        refused("bench", "nvme+tcp://127.0.0.1:1/nqn.2026-01.org.example:a?ns=1", *more, status=USAGE, says="--destroy-data")
    assert open("f", "rb").read() == before


def test_output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        done = subprocess.run([EXE, "info", "ram:1M"], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == FAILED and "standard output" in done.stderr, done
    p = subprocess.Popen([EXE, "read", "ram:64M"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(PATIENCE) == FAILED and p.stderr.read() == b""
    p.stderr.close()


def test_completion():
    script = pathlib.Path(__file__).parents[2] / "tools" / "farlane" / "completion.bash"
    for words, wanted in [(["be"], "bench"), (["bench", "--dest"], "--destroy-data"), (["ctl", "li"], "list listener"),
                          (["ctl", "ns", ""], "add rm resize")]:
        done = subprocess.run(["bash", "-c", 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _farlane; echo "${COMPREPLY[*]}"',
                               "bash", str(script), EXE, *words], capture_output=True, text=True)
        assert done.stdout.strip() == wanted, (words, done)


main()
