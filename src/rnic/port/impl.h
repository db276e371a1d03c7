/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of struct fl_port, for the files that make it up. */
#ifndef FL_RNIC_PORT_IMPL_H
#define FL_RNIC_PORT_IMPL_H

#include "rnic/hub/estate.h"
#include "rnic/hub/find.h"
#include "rnic/hub/server.h"
#include "rnic/hub/unix.h"
#include "rnic/port/udp.h"

/* Queue pair numbers of this process: whole blocks from the hub */
struct fl_qpn_pool {
    uint32_t nr_blocks, nr_used;
    uint32_t at; /* numbers are taken in a circle over all blocks, so that one given back rests */
    uint16_t blocks[FL_HUB_SLOT_BLOCKS];
    uint64_t *used[FL_HUB_SLOT_BLOCKS]; /* a bit a number */
    bool lost[FL_HUB_SLOT_BLOCKS];      /* a new hub did not let us have it again */
};

void fl_qpn_pool_fini(struct fl_qpn_pool *pool);
int fl_qpn_pool_add(struct fl_qpn_pool *pool, uint32_t block); /* 0, -ENOMEM, -ENOSPC */
/* True: more than half is in use, time for another block. */
bool fl_qpn_pool_is_short(const struct fl_qpn_pool *pool);
int fl_qpn_pool_get(struct fl_qpn_pool *pool, uint32_t *qpn); /* 0, -ENOSPC */
void fl_qpn_pool_put(struct fl_qpn_pool *pool, uint32_t qpn);
void fl_qpn_pool_lose(struct fl_qpn_pool *pool, uint32_t block);

/* What this process is to the hub */
enum fl_role {
    FL_ROLE_NONE,   /* no hub: we try to become it, and to find it, in turns */
    FL_ROLE_BINDER, /* we hold the UDP port but not yet the hub's name */
    FL_ROLE_GUEST,  /* HELLO is said */
    FL_ROLE_MEMBER,
    FL_ROLE_HUB,
};

/* A service that the hub was asked for, and has not given, or nobody has fetched the answer */
enum fl_ask_state {
    FL_ASK_WAITS,        /* fl_port_listen() comes back for the answer */
    FL_ASK_NOBODY_WAITS, /* it counts when it comes */
    FL_ASK_UNWANTED,     /* and is taken back then */
    FL_ASK_ANSWERED,
};

struct fl_listen_ask {
    uint64_t service_id, wanted_at;
    uint32_t seq;
    int status;
    enum fl_ask_state state;
};
#define FL_PORT_ASKS 64u

/* lane.c */
struct fl_lane_candidate {
    struct in6_addr src, dst;
    uint16_t sport;
    uint32_t votes;
};

struct fl_lane {
    int fd;     /* -1: there is none */
    bool fresh; /* packets of other flows may lie in it */
    bool waits; /* until the other socket, where earlier packets of the flow may lie, was empty */
    bool ends;  /* when it is empty */
    bool all;   /* both are asked next time */
    struct fl_udp_datagram flow;
    struct fl_udp_rx *rx;
    uint32_t idle;     /* turns since it brought something */
    uint32_t nr_turns; /* since the other one was asked and had nothing */
    uint32_t nr_failed;
    struct fl_lane_candidate candidate;
};

struct fl_lane_turn {
    bool lane, rest; /* who is asked */
    bool must;       /* the rest also where the lane brings something */
};

void fl_lane_init(struct fl_lane *lane);
void fl_lane_close(struct fl_lane *lane);
/* A packet for this process came by the other socket; one for another process. */
void fl_lane_vote(struct fl_port *port, const struct fl_udp_datagram *d);
void fl_lane_stranger(struct fl_lane *lane, const struct fl_udp_datagram *d);
/* As fl_udp_rx_next(). */
bool fl_lane_next(struct fl_lane *lane, struct fl_udp_datagram *d, struct fl_port_stats *stats);
struct fl_lane_turn fl_lane_turn(struct fl_port *port);

enum fl_port_tag { FL_PORT_UDP, FL_PORT_OWN, FL_PORT_TX, FL_PORT_LINK, FL_PORT_SERVER, FL_PORT_KNOCK };

#define FL_PORT_REFUSED_MAX 64u

struct fl_port {
    uint16_t udp_port;
    bool no_hub;
    char name[FL_HUB_NAME_LEN]; /* of the hub's abstract socket */
    char address[FL_HUB_ADDRESS_LEN];
    int epoll_fd, udp_fd;
    int own_fd;        /* of a process that was ever a member: packets of this host come to it past the hub */
    uint16_t own_port; /* it is the same one for as long as the process lives */
    enum fl_role role;
    uint64_t next_try, give_up; /* when not HUB or MEMBER */
    uint64_t looked_at;         /* when all descriptors were looked at */
    uint64_t hub_looked_at;     /* when a member last looked whether its hub is stopped */
    uint32_t nr_seen_stopped;   /* so many times in a row it was */
    struct {                    /* why there is no hub yet, for the text when opening ends */
        int bind;               /* why the UDP port was not to be had */
        bool asked, stopped;    /* a process that serves it was there; that one looks stopped */
        int pid;                /* its; 0: of another namespace of processes */
        int answer;             /* that it gave; 0: none yet */
    } why;
    int beside[FL_HUB_NAMES]; /* of a hub that took over: connections to those that are stopped */
    int nr_beside, own_name;
    uint32_t names;    /* of a hub: its own name, and theirs; a bit each. Nobody connects to himself */
    bool beside_gone;  /* one of them broke */
    bool met_stranger; /* of a hub: somebody connected since descriptors were looked at */
    uint32_t backoff_ms;
    uint32_t slot;
    struct fl_hub_server *server;  /* of a hub */
    struct fl_hub_link link;       /* of a member; its `shared` stays after a hub dies */
    struct fl_hub_will will;       /* this process's own */
    struct fl_hub_estates estates; /* of a hub: of processes that died */
    struct fl_udp_rx *rx, *own_rx;
    struct fl_lane lane; /* of a hub */
    struct fl_udp_tx *tx;
    struct fl_qpn_pool qpns;
    uint64_t *services;
    uint32_t nr_services, cap_services;
    struct fl_listen_ask asks[FL_PORT_ASKS]; /* of a member */
    uint32_t nr_asks;
    uint32_t block_asked;            /* number of the GET that the hub has not answered; 0: none */
    bool block_refused;              /* the last one */
    uint32_t first_claim, nr_claims; /* numbers of the CLAIMs that a new hub has to answer */
    uint32_t unlooked;               /* polls since all descriptors were looked at, weighted */
    struct fl_udp_checker checker;
    struct {
        int fd;
        uint16_t sport;
    } knock[2];                                   /* IPv6, IPv4 */
    struct in6_addr refused[FL_PORT_REFUSED_MAX]; /* where nobody has the port */
    uint32_t nr_refused;
    uint8_t grh[FL_ROCE_GRH_LEN];
    uint8_t from_hub[sizeof(struct fl_hub_packet) + FL_HUB_PACKET_MAX];
    struct fl_port_stats stats;
};

/* why.c: the error of a process that became neither hub nor member; true: this user may not have the port,
 * and nobody else has it */
int fl_port_no_hub(const struct fl_port *port, uint64_t waited_ns, struct fl_error *err);
bool fl_port_is_forbidden(const struct fl_port *port);

/* join.c: moves towards HUB or MEMBER; does nothing when it is one. */
void fl_port_join_step(struct fl_port *port, uint64_t now);
void fl_port_lost_hub(struct fl_port *port, uint64_t now);
void fl_port_stop_serving(struct fl_port *port, uint64_t now);

/* last_words.c */
struct fl_last_word {
    struct fl_port_flow flow;
    struct fl_cm_mad mad;
    struct fl_roce_tx packet; /* of mad */
};
/* What is said to the peer of a connection, whatever the will says that it was. No I/O. */
void fl_port_last_word(const struct fl_hub_bond *bond, uint64_t tid, struct fl_last_word *word);
void fl_port_say_last_words(struct fl_port *port, uint64_t now);
void fl_port_inherit(struct fl_port *port, uint64_t now);

/* knock.c */
void fl_port_hear_refusals(struct fl_port *port);
void fl_port_close_knockers(struct fl_port *port);

/* stopped.c */
#define FL_PORT_LOOKS    4
#define FL_PORT_LOOK_NS  (50 * FL_NS_PER_MS)
#define FL_PORT_STUCK_NS FL_NS_PER_S /* between attempts where nobody may take over */
bool fl_port_hub_looks_stopped(const struct fl_port *port);
/* The UDP port, beside hubs that are stopped. 0 or negative errno. */
int fl_port_listen_beside(struct fl_port *port, int own_name);
void fl_port_forget_beside(struct fl_port *port);
/* Of a member: is its hub stopped? Of a hub: was it stopped itself, and has another process taken over? */
void fl_port_watch_hub(struct fl_port *port, uint64_t now);
uint64_t fl_port_watch_deadline(const struct fl_port *port);
void fl_port_link_event(struct fl_port *port); /* the hub said something */
/* One more block of queue pair numbers, without waiting; what came of it is seen by looking, now or later. */
void fl_port_want_block(struct fl_port *port);
void fl_port_look_at_hub(struct fl_port *port);

/* listen.c: is it an answer to an ask? */
bool fl_port_listen_answered(struct fl_port *port, const struct fl_hub_msg *msg);
void fl_port_drop_old_asks(struct fl_port *port, uint64_t now);
/* The table of the host; NULL: none known. */
const struct fl_hub_shared *fl_port_shared(const struct fl_port *port);

#endif
