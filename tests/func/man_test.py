# SPDX-License-Identifier: Apache-2.0
"""The manual knows every option and every key, and man has nothing to complain about. After the command: the folder man/."""
import pathlib
import re
import shutil
import subprocess

from farlane import *

MAN = pathlib.Path(sys.argv.pop(2)).resolve()


def words(path):
    return path.read_text().replace("Fl -", "--").replace(" | -", " --")


def test_every_option():
    page = words(MAN / "farlane.1")
    for command in ("serve", "ctl", "discover", "info", "read", "write", "copy", "bench", "tax", "advise", "sim", "rnic", "run", "doctor", "explain"):
        assert f"Cm {command}" in page, command
        for option in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", run(command, "--help").stdout, re.M):
            if option in ("quiet", "config", "disconnect"):
                continue
            assert re.search(rf"--{option}\b", page), f"farlane.1 does not know {command} --{option}"


def test_every_key():
    page = (MAN / "farlane.yaml.5").read_text()
    texts = ["no_such_key: 1\n", "listeners: [{no_such_key: 1}]\n", "subsystems: [{no_such_key: 1}]\n",
             "subsystems: [{namespaces: [{no_such_key: 1}]}]\n"]
    for text in texts:
        with open("f", "w") as f:
            f.write(text)
        said = run("serve", "-c", "f", status=USAGE).stderr
        keys = said.split("llowed here: ")[1].split(", ")
        assert len(keys) >= 4, said
        for key in keys:
            assert re.search(rf"\.(It|Ic).*\b{key.strip()}\b", page), f"farlane.yaml.5 does not know {key}"


def test_example_of_the_page():
    example = re.search(r"\.Bd -literal.*?\n(.*?)\.Ed", (MAN / "farlane.yaml.5").read_text(), re.S)[1]
    for path in ("/dev/nvme1n1", "/srv/log.img"):
        make_file(path.split("/")[-1], 1 << 20)
        example = example.replace(path, path.split("/")[-1])
    example = re.sub(r":4420|9100", lambda m: ":0" if m[0][0] == ":" else "0", example).replace("2-3", "0")
    with open("f", "w") as f:
        f.write(example)
    assert "is right" in run("serve", "-c", "f", "--check", "--control", "none").stdout


def test_readme():
    text = (MAN.parent / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    commands = re.findall(r"^    (make \w+)", text, re.M)
    assert commands[:2] == ["make run", "make test"]
    example = (MAN.parent / "docs" / "example.c").read_text().split("\n", 1)[1]  # after the licence
    assert example in text, "README.md does not show docs/example.c"
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (MAN.parent / link).exists() or link == "docs/performance.md", link


def test_man_does_not_complain():
    if not shutil.which("man"):
        raise NotTested("man is not installed")
    for page in sorted(MAN.glob("*.[0-9]")):
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)], capture_output=True, text=True,
                              env=dict(os.environ, MANWIDTH="120"))
        assert done.returncode == 0 and not done.stderr, done.stderr


main()
