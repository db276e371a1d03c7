/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the table that need a peer. They have no function: peer_ask.c and compare.c report them. */
#ifndef FARLANE_DOCTOR_PEER_TABLE_H
#define FARLANE_DOCTOR_PEER_TABLE_H

/* clang-format off */
#define PEER_CHECKS \
    {"peer-reach", "does a doctor answer at the peer?", "a TCP connection to farlane doctor --listen", \
     "the name is wrong, no doctor listens there, or a firewall drops the packets", \
     "# on {0}: farlane doctor --listen ADDRESS; its firewall must let TCP {1} in", SURE_CERTAIN, NULL}, \
    {"peer-version", "do both ends have the same farlane?", "versions that both told", \
     "two versions may agree on less than each alone can do", "# install the same version on {0}", SURE_CERTAIN, NULL}, \
    {"peer-mtu-equal", "do both interfaces of a path have the same MTU?", "MTU of the interfaces at both ends", \
     "the end with the larger MTU sends packets that the other may drop: small messages pass, data vanishes", \
     "# at that end: ip link set {1}; the same on every switch between", SURE_CERTAIN, NULL}, \
    {"peer-mtu", "do packets of full size pass, both ways?", "datagrams of the full MTU with DF set, there and back", \
     "something between drops large packets without a word: a switch port or tunnel with a smaller MTU", \
     "# raise the MTU of every hop to what both ends have, or lower both ends to {1}", SURE_CERTAIN, NULL}, \
    {"peer-roce-port", "does UDP 4791 pass?", "datagrams to the port and back", \
     "a firewall drops RoCE v2: connections time out (transport retry counter exceeded)", \
     "# on {0}: nft add rule inet filter input udp dport 4791 accept; in a cloud: the security group", SURE_LIKELY, NULL}, \
    {"peer-nvme-port", "does TCP 4420 pass?", "a connection, accepted or refused", \
     "a firewall drops NVMe/TCP's and NVMe/RDMA's service port", \
     "# on {0}: nft add rule inet filter input tcp dport 4420 accept; in a cloud: the security group", SURE_LIKELY, NULL}, \
    {"peer-tcp", "do bytes arrive whole over TCP, how fast, and without loss?", "a transfer each way, CRC, TCP_INFO", \
     "data is damaged or packets are lost on the way", "# look at net-link, rdma-errors and the counters of both ends and the switch", \
     SURE_CERTAIN, NULL}, \
    {"peer-rdma-soft", "does the software RNIC carry data to the peer?", "a connection, RDMA WRITE and READ, compared", \
     "the software RNIC does not get through: see the text for the step that failed", \
     "# look at peer-roce-port, peer-mtu; farlane rnic tells the counters", SURE_CERTAIN, NULL}, \
    {"peer-rdma", "do the RDMA devices carry data to the peer?", "a connection by librdmacm, RDMA WRITE and READ, compared", \
     "hardware RDMA does not get through: see the text for the step that failed", \
     "# look at rdma-gid, peer-mtu, peer-roce-port, congestion-* of both ends", SURE_CERTAIN, NULL}, \
    {"peer-speed", "are both ends equally fast?", "speeds of the interfaces at both ends", \
     "the faster end overruns the slower one; without PFC or ECN packets are lost", "# cable or switch port of the slower end", \
     SURE_CERTAIN, NULL}, \
    {"peer-pfc", "do both ends agree about lossless priorities?", "PFC masks and maps of DSCP at both ends (DCB)", \
     "a priority that is lossless at one end only is lossless nowhere", "# set the same at both ends and the switches: dcb pfc set dev {1} prio-pfc", \
     SURE_CERTAIN, NULL}, \
    {"peer-gid", "have both ends a GID of the same kind?", "the best GID of the ports at both ends", \
     "RoCE v1 and v2, and IPv4 and IPv6, do not talk to each other", "ip address add ADDRESS/LEN dev {1}", SURE_CERTAIN, NULL},
/* clang-format on */

#endif
