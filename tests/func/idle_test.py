# SPDX-License-Identifier: Apache-2.0
"""D10: an idle target with idle hosts takes next to no CPU, and little memory."""
import subprocess
import time

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
WATCHED_S = 10


def idle_hosts(s, n):
    """Hosts that are connected and wait: their output is not read."""
    hosts = [subprocess.Popen([EXE, "read", s.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(n)]
    wait_until("the hosts", lambda: s.get("/v1/status")["connections"] >= 2 * n)
    for h in hosts:
        h.stdout.read(1)
    time.sleep(1)
    return hosts


def end(hosts):
    for h in hosts:
        h.kill()
        h.wait()
        h.stdout.close()


def test_cpu_of_an_idle_target():
    for poll in ("adaptive", "sleep"):
        with Serve("--ns", "ram:64M", "--nqn", NQN, "--poll", poll) as s:
            hosts = idle_hosts(s, 1)
            before = s.cpu_s()
            time.sleep(WATCHED_S)
            used = (s.cpu_s() - before) / WATCHED_S
            print(f"       {poll}: {used * 100:.2f} % of a core with an idle host")
            assert used < 0.005, f"{used * 100:.2f} % of a core"
            end(hosts)


def test_memory_of_an_idle_target():
    with Serve("--ns", "null:1G", "--nqn", NQN) as s:
        alone = s.rss()
        print(f"       {alone / 2**20:.1f} MiB alone")
        hosts = idle_hosts(s, 16)
        after = s.rss()
        each = (after - alone) / 32
        print(f"       {after / 2**20:.1f} MiB with 32 connections: {each / 2**10:.0f} KiB each, their data buffers included")
        if not SANITIZED:
            assert alone < 32 << 20
        end(hosts)
        wait_until("the hosts to be gone", lambda: s.get("/v1/status")["connections"] == 0)
        # What connections of their own take, without the buffers of the data that were on their way: a second round reuses those.
        base = s.rss()
        hosts = idle_hosts(s, 16)
        each = (s.rss() - base) / 32
        print(f"       second round: {each / 2**10:.0f} KiB a connection")
        if not SANITIZED:
            assert each < 1 << 20
        end(hosts)


main()
