# SPDX-License-Identifier: Apache-2.0
"""Wrong usage of every command: a line on standard error that says what, and what is allowed; status 2; nothing done."""
import pathlib
import subprocess

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
COMMANDS = ["serve", "ctl", "discover", "info", "read", "write", "copy", "bench", "tax", "advise", "sim", "rnic", "run", "doctor", "help", "version"]


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
    for c in COMMANDS[:14]:
        refused(c, "--no-such-option", status=USAGE, says=["--no-such-option", f"farlane {c} --help"])
        refused(c, "-Z", status=USAGE, says="-Z")
    refused("serve", "--listne", "x", status=USAGE, says="did you mean --listen?")
    refused("bench", "--seconds", status=USAGE, says="--seconds needs a value")
    refused("bench", "--json=1", "ram:1M", status=USAGE, says="--json takes no value")


def test_operands():
    refused("run", status=USAGE, says="which command?")
    refused("serve", status=USAGE, says="nothing to serve")
    refused("serve", "ram:1G", status=USAGE, says="--ns ram:1G")
    done = refused("serve", "--ns", "disk.img", "--control", "none", "--listen", "tcp://127.0.0.1:0", status=USAGE, says="file:disk.img")
    assert "nvme+" not in done.stderr, done.stderr
    for c in ("discover", "info", "read", "write", "copy", "bench"):
        refused(c, status=USAGE, says=f"farlane {c} ")
    refused("info", "ram:1M", "ram:2M", status=USAGE, says="'ram:2M' is too much")
    refused("copy", "a", "b", "c", status=USAGE, says="'c' is too much")
    refused("copy", "a", "a", status=USAGE, says="the same")
    refused("version", "x", status=USAGE, says="'x'")


def test_values():
    for option, value in [("--max-queues", "0"), ("--max-queues", "x"), ("--max-queues", "1025"), ("--max-depth", "1"), ("--max-depth", "1025"), ("--ready-fd", "-1")]:
        refused("serve", "--ns", "ram:1M", option, value, status=USAGE, says=[option, value])
    for option, value in [("--rw", "randomly"), ("--rw", "randrw:0"), ("--rw", "randrw:100"), ("--rw", "read:50"), ("--bs", "0"),
                          ("--bs", "513"), ("--bs", "x"), ("--depth", "0"), ("--depth", "1,,2"), ("--depth", ""), ("--jobs", "x"),
                          ("--seconds", "0"), ("--seconds", "x"), ("--seconds", "nan"), ("--ramp", "-1"), ("--cpus", "x"),
                          ("--wait", "x"), ("--size", "x"), ("--timeout", "0"), ("--cpus", "1023")]:
        refused("bench", "ram:1M", option, value, status=USAGE, says=option)
    refused("read", "ram:1M", "--offset", "-1", status=USAGE, says="--offset")
    refused("copy", "ram:1M", "b", "--chunk", "3000", status=USAGE, says="--chunk")
    refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", "tcp://127.0.0.1:0", "--poll", "x", status=USAGE,
            says="adaptive, busy, sleep")
    refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", "nowhere", status=USAGE, says="nowhere")


def test_urls():
    for url in ("ram:", "ram:x", "null:1", "nvme+tcp://", "nvme+tcp://h/nqn?ns=0", "nvme+tcp://h/nqn.2026-01.org.example:a?what=1",
                "http://x/"):
        done = subprocess.run([EXE, "info", url], capture_output=True, text=True)
        assert done.returncode == USAGE and len(done.stderr.splitlines()) == 1, (url, done)
    refused("info", "file:/no/such/file", status=NOT_FOUND, says="/no/such/file")
    refused("bench", "disk.img", status=USAGE, says="file:disk.img")
    with open("/dev/zero", "rb") as zeroes:
        done = subprocess.run([EXE, "write", "ram:4M"], stdin=zeroes, capture_output=True, text=True)
    assert done.returncode == FAILED and "is longer than ram:4M" in done.stderr and "of it are written" in done.stderr, done
    refused("discover", "127.0.0.1", status=USAGE, says=["'127.0.0.1'", "nvme+tcp://HOST"])
    refused("serve", "--ns", "file:none/x,size=1M", "--control", "none", status=NOT_FOUND, says='nor does its folder "none"')


def test_writes_are_not_an_accident():
    make_file("f", 1 << 20)
    before = open("f", "rb").read()
    for more in (["--rw", "randwrite"], ["--rw", "rw:50"], ["--verify"]):
        refused("bench", "file:f", *more, status=USAGE, says=["file:f would be overwritten", "--destroy-data"])
        refused("bench", "nvme+tcp://127.0.0.1:1/nqn.2026-01.org.example:a?ns=1", *more, status=USAGE, says="--destroy-data")
    assert open("f", "rb").read() == before


def test_output_that_cannot_be_written():
    """Whatever a command prints: when it is lost, that is a failure."""
    make_file("a", 1 << 16)
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s, open("/dev/full", "w") as full:
        ctl = ["ctl", "--control", s.control]
        for command in (["--help"], ["-h"], ["help"], ["help", "serve"], ["--version"], ["version"], *([c, "--help"] for c in COMMANDS),
                        ["info", "ram:1M"], ["info", s.url, "--json"], ["discover", s.discovery], ["discover", s.discovery, "--json"],
                        ["bench", "ram:1M", "--seconds", "0.1", "--ramp", "0", "--depth", "1"],
                        ["bench", "ram:1M", "--seconds", "0.1", "--ramp", "0", "--depth", "1", "--json"],
                        ["copy", "a", "b", "--force"], ["copy", "a", "b", "--force", "--json"], ["sim", "--seeds", "1"],
                        [*ctl, "list"], [*ctl, "list", "--json"], [*ctl, "status"], [*ctl, "connections"], [*ctl, "save"],
                        [*ctl, "metrics"], [*ctl, "ns", "add", "ram:1M"], ["serve", "--check", "--ns", "ram:1M", "--control", "none",
                                                                          "--listen", "tcp://127.0.0.1:0"]):
            done = subprocess.run([EXE, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            assert done.returncode == FAILED and "cannot write to standard output" in done.stderr, (command, done)
        done = subprocess.run([EXE, "read", s.url], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == FAILED and "No space left" in done.stderr, done
    p = subprocess.Popen([EXE, "read", "ram:64M"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(PATIENCE) == FAILED and p.stderr.read() == b""
    p.stderr.close()
    reader, writer = os.pipe()
    os.close(reader)
    for command in (["sim", "--seed", "3", "--trace"], ["help"]): # more than a buffer, and less
        done = subprocess.run([EXE, *command], stdout=writer, stderr=subprocess.PIPE, text=True)
        assert done.returncode == FAILED and done.stderr == "", done
    os.close(writer)


def test_ready_fd_that_is_none():
    """Whoever waits for the line would wait for ever."""
    with open("/dev/null") as f:
        for fd, says in ((999, "not open"), (f.fileno(), "not open for writing")):
            refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", "tcp://127.0.0.1:0", "--ready-fd", fd, status=USAGE,
                    says=[f"--ready-fd {fd}", says], pass_fds=[f.fileno()])
    done = subprocess.run(["bash", "-c", 'exec "$@" 1>&-', "bash", EXE, "serve", "--ns", "ram:1M", "--control", "none", "--ready-fd", "1"],
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == USAGE and "--ready-fd 1" in done.stderr, done


def test_exit_statuses():
    """2: what was given cannot be right, in an option, a URL or a configuration. 1: it was right, and it failed."""
    quiet = ["--control", "none", "--listen", "tcp://127.0.0.1:0"]
    for bad in (["--poll", "x"], ["--cores", "x"], ["--cores", "9999"], ["--mdts", "5000"], ["--mdts", "4096"], ["--mdts", "x"], ["--capsule", "7"], ["--buffers", "x"],
                ["--serial", "x" * 21], ["--nqn", "x"], ["--host", "x"], ["--ns", "rom:1M"], ["--ns", "ram:1M,bs=3"], ["--ns", "ram:100"],
                ["--listen", "udp://127.0.0.1"], ["--listen", "tcp://127.0.0.1:99999"], ["--metrics", "x"], ["--max-depth", "5000"]):
        refused("serve", "--ns", "ram:1M", *quiet, *bad, status=USAGE, says="")
    with open("bad.yaml", "w") as f:
        f.write("colour: red\n")
    refused("serve", "-c", "bad.yaml", *quiet, status=USAGE, says="bad.yaml:1:1")
    for url in ("ram:x", "ram:100", "disk.img", "nvme+tcp://h:99999/nqn.2026-01.org.example:a", "nvme+tcp://h/x"):
        for command in ("info", "read"):
            refused(command, url, status=USAGE, says="")
    refused("write", "ram:x", status=USAGE, says="", input="")
    refused("discover", "file:x", status=USAGE, says="")
    refused("copy", "ram:x", "b", status=USAGE, says="")
    refused("bench", "ram:x", status=USAGE, says="")
    refused("serve", *quiet, "--ns", "file:/no/such/file", status=NOT_FOUND, says="/no/such/file")
    with Serve("--ns", "ram:1M") as s:
        refused("serve", "--ns", "ram:1M", "--control", "none", "--listen", f"tcp://127.0.0.1:{s.ports[0]}", status=FAILED, says="listen")
        for bad in (["ns", "add", "rom:1M"], ["ns", "resize", "1", "x"], ["host", "add", "x"], ["listener", "add", "x"]):
            refused("ctl", "--control", s.control, *bad, status=USAGE, says="")
        refused("ctl", "--control", s.control, "ns", "add", "ram:1M", "--nsid", 1, status=FAILED, says="already")


def test_completion():
    script = pathlib.Path(__file__).parents[2] / "tools" / "farlane" / "completion.bash"
    for words, wanted in [(["be"], "bench"), (["bench", "--dest"], "--destroy-data"), (["ctl", "li"], "list listener"),
                          (["ctl", "ns", ""], "add rm resize")]:
        done = subprocess.run(["bash", "-c", 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _farlane; echo "${COMPREPLY[*]}"',
                               "bash", str(script), EXE, *words], capture_output=True, text=True)
        assert done.stdout.strip() == wanted, (words, done)


main()
