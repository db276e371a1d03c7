# SPDX-License-Identifier: Apache-2.0
"""A cable that can be pulled: forwards TCP between a host and a target; while it is pulled, nothing passes in either
direction and nobody is told."""
import select
import socket
import threading
import time


class Cable:
    def __init__(self, target):
        self.target, self.pulled, self.over = target, False, False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def pull(self):
        self.pulled = True

    def mend(self):
        self.pulled = False

    def accept(self):
        while not self.over:
            try:
                host, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(host,), daemon=True).start()

    def forward(self, host):
        """What comes while the cable is pulled waits, as in a network that loses and repeats."""
        while self.pulled and not self.over: # SYN is lost too: nobody answers
            time.sleep(0.02)
        try:
            target = socket.create_connection(self.target)
            for s in (host, target):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self.over:
                if self.pulled:
                    time.sleep(0.02)
                    continue
                for s in select.select([host, target], [], [], 0.1)[0]:
                    if self.pulled:
                        break
                    data = s.recv(1 << 16)
                    if not data:
                        return
                    (target if s is host else host).sendall(data)
        except OSError:
            pass
        finally:
            host.close()
            target.close()

    def close(self):
        self.over = True
        self.listener.close()
