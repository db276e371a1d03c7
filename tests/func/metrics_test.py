# SPDX-License-Identifier: Apache-2.0
"""/metrics: the format that Prometheus reads, and numbers that are right."""
import re
import urllib.request

from farlane import *

NQN = "nqn.2026-01.org.example:disk"
SAMPLE = re.compile(r'^([a-z_:][a-z0-9_:]*)(\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? (-?[0-9.e+-]+)$')


def parse(text):
    """{name+labels: value}; each family has one HELP and one TYPE before its samples, which stand together."""
    assert text.endswith("\n")
    values, types, family = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert family not in types, f"{family} twice"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == family and kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
        else:
            m = SAMPLE.match(line)
            assert m and m[1] == family, line
            assert (m[1] + (m[2] or "")) not in values, line
            values[m[1] + (m[2] or "")] = float(m[3])
    return values


def test_numbers():
    with Serve("--ns", "ram:4M", "--nqn", NQN) as s:
        labels = f'{{subsystem="{NQN}",nsid="1",backend="ram"}}'
        before = parse(s.get("/metrics"))
        assert before["farlane_namespace_size_bytes" + labels] == 4 << 20
        run("write", s.url, "-q", input="x" * 8192)
        run("read", s.url, "--length", "1M", text=False)
        after = parse(s.get("/metrics"))
        assert set(before) == set(after)
        assert after["farlane_namespace_written_bytes_total" + labels] == 8192
        assert after["farlane_namespace_read_bytes_total" + labels] == 1 << 20
        assert after["farlane_namespace_writes_total" + labels] == 1
        assert after[f'farlane_listener_up{{url="tcp://127.0.0.1:{s.ports[0]}"}}'] == 1
        assert after["process_resident_memory_bytes"] > 1 << 20
        assert after["process_cpu_seconds_total"] >= before["process_cpu_seconds_total"]
        for name in ("farlane_uptime_seconds", "farlane_build_info{version=\"0.1.0\"}"):
            assert after[name] > 0


def test_names_are_escaped():
    make_file('a"b\\c', 1 << 20)
    with Serve("--ns", 'file:a"b\\c', "--nqn", 'nqn.2026-01.org.example:q"\\') as s:
        parse(s.get("/metrics"))
        assert s.get("/v1/namespaces")["namespaces"][0]["spec"].endswith('a"b\\c')


def test_over_tcp():
    with Serve("--ns", "ram:1M", "--nqn", NQN, "--metrics", "0") as s:
        url = s.ready["metrics"]
        assert url.startswith("http://127.0.0.1:") and url.endswith("/metrics"), url
        with urllib.request.urlopen(url, timeout=PATIENCE) as r:
            assert r.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            parse(r.read().decode())
        # Nothing else is there: control goes through the socket, with its rights.
        for path in ("/v1/status", "/v1/config", "/"):
            try:
                urllib.request.urlopen(url.replace("/metrics", path), timeout=PATIENCE)
                raise AssertionError(path)
            except urllib.error.HTTPError as e:
                assert e.code == 404
                e.close()
    with Serve("--ns", "ram:1M", "--metrics", "[::1]:0") as s:
        assert urllib.request.urlopen(s.ready["metrics"], timeout=PATIENCE).status == 200


main()
