# SPDX-License-Identifier: Apache-2.0
"""A server whose file namespace can be made to wait (gate.c)."""
import os
import shutil
import tempfile

from product import Server


class Gated:
    def __init__(self, size=16 << 20, args=(), **more):
        self.folder = tempfile.mkdtemp(prefix="farlane-gate-")
        self.gate, self.path = os.path.join(self.folder, "gate"), os.path.join(self.folder, "disk")
        with open(self.path, "wb") as f:
            f.truncate(size)
        asan = os.environ.get("ASAN_OPTIONS", "")
        env = {"LD_PRELOAD": os.environ["FL_GATE_LIB"], "FL_GATE": self.gate,
               "ASAN_OPTIONS": asan + (":" if asan else "") + "verify_asan_link_order=0"}
        try:
            self.s = Server(f"file:{self.path},uring=0", args=args, env=env, **more)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.waits = 0

    def hold(self):
        open(self.gate, "w").close()

    def release(self):
        os.unlink(self.gate)

    def held(self):
        return os.path.exists(self.gate)

    def __enter__(self):
        self.s.__enter__()
        return self

    def __exit__(self, *exc):
        if self.held():
            self.release()
        try:
            return self.s.__exit__(*exc)
        finally:
            shutil.rmtree(self.folder)
