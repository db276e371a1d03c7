/* SPDX-License-Identifier: Apache-2.0 */
/* The engine as a whole: set-up, where messages come in and go out, events, time. */
#include "rnic/cm/parts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "wire/ib.h"

static void set_defaults(struct fl_cm_config *config)
{
    if (!config->max_conns)
        config->max_conns = 65536;
    if (!config->response_timeout)
        config->response_timeout = 20;
    if (!config->retries)
        config->retries = 15;
    else if (config->retries == FL_CM_NO_RETRIES)
        config->retries = 0;
    if (!config->service_timeout)
        config->service_timeout = FL_CM_PEER_SERVICE_MAX;
    if (!config->ack_delay)
        config->ack_delay = 15;
}

static bool is_valid(const struct fl_cm_config *config)
{
    uint32_t room = ~config->id_mask;
    return fl_is_pow2((uint64_t)room + 1) && !(config->id_prefix & room) && room / 2 >= config->max_conns &&
           config->response_timeout < 32 && config->retries < 16 && config->service_timeout < 32 &&
           config->ack_delay < 32;
}

static struct fl_list *new_table(uint32_t len)
{
    struct fl_list *table = calloc(len, sizeof(*table));
    for (uint32_t i = 0; table && i < len; i++)
        fl_list_init(&table[i]);
    return table;
}

int fl_cm_create(const struct fl_cm_config *config, struct fl_cm **out)
{
    struct fl_cm *cm = calloc(1, sizeof(*cm));
    if (!cm)
        return -ENOMEM;
    struct fl_list *heads[] = {&cm->conns, &cm->to_send, &cm->with_events, &cm->kept, &cm->listeners};
    for (size_t i = 0; i < FL_ARRAY_LEN(heads); i++)
        fl_list_init(heads[i]);
    cm->config = *config;
    set_defaults(&cm->config);
    if (!is_valid(&cm->config)) {
        free(cm);
        return -EINVAL;
    }
    uint32_t len = 64;
    while (len < cm->config.max_conns && len < 4096)
        len *= 2;
    cm->hash_mask = len - 1;
    cm->by_id = new_table(len);
    cm->by_peer = new_table(len);
    cm->by_qpn = new_table(len);
    cm->past = calloc(FL_CM_PAST_LEN, sizeof(*cm->past));
    if (!cm->by_id || !cm->by_peer || !cm->by_qpn || !cm->past) {
        fl_cm_destroy(cm);
        return -ENOMEM;
    }
    *out = cm;
    return 0;
}

void fl_cm_destroy(struct fl_cm *cm)
{
    struct fl_list *link;
    while (!fl_list_empty(&cm->conns))
        fl_cm_conn_free(cm, FL_LIST_FIRST(&cm->conns, struct fl_cm_conn, all));
    while ((link = fl_list_pop(&cm->listeners)))
        free(FL_LIST_ENTRY(link, struct fl_cm_listener, link));
    fl_timer_heap_fini(&cm->timers);
    free(cm->by_id);
    free(cm->by_peer);
    free(cm->by_qpn);
    free(cm->past);
    free(cm);
}

const struct fl_cm_stats *fl_cm_stats(const struct fl_cm *cm)
{
    return &cm->stats;
}

uint32_t fl_cm_nr_conns(const struct fl_cm *cm)
{
    return cm->nr_conns;
}

/* A request of another class version is answered by the version that we speak (12.6.7.2). */
static void take_unreadable(struct fl_cm *cm, const struct fl_cm_meta *meta, const void *bytes, size_t len)
{
    static const uint8_t version = FL_MAD_CM_VERSION;
    const struct fl_cm_mad *mad = bytes;
    cm->stats.nr_malformed++;
    if (fl_cm_version_wrong(bytes, len) && be16_get(mad->hdr.attr_id) == FL_CM_REQ)
        fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, FL_CM_REJ_CLASS_VERSION, &version, 1);
}

void fl_cm_rx(struct fl_cm *cm, const struct fl_cm_meta *meta, const void *bytes, size_t len, uint64_t now)
{
    static fl_cm_rx_fn *const machines[] = {
        [FL_CM_REQ - FL_CM_REQ] = fl_cm_rx_req,           [FL_CM_MRA - FL_CM_REQ] = fl_cm_rx_mra,
        [FL_CM_REJ - FL_CM_REQ] = fl_cm_rx_rej,           [FL_CM_REP - FL_CM_REQ] = fl_cm_rx_rep,
        [FL_CM_RTU - FL_CM_REQ] = fl_cm_rx_rtu,           [FL_CM_DREQ - FL_CM_REQ] = fl_cm_rx_dreq,
        [FL_CM_DREP - FL_CM_REQ] = fl_cm_rx_drep,         [FL_CM_SIDR_REQ - FL_CM_REQ] = fl_cm_rx_sidr_req,
        [FL_CM_SIDR_REP - FL_CM_REQ] = fl_cm_rx_sidr_rep,
    };
    if (meta->src_qpn != FL_IB_QP1) {
        cm->stats.nr_forged++;
        return;
    }
    const struct fl_cm_mad *mad = fl_cm_view(bytes, len);
    if (!mad) {
        take_unreadable(cm, meta, bytes, len);
        return;
    }
    unsigned which = be16_get(mad->hdr.attr_id) - FL_CM_REQ;
    cm->stats.nr_rx[which]++;
    if (which < FL_ARRAY_LEN(machines))
        machines[which](cm, meta, mad, now);
    else
        cm->stats.nr_unknown++; /* alternate paths: RoCE has none */
}

struct fl_cm_conn *fl_cm_named(struct fl_cm *cm, const struct fl_cm_meta *meta, be32 id, bool sidr)
{
    struct fl_cm_conn *conn = fl_cm_find_id(cm, be32_get(id));
    if (!conn || conn->sidr != sidr) {
        cm->stats.nr_unknown++;
        return NULL;
    }
    if (memcmp(&conn->route.remote, &meta->remote, 16) || memcmp(&conn->route.local, &meta->local, 16)) {
        cm->stats.nr_forged++;
        return NULL;
    }
    return conn;
}

static void count_tx(struct fl_cm *cm, const struct fl_cm_tx *tx)
{
    cm->stats.nr_tx[be16_get(tx->mad.hdr.attr_id) - FL_CM_REQ]++;
}

bool fl_cm_tx(struct fl_cm *cm, struct fl_cm_tx *tx)
{
    if (cm->answers_head != cm->answers_tail) {
        *tx = cm->answers[cm->answers_head++ % FL_CM_ANSWERS_MAX];
        count_tx(cm, tx);
        return true;
    }
    struct fl_cm_conn *conn = FL_LIST_FIRST(&cm->to_send, struct fl_cm_conn, to_send);
    if (!conn)
        return false;
    tx->local = conn->route.local;
    tx->remote = conn->route.remote;
    tx->scope_id = conn->route.scope_id;
    tx->traffic_class = conn->route.traffic_class;
    tx->hop_limit = conn->route.hop_limit;
    uint8_t what = conn->tx & -conn->tx; /* answers go before what begins something new */
    if (what == FL_CM_TX_ANSWER)
        tx->mad = conn->answer;
    else if (what == FL_CM_TX_MRA)
        fl_cm_build_mra(conn, &tx->mad);
    else
        tx->mad = conn->out;
    conn->tx &= (uint8_t)~what;
    count_tx(cm, tx);
    if (!conn->tx) {
        fl_list_del(&conn->to_send);
        if (conn->state == FL_CM_CLOSED && conn->orphan)
            fl_cm_conn_free(cm, conn);
    }
    return true;
}

static void fill_in_end(const struct fl_cm_conn *conn, struct fl_cm_event *event)
{
    const struct fl_cm_mad *mad = &conn->said_end;
    event->reason = conn->reason;
    event->timed_out = conn->timed_out;
    if (event->kind == FL_CM_REJECTED && be16_get(mad->hdr.attr_id) == FL_CM_REJ) {
        event->ari = mad->rej.ari;
        event->ari_len = fl_cm_rej_ari_len(&mad->rej);
    }
}

static void fill_in_private(const struct fl_cm_conn *conn, struct fl_cm_event *event, struct fl_cm_mad *mad)
{
    size_t len;
    uint8_t *data = fl_cm_private(mad, &len);
    uint8_t space;
    uint16_t port;
    bool request = event->kind == FL_CM_CONNECT_REQUEST || event->kind == FL_CM_SIDR_REQUEST;
    size_t skip = request && fl_cm_service_id_parse(conn->service_id, &space, &port)
                      ? sizeof(struct fl_cm_ip_hdr)
                      : 0;
    if (!len)
        return;
    event->private_data = data + skip;
    event->private_len = len - skip;
}

bool fl_cm_next_event(struct fl_cm *cm, struct fl_cm_event *event)
{
    struct fl_cm_conn *conn = FL_LIST_FIRST(&cm->with_events, struct fl_cm_conn, with_events);
    if (!conn)
        return false;
    assert(conn->pending && !conn->orphan);
    *event = (struct fl_cm_event){
        .kind = (enum fl_cm_event_kind)__builtin_ctz(conn->pending),
        .conn = conn,
        .owner = conn->owner,
    };
    conn->pending &= (uint16_t) ~(1u << event->kind);
    if (!conn->pending)
        fl_list_del(&conn->with_events);
    switch (event->kind) {
    case FL_CM_CONNECT_REQUEST:
    case FL_CM_SIDR_REQUEST:
        event->listener = conn->listener;
        fill_in_private(conn, event, &conn->said);
        break;
    case FL_CM_SIDR_RESPONSE:
        event->sidr_status = conn->said.sidr_rep.status;
        event->qpn = be24_get(conn->said.sidr_rep.qpn);
        event->qkey = be32_get(conn->said.sidr_rep.qkey);
        fill_in_private(conn, event, &conn->said);
        break;
    case FL_CM_CONNECT_RESPONSE:
    case FL_CM_ESTABLISHED:
        fill_in_private(conn, event, &conn->said);
        break;
    case FL_CM_REJECTED:
    case FL_CM_UNREACHABLE:
    case FL_CM_DISCONNECTED:
        fill_in_end(conn, event);
        fill_in_private(conn, event, &conn->said_end);
        break;
    case FL_CM_TIMEWAIT_EXIT:
        break;
    }
    return true;
}

uint64_t fl_cm_deadline(const struct fl_cm *cm)
{
    const struct fl_timer *first = fl_timer_heap_first(&cm->timers);
    return first ? first->deadline_ns : FL_CM_NEVER;
}

static void expire(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    switch (conn->state) {
    case FL_CM_REQ_SENT:
    case FL_CM_REP_SENT:
    case FL_CM_DREQ_SENT:
    case FL_CM_SIDR_SENT:
        if (!fl_cm_send_again(cm, conn, now))
            fl_cm_no_answer(cm, conn, now);
        return;
    case FL_CM_REQ_RCVD:
    case FL_CM_REP_RCVD: /* the program is slow */
        fl_cm_set_deadline(cm, conn, FL_CM_NEVER);
        fl_cm_send_mra(cm, conn);
        return;
    case FL_CM_TIMEWAIT:
        fl_cm_timewait_over(cm, conn, now);
        return;
    case FL_CM_REJ_SENT:
    case FL_CM_SIDR_REPLIED:
    case FL_CM_ENDED:
        fl_cm_close(cm, conn);
        return;
    case FL_CM_UP:
    case FL_CM_SIDR_RCVD:
    case FL_CM_CLOSED:
        break;
    }
    assert(!"a state without a deadline");
}

void fl_cm_tick(struct fl_cm *cm, uint64_t now)
{
    struct fl_timer *first;
    while ((first = fl_timer_heap_first(&cm->timers)) && first->deadline_ns <= now &&
           first->deadline_ns != FL_CM_NEVER)
        expire(cm, FL_CONTAINER_OF(first, struct fl_cm_conn, timer), now);
}
