/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted: one list for queue pairs, one for a process. A line is the counter's name everywhere
 * (tables, JSON, Prometheus), where it is kept (rnic/stats.c), and what it means. A device's counters are
 * those of its queue pairs, also of those that are gone.
 */
#ifndef FL_RNIC_STATS_COUNTERS_H
#define FL_RNIC_STATS_COUNTERS_H

/* In struct fl_qp */
#define FL_QP_COUNTERS(X)                                                                                   \
    X(tx_packets, roce.stats.nr_tx, "packets sent, by UDP or by a ring in shared memory")                   \
    X(rx_packets, roce.stats.nr_rx, "packets received")                                                     \
    X(tx_bytes, roce.stats.tx_len, "payload of the packets sent")                                           \
    X(rx_bytes, roce.stats.rx_len, "payload of the packets received")                                       \
    X(ring_tx_packets, nr_ring, "packets sent by a ring in shared memory")                                  \
    X(message_tx, nr_messages_tx, "SENDs written whole into a ring in shared memory")                       \
    X(message_rx, nr_messages_rx, "SENDs that came so")                                                     \
    X(message_tx_bytes, message_len, "data of the SENDs sent so")                                           \
    X(message_rx_bytes, message_rx_len, "data of the SENDs that came so")                                   \
    X(direct_mapped, nr_mapped, "READs, WRITEs and atomics done in the peer's memory, mapped here")         \
    X(direct_process_vm, nr_vm, "READs and WRITEs done in the peer's memory by process_vm_readv/writev")    \
    X(direct_left, nr_not_direct, "READs, WRITEs and atomics left to the peer's engine, by packets")        \
    X(direct_bytes, direct_len, "moved to or from the peer's memory without packets")                       \
    X(acks_tx, roce.stats.nr_acks, "ACKs sent")                                                             \
    X(acks_coalesced, roce.stats.nr_coalesced, "ACKs that a later one made unnecessary")                    \
    X(resent_packets, roce.stats.nr_resent, "packets sent again")                                           \
    X(resent_by_timeout, roce.stats.nr_timeouts, "retransmissions begun since no answer came in time")      \
    X(resent_by_gap, roce.stats.nr_gone_back, "retransmissions begun since an answer or NAK told of a gap") \
    X(resent_selectively, roce.stats.nr_lost,                                                               \
      "packets and answers judged lost, and sent or asked for again")                                       \
    X(probes_tx, roce.stats.nr_probes, "selective retransmission: probes sent")                             \
    X(rnr_nak_tx, roce.stats.nr_rnr_tx, "RNR NAKs sent: no receive was posted")                             \
    X(rnr_nak_rx, roce.stats.nr_rnr_rx, "RNR NAKs received: the peer had posted no receive")                \
    X(nak_tx_sequence, roce.stats.nr_nak_tx[0], "NAKs sent: PSN sequence error")                            \
    X(nak_tx_invalid_request, roce.stats.nr_nak_tx[1], "NAKs sent: invalid request")                        \
    X(nak_tx_remote_access, roce.stats.nr_nak_tx[2], "NAKs sent: remote access error")                      \
    X(nak_tx_remote_operational, roce.stats.nr_nak_tx[3], "NAKs sent: remote operational error")            \
    X(nak_rx_sequence, roce.stats.nr_nak_rx[0], "NAKs received: PSN sequence error")                        \
    X(nak_rx_invalid_request, roce.stats.nr_nak_rx[1], "NAKs received: invalid request")                    \
    X(nak_rx_remote_access, roce.stats.nr_nak_rx[2], "NAKs received: remote access error")                  \
    X(nak_rx_remote_operational, roce.stats.nr_nak_rx[3], "NAKs received: remote operational error")        \
    X(nak_rx_invalid_rd_request, roce.stats.nr_nak_rx[4], "NAKs received: invalid RD request")              \
    X(cnp_tx, roce.stats.nr_cnp_tx, "congestion notifications sent: packets came marked")                   \
    X(cnp_rx, roce.stats.nr_cnp_rx, "congestion notifications received: the rate was lowered")              \
    X(duplicates_rx, roce.stats.nr_duplicates, "requests seen before")                                      \
    X(out_of_order_rx, roce.stats.nr_out_of_order, "requests after a gap")                                  \
    X(stale_rx, roce.stats.nr_stale, "answers to nothing that waits")                                       \
    X(held_rx, roce.stats.nr_held, "selective retransmission: packets kept that came ahead of others")      \
    X(no_room_rx, roce.stats.nr_no_room, "selective retransmission: such packets for which no room was")    \
    X(dropped_rx, roce.stats.nr_dropped, "packets of the wrong service, P_Key, Q_Key, state or length")     \
    X(foreign_rx, nr_foreign, "packets from another address than the peer's: forged, or from before")

/* In struct fl_port_stats (port) and struct fl_rnic_stats (rnic) */
#define FL_PROCESS_COUNTERS(X)                                                                           \
    X(udp_tx_packets, port->nr_tx, "packets given to UDP sockets")                                       \
    X(udp_rx_packets, port->nr_rx, "packets that came by UDP, with a right ICRC")                        \
    X(udp_tx_bytes, port->tx_len, "bytes of the packets given to UDP sockets")                           \
    X(udp_rx_bytes, port->rx_len, "bytes of the packets that came by UDP")                               \
    X(udp_tx_calls, port->nr_tx_calls, "system calls to send: fewer than packets where GSO works")       \
    X(udp_rx_calls, port->nr_rx_calls, "system calls to receive: fewer than packets where GRO works")    \
    X(udp_tx_dropped, port->nr_tx_dropped, "packets that the socket had no room for")                    \
    X(udp_tx_held, rnic->nr_held, "packets that had to wait since the socket had no room")               \
    X(bad_icrc, port->nr_bad_icrc, "packets thrown away: wrong ICRC")                                    \
    X(bad_packet, port->nr_bad_packet, "packets thrown away: headers that cannot be")                    \
    X(unknown_qpn, port->nr_unknown_qpn + rnic->nr_unknown_qpn, "packets to a queue pair that is not")   \
    X(foreign_packets, rnic->nr_foreign, "packets to a queue pair from another address than its peer's") \
    X(from_hub, port->nr_from_hub, "packets that the hub passed to this process")                        \
    X(past_hub, port->nr_past_hub, "packets of this host that came to a port of this process's own")     \
    X(hub_passed_on, port->nr_to_others, "as the hub: packets passed to other processes")                \
    X(hub_dropped, port->nr_others_dropped, "as the hub: packets for processes whose ring was full")     \
    X(hub_last_words, port->nr_last_words, "as the hub: DREQs for processes that were killed")           \
    X(turns, rnic->nr_turns, "turns of the RNIC")                                                        \
    X(thread_turns, rnic->nr_thread_turns, "turns of its own thread: low while a program polls")

#define FL_COUNTER_ID(id, where, help) FL_QP_COUNTER_##id,
enum fl_qp_counter { FL_QP_COUNTERS(FL_COUNTER_ID) FL_NR_QP_COUNTERS };
#undef FL_COUNTER_ID
#define FL_COUNTER_ID(id, where, help) FL_PROCESS_COUNTER_##id,
enum fl_process_counter { FL_PROCESS_COUNTERS(FL_COUNTER_ID) FL_NR_PROCESS_COUNTERS };
#undef FL_COUNTER_ID

struct fl_counter_info {
    const char *name, *help;
};
extern const struct fl_counter_info fl_qp_counters[FL_NR_QP_COUNTERS];
extern const struct fl_counter_info fl_process_counters[FL_NR_PROCESS_COUNTERS];

#endif
