# SPDX-License-Identifier: Apache-2.0
"""The configuration file: faults are told with file, line and column, also those that show only when the target is set up."""
from farlane import *

GOOD = """\
poll: sleep
listeners:
  - address: tcp://127.0.0.1:0
subsystems:
  - nqn: nqn.2026-01.org.example:a
    namespaces:
      - spec: ram:1M
      - spec: null:1G
        nsid: 5
"""


def write(text):
    with open("f.yaml", "w") as f:
        f.write(text)


def fails(text, *says, status=USAGE):
    write(text)
    done = refused("serve", "-c", "f.yaml", "--control", "none", status=status, says=says)
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_good_one():
    write(GOOD)
    with Serve("-c", "f.yaml", listen=None) as s:
        assert [ns["nsid"] for ns in s.ready["namespaces"]] == [1, 5]
        for url in s.urls:
            run("info", url)
    assert "is right" in run("serve", "-c", "f.yaml", "--check", "--control", "none").stdout
    with open("f.yaml") as f:
        assert "is right" in run("serve", "-c", "-", "--check", "--control", "none", stdin=f).stdout


def test_options_win():
    write(GOOD)
    with Serve("-c", "f.yaml", "--ns", "ram:2M", "--nqn", "nqn.2026-01.org.example:b", "--poll", "adaptive",
               listen="tcp://[::1]:0") as s:
        assert s.get("/v1/status")["poll"] == "adaptive"
        assert len(s.get("/v1/subsystems")["subsystems"]) == 2
        assert len(s.ready["listeners"]) == 1 and "[::1]" in s.ready["listeners"][0]["url"]


def test_wrong_options_beside_a_file():
    """What was typed has no place in the file."""
    with open("f.yaml", "w") as f:
        f.write("max_depth: 8\nshared_receives: 8\n" + GOOD)
    for option, value in (("--poll", "x"), ("--mdts", "5000"), ("--cores", "x"), ("--listen", "nowhere"), ("--ns", "rom:1M"), ("--metrics", "x"), ("--shared-receives", "7"),
                          ("--buffers", "1")):
        done = refused("serve", "-c", "f.yaml", "--control", "none", option, value, status=USAGE, says=value)
        assert "f.yaml" not in done.stderr, done.stderr
    fails(GOOD.replace("ram:1M", "rom:1M"), "f.yaml:7:15: ", "rom:1M")


def test_syntax():
    fails("listeners: [\n", "f.yaml:2:1: not valid YAML")
    fails("poll: sleep\n\tcores: 1\n", "f.yaml:2:1: not valid YAML")
    fails("polls: sleep\n", "f.yaml:1:1: unknown key 'polls': did you mean 'poll'?")
    fails(GOOD.replace("nsid: 5", "nsid: five"), "f.yaml:9:15: ", "five")
    fails(GOOD.replace("        nsid: 5", "        nsd: 5"), "f.yaml:9:9: unknown key 'nsd': did you mean 'nsid'?", "ana_group")
    fails(GOOD.replace("      - spec: ram:1M", "      - nsid: 1"), "f.yaml:7:9: ", "has no 'spec'")


def test_values():
    """Right for the schema, wrong for the target: the place is known all the same."""
    fails(GOOD.replace("ram:1M", "rom:1M"), "f.yaml:7:15: ", "rom:1M")
    fails(GOOD.replace("ram:1M", "ram:1000"), "f.yaml:7:15: ")
    fails(GOOD.replace("null:1G", "file:/no/such/file"), "f.yaml:8:15: ", "/no/such/file", status=NOT_FOUND)
    fails(GOOD.replace("nsid: 5", "nsid: 0"), "f.yaml:9:15: ", "nsid 0", "allowed")
    fails(GOOD.replace("nsid: 5", "nsid: 1"), "f.yaml:9:15: ", "1", status=FAILED)
    twice = GOOD.replace("nsid: 5", "nsid: 5\n        uuid: 11111111-2222-3333-4444-555555555555")
    twice = twice.replace("- spec: ram:1M", "- spec: ram:1M\n        uuid: 11111111-2222-3333-4444-555555555555")
    fails(twice, "f.yaml:11:15: ", "same UUID as namespace 1", status=FAILED)
    fails(GOOD.replace("nqn.2026-01.org.example:a", "disk"), "f.yaml:5:10: ", "disk")
    fails(GOOD.replace("tcp://127.0.0.1:0", "tcp://127.0.0.1:99999"), "f.yaml:3:14: ", "99999")
    fails(GOOD.replace("poll: sleep", "poll: fast"), "f.yaml:1:7: ", "adaptive, busy, sleep")
    fails("cores: 0-\n" + GOOD, "f.yaml:1:8: ")
    fails("cores: 1000\n" + GOOD, "f.yaml:1:8: ", "1000")
    fails("mdts: 3K\n" + GOOD, "f.yaml:1:7: ", "power of two")
    fails("mdts: huge\n" + GOOD, "f.yaml:1:7: ", "huge")
    fails("capsule: 5G\n" + GOOD, "f.yaml:1:10: ", "too large")
    fails("metrics: nowhere\n" + GOOD, "f.yaml:1:10: ", "nowhere")
    for key, values in (("max_queues", (0, 1025)), ("max_depth", (0, 1, 5000)), ("shared_receives", (7, 16385))):
        for value in values:
            fails(f"{key}: {value}\n" + GOOD, f"f.yaml:1:{len(key) + 3}: {key} {value} is out of range")
    for value in (0, 1, "1023K"):
        fails(f"buffers: {value}\n" + GOOD, f"f.yaml:1:10: buffers {value} is too small: at least 1M")


def test_values_within_lists():
    """The place is that of the value, not of what stands beside it."""
    fails(GOOD.replace("nsid: 5", "nsid: 1025"), "f.yaml:9:15: nsid 1025", "1 to 1024")
    for group in (0, 33):
        fails(GOOD.replace("nsid: 5", f"ana_group: {group}"), f"f.yaml:9:20: ANA group {group}")
    for group, state, place in ((0, "optimized", "5:16: ANA group 0"), (33, "fine", "5:16: ANA group 33"), (2, "fine", "6:16: ANA state 'fine'")):
        fails(GOOD.replace("subsystems:", f"    ana:\n      - group: {group}\n        state: {state}\nsubsystems:"), f"f.yaml:{place}")
    for key, column in (("serial", 13), ("model", 12)):
        wrong = GOOD.replace("    namespaces:", f'    {key}: "a\\x01b"\n    namespaces:')
        fails(wrong, f"f.yaml:6:{column}: {key}")
        fails(wrong.replace("nqn.2026-01.org.example:a", "disk"), "f.yaml:5:10: ", "disk")


def test_files():
    refused("serve", "-c", "none.yaml", status=NOT_FOUND, says="none.yaml")
    refused("serve", "-c", ".", status=FAILED, says="cannot read")


main()
