# SPDX-License-Identifier: Apache-2.0
"""NVMe/TCP on the wire, written from the specifications alone: nothing of the product is used here, so that a mistake of
ours does not meet the same mistake again."""
import socket
import struct

IC_REQ, IC_RESP, H2C_TERM, C2H_TERM, CMD, RESP, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
F_HDGST, F_DDGST, F_LAST, F_SUCCESS = 1, 2, 4, 8
HLEN = {IC_REQ: 128, IC_RESP: 128, H2C_TERM: 24, C2H_TERM: 24, CMD: 72, RESP: 24, H2C_DATA: 24, C2H_DATA: 24, R2T: 24}

FES_HEADER, FES_SEQUENCE, FES_HDGST, FES_RANGE, FES_LIMIT, FES_UNSUPPORTED = 1, 2, 3, 4, 5, 6

# Status: type << 8 | code, as in bits 11:1 of a completion's status word; DNR beside it.
OK, INVALID_OPCODE, INVALID_FIELD, SEQUENCE, INVALID_SGL_LEN, INVALID_NS = 0, 0x01, 0x02, 0x0C, 0x0F, 0x0B
DATA_TRANSFER_ERROR, TRANSIENT_TRANSPORT, LBA_RANGE = 0x04, 0x22, 0x80
CONNECT_FORMAT, CONNECT_BUSY, CONNECT_INVALID, CONNECT_HOST = 0x180, 0x181, 0x182, 0x184
DNR = 0x4000

ADM_GET_LOG, ADM_IDENTIFY, ADM_ABORT, ADM_SET_FEATURES, ADM_GET_FEATURES, ADM_AER, ADM_KEEP_ALIVE = 2, 6, 8, 9, 10, 12, 24
NVM_FLUSH, NVM_WRITE, NVM_READ, NVM_COMPARE, NVM_WRITE_ZEROES = 0, 1, 2, 5, 8
FABRICS, FC_PROP_SET, FC_CONNECT, FC_PROP_GET, FC_DISCONNECT = 0x7F, 0, 1, 4, 8
PROP_CAP, PROP_VS, PROP_CC, PROP_CSTS = 0, 8, 0x14, 0x1C
SGL_DATA_BLOCK, SGL_IN_CAPSULE, SGL_TRANSPORT = 0x00, 0x01, 0x5A

DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"


def _table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return tuple(table)


_CRC = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = _CRC[(crc ^ b) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def pack(kind, body, data=b"", flags=0, hdgst=False, ddgst=False, pda=4, hlen=None, pdo=None, plen=None, spoil_header=False,
         spoil_data=False):
    """A PDU. hlen, pdo, plen: lies to tell instead of the truth; spoil_*: the digest is wrong."""
    hdgst = hdgst and kind not in (IC_REQ, IC_RESP, H2C_TERM, C2H_TERM)
    ddgst = ddgst and data and kind in (CMD, H2C_DATA, C2H_DATA)
    end = 8 + len(body) + (4 if hdgst else 0)
    at = -(-end // pda) * pda if data and kind not in (H2C_TERM, C2H_TERM) else end
    total = at + len(data) + (4 if ddgst else 0)
    flags |= (F_HDGST if hdgst else 0) | (F_DDGST if ddgst else 0)
    header = struct.pack("<BBBBI", kind, flags, 8 + len(body) if hlen is None else hlen,
                         (at if data and kind not in (H2C_TERM, C2H_TERM) else 0) if pdo is None else pdo,
                         total if plen is None else plen) + body
    out = bytearray(header)
    if hdgst:
        out += struct.pack("<I", crc32c(header) ^ (1 if spoil_header else 0))
    out += bytes(at - end) + data
    if ddgst:
        out += struct.pack("<I", crc32c(data) ^ (1 if spoil_data else 0))
    return bytes(out)


class Pdu:
    def __init__(self, kind, flags, hlen, pdo, plen, body, data, digests_ok):
        self.kind, self.flags, self.hlen, self.pdo, self.plen, self.body, self.data = kind, flags, hlen, pdo, plen, body, data
        self.digests_ok = digests_ok

    def __repr__(self):
        return f"<PDU type {self.kind} flags {self.flags:#x} hlen {self.hlen} pdo {self.pdo} plen {self.plen} {self.body[:16].hex()}>"

    def u16(self, at):
        return struct.unpack_from("<H", self.body, at - 8)[0]

    def u32(self, at):
        return struct.unpack_from("<I", self.body, at - 8)[0]

    # R2T and data PDUs
    cid = property(lambda self: self.u16(8))
    ttag = property(lambda self: self.u16(10))
    offset = property(lambda self: self.u32(12))
    length = property(lambda self: self.u32(16))


class Stream:
    """A socket that PDUs go through. Whoever uses it sets hdgst, ddgst once agreed. recv() gives None at the end."""

    def __init__(self, sock):
        self.sock, self.hdgst, self.ddgst, self.pda = sock, False, False, 4
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exactly(self, n):
        parts = []
        while n:
            try:
                part = self.sock.recv(min(n, 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def recv(self, timeout=30):
        self.sock.settimeout(timeout)
        head = self.exactly(8)
        if head is None:
            return None
        kind, flags, hlen, pdo, plen = struct.unpack("<BBBBI", head)
        assert kind in HLEN and hlen == HLEN[kind] and hlen <= plen <= 1 << 26, f"broken PDU came: {head.hex()}"
        rest = self.exactly(plen - 8)
        if rest is None:
            return None
        ok = True
        if flags & F_HDGST and kind not in (IC_REQ, IC_RESP):
            ok = struct.unpack_from("<I", rest, hlen - 8)[0] == crc32c(head + rest[:hlen - 8])
        start = pdo - 8 if pdo else hlen - 8 + (4 if flags & F_HDGST else 0)
        end = len(rest) - (4 if flags & F_DDGST else 0)
        data = rest[start:end] if pdo or kind in (H2C_TERM, C2H_TERM) else b""
        if flags & F_DDGST:
            ok = ok and struct.unpack_from("<I", rest, end)[0] == crc32c(data)
        return Pdu(kind, flags, hlen, pdo, plen, rest[:hlen - 8], data, ok)

    def send(self, kind, body, data=b"", pieces=None, **more):
        raw = pack(kind, body, data, hdgst=self.hdgst, ddgst=self.ddgst, pda=self.pda, **more)
        self.raw(raw, pieces)

    def raw(self, raw, pieces=None):
        """pieces: lengths to cut the bytes into, the last one over and over."""
        self.sock.settimeout(30)
        at = 0
        for i in range(len(raw)) if pieces else ():
            n = pieces[min(i, len(pieces) - 1)]
            self.sock.sendall(raw[at:at + n])
            at += n
            if at >= len(raw):
                break
        if not pieces:
            self.sock.sendall(raw)

    def reset(self):
        """Ends with RST: what is on its way is lost."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()


def ic_req(hdgst=False, ddgst=False, nr_r2t=1, hpda=0, pfv=0):
    return struct.pack("<HBBI112x", pfv, hpda, (1 if hdgst else 0) | (2 if ddgst else 0), nr_r2t - 1)


def ic_resp(hdgst=False, ddgst=False, maxh2cdata=1 << 17, cpda=0):
    return struct.pack("<HBBI112x", 0, cpda, (1 if hdgst else 0) | (2 if ddgst else 0), maxh2cdata)


def sqe(opcode, cid, nsid=0, sgl=(0, 0, 0), cdw=(), flags=0x40):
    """sgl: type, address, length. cdw: DW10 and on."""
    cdw = tuple(cdw) + (0,) * (6 - len(cdw))
    return struct.pack("<BBHI16xQI3xB6I", opcode, flags, cid, nsid, sgl[1], sgl[2], sgl[0], *cdw)


def cqe(cid, status=0, dw0=0, dw1=0, sqhd=0):
    return struct.pack("<IIHHHH", dw0, dw1, sqhd, 0, cid, status << 1)


def data_header(cid, ttag, offset, length):
    return struct.pack("<HHII4x", cid, ttag, offset, length)


def connect_sqe(cid, qid, sqsize, kato_ms=0, cattr=0, recfmt=0, sgl=(SGL_IN_CAPSULE, 0, 1024)):
    return struct.pack("<BBHB19xQI3xBHHHBBI12x", FABRICS, 0x40, cid, FC_CONNECT, sgl[1], sgl[2], sgl[0], recfmt, qid, sqsize,
                       cattr, 0, kato_ms)


def connect_data(subnqn, hostnqn, hostid, cntlid):
    """NQNs: text, or the field's bytes as they are."""
    def field(n):
        return n if isinstance(n, bytes) else n.encode().ljust(256, b"\0")
    return hostid + struct.pack("<H238x", cntlid) + field(subnqn).ljust(256, b"\0") + field(hostnqn).ljust(256, b"\0") + bytes(256)


def property_get_sqe(cid, offset, wide=False):
    return struct.pack("<BBHB35xB3xI16x", FABRICS, 0x40, cid, FC_PROP_GET, 1 if wide else 0, offset)


def property_set_sqe(cid, offset, value):
    return struct.pack("<BBHB35xB3xIQ8x", FABRICS, 0x40, cid, FC_PROP_SET, 0, offset, value)


def rw_cdw(slba, nr_blocks):
    return (slba & 0xFFFFFFFF, slba >> 32, nr_blocks - 1)


assert len(sqe(0, 0)) == len(connect_sqe(0, 0, 0)) == len(property_get_sqe(0, 0)) == len(property_set_sqe(0, 0, 0)) == 64
assert len(connect_data("a", "b", bytes(16), 0)) == 1024
