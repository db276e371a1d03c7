# SPDX-License-Identifier: Apache-2.0
"""farlane run: what it sets up, for the command, its children and its threads; and where it must not be in the way."""
import tempfile

from programs import *

need("ibv_devices", "ibv_rc_pingpong", "cc")
HERE = pathlib.Path(__file__).resolve().parent


def farlane(*args, status=0, **more):
    env = environment()
    env["LD_PRELOAD"] = ":".join(sanitizers())
    env.update(more)
    done = subprocess.run([EXE, "run", *args], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == status, f"farlane run {' '.join(args)}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def test_devices():
    assert "farlane0" in farlane("--", "ibv_devices").stdout
    assert "farlane0" in farlane("ibv_devices").stdout
    assert "farlane0" in farlane("--only", "--", "ibv_devices").stdout
    assert "farlane0" in farlane("--device", "farlane0", "ibv_devices").stdout
    none = farlane("--device", "nothing0", "ibv_devices")
    assert "farlane0" not in none.stdout and "there is no RDMA device 'nothing0' now" in none.stderr, none
    assert "there is no" not in farlane("--device", "farlane0", "ibv_devices").stderr


def test_status_and_arguments_are_the_command_s():
    farlane("--", "sh", "-c", "exit 42", status=42)
    assert farlane("--", "echo", "--stats", "-x").stdout == "--stats -x\n"
    assert "no-such-command" in farlane("no-such-command", status=127).stderr
    farlane("/", status=126)
    assert "which command?" in farlane(status=2).stderr
    assert "no name of a device" in farlane("--device", "a,b", "true", status=2).stderr


def test_children_see_it():
    assert "farlane0" in farlane("sh", "-c", "(ibv_devices)").stdout
    assert "first" in farlane("sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD=":".join([*sanitizers(), "/first"])).stdout


def test_container_without_privileges():
    """No /dev/infiniband, nothing to be written to but 64 KiB of /dev/shm, not root."""
    if not shutil.which("bwrap"):
        raise AssertionError("bwrap (bubblewrap) is not installed")
    preload = ":".join(sanitizers())
    inside = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--size", "65536", "--tmpfs", "/dev/shm", "--unshare-user", "--uid", "1000", "--gid", "1000",
              "--unshare-pid", "--proc", "/proc", "--cap-drop", "ALL", "--die-with-parent", "sh", "-c"]
    pingpong = f"{EXE} run -- ibv_rc_pingpong -g 0"
    said = subprocess.run([*inside, f"id -u; touch /tmp/x; ls /dev/infiniband; {EXE} run -- ibv_devices; {pingpong} & sleep 1; {pingpong} 127.0.0.1 && wait $! && echo both"],
                          env=dict(environment(), LD_PRELOAD=preload), capture_output=True, text=True, timeout=PATIENCE)
    out = said.stdout + said.stderr
    assert out.startswith("1000\n") or "\n1000\n" in out, out
    assert "Read-only file system" in out and "/dev/infiniband': No such file" in out, out
    assert "farlane0" in out and out.count("1000 iters in") == 2 and "both" in out, out


def test_stats():
    s = subprocess.Popen([EXE, "run", "--", "ibv_rc_pingpong", "-g", "0"], env=dict(environment(), LD_PRELOAD=":".join(sanitizers())),
                         stdout=subprocess.DEVNULL)
    started(s, lambda: listening(18515))
    said = farlane("--stats", "ibv_rc_pingpong", "-g", "0", "127.0.0.1")
    assert s.wait(PATIENCE) == 0
    assert "1000 iters in" in said.stdout, said.stdout
    assert re.search(r"software RNIC of process \d+ .*\n  1 queue pair of farlane0, destroyed: shm, .+: .+ \(\d.* sent\)\n"
                     r".*farlane0.*\n +\d+ +(?:tx_packets|message)", said.stderr), said.stderr


def test_programs_that_look_for_the_library_themselves():
    """dlopen() of libibverbs gives the drop-in's functions; of others, what their own run path says."""
    if sanitizers():
        return  # their own dlopen() stands in front and loses the caller's RUNPATH
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/private")
        pathlib.Path(f"{folder}/plugin.c").write_text("int answer(void) { return 42; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{folder}/private/libplugin.so", f"{folder}/plugin.c"], check=True)
        subprocess.run(["cc", "-Wall", "-Werror", "-o", f"{folder}/opens", HERE / "opens.c", "-pthread", f"-Wl,--enable-new-dtags,-rpath,{folder}/private"],
                       check=True)
        said = farlane(f"{folder}/opens").stdout
    assert "farlane0 by dlopen\n" in said and "plugin 42\n" in said, said
    assert "farlane0 by a thread\n" in said and "farlane0 by a child\n" in said, said


main()
