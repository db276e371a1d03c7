# SPDX-License-Identifier: Apache-2.0
"""Files that must not get what is not meant for them: closed standard streams, one file by two names, files that are served, streams,
copies that are cut short."""
import pathlib
import stat

from farlane import *

NQN = "nqn.2026-01.org.example:disk"


def test_log_with_closed_streams_stays_out_of_a_served_file():
    """With standard streams closed, the next file that is opened would be standard error, and each line of the log a write to it."""
    for closed in ("0<&- 1>&- 2>&-", "2>&-", "0<&- 2>&-", "1>&- 2>&-"):
        make_file("disk", 1 << 20)
        before = pathlib.Path("disk").read_bytes()
        r, w = os.pipe()
        control = os.path.abspath("control")
        command = ["bash", "-c", f'exec "$0" serve --ns file:disk --nqn {NQN} --listen tcp://127.0.0.1:0 --control "$1" --ready-fd "$2" {closed}',
                   EXE, control, str(w)]
        serve = subprocess.Popen(command, pass_fds=[w], env=dict(os.environ, FARLANE_LOG="debug"), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        os.close(w)
        assert os.read(r, 100) == b"ready\n", f"{closed}: serve did not start"
        os.close(r)
        url = run_json("ctl", "--control", control, "list", "--json")["listeners"][0]["url"]
        url = f"nvme+{url}/{NQN}"
        assert run("read", url, text=False).stdout == before
        refused("info", url + "x", status=NOT_FOUND, says="x") # a line in the log for sure
        fds = {fd: os.readlink(f"/proc/{serve.pid}/fd/{fd}") for fd in (0, 1, 2)}
        assert not [f for f in fds.values() if f.endswith("disk") or f.startswith("socket:")], fds
        serve.terminate()
        assert serve.wait(PATIENCE) == OK
        assert pathlib.Path("disk").read_bytes() == before, closed


def test_command_with_closed_streams():
    """A result that cannot be written is no result; what needs no output works."""
    make_file("a", 1 << 20)
    for command, status in ((["copy", "a", "b", "-q"], OK), (["info", "file:a"], FAILED), (["version"], FAILED)):
        done = subprocess.run(["bash", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "bash", EXE, *command])
        assert done.returncode == status, (command, done)
    assert pathlib.Path("b").read_bytes() == pathlib.Path("a").read_bytes()
    done = subprocess.run(["bash", "-c", 'exec "$@" 0<&-', "bash", EXE, "write", "ram:1M"], capture_output=True, text=True)
    assert done.returncode == FAILED and "standard input" in done.stderr, done


def test_copy_onto_itself():
    make_file("a", (1 << 20) + 77)
    before = pathlib.Path("a").read_bytes()
    os.mkdir("d")
    os.link("a", "hard")
    os.symlink("a", "soft")
    os.symlink("..", "d/up")
    for name in ("./a", "hard", "soft", "d/../a", "d/up/a", os.path.abspath("a")):
        refused("copy", "a", name, "--force", status=USAGE, says=["same file", "nothing was written"])
        refused("copy", name, "a", "--force", status=USAGE, says="same file")
    assert pathlib.Path("a").read_bytes() == before


def test_copy_makes_the_file_of_a_url():
    """As large as the source, in whole blocks, wherever the source is; and none is left of a copy that did not come to its end."""
    make_file("a", (1 << 20) + 512 + 77)
    for url, size in ("file:b", (1 << 20) + 1024), ("file:c%2Cd,bs=4096", (1 << 20) + 4096), ("file:e,size=2M", 2 << 20):
        run("copy", "a", url, "--verify")
        made = pathlib.Path(url[5:].split(",")[0].replace("%2C", ",")).read_bytes()
        assert made == pathlib.Path("a").read_bytes().ljust(size, b"\0"), url
    with Serve("--ns", "file:b", "--nqn", NQN) as s:
        run("copy", s.url, "file:f")
        assert pathlib.Path("f").read_bytes() == pathlib.Path("b").read_bytes()
    refused("copy", "a", "file:g,size=1M", status=FAILED, says=["too small", "nothing was written"])
    assert not os.path.exists("g")
    refused("copy", "a", "file:none/g", status=NOT_FOUND, says="nor does its folder")
    p = start_copy("null:64G", "file:h")
    wait_until("the copy to begin", lambda: os.path.exists("h") and os.stat("h").st_blocks)
    p.terminate()
    assert p.wait(PATIENCE) == 143 and "is removed" in p.stderr.read() and not os.path.exists("h")


def test_copy_to_a_served_file():
    make_file("a", 1 << 20, seed=2)
    make_file("served", 1 << 20)
    before = pathlib.Path("served").read_bytes()
    with Serve("--ns", "file:served", "--nqn", NQN) as s:
        refused("copy", "a", "served", "--force", status=FAILED, says=["served is in use by another program", "URL of the namespace"])
        assert run("read", s.url, text=False).stdout == before
        assert pathlib.Path("served").read_bytes() == before
        run("copy", "a", s.url, "--verify")
    assert pathlib.Path("served").read_bytes() == pathlib.Path("a").read_bytes()
    run("copy", "a", "served", "--force")


def test_served_file_that_is_deleted_or_replaced():
    """It is served on, and the operator is told once what that means."""
    for name in ("deleted", "replaced", "moved", "kept"):
        make_file(name, 1 << 20)
    with Serve("--ns", "file:deleted", "--ns", "file:replaced", "--ns", "file:moved", "--ns", "file:kept", "--ns", "ram:1M", "--nqn", NQN) as s:
        make_file("new", 1 << 20, seed=2)
        os.unlink("deleted")
        os.rename("new", "replaced")
        os.rename("moved", "elsewhere")
        said = [f'namespace 1 of {NQN}: "deleted" was deleted', f'namespace 2 of {NQN}: "replaced" is another file now',
                f'namespace 3 of {NQN}: "moved" was renamed or moved']
        wait_until("the three messages", lambda: all(words in s.errors() for words in said))
        for url in s.urls:
            assert len(run("read", url, text=False).stdout) == 1 << 20
        time.sleep(6) # they are looked at again
        log = s.errors()
        assert all(log.count(words) == 1 for words in said) and "kept" not in log, log
        s.ctl("ns", "add", "file:replaced")
        s.ctl("ns", "rm", 1)


def test_copy_from_and_to_what_has_no_size():
    os.mkfifo("fifo")
    start = time.monotonic()
    refused("copy", "fifo", "b", status=FAILED, says=["fifo is a stream without a size", "URL is needed"])
    refused("copy", "/dev/zero", "b", status=FAILED, says="/dev/zero")
    assert time.monotonic() - start < 10 and not os.path.exists("b")
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)


def test_copy_and_dash():
    make_file("a", 1 << 16)
    refused("copy", "a", "-", status=USAGE, says=["'-' is no file", "farlane read", "./-"])
    refused("copy", "-", "b", status=USAGE, says="farlane write")
    assert not os.path.exists("-") and not os.path.exists("b")
    run("copy", "a", "./-")
    assert pathlib.Path("-").read_bytes() == pathlib.Path("a").read_bytes()


def start_copy(*args):
    """A copy that is surely not over in the next seconds: one chunk at a time from a namespace that is larger than any disk."""
    return subprocess.Popen([EXE, "copy", *args, "--chunk", "4k", "--depth", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_interrupted_copy():
    for signo in (signal.SIGINT, signal.SIGTERM):
        p = start_copy("null:1T", "b")
        wait_until("the copy to begin", lambda: os.path.exists("b") and os.path.getsize("b"))
        p.send_signal(signo)
        said = p.communicate(timeout=PATIENCE)[1]
        assert p.returncode == 128 + signo, (p.returncode, said)
        assert "b was not complete, and is removed: interrupted" in said, said
        assert not os.path.exists("b")
    # What was there before stays, and is named.
    make_file("c", 4096)
    with open("c", "rb") as f:
        p = start_copy("null:1T", "c", "--force")
        wait_until("the copy to begin", lambda: os.path.getsize("c") > 4096)
    p.send_signal(signal.SIGINT)
    said = p.communicate(timeout=PATIENCE)[1]
    assert p.returncode == 130 and "c is now incomplete: interrupted" in said, (p.returncode, said)
    assert os.path.exists("c")


def test_interrupted_copy_to_a_target_that_is_gone():
    """What is in flight will not be answered: the interrupt must not wait for it."""
    with Serve("--ns", "null:1T", "--nqn", NQN) as s:
        p = start_copy("null:1T", s.url)
        wait_until("the copy to begin", lambda: sum(n["io"]["writes"] for n in s.get("/v1/namespaces")["namespaces"]) > 100)
        s.process.kill()
        s.process.wait()
        time.sleep(0.5)
        start = time.monotonic()
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=PATIENCE)[1]
        assert p.returncode == 130 and "interrupted" in said, (p.returncode, said)
        assert time.monotonic() - start < 10
        s.process.returncode = 0


def test_results_replace_only_their_own_kind():
    """A disk image, a program's text, a folder, a device stay what they are; what the same command wrote before is replaced."""
    def ctl_save(s, *args, **more):
        return run("ctl", "--control", s.control, "save", *args, **more)

    bench = ["bench", "ram:1M", "--depth", 1, "--seconds", 2, "--ramp", 0, "--save"]
    sim = ["sim", "--seed", 1, "--pcap"]
    make_file("live.img", 1 << 20)
    make_file("old.img", 1 << 20, seed=2)
    pathlib.Path("notes").write_text("# only a comment\n")
    pathlib.Path("list").write_text("a: 1\n")
    os.mkdir("dir")
    os.symlink("old.img", "link")
    kept = {name: pathlib.Path(name).read_bytes() for name in ("live.img", "old.img", "notes", "list")}
    with Serve("--ns", "file:live.img", "--ns", "ram:1M", "--nqn", NQN) as s:
        save = ["ctl", "--control", s.control, "save"]
        for command, kind in ((save, "farlane configuration"), (bench, "file of bench results"), (sim, "capture")):
            for name in ("old.img", "notes", "list", "link"):
                refused(*command, name, status=FAILED, says=[f"{name} is there already and is no {kind}", "--force"])
            for force in [], ["--force"]:
                refused(*command, "live.img", *force, status=FAILED, says=["live.img is in use", "not replaced"])
                refused(*command, "dir", *force, status=FAILED, says="dir is a folder")
                refused(*command, "/dev/null", *force, status=FAILED, says="/dev/null is a device")
        assert {name: pathlib.Path(name).read_bytes() for name in kept} == kept
        assert run("read", s.urls[0], text=False).stdout == kept["live.img"]
        for command, name in ((save, "config"), (bench, "results"), (sim, "capture")):
            pathlib.Path(name).write_bytes(b"")
            os.chmod(name, 0o640)
            run(*command, name) # an empty file, and then one of its own kind
            first = pathlib.Path(name).stat()
            assert first.st_size > 0
            run(*command, name)
            again = pathlib.Path(name).stat()
            assert again.st_size > 0 and again.st_ino != first.st_ino and stat.S_IMODE(again.st_mode) == 0o640, again
        for command, other in ((save, "results"), (bench, "capture"), (sim, "config")):
            refused(*command, other, status=FAILED, says="is there already")
        run(*save, "link", "--force") # the file that the link names
        assert os.path.islink("link") and b"listeners" in pathlib.Path("old.img").read_bytes()
        run(*bench, "notes", "--force")
        assert "results" in json.loads(pathlib.Path("notes").read_text())
        run(*sim, "list", "--force")
        assert pathlib.Path("list").read_bytes() == pathlib.Path("capture").read_bytes()
        assert not [name for name in os.listdir() if ".new-" in name]
        reader = subprocess.Popen(["bash", "-c", 'mkfifo fifo && cat fifo'], stdout=subprocess.PIPE)
        wait_until("the FIFO", lambda: os.path.exists("fifo"))
        run(*sim, "fifo")
        assert reader.communicate(timeout=PATIENCE)[0] == pathlib.Path("capture").read_bytes()


def test_copy_to_what_cannot_be_written():
    """Is known before, so that nothing is said to be incomplete."""
    make_file("a", 1 << 20, seed=2)
    make_file("protected", 1 << 20)
    make_file("used", 1 << 20)
    before = pathlib.Path("protected").read_bytes(), pathlib.Path("used").read_bytes()
    with Serve("--ns", "file:protected,ro=1", "--ns", "file:used", "--nqn", NQN) as s:
        for url, why in ((s.urls[0], "is read-only"), ("file:protected,ro=1,lock=0", "is read-only"), ("file:used", "is in use by another process")):
            done = refused("copy", "a", url, status=FAILED, says=[f"{url} {why}", "nothing was written"])
            assert "incomplete" not in done.stderr, done.stderr
    assert before == (pathlib.Path("protected").read_bytes(), pathlib.Path("used").read_bytes())


def test_write_cache():
    """What is in RAM is not called durable."""
    make_file("b", 1 << 20)
    for url, words in (("ram:1M", "ends with it"), ("null:1M", "nothing that is written is kept"), ("file:b", "flush to make writes durable")):
        said = [l for l in run("info", url).stdout.splitlines() if l.startswith("write cache")]
        assert len(said) == 1 and words in said[0], said
    with Serve("--ns", "ram:1M", "--nqn", NQN) as s:
        said = run("info", s.url).stdout
        assert "volatile: flush before you rely on it" in said and "durable" not in said, said


main()
