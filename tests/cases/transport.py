# SPDX-License-Identifier: Apache-2.0
"""Whether the cases that both transports have are played over TCP or over RDMA: FL_CASES_TRANSPORT."""
import os

TRANSPORT = os.environ.get("FL_CASES_TRANSPORT", "tcp")
if TRANSPORT == "rdma":
    from peer_rdma import SGL_KEYED as SGL_OF_DATA, RdmaController as Controller, RdmaQueue as Queue
else:
    from peer_host import Controller, Queue
    from wire import SGL_TRANSPORT as SGL_OF_DATA

LISTEN = f"{TRANSPORT}://127.0.0.1:0"
