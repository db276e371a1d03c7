/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection manager engines in a simulated network: storms of connects, rejects and disconnects between
 * hosts, with loss, repeats, reordering, slow and impatient programs, a network that dies, a host that
 * restarts; all from one seed. Held all along: each connect ends once at either side and within its time, the
 * two ends agree as far as they can, nothing is told of what its owner has destroyed, and nothing is left at
 * the end.
 *
 *   cm_sim FIRST COUNT, cm_sim --trace SEED
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "rnic/cm/cm.h"
#include "wire/ib.h"

#define HOSTS       3
#define CONNECTS    48
#define PACKETS_MAX 4096
#define SERVICE     fl_cm_service_id(FL_CM_PS_TCP, 7471)
#define MS          1000000ull

enum scenario { CALM, LOSSY, STORM, DEAD, RESTART, NR_SCENARIOS };

enum act { ACT_NONE, ACT_CONNECT, ACT_ACCEPT, ACT_REJECT, ACT_READY, ACT_HEAR, ACT_DISCONNECT, ACT_DESTROY };

enum { ASKS, ASKED };

struct end {
    struct world *world;
    struct connect *connect;
    int host, role;
    struct fl_cm_conn *conn; /* NULL: not begun, or destroyed */
    struct fl_cm_terms terms;
    bool begun, ended; /* ended: the one outcome was told, or was its own program's */
    bool up, disconnecting, disconnected, timewait_over, destroyed, rejected;
    bool responded, accepted;
    uint64_t end_by; /* an outcome must come by then */
    enum act act;
    uint64_t act_at;
};

struct connect {
    int nr;
    struct end end[2];
};

struct packet {
    uint64_t at, order;
    int to;
    struct fl_cm_tx tx;
};

struct host {
    struct fl_cm *cm;
    struct fl_cm_config config;
    struct in6_addr addr;
    struct fl_cm_listener *listener;
};

struct world {
    uint64_t seed, rng, now, order, dead_at, restart_at;
    enum scenario scenario;
    unsigned drop, repeat, reorder; /* out of 1000 */
    uint64_t latency;
    struct host hosts[HOSTS];
    struct connect connects[CONNECTS];
    int nr_connects;
    uint32_t backlog;
    struct packet packets[PACKETS_MAX];
    int nr_packets;
    bool trace, slow;
    bool lazy;  /* programs ask for events late */
    bool exact; /* what is lost is repeated often enough: nothing but a program's will keeps two ends apart */
    uint64_t nr_sent, nr_dropped, nr_up, nr_rejected, nr_unreachable, nr_disconnected, nr_steps;
    jmp_buf broken;
    char why[256];
};

static void broken(struct world *w, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

static void broken(struct world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->why, sizeof(w->why), format, args);
    va_end(args);
    longjmp(w->broken, 1);
}

#define HOLDS(w, condition, ...)      \
    do {                              \
        if (!(condition))             \
            broken((w), __VA_ARGS__); \
    } while (0)

static void note(const struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(const struct world *w, const char *format, ...)
{
    va_list args;
    if (!w->trace)
        return;
    printf("%12.6f ", (double)w->now / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static uint64_t draw(struct world *w)
{
    uint64_t z = w->rng += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t below(struct world *w, uint64_t n)
{
    return draw(w) % n;
}

static bool chance(struct world *w, unsigned of_1000)
{
    return below(w, 1000) < of_1000;
}

static const char *name_of(const struct end *end)
{
    static char names[4][24];
    static int next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof(names[0]), "connect %d %s", end->connect->nr, end->role == ASKS ? "asks" : "asked");
    return name;
}

/* What all repeats of a message take at most, MRAs and chance included. */
static uint64_t patience(const struct world *w, const struct fl_cm_config *config)
{
    uint64_t answer = 4096ull << config->response_timeout;
    for (int i = 0; i < HOSTS; i++)
        answer = FL_MAX(answer, 4096ull << w->hosts[i].config.service_timeout);
    return (config->retries + 1u) * (answer + (4096ull << 17)) * 9 / 8;
}

static void plan(struct end *end, enum act act, uint64_t most_ns)
{
    end->act = act;
    end->act_at = end->world->now + 1 + below(end->world, most_ns);
}

/* ---- network ---- */

static void put_packet(struct world *w, int to, const struct fl_cm_tx *tx)
{
    uint64_t delay = w->latency + below(w, w->latency);
    if (chance(w, w->reorder))
        delay += below(w, 20 * w->latency);
    HOLDS(w, w->nr_packets < PACKETS_MAX, "more packets than a few connects can need");
    w->packets[w->nr_packets++] = (struct packet){
        .at = w->now + delay, .order = w->order++, .to = to, .tx = *tx};
}

static void send_all(struct world *w, int from)
{
    struct fl_cm_tx tx;
    while (fl_cm_tx(w->hosts[from].cm, &tx)) {
        int to = tx.remote.s6_addr[15] - 1;
        HOLDS(w, to >= 0 && to < HOSTS, "a packet to nowhere");
        w->nr_sent++;
        bool lost = chance(w, w->drop) || w->now >= w->dead_at;
        note(w, "%d %s %d %s %08x %08x", from, lost ? "-x" : "->", to,
             fl_cm_attr_text(be16_get(tx.mad.hdr.attr_id)), be32_get(tx.mad.rep.local_id),
             be32_get(tx.mad.rep.remote_id));
        if (lost) {
            w->nr_dropped++;
            continue;
        }
        put_packet(w, to, &tx);
        if (chance(w, w->repeat))
            put_packet(w, to, &tx);
    }
}

static int first_packet(const struct world *w)
{
    int first = -1;
    for (int i = 0; i < w->nr_packets; i++) {
        const struct packet *p = &w->packets[i], *f = &w->packets[FL_MAX(first, 0)];
        if (first < 0 || p->at < f->at || (p->at == f->at && p->order < f->order))
            first = i;
    }
    return first;
}

static void deliver(struct world *w, int i)
{
    struct packet p = w->packets[i];
    w->packets[i] = w->packets[--w->nr_packets];
    struct fl_cm_meta meta = {.local = p.tx.remote, .remote = p.tx.local, .src_qpn = FL_IB_QP1};
    fl_cm_rx(w->hosts[p.to].cm, &meta, &p.tx.mad, sizeof(p.tx.mad), w->now);
}

/* ---- programs ---- */

static void check_private(struct world *w, const struct fl_cm_event *event, const char *word, int nr)
{
    char want[16];
    snprintf(want, sizeof(want), "%s %d", word, nr);
    HOLDS(w, event->private_len >= sizeof(want) && !strcmp(event->private_data, want),
          "private data is not \"%s\"", want);
}

static void check_terms(struct world *w, const struct end *end)
{
    const struct fl_cm_terms *got = fl_cm_peer(end->conn), *said = &end->connect->end[!end->role].terms;
    HOLDS(w, got->qpn == said->qpn && got->psn == said->psn && got->rnr_retry_count == said->rnr_retry_count,
          "%s: the peer's terms are others", name_of(end));
    HOLDS(w,
          got->responder_resources <= said->initiator_depth &&
              got->initiator_depth <= said->responder_resources,
          "%s: more READs at a time than were offered", name_of(end));
    uint16_t features = end->role == ASKS ? said->features & end->terms.features : said->features;
    HOLDS(w, got->features == features, "%s: agreed on %x, not %x", name_of(end), got->features, features);
}

static void end_once(struct end *end, const char *how)
{
    note(end->world, "%s: %s", name_of(end), how);
    HOLDS(end->world, end->begun && !end->ended, "%s: ended a second time, by: %s", name_of(end), how);
    end->ended = true;
}

static uint64_t think(const struct end *end)
{
    const struct world *w = end->world;
    return w->slow ? 3 * (4096ull << w->hosts[end->host].config.response_timeout) : 5 * MS;
}

static void asked(struct world *w, int host, const struct fl_cm_event *event)
{
    int nr;
    HOLDS(w, event->private_data && sscanf(event->private_data, "ask %d", &nr) == 1 && nr < w->nr_connects,
          "a request of nobody");
    struct end *end = &w->connects[nr].end[ASKED];
    note(w, "%s: request", name_of(end));
    HOLDS(w, end->host == host && event->listener == w->hosts[host].listener, "%s: at the wrong host",
          name_of(end));
    HOLDS(w, !end->begun, "%s: asked for a second time", name_of(end));
    end->begun = true;
    end->conn = event->conn;
    fl_cm_set_owner(end->conn, end);
    check_terms(w, end);
    unsigned what = (unsigned)below(w, 10);
    bool kill = what == 0 && w->scenario == STORM;
    plan(end, kill ? ACT_DESTROY : what < 3 ? ACT_REJECT : ACT_ACCEPT, think(end));
    if (chance(w, 100))
        fl_cm_delay(w->hosts[host].cm, end->conn, 0, w->now);
}

static void now_up(struct end *end)
{
    struct world *w = end->world;
    end->up = true;
    w->nr_up++;
    if (chance(w, 700))
        plan(end, w->scenario == STORM && chance(w, 300) ? ACT_DESTROY : ACT_DISCONNECT, 2000 * MS);
    else
        end->act = ACT_NONE;
}

/* Why it may be told that the other side has rejected it */
static bool is_reason(const struct end *end, const struct end *other, uint16_t reason)
{
    bool restarts = end->world->scenario == RESTART; /* then nobody knows any more what it said */
    switch (reason) {
    case FL_CM_REJ_CONSUMER:
        return restarts || other->rejected || other->destroyed || other->disconnecting;
    case FL_CM_REJ_TIMEOUT:
    case FL_CM_REJ_COMM_ID:
        return restarts || other->destroyed || other->ended || end->world->lazy;
    case FL_CM_REJ_STALE:
        return restarts || other->disconnecting || other->destroyed;
    default:
        return false;
    }
}

static void take_event(struct world *w, int host, const struct fl_cm_event *event)
{
    if (event->kind == FL_CM_CONNECT_REQUEST) {
        asked(w, host, event);
        return;
    }
    struct end *end = event->owner;
    HOLDS(w,
          end >= &w->connects[0].end[0] && end <= &w->connects[CONNECTS - 1].end[1] &&
              end->conn == event->conn,
          "an event of kind %d for what was destroyed or never was", event->kind);
    HOLDS(w, end->host == host, "%s: an event at the wrong host", name_of(end));
    struct end *other = &end->connect->end[!end->role];
    switch (event->kind) {
    case FL_CM_CONNECT_RESPONSE:
        note(w, "%s: response", name_of(end));
        HOLDS(w, end->role == ASKS && !end->ended && !end->responded, "%s: a response out of place",
              name_of(end));
        HOLDS(w, other->accepted || w->scenario == RESTART, "%s: accepted by nobody", name_of(end));
        end->responded = true;
        check_terms(w, end);
        check_private(w, event, "yes", end->connect->nr);
        plan(end, chance(w, 850) ? ACT_READY : chance(w, 500) ? ACT_REJECT : ACT_DESTROY, think(end));
        break;
    case FL_CM_ESTABLISHED:
        HOLDS(w, end->role == ASKED && end->accepted, "%s: established and not accepted", name_of(end));
        HOLDS(w, other->up, "%s: established, but its peer is not ready", name_of(end));
        if (w->lazy && end->disconnecting) { /* it did not know when it disconnected */
            end->up = true;
            break;
        }
        end_once(end, "established");
        if (event->private_data)
            check_private(w, event, "go", end->connect->nr);
        now_up(end);
        break;
    case FL_CM_REJECTED:
        w->nr_rejected++;
        end_once(end, "rejected");
        end->rejected = true;
        HOLDS(w, is_reason(end, other, event->reason), "%s: rejected for reason %u (%s)", name_of(end),
              event->reason, fl_cm_reason_text(event->reason));
        if (event->reason == FL_CM_REJ_CONSUMER && other->rejected)
            check_private(w, event, "no", end->connect->nr);
        plan(end, ACT_DESTROY, 1000 * MS);
        break;
    case FL_CM_UNREACHABLE:
        w->nr_unreachable++;
        HOLDS(w, !w->exact || w->slow || w->lazy, "%s: unreachable, though little is lost", name_of(end));
        end_once(end, "unreachable");
        plan(end, ACT_DESTROY, 1000 * MS);
        break;
    case FL_CM_DISCONNECTED:
        w->nr_disconnected++;
        note(w, "%s: disconnected%s", name_of(end), event->timed_out ? ", without an answer" : "");
        HOLDS(w, end->up || end->disconnecting, "%s: disconnected and was not connected", name_of(end));
        HOLDS(w, !end->disconnected, "%s: disconnected twice", name_of(end));
        HOLDS(w, !w->exact || !event->timed_out, "%s: no answer to its DREQ, though little is lost",
              name_of(end));
        end->disconnected = true;
        if (chance(w, 500))
            plan(end, ACT_DESTROY, 1000 * MS);
        break;
    case FL_CM_TIMEWAIT_EXIT:
        HOLDS(w, end->disconnected && !end->timewait_over, "%s: time wait out of place", name_of(end));
        end->timewait_over = true;
        break;
    default:
        broken(w, "an event of kind %d", event->kind);
    }
}

static void forget(struct end *end)
{
    end->conn = NULL;
    end->act = ACT_NONE;
    end->destroyed = true;
    end->ended = end->ended || end->begun;
}

static void destroy(struct end *end)
{
    if (!end->conn)
        return;
    note(end->world, "%s: destroyed", name_of(end));
    fl_cm_conn_destroy(end->world->hosts[end->host].cm, end->conn, end->world->now);
    forget(end);
}

static void do_connect(struct world *w, struct end *end)
{
    char text[16];
    const struct host *from = &w->hosts[end->host], *to = &w->hosts[end->connect->end[ASKED].host];
    snprintf(text, sizeof(text), "ask %d", end->connect->nr);
    struct fl_cm_connect args = {
        .service_id = SERVICE,
        .src_port = (uint16_t)(10000 + end->connect->nr),
        .service = FL_IB_RC,
        .route = {.local = from->addr, .remote = to->addr, .mtu = 3},
        .terms = end->terms,
        .private_data = text,
        .private_len = sizeof(text),
        .owner = end,
    };
    int r = fl_cm_connect(from->cm, &args, w->now, &end->conn);
    HOLDS(w, !r, "connect: %d", r);
    note(w, "%s", name_of(end));
    end->begun = true;
    end->act = ACT_NONE;
    end->end_by = w->now + patience(w, &from->config);
    if (w->scenario == STORM && chance(w, 150))
        plan(end, ACT_DESTROY, 500 * MS);
}

/* What the program planned; the connection may have ended meanwhile, then nothing comes of it. */
static void do_act(struct world *w, struct end *end)
{
    char text[16];
    struct fl_cm *cm = w->hosts[end->host].cm;
    struct end *other = &end->connect->end[!end->role];
    enum act act = end->act;
    end->act = ACT_NONE;
    switch (act) {
    case ACT_CONNECT:
        do_connect(w, end);
        break;
    case ACT_ACCEPT:
        snprintf(text, sizeof(text), "yes %d", end->connect->nr);
        if (fl_cm_accept(cm, end->conn, &end->terms, text, sizeof(text), w->now)) {
            HOLDS(w, end->ended || w->lazy, "%s: cannot accept", name_of(end));
            break;
        }
        note(w, "%s: accepts", name_of(end));
        end->accepted = true;
        end->end_by = w->now + patience(w, &w->hosts[other->host].config);
        if (w->scenario == STORM && chance(w, 300))
            plan(end, chance(w, 500) ? ACT_DESTROY : ACT_DISCONNECT, 500 * MS);
        break;
    case ACT_REJECT:
        snprintf(text, sizeof(text), "no %d", end->connect->nr);
        if (fl_cm_reject(cm, end->conn, FL_CM_REJ_CONSUMER, NULL, 0, text, sizeof(text), w->now)) {
            HOLDS(w, end->ended || w->lazy, "%s: cannot reject", name_of(end));
            break;
        }
        end->rejected = true;
        end_once(end, "rejects");
        plan(end, ACT_DESTROY, 1000 * MS);
        break;
    case ACT_READY:
        snprintf(text, sizeof(text), "go %d", end->connect->nr);
        if (fl_cm_ready(cm, end->conn, text, sizeof(text), w->now)) {
            HOLDS(w, end->ended || w->lazy, "%s: cannot get ready", name_of(end));
            break;
        }
        end_once(end, "ready");
        now_up(end);
        if (other->accepted && other->conn && !other->act && chance(w, 300))
            plan(other, ACT_HEAR, 20 * MS);
        break;
    case ACT_HEAR:
        fl_cm_established(cm, end->conn, w->now);
        break;
    case ACT_DISCONNECT:
        if (!fl_cm_disconnect(cm, end->conn, NULL, 0, w->now)) {
            note(w, "%s: disconnects", name_of(end));
            if (!end->ended)
                end_once(end, "disconnects before it is established");
            end->disconnecting = true;
        }
        break;
    case ACT_DESTROY:
        destroy(end);
        break;
    case ACT_NONE:
        break;
    }
}

/* ---- the world ---- */

static void start_host(struct world *w, int i)
{
    struct host *host = &w->hosts[i];
    host->config.seed[0] = draw(w);
    host->config.seed[1] = draw(w);
    int r = fl_cm_create(&host->config, &host->cm);
    HOLDS(w, !r, "create: %d", r);
    r = fl_cm_listen(host->cm, SERVICE, chance(w, 500) ? &host->addr : NULL, w->backlog, host,
                     &host->listener);
    HOLDS(w, !r, "listen: %d", r);
}

/* All that it knew is gone, and its programs with it; queue pair numbers come again. */
static void restart_host(struct world *w)
{
    note(w, "host 0 restarts");
    fl_cm_destroy(w->hosts[0].cm);
    start_host(w, 0);
    for (int i = 0; i < w->nr_connects; i++)
        for (int role = ASKS; role <= ASKED; role++)
            if (w->connects[i].end[role].host == 0 && w->connects[i].end[role].conn)
                forget(&w->connects[i].end[role]);
    for (int i = 0; i < w->nr_connects; i++) { /* what was asked here before may be asked again */
        struct end *end = &w->connects[i].end[ASKED];
        if (end->host == 0)
            *end = (struct end){.world = w, .connect = end->connect, .role = ASKED, .terms = end->terms};
    }
    w->restart_at = FL_CM_NEVER;
}

static void make(struct world *w)
{
    w->scenario = (enum scenario)below(w, NR_SCENARIOS);
    w->latency = 1000 + below(w, MS);
    w->drop = w->scenario == CALM ? 0 : (unsigned)below(w, 2) * (unsigned)below(w, 300);
    w->repeat = w->scenario == CALM ? 0 : (unsigned)below(w, 300);
    w->reorder = w->scenario == CALM ? 0 : (unsigned)below(w, 500);
    w->dead_at = w->scenario == DEAD ? below(w, 1000 * MS) : FL_CM_NEVER;
    w->restart_at = w->scenario == RESTART ? below(w, 1000 * MS) : FL_CM_NEVER;
    w->slow = chance(w, 300);
    w->backlog = chance(w, 700) ? CONNECTS : 1 + (uint32_t)below(w, 8);
    w->lazy = chance(w, 300);
    w->nr_connects = 1 + (int)below(w, chance(w, 300) ? CONNECTS : 6);
    if (chance(w, 500))
        w->drop = FL_MIN(w->drop, 50u);
    w->exact = w->drop <= 50 && (w->scenario == CALM || w->scenario == LOSSY || w->scenario == STORM);
    for (int i = 0; i < HOSTS; i++) {
        struct host *host = &w->hosts[i];
        host->addr = (struct in6_addr){{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(i + 1)}}};
        host->config = (struct fl_cm_config){
            .guid = 100 + (uint64_t)i,
            .response_timeout = (uint8_t)(14 + below(w, 7)),
            .retries = (uint8_t)(w->exact ? 15 : 2 + below(w, 14)),
            .max_conns = 2 * CONNECTS + 32, /* few, so that they meet in the tables */
        };
        host->config.service_timeout = (uint8_t)(host->config.response_timeout + 3);
        start_host(w, i);
    }
    for (int i = 0; i < w->nr_connects; i++) {
        struct connect *connect = &w->connects[i];
        connect->nr = i;
        for (int role = ASKS; role <= ASKED; role++) {
            struct end *end = &connect->end[role];
            *end = (struct end){.world = w, .connect = connect, .host = (int)below(w, HOSTS), .role = role};
            end->terms = (struct fl_cm_terms){
                .qpn = 2 + (uint32_t)(2 * i + role),
                .psn = (uint32_t)below(w, 1 << 24),
                .responder_resources = (uint8_t)draw(w),
                .initiator_depth = (uint8_t)draw(w),
                .rnr_retry_count = (uint8_t)below(w, 8),
                .features = (uint16_t)below(w, 8),
            };
        }
        plan(&connect->end[ASKS], ACT_CONNECT, w->scenario == RESTART ? 2000 * MS : 200 * MS);
        /* A program of the restarted host that has the number of one from before */
        if (w->scenario == RESTART && i && chance(w, 500)) {
            connect->end[ASKS].host = 0;
            connect->end[ASKS].terms.qpn = w->connects[i - 1].end[ASKS].terms.qpn;
        }
    }
}

static uint64_t next_time(const struct world *w, struct end **who)
{
    uint64_t next = w->restart_at;
    int first = first_packet(w);
    *who = NULL;
    if (first >= 0)
        next = FL_MIN(next, w->packets[first].at);
    for (int i = 0; i < HOSTS; i++)
        next = FL_MIN(next, fl_cm_deadline(w->hosts[i].cm));
    for (int i = 0; i < w->nr_connects; i++) {
        for (int role = ASKS; role <= ASKED; role++) {
            struct end *end = (struct end *)&w->connects[i].end[role];
            if (end->act && end->act_at < next) {
                next = end->act_at;
                *who = end;
            }
        }
    }
    return next;
}

static void check_in_time(struct world *w)
{
    for (int i = 0; i < w->nr_connects; i++) {
        for (int role = ASKS; role <= ASKED; role++) {
            const struct end *end = &w->connects[i].end[role];
            /* The asking side's own program may think for long after the response, the other's before it
             * accepts */
            bool waits = end->begun && !end->ended && (role == ASKS ? !end->responded : end->accepted);
            HOLDS(w, !waits || w->now <= end->end_by, "%s: no outcome in time", name_of(end));
        }
    }
}

/* True: there were events. */
static bool take_events(struct world *w, bool all)
{
    bool any = false;
    struct fl_cm_event event;
    for (int i = 0; i < HOSTS; i++) {
        while ((all || chance(w, 100)) && fl_cm_next_event(w->hosts[i].cm, &event)) {
            take_event(w, i, &event);
            any = true;
        }
        send_all(w, i);
    }
    return any;
}

static bool step(struct world *w)
{
    struct end *who;
    uint64_t next = next_time(w, &who);
    if (next == FL_CM_NEVER)
        return take_events(w, true);
    HOLDS(w, next >= w->now, "time goes back");
    HOLDS(w, ++w->nr_steps < 1000000, "no end");
    w->now = next;
    if (w->now >= w->restart_at)
        restart_host(w);
    else if (who)
        do_act(w, who);
    else if (w->nr_packets && w->packets[first_packet(w)].at == w->now)
        deliver(w, first_packet(w));
    for (int i = 0; i < HOSTS; i++)
        if (fl_cm_deadline(w->hosts[i].cm) <= w->now)
            fl_cm_tick(w->hosts[i].cm, w->now);
    take_events(w, !w->lazy);
    if (!w->lazy)
        check_in_time(w);
    return true;
}

/* Unless programs go away, both ends know the same. */
static void check_agreement(struct world *w)
{
    for (int i = 0; i < w->nr_connects; i++) {
        const struct end *a = &w->connects[i].end[ASKS], *b = &w->connects[i].end[ASKED];
        HOLDS(w, !a->begun || a->ended, "%s: no outcome", name_of(a));
        HOLDS(w, !b->begun || b->ended, "%s: no outcome", name_of(b));
        if (!w->exact || a->destroyed || b->destroyed)
            continue;
        HOLDS(w, a->up == b->up || (b->disconnecting && !b->up),
              "connect %d: one side is connected, the other is not", i);
        HOLDS(w, a->disconnected == b->disconnected, "connect %d: one side is disconnected, the other is not",
              i);
        HOLDS(w, a->disconnected == a->timewait_over, "connect %d: time wait", i);
    }
}

static void run(struct world *w)
{
    make(w);
    while (step(w))
        ;
    check_agreement(w);
    for (int i = 0; i < w->nr_connects; i++)
        for (int role = ASKS; role <= ASKED; role++)
            destroy(&w->connects[i].end[role]);
    while (step(w))
        ;
    for (int i = 0; i < HOSTS; i++)
        HOLDS(w, !fl_cm_nr_conns(w->hosts[i].cm), "%u connections are left", fl_cm_nr_conns(w->hosts[i].cm));
}

static int run_seed(struct world *w, uint64_t seed, bool trace)
{
    *w = (struct world){.seed = seed, .rng = seed, .trace = trace};
    int r = setjmp(w->broken);
    if (!r)
        run(w);
    else
        fprintf(stderr, "seed %llu, at %.6f s: %s\n", (unsigned long long)seed, (double)w->now / 1e9, w->why);
    for (int i = 0; i < HOSTS; i++)
        if (w->hosts[i].cm)
            fl_cm_destroy(w->hosts[i].cm);
    return r;
}

int main(int argc, char **argv)
{
    static struct world w;
    uint64_t sum[6] = {0};
    int nr_broken = 0;
    if (argc == 3 && !strcmp(argv[1], "--trace"))
        return run_seed(&w, strtoull(argv[2], NULL, 10), true);
    if (argc != 3) {
        fprintf(stderr, "usage: %s FIRST COUNT | --trace SEED\n", argv[0]);
        return 2;
    }
    uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count && nr_broken < 10; seed++) {
        nr_broken += run_seed(&w, seed, false);
        const uint64_t of_this[] = {w.nr_sent,     w.nr_dropped,     w.nr_up,
                                    w.nr_rejected, w.nr_unreachable, w.nr_disconnected};
        for (size_t i = 0; i < FL_ARRAY_LEN(sum); i++)
            sum[i] += of_this[i];
    }
    printf(
        "%llu seeds: %llu messages, %llu lost; %llu ends established, %llu rejected, %llu unreachable, %llu "
        "disconnected; %d seeds failed\n",
        (unsigned long long)count, (unsigned long long)sum[0], (unsigned long long)sum[1],
        (unsigned long long)sum[2], (unsigned long long)sum[3], (unsigned long long)sum[4],
        (unsigned long long)sum[5], nr_broken);
    return nr_broken != 0;
}
