/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode table (IBA volume 1, 9.2.1, table 38) and what may follow what (9.8.3.1). */
#include "wire/ib.h"

#define BTH_LEN 12
#define DETH_AT BTH_LEN

/* Bits of enum fl_ib_attr in short, for the table */
#define DATA  FL_IB_HAS_PAYLOAD
#define FIRST FL_IB_STARTS
#define LAST  FL_IB_ENDS
#define ONLY  (FL_IB_STARTS | FL_IB_ENDS)
#define REQ   FL_IB_REQUEST
#define RESP  FL_IB_RESPONSE
#define SEND  (REQ | FL_IB_SEND | DATA)
#define WRITE (REQ | FL_IB_WRITE | DATA)

/* base: length of what every packet of the service has. The extended headers lie in this order: RETH or
 * AtomicETH or AETH, then ImmDt, IETH or AtomicAckETH (9.4 and figures of 9.3). */
#define PLAIN(nm, at, base, msg)                                             \
    {                                                                        \
        .name = nm, .attr = (at), .hdr_len = (base), .message = FL_IB_##msg, \
    }
#define WITH_RETH(nm, at, base, msg)                                                       \
    {                                                                                      \
        .name = nm, .attr = (at) | FL_IB_HAS_RETH, .hdr_len = (base) + 16, .reth = (base), \
        .message = FL_IB_##msg,                                                            \
    }
#define WITH_IMM(nm, at, base, msg)                                                         \
    {                                                                                       \
        .name = nm, .attr = (at) | FL_IB_HAS_IMMDT, .hdr_len = (base) + 4, .immdt = (base), \
        .message = FL_IB_##msg,                                                             \
    }
#define WITH_RETH_IMM(nm, at, base, msg)                                                                     \
    {                                                                                                        \
        .name = nm, .attr = (at) | FL_IB_HAS_RETH | FL_IB_HAS_IMMDT, .hdr_len = (base) + 20, .reth = (base), \
        .immdt = (base) + 16, .message = FL_IB_##msg,                                                        \
    }
#define WITH_IETH(nm, at, base, msg)                                                      \
    {                                                                                     \
        .name = nm, .attr = (at) | FL_IB_HAS_IETH, .hdr_len = (base) + 4, .ieth = (base), \
        .message = FL_IB_##msg,                                                           \
    }
#define WITH_AETH(nm, at, base, msg)                                                      \
    {                                                                                     \
        .name = nm, .attr = (at) | FL_IB_HAS_AETH, .hdr_len = (base) + 4, .aeth = (base), \
        .message = FL_IB_##msg,                                                           \
    }
#define WITH_ATOMIC(nm, at, base, msg)                                                         \
    {                                                                                          \
        .name = nm, .attr = (at) | FL_IB_HAS_ATOMIC, .hdr_len = (base) + 28, .atomic = (base), \
        .message = FL_IB_##msg,                                                                \
    }

/* Sends and writes, which RC and UC share */
#define SENDS_AND_WRITES(s, S)                                                                             \
    [FL_IB_OPCODE(                                                                                         \
        S, FL_IB_SEND_FIRST)] = PLAIN(s " SEND first", SEND | FIRST, BTH_LEN, SEND_FIRST),                 \
           [FL_IB_OPCODE(S, FL_IB_SEND_MIDDLE)] = PLAIN(s " SEND middle", SEND, BTH_LEN, SEND_FIRST),      \
           [FL_IB_OPCODE(S, FL_IB_SEND_LAST)] = PLAIN(s " SEND last", SEND | LAST, BTH_LEN, SEND_FIRST),   \
           [FL_IB_OPCODE(S, FL_IB_SEND_LAST_IMM)] = WITH_IMM(s " SEND last with immediate", SEND | LAST,   \
                                                             BTH_LEN, SEND_FIRST),                         \
           [FL_IB_OPCODE(S, FL_IB_SEND_ONLY)] = PLAIN(s " SEND only", SEND | ONLY, BTH_LEN, SEND_FIRST),   \
           [FL_IB_OPCODE(S, FL_IB_SEND_ONLY_IMM)] = WITH_IMM(s " SEND only with immediate", SEND | ONLY,   \
                                                             BTH_LEN, SEND_FIRST),                         \
           [FL_IB_OPCODE(S, FL_IB_WRITE_FIRST)] = WITH_RETH(s " RDMA WRITE first", WRITE | FIRST, BTH_LEN, \
                                                            WRITE_FIRST),                                  \
           [FL_IB_OPCODE(S, FL_IB_WRITE_MIDDLE)] = PLAIN(s " RDMA WRITE middle", WRITE, BTH_LEN,           \
                                                         WRITE_FIRST),                                     \
           [FL_IB_OPCODE(S, FL_IB_WRITE_LAST)] = PLAIN(s " RDMA WRITE last", WRITE | LAST, BTH_LEN,        \
                                                       WRITE_FIRST),                                       \
           [FL_IB_OPCODE(S, FL_IB_WRITE_LAST_IMM)] = WITH_IMM(                                             \
               s " RDMA WRITE last with immediate", WRITE | FL_IB_SEND | LAST, BTH_LEN, WRITE_FIRST),      \
           [FL_IB_OPCODE(S, FL_IB_WRITE_ONLY)] = WITH_RETH(s " RDMA WRITE only", WRITE | ONLY, BTH_LEN,    \
                                                           WRITE_FIRST),                                   \
           [FL_IB_OPCODE(S, FL_IB_WRITE_ONLY_IMM)] = WITH_RETH_IMM(                                        \
               s " RDMA WRITE only with immediate", WRITE | FL_IB_SEND | ONLY, BTH_LEN, WRITE_FIRST)

#define RC(op) [FL_IB_OPCODE(FL_IB_RC, FL_IB_##op)]
#define UD(op) [FL_IB_OPCODE(FL_IB_UD, FL_IB_##op)]

const struct fl_ib_opcode fl_ib_opcodes[256] = {
    SENDS_AND_WRITES("RC", FL_IB_RC),
    RC(READ_REQUEST) = WITH_RETH("RC RDMA READ request", REQ | FL_IB_READ | ONLY, BTH_LEN, READ_REQUEST),
    RC(READ_FIRST) = WITH_AETH("RC RDMA READ response first", RESP | FL_IB_READ | FIRST | DATA, BTH_LEN,
                               READ_FIRST),
    RC(READ_MIDDLE) = PLAIN("RC RDMA READ response middle", RESP | FL_IB_READ | DATA, BTH_LEN, READ_FIRST),
    RC(READ_LAST) = WITH_AETH("RC RDMA READ response last", RESP | FL_IB_READ | LAST | DATA, BTH_LEN,
                              READ_FIRST),
    RC(READ_ONLY) = WITH_AETH("RC RDMA READ response only", RESP | FL_IB_READ | ONLY | DATA, BTH_LEN,
                              READ_FIRST),
    RC(ACK) = WITH_AETH("RC acknowledge", RESP | ONLY, BTH_LEN, ACK),
    RC(ATOMIC_ACK) = {.name = "RC ATOMIC acknowledge",
                      .attr = RESP | FL_IB_ATOMIC | ONLY | FL_IB_HAS_AETH | FL_IB_HAS_ATOMIC_ACK,
                      .hdr_len = BTH_LEN + 4 + 8,
                      .aeth = BTH_LEN,
                      .atomic_ack = BTH_LEN + 4,
                      .message = FL_IB_ATOMIC_ACK},
    RC(COMPARE_SWAP) = WITH_ATOMIC("RC compare and swap", REQ | FL_IB_ATOMIC | ONLY, BTH_LEN, COMPARE_SWAP),
    RC(FETCH_ADD) = WITH_ATOMIC("RC fetch and add", REQ | FL_IB_ATOMIC | ONLY, BTH_LEN, FETCH_ADD),
    RC(SEND_LAST_INV) = WITH_IETH("RC SEND last with invalidate", SEND | LAST, BTH_LEN, SEND_FIRST),
    RC(SEND_ONLY_INV) = WITH_IETH("RC SEND only with invalidate", SEND | ONLY, BTH_LEN, SEND_FIRST),

    SENDS_AND_WRITES("UC", FL_IB_UC),

    UD(SEND_ONLY) = {.name = "UD SEND only",
                     .attr = SEND | ONLY | FL_IB_HAS_DETH,
                     .hdr_len = BTH_LEN + 8,
                     .deth = DETH_AT,
                     .message = FL_IB_SEND_FIRST},
    UD(SEND_ONLY_IMM) = {.name = "UD SEND only with immediate",
                         .attr = SEND | ONLY | FL_IB_HAS_DETH | FL_IB_HAS_IMMDT,
                         .hdr_len = BTH_LEN + 8 + 4,
                         .deth = DETH_AT,
                         .immdt = DETH_AT + 8,
                         .message = FL_IB_SEND_FIRST},

    /* Annex A17.9.3: after the BTH 16 reserved bytes, which stand here as payload so that no caller reads
       them */
    [FL_IB_OPCODE_CNP] = {.name = "CNP", .attr = ONLY | DATA, .hdr_len = BTH_LEN, .message = 1},
    [FL_IB_OPCODE_SACK] = WITH_AETH("farlane SACK", RESP | ONLY | DATA, BTH_LEN, ACK),
    [FL_IB_OPCODE_PROBE] = {.name = "farlane probe", .attr = ONLY | DATA, .hdr_len = BTH_LEN, .message = 1},
};

bool fl_ib_may_follow(int prev, uint8_t next)
{
    const struct fl_ib_opcode *to = &fl_ib_opcodes[next];
    if (prev < 0 || (fl_ib_opcodes[prev & 0xff].attr & FL_IB_ENDS))
        return to->attr & FL_IB_STARTS;
    /* In the middle of a message only that message goes on. */
    const struct fl_ib_opcode *from = &fl_ib_opcodes[prev & 0xff];
    return !(to->attr & FL_IB_STARTS) && to->message == from->message && prev >> 5 == next >> 5;
}
