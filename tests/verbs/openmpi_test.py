# SPDX-License-Identifier: Apache-2.0
"""Open MPI, unmodified, two ranks on this host over the software RNIC: by UCX, and by libfabric's verbs provider."""
from programs import *

need("mpirun", "mpicc", "ip")
HERE = pathlib.Path(__file__).resolve().parent
FOLDER = tempfile.TemporaryDirectory()


def pingpong(*options):
    program = pathlib.Path(FOLDER.name) / "mpi_pingpong"
    if not program.exists():
        subprocess.run(["mpicc", "-O1", "-o", program, HERE / "mpi_pingpong.c"], check=True)
    said = run(f"mpirun --allow-run-as-root --oversubscribe -np 2 {' '.join(options)} {program}", OMPI_MCA_plm_rsh_agent="true")
    assert "2 ranks, sum 3" in said, said
    assert re.search(r"^ *2097152 bytes", said, re.M), said


def test_ucx():
    for transport in ("rc_v", "ud_v"):
        pingpong("--mca pml ucx", f"-x UCX_TLS={transport},self", "-x UCX_NET_DEVICES=farlane0:1")


def test_libfabric():
    """It leaves the loopback interface out."""
    for command in ("link add v0 type veth peer name v1", "addr add 10.77.0.1/24 dev v0", "addr add 10.77.0.2/24 dev v1", "link set v0 up", "link set v1 up"):
        subprocess.run(["ip", *command.split()], check=True)
    pingpong("--mca pml cm", "--mca mtl ofi", "--mca mtl_ofi_provider_include verbs;ofi_rxm")


main()
