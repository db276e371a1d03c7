# SPDX-License-Identifier: Apache-2.0
"""The tests of rdma-core that drive pyverbs, on the software RNIC: pyverbs.py LIBFARLANE-VERBS.so [FOLDER [MODULE...]]

FOLDER is `tests` of rdma-core's source, of the version of the installed python3-pyverbs; without it, those that come with the package.
Each module runs in a network namespace of its own; prints a line a module, and why tests were skipped. Skipped is what the device has not:
that is no skip of this script, whose own status is that of the rest.
"""
import atexit
import collections
import gzip
import shlex
import tempfile

from programs import *

PACKAGED = pathlib.Path("/usr/share/doc/rdma-core/tests")


def packaged(into):
    """The folder of the package's tests: in its documentation, which some images leave out when they install; then from the package itself."""
    if not (PACKAGED / "__init__.py").exists():
        for command in ("apt-get -q download python3-pyverbs", "sh -ec 'dpkg-deb -x python3-pyverbs_*.deb .'"):
            subprocess.run(shlex.split(command), cwd=into, capture_output=True, check=False)
    for folder in (PACKAGED, into / PACKAGED.relative_to("/")):
        if (folder / "__init__.py").exists():
            return folder
    print("the tests that come with python3-pyverbs are not here")
    sys.exit(SKIP)


def unpacked():
    """The package's tests, which it keeps compressed."""
    temporary = pathlib.Path(tempfile.mkdtemp(prefix="farlane-pyverbs-"))
    os.environ["FL_TEMPORARY"] = str(temporary)
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    package, folder = temporary / "package", temporary / "tests"
    package.mkdir()
    folder.mkdir()
    for p in packaged(package).iterdir():
        packed = p.suffix == ".gz"
        (folder / (p.stem if packed else p.name)).write_bytes(gzip.decompress(p.read_bytes()) if packed else p.read_bytes())
    return folder


if len(sys.argv) == 2:
    sys.argv.append(str(unpacked()))  # here, since no package can be fetched from within a network of its own
own_network()
if "FL_TEMPORARY" in os.environ:
    atexit.register(shutil.rmtree, os.environ["FL_TEMPORARY"], ignore_errors=True)
FOLDER = pathlib.Path(sys.argv[2]).resolve()
MODULES = sys.argv[3:] or sorted(p.stem for p in FOLDER.glob("test_*.py")
                                 if not p.stem.startswith(("test_mlx5", "test_efa", "test_cuda")))
# They take the interface's name from the kernel's device tree, in which software devices are not.
WRAPPER = """
import os, sys
sys.path.insert(0, os.getcwd())
exists = os.path.exists
os.path.exists = lambda path: str(path).startswith("/sys/class/infiniband/farlane") or exists(path)
from args_parser import parser
from importlib.machinery import SourceFileLoader
import unittest
tests = SourceFileLoader("tests", os.path.abspath("__init__.py")).load_module()
import tests.base
tests.base.RDMATestCase.get_net_name = staticmethod(lambda device: "lo")
tests.base.RDMATestCase.get_ip_mac_address = staticmethod(lambda interface: ("127.0.0.1", "00:00:00:00:00:00"))
parser.parse_args()
unittest.main(module=tests)
"""


def run_module(module):
    """(counts by result, reasons of skips, what failed)"""
    done = subprocess.run(["/usr/bin/python3", "-c", WRAPPER, "--dev", "farlane0", "-v", f"tests.{module}"], cwd=FOLDER,
                          env=environment(), capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    skips = collections.Counter(re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", said, re.M))
    failures = re.findall(r"^(?:ERROR|FAIL): (\w+)", said, re.M)
    ran = re.search(r"^Ran (\d+) tests?", said, re.M)
    return int(ran[1]) if ran else 0, skips, failures if ran else [module]


def report():
    total, reasons, failed = collections.Counter(), collections.Counter(), []
    for module in MODULES:
        ran, skips, failures = run_module(module)
        print(f"{module}: {ran} ran, {sum(skips.values())} skipped, {len(failures)} failed {' '.join(failures)}", flush=True)
        total.update(ran=ran, skipped=sum(skips.values()), failed=len(failures))
        reasons += skips
        failed += failures
    for reason, number in reasons.most_common():
        print(f"{number:4} skipped: {reason}")
    passed = total["ran"] - total["skipped"] - total["failed"]
    print(f"{passed} passed, {total['failed']} failed, {total['skipped']} skipped")
    sys.exit(1 if failed or not passed else 0)


report()
