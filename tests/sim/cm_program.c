/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of cm.h, at both ends: what they do and when, and what they must be told. */
#include <stdio.h>

#include "cm.h"
#include "wire/ib.h"

/* What all repeats of a message take at most, MRAs and chance included. */
static uint64_t patience(const struct world *w, const struct fl_cm_config *config)
{
    uint64_t answer = 4096ull << config->response_timeout;
    for (int i = 0; i < HOSTS; i++)
        answer = FL_MAX(answer, 4096ull << w->hosts[i].config.service_timeout);
    return (config->retries + 1u) * (answer + (4096ull << 17)) * 9 / 8;
}

void plan(struct end *end, enum act act, uint64_t most_ns)
{
    end->act = act;
    end->act_at = end->world->now + 1 + below(end->world, most_ns);
}

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

void take_event(struct world *w, int host, const struct fl_cm_event *event)
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
        end->qpn_free = !event->timed_out;
        HOLDS(w, !w->exact || end->disconnecting || other->disconnecting || other->destroyed || !other->up,
              "%s: disconnected by nobody", name_of(end));
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

void forget(struct end *end)
{
    end->conn = NULL;
    end->act = ACT_NONE;
    end->destroyed = true;
    end->ended = end->ended || end->begun;
}

void destroy(struct end *end)
{
    if (!end->conn)
        return;
    note(end->world, "%s: destroyed", name_of(end));
    fl_cm_conn_destroy(end->world->hosts[end->host].cm, end->conn, end->world->now);
    forget(end);
}

/* The next queue pair at a host gets the number of one whose connection is over, whose late messages must not
 * disturb it. */
static void choose_qpn(struct world *w, struct end *end)
{
    for (int i = 0; w->again && i < w->nr_connects; i++) {
        struct end *old = &w->connects[i].end[end->role];
        if (old->host != end->host || !old->qpn_free)
            continue;
        old->qpn_free = false;
        end->terms.qpn = old->terms.qpn;
        note(w, "%s: with the queue pair of %s", name_of(end), name_of(old));
        return;
    }
}

static void do_connect(struct world *w, struct end *end)
{
    choose_qpn(w, end);
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
void do_act(struct world *w, struct end *end)
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
        choose_qpn(w, end);
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
