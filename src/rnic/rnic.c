/* SPDX-License-Identifier: Apache-2.0 */
/* The one RNIC of the process: packets from the port to queue pairs, and back, turn by turn. */
#include "rnic/rnic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/try.h"
#include "rnic/guard.h"
#include "rnic/hub/unix.h"
#include "rnic/objects.h"
#include "rnic/shm_path.h"
#include "rnic/stats.h"
#include "rnic/verbs.h"

#define RX_BATCH      64                   /* packets a turn */
#define TX_BATCH      32                   /* packets of one queue pair before the next one has its turn */
#define BUSY_NS       (100 * FL_NS_PER_US) /* what was there so long ago is likely to be there again */
#define PORT_EVERY_NS (8 * FL_NS_PER_US)
#define TX_TURNS      256 /* of queue pairs in one turn: nobody waits long for the lock */
#define TX_PACKETS    64  /* in one turn: what the peer asks for meanwhile follows without a gap */

static struct {
    pthread_mutex_t lock; /* getting and putting; held across a fork */
    struct fl_rnic *rnic;
    struct fl_error failure; /* of the last attempt to make one; code 0: it was made */
    bool failure_is_told;    /* by whom it fails; atomic */
    struct fl_rnic *ended;   /* the process ends: the program's objects still point at it */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool send_ready(struct fl_rnic *rnic);

static void before_fork(void)
{
    pthread_mutex_lock(&process.lock);
    if (process.rnic) {
        fl_rnic_lock(process.rnic);      /* so that the child's copy is whole */
        while (send_ready(process.rnic)) /* the parent may wait for the child now */
            ;
        fl_port_flush(process.rnic->port);
    }
    pthread_mutex_lock(&fl_devices_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&fl_devices_lock);
    if (process.rnic)
        fl_rnic_unlock(process.rnic);
    pthread_mutex_unlock(&process.lock);
}

/* The child's objects are dead; it may open devices anew, with an RNIC of its own. */
static void after_fork_in_child(void)
{
    struct fl_rnic *rnic = process.rnic;
    process.rnic = NULL;
    pthread_mutex_init(&process.lock, NULL);
    pthread_mutex_init(&fl_devices_lock, NULL);
    fl_devices_forget_contexts();
    fl_stats_forget_past();
    if (!rnic)
        return;
    rnic->gone = true;
    fl_rnic_thread_forget(rnic);
    fl_guard_forget(rnic->guard);
    fl_shm_path_forget(rnic);
    fl_stats_forget(rnic);
    fl_port_forget(rnic->port);
}

/* At the end of a process nobody should wait for ever for a thread that no longer runs. */
static bool lock_soon(pthread_mutex_t *lock)
{
    struct timespec till;
    clock_gettime(CLOCK_REALTIME, &till);
    till.tv_sec++;
    return pthread_mutex_timedlock(lock, &till) == 0;
}

/*
 * The process ends and left devices open, as many do: peers are told, and a hub passes on what has come. The
 * program's other threads may still run: the lock is never given back, and calls that do not take it find
 * that the RNIC is gone.
 */
static void at_exit(void)
{
    struct fl_rnic_client *client;
    if (!lock_soon(&process.lock))
        return;
    struct fl_rnic *rnic = process.rnic;
    process.ended = rnic;
    process.rnic = NULL;
    pthread_mutex_unlock(&process.lock);
    if (!rnic || !lock_soon(&rnic->lock))
        return;
    rnic->now = fl_now_ns();
    while (send_ready(rnic))
        ;
    fl_list_for_each (client, &rnic->clients, link) {
        if (client->leave)
            client->leave(client, rnic->now);
    }
    rnic->gone = true;
    fl_port_close(rnic->port);
}

static void register_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
    fl_stats_at_exit(); /* what is registered last runs first */
}

static bool env_is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0");
}

static int port_options(struct fl_port_options *options, struct fl_error *err)
{
    *options = (struct fl_port_options){.hub_path = getenv("FARLANE_HUB")};
    return fl_hub_udp_port(&options->udp_port, err);
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* spins a little before it sleeps */
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static int rnic_create(struct fl_rnic **made, struct fl_error *err)
{
    struct fl_port_options options;
    struct fl_rnic *rnic = calloc(1, sizeof(*rnic));
    if (!rnic)
        return fl_error_set(err, -ENOMEM, "no memory for the software RNIC");
    fl_try_init();
    init_lock(&rnic->lock);
    fl_list_init(&rnic->ready);
    fl_list_init(&rnic->datagrams);
    fl_list_init(&rnic->clients);
    rnic->poison = env_is_set("FARLANE_POISON");
    rnic->spray = env_is_set("FARLANE_SPRAY");
    int r = fl_roce_pool_init(&rnic->pool, FL_RNIC_POOL);
    if (r) {
        fl_error_set(err, r, "no memory for packets of the software RNIC: %s", strerror(-r));
        goto free_rnic;
    }
    r = fl_key_table_init(&rnic->keys);
    if (r) {
        fl_error_set(err, r, "no memory for the keys of the software RNIC: %s", strerror(-r));
        goto fini_pool;
    }
    r = port_options(&options, err);
    if (!r)
        r = fl_port_open(&options, &rnic->port, err);
    if (r)
        goto fini_keys;
    fl_stats_start(rnic);
    r = fl_rnic_thread_start(rnic);
    if (r) {
        fl_error_set(err, r, "the software RNIC's thread does not start: %s", strerror(-r));
        goto stop_stats;
    }
    fl_shm_path_start(rnic);
    r = fl_guard_create(&fl_mr_guard_ops, rnic, &rnic->guard);
    if (r)
        FL_DEBUG("memory that is unmapped while it is registered is not noticed: userfaultfd: %s",
                 strerror(-r));
    *made = rnic;
    return 0;

stop_stats:
    fl_stats_stop(rnic);
    fl_port_close(rnic->port);
fini_keys:
    fl_key_table_fini(&rnic->keys);
fini_pool:
    fl_roce_pool_fini(&rnic->pool);
free_rnic:
    free(rnic);
    return r;
}

static void log_end(const struct fl_rnic *rnic)
{
    const struct fl_port_stats *s = fl_port_stats(rnic->port);
    FL_DEBUG(
        "port: %llu packets sent in %llu calls, %llu came in %llu calls; bad ICRC %llu, bad %llu, dropped "
        "%llu, "
        "held %llu; from the hub %llu, to others %llu, dropped there %llu; turns %llu, of the thread %llu",
        (unsigned long long)s->nr_tx, (unsigned long long)s->nr_tx_calls, (unsigned long long)s->nr_rx,
        (unsigned long long)s->nr_rx_calls, (unsigned long long)s->nr_bad_icrc,
        (unsigned long long)s->nr_bad_packet, (unsigned long long)s->nr_tx_dropped,
        (unsigned long long)rnic->stats.nr_held, (unsigned long long)s->nr_from_hub,
        (unsigned long long)s->nr_to_others, (unsigned long long)s->nr_others_dropped,
        (unsigned long long)rnic->stats.nr_turns, (unsigned long long)rnic->stats.nr_thread_turns);
}

static void rnic_destroy(struct fl_rnic *rnic)
{
    fl_guard_destroy(rnic->guard);
    fl_rnic_thread_stop(rnic);
    log_end(rnic);
    fl_stats_stop(rnic);
    fl_shm_path_stop(rnic);
    fl_port_close(rnic->port);
    fl_key_table_fini(&rnic->keys);
    fl_roce_pool_fini(&rnic->pool);
    fl_timer_heap_fini(&rnic->timers);
    for (size_t i = 0; i < FL_ARRAY_LEN(rnic->qps.at); i++)
        free(rnic->qps.at[i]);
    pthread_mutex_destroy(&rnic->lock);
    free(rnic);
}

struct fl_rnic *fl_rnic_get(struct fl_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int r = 0;
    pthread_once(&once, register_handlers);
    pthread_mutex_lock(&process.lock);
    if (!process.rnic) {
        r = rnic_create(&process.rnic, err);
        process.failure = r ? *err : (struct fl_error){0};
    }
    struct fl_rnic *rnic = process.rnic;
    if (rnic)
        rnic->refs++;
    pthread_mutex_unlock(&process.lock);
    if (!rnic)
        errno = -r;
    return rnic;
}

void fl_rnic_failure(struct fl_error *err)
{
    pthread_mutex_lock(&process.lock);
    *err = process.failure;
    pthread_mutex_unlock(&process.lock);
}

void fl_rnic_failure_is_told(void)
{
    __atomic_store_n(&process.failure_is_told, true, __ATOMIC_RELAXED);
}

void fl_rnic_log_failure(const char *who, const struct fl_error *err)
{
    if (!__atomic_load_n(&process.failure_is_told, __ATOMIC_RELAXED))
        FL_ERR("%s: %s", who, err->text);
}

void fl_rnic_put(struct fl_rnic *rnic)
{
    if (rnic->gone) /* the child's copy: its memory is all that there is to it */
        return;
    pthread_mutex_lock(&process.lock);
    if (!--rnic->refs) {
        process.rnic = NULL;
        rnic_destroy(rnic);
    }
    pthread_mutex_unlock(&process.lock);
}

bool fl_rnic_look(void (*look)(struct fl_rnic *rnic, void *arg), void *arg)
{
    bool got = false;
    if (!lock_soon(&process.lock))
        return false;
    struct fl_rnic *rnic = process.rnic;
    if (!rnic || lock_soon(&rnic->lock)) {
        got = true;
        look(rnic, arg);
        if (rnic)
            fl_rnic_unlock(rnic);
    }
    pthread_mutex_unlock(&process.lock);
    return got;
}

void fl_rnic_add_client(struct fl_rnic *rnic, struct fl_rnic_client *client)
{
    fl_list_add_tail(&rnic->clients, &client->link);
    fl_rnic_thread_add_fd(rnic, client->wait_fd);
}

void fl_rnic_del_client(struct fl_rnic *rnic, struct fl_rnic_client *client)
{
    fl_rnic_thread_del_fd(rnic, client->wait_fd);
    fl_list_del(&client->link);
}

struct fl_qp *fl_qp_find(const struct fl_qp_table *table, uint32_t qpn)
{
    struct fl_qp *const *row = table->at[qpn >> 12 & 0xfff];
    return row ? row[qpn & 0xfff] : NULL;
}

int fl_qp_table_set(struct fl_qp_table *table, uint32_t qpn, struct fl_qp *qp)
{
    struct fl_qp ***row = &table->at[qpn >> 12 & 0xfff];
    if (!*row && qp)
        *row = calloc(1 << 12, sizeof(**row));
    if (!*row)
        return qp ? -ENOMEM : 0;
    (*row)[qpn & 0xfff] = qp;
    return 0;
}

/* The packet's bytes hold only until the next call on its queue pair, so they are copied. */
static void hold(struct fl_rnic *rnic, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    struct fl_rnic_held *held = &rnic->held;
    uint32_t at = 0;
    for (int i = 0; i < tx->nr_iov; i++) {
        if (!fl_try_copy(held->bytes + at, tx->iov[i].iov_base, tx->iov[i].iov_len))
            return;
        at += (uint32_t)tx->iov[i].iov_len;
    }
    held->flow = *flow;
    held->tx.iov[0] = (struct iovec){held->bytes, at};
    held->tx.nr_iov = 1;
    held->tx.len = at;
    held->tx.path = tx->path;
    held->full = true;
    rnic->stats.nr_held++;
}

/* False: the port has no room now; nothing may be sent before what is held. */
static bool release(struct fl_rnic *rnic)
{
    struct fl_rnic_held *held = &rnic->held;
    if (held->full)
        held->full = !fl_port_send(rnic->port, &held->flow, &held->tx);
    return !held->full;
}

/* True: it was taken. It may be held, and then the next one is refused. */
bool fl_rnic_transmit(struct fl_rnic *rnic, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    if (!release(rnic))
        return false;
    if (!fl_port_send(rnic->port, flow, tx))
        hold(rnic, flow, tx);
    return true;
}

/* Up to TX_BATCH packets, counted in *nr. True: there may be more. */
static bool send_some(struct fl_rnic *rnic, struct fl_qp *qp, uint32_t *nr)
{
    struct fl_roce_tx tx;
    if (qp->link && fl_shm_path_carries(qp))
        return fl_shm_path_send_some(qp, TX_BATCH);
    for (int n = 0; n < TX_BATCH; n++, ++*nr) {
        if (!release(rnic))
            return true;
        if (!fl_roce_qp_tx(&qp->roce, rnic->now, &tx))
            return false;
        fl_rnic_transmit(rnic, tx.ah ? &fl_ah_of(tx.ah)->flow : &qp->flow, &tx);
    }
    return true;
}

static void send_of(struct fl_rnic *rnic, struct fl_qp *qp, uint32_t *nr)
{
    fl_list_del(&qp->ready_link);
    if (send_some(rnic, qp, nr))
        fl_list_add_tail(&rnic->ready, &qp->ready_link);
    fl_qp_settle(qp);
}

void fl_rnic_send_locked(struct fl_rnic *rnic, struct fl_qp *qp)
{
    uint32_t nr = 0;
    send_of(rnic, qp, &nr);
}

void fl_rnic_deliver(void *arg, const struct fl_port_packet *packet)
{
    struct fl_rnic *rnic = arg;
    if (packet->packet.qpn == FL_IB_QP1) {
        struct fl_rnic_client *client;
        fl_list_for_each (client, &rnic->clients, link) {
            if (client->management && client->management(client, packet, rnic->now))
                return;
        }
        rnic->stats.nr_unknown_qpn++;
        return;
    }
    struct fl_qp *qp = fl_qp_find(&rnic->qps, packet->packet.qpn);
    if (qp)
        fl_qp_deliver(qp, packet, rnic->now);
    else
        rnic->stats.nr_unknown_qpn++;
}

/* Each once at most, whatever it says afterwards: with the RNIC's lock held nothing may go on for ever. */
static void tick_due(struct fl_rnic *rnic)
{
    struct fl_timer *timer;
    for (uint32_t n = rnic->timers.nr;
         n && (timer = fl_timer_heap_first(&rnic->timers)) && timer->deadline_ns <= rnic->now; n--) {
        struct fl_qp *qp = FL_CONTAINER_OF(timer, struct fl_qp, timer);
        fl_timer_heap_remove(&rnic->timers, timer);
        if (fl_roce_qp_deadline(&qp->roce) <= rnic->now) {
            fl_roce_qp_tick(&qp->roce, rnic->now);
            if (!fl_list_linked(&qp->ready_link))
                fl_list_add_tail(&rnic->ready, &qp->ready_link);
        }
        fl_qp_settle(qp);
    }
}

/* True: the turn ended before all had left that could. */
static bool send_ready(struct fl_rnic *rnic)
{
    struct fl_list waiting;
    uint32_t nr = 0;
    int n = 0;
    fl_list_init(&waiting);
    for (; n < TX_TURNS && nr < TX_PACKETS && !fl_list_empty(&rnic->ready) && release(rnic); n++) {
        struct fl_qp *qp = FL_LIST_FIRST(&rnic->ready, struct fl_qp, ready_link);
        if (fl_ack_may_wait(qp)) {
            fl_list_del(&qp->ready_link);
            fl_list_add_tail(&waiting, &qp->ready_link);
        } else {
            send_of(rnic, qp, &nr);
        }
    }
    const bool more = (n == TX_TURNS || nr >= TX_PACKETS) && !fl_list_empty(&rnic->ready);
    fl_list_splice(&rnic->ready, &waiting);
    return more;
}

/* To ask the port takes a system call. While peers on this host keep us busy by shared memory, and nothing
 * comes by the port, it is not asked each time: a packet after a silence of BUSY_NS may wait for
 * PORT_EVERY_NS, those behind it do not. */
static int ask_port(struct fl_rnic *rnic, int max)
{
    uint64_t now = rnic->now;
    if (now - rnic->client_at < BUSY_NS && now - rnic->port_came_at > BUSY_NS &&
        now - rnic->port_asked_at < PORT_EVERY_NS)
        return 0;
    int n = fl_port_poll(rnic->port, max > 0 ? max : RX_BATCH, fl_rnic_deliver, rnic);
    rnic->port_asked_at = now;
    if (n)
        rnic->port_came_at = now;
    return n;
}

int fl_rnic_progress_locked(struct fl_rnic *rnic, int max)
{
    struct fl_rnic_client *client;
    int nr_client = 0;
    rnic->stats.nr_turns++;
    rnic->now = fl_now_ns();
    if (fl_try_has_missed())
        fl_mr_close_missed(rnic);
    int n = ask_port(rnic, max);
    fl_list_for_each (client, &rnic->clients, link) {
        if (client->progress)
            nr_client += client->progress(client, rnic->now);
    }
    if (nr_client)
        rnic->client_at = rnic->now;
    n += nr_client;
    tick_due(rnic);
    if (send_ready(rnic))
        return n + 1; /* the next turn comes at once: until then the last burst may grow */
    fl_port_flush(rnic->port);
    return n;
}

uint64_t fl_rnic_deadline_locked(struct fl_rnic *rnic)
{
    struct fl_rnic_client *client;
    struct fl_timer *timer = fl_timer_heap_first(&rnic->timers);
    uint64_t at = fl_port_deadline(rnic->port);
    if (timer)
        at = FL_MIN(at, timer->deadline_ns);
    fl_list_for_each (client, &rnic->clients, link) {
        if (client->deadline)
            at = FL_MIN(at, client->deadline(client));
    }
    if (rnic->held.full || !fl_list_empty(&rnic->ready))
        at = FL_MIN(at, rnic->now + FL_NS_PER_MS / 4); /* the port was full: soon again */
    return at;
}

void fl_rnic_drive(struct fl_rnic *rnic, bool last_look)
{
    if (pthread_mutex_trylock(&rnic->lock)) { /* another one drives, that is enough */
        if (!last_look)
            __atomic_store_n(&rnic->refused, true, __ATOMIC_RELAXED);
        return;
    }
    rnic->polled_turn = !last_look;
    const bool any = fl_rnic_progress_locked(rnic, 0);
    rnic->polled_turn = false;
    if (!last_look)
        __atomic_store_n(&rnic->polled_at, rnic->now, __ATOMIC_RELAXED);
    else if (any)
        fl_rnic_resume(rnic);
    fl_rnic_unlock(rnic);
}
