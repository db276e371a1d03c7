# SPDX-License-Identifier: Apache-2.0
"""The rate of this machine's time stamp counter in kHz, which emulated guests see too: on a busy machine they measure it badly."""
import ctypes
import mmap
import time

RDTSC = b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3"  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(RDTSC)
rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))


def both():
    """Counter and clock at the same moment: of several tries the one between whose looks the least time went by."""
    tries = []
    for _ in range(20):
        t0 = time.monotonic_ns()
        ticks = rdtsc()
        t1 = time.monotonic_ns()
        tries.append((t1 - t0, ticks, (t0 + t1) // 2))
    return min(tries)[1:]


ticks0, ns0 = both()
time.sleep(0.3)
ticks1, ns1 = both()
print((ticks1 - ticks0) * 1000000 // (ns1 - ns0))
