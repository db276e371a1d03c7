/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of an association: attempt, live, broken, attempt again, lost or closed. All on the service thread,
 * and nothing here blocks, so that one dead target delays no other.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "host/remote.h"

#define CLOSE_MS        1000           /* for a polite end */
#define OTHER_NAMESPACE (-EMEDIUMTYPE) /* no use to try again */

static uint64_t ms_ns(uint32_t ms)
{
    return ms * FL_NS_PER_MS;
}

/* ---- what others see ---- */

static void set_state(struct fl_remote *r, enum fl_remote_state state)
{
    pthread_mutex_lock(&r->lock);
    r->state = state;
    pthread_mutex_unlock(&r->lock);
}

static void tell_change(struct fl_remote *r)
{
    void (*changed)(struct fl_device *, void *);
    void *arg;

    pthread_mutex_lock(&r->lock);
    changed = r->changed;
    arg = r->changed_arg;
    pthread_mutex_unlock(&r->lock);
    if (changed)
        changed(&r->base, arg);
}

/* An epoch begins or ends. */
static void turn_epoch(struct fl_remote *r)
{
    pthread_mutex_lock(&r->lock);
    __atomic_add_fetch(&r->epoch, 1, __ATOMIC_RELEASE);
    fl_remote_queues_wake(r);
    pthread_mutex_unlock(&r->lock);
}

/* ---- opening and closing: somebody waits, and frees r then. Functions that may come here return false for
 * it. ---- */

static void detach(struct fl_remote *r)
{
    fl_link_stop(&r->link);
    fl_timer_cancel(&r->timer);
    fl_watch_del(&r->watch);
    r->phase = FL_PHASE_IDLE;
}

static void open_failed(struct fl_remote *r)
{
    fl_error_set(r->open_err, r->err.code, "%s", r->err.text);
    r->open_code = r->err.code;
    detach(r);
    sem_post(&r->opened);
}

static void closed(struct fl_remote *r)
{
    fl_admin_cut(r, -ECANCELED);
    detach(r);
    sem_post(&r->closed); /* the last touch: the closer frees r */
}

/* ---- attempts ---- */

static void give_up(struct fl_remote *r)
{
    FL_ERR("%s: given up as lost: %s", r->name, r->err.text);
    fl_link_stop(&r->link);
    r->phase = FL_PHASE_IDLE;
    __atomic_store_n(&r->lost, -ENODEV, __ATOMIC_RELEASE);
    set_state(r, FL_REMOTE_LOST);
    pthread_mutex_lock(&r->lock);
    fl_remote_queues_wake(r);
    pthread_mutex_unlock(&r->lock);
    tell_change(r);
}

static void plan_attempt(struct fl_remote *r, uint64_t at_ns)
{
    r->phase = FL_PHASE_WAIT;
    pthread_mutex_lock(&r->lock);
    r->next_attempt_ns = at_ns;
    pthread_mutex_unlock(&r->lock);
}

static bool attempt_failed(struct fl_remote *r, uint64_t now_ns)
{
    fl_link_stop(&r->link);
    fl_admin_cut(r, -ENOLINK);
    if (r->state == FL_REMOTE_OPENING) {
        open_failed(r);
        return false;
    }
    FL_INFO("%s: attempt %u to reconnect failed: %s", r->name, r->attempt, r->err.text);
    if (now_ns + ms_ns(r->reconnect_delay_ms) >= r->loss_deadline_ns) {
        if (now_ns >= r->loss_deadline_ns)
            give_up(r);
        else
            plan_attempt(r, r->loss_deadline_ns); /* the last one */
    } else {
        plan_attempt(r, now_ns + ms_ns(r->reconnect_delay_ms));
    }
    return true;
}

static bool start_attempt(struct fl_remote *r, uint64_t now_ns)
{
    const struct fl_link_options options = {
        .addrs = r->addrs,
        .nr_addrs = r->nr_addrs,
        .hdgst = r->hdgst,
        .ddgst = r->ddgst,
        .sqsize = FL_ADMIN_SQSIZE,
        .cntlid = FL_NVMF_CNTLID_DYNAMIC,
        .kato_ms = r->kato_ms,
        .nr_reqs = FL_ADMIN_NR,
        .max_data_len = FL_REMOTE_MAX_XFER,
        .capsule_len = FL_TCP_ADMIN_DATA_LEN,
        .timeout_ms = r->connect_timeout_ms,
        .rx_cap = 16u << 10,
        .hostid = r->who.id.b,
        .hostnqn = r->who.nqn,
        .subnqn = r->subnqn,
    };

    pthread_mutex_lock(&r->lock);
    r->attempt++;
    pthread_mutex_unlock(&r->lock);
    fl_error_clear(&r->err);
    r->draft = (struct fl_remote_facts){0};
    r->phase = FL_PHASE_LINK;
    r->attempt_deadline_ns = now_ns + ms_ns(r->connect_timeout_ms);
    if (fl_link_start(&r->link, &options, &fl_admin_ops, now_ns) < 0) {
        fl_error_set(&r->err, r->link.err.code, "%s", r->link.err.text);
        return attempt_failed(r, now_ns);
    }
    return true;
}

/* The namespace behind the same URL must still be the one that was opened. */
static bool same_namespace(struct fl_remote *r)
{
    const struct fl_remote_facts *was = &r->facts, *now = &r->draft;
    static const uint8_t none[16];

    if (r->subsystem || r->state == FL_REMOTE_OPENING)
        return true;
    if (was->block_len != now->block_len ||
        (memcmp(was->uuid, none, 16) && memcmp(was->uuid, now->uuid, 16))) {
        fl_error_set(&r->err, OTHER_NAMESPACE, "namespace %u is not the one that was opened: its %s differs",
                     now->nsid, was->block_len != now->block_len ? "block length" : "UUID");
        return false;
    }
    return true;
}

static void went_live(struct fl_remote *r)
{
    uint64_t now_ns = fl_now_ns();
    bool opening = r->state == FL_REMOTE_OPENING;

    if (!same_namespace(r))
        return; /* r->err is set, run_admin ends it */
    pthread_mutex_lock(&r->lock);
    r->facts = r->draft;
    r->state = FL_REMOTE_LIVE;
    __atomic_store_n(&r->base.len, r->facts.len, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&r->lock);
    if (opening) {
        r->base.block_len = r->facts.block_len;
        r->base.read_only = r->facts.read_only;
    }
    r->phase = FL_PHASE_LIVE;
    r->live_since_ns = now_ns;
    fl_admin_start_live(r, now_ns);
    turn_epoch(r);
    FL_INFO("%s: connected (controller %u), %u I/O queues asked, %u granted", r->subnqn, r->facts.cntlid,
            r->want_queues, r->facts.nr_queues);
    if (opening) {
        r->open_code = 0;
        sem_post(&r->opened);
    } else {
        FL_WARN("%s: reconnected at attempt %u", r->name, r->attempt);
        tell_change(r);
    }
}

static void end_live(struct fl_remote *r, uint64_t now_ns)
{
    bool flapping = now_ns - r->live_since_ns < ms_ns(r->reconnect_delay_ms);

    FL_WARN("%s: connection lost: %s", r->name, r->err.text);
    fl_link_stop(&r->link);
    fl_admin_cut(r, -ENOLINK);
    /* A target that lets us in and throws us out at once is down as long as that goes on. */
    if (!flapping || !r->loss_deadline_ns) {
        r->loss_deadline_ns = r->loss_timeout_ms == UINT32_MAX ? UINT64_MAX
                                                               : now_ns + ms_ns(r->loss_timeout_ms);
        pthread_mutex_lock(&r->lock);
        r->attempt = 0;
        pthread_mutex_unlock(&r->lock);
    }
    set_state(r, FL_REMOTE_DOWN);
    turn_epoch(r);
    if (r->no_reconnect || now_ns >= r->loss_deadline_ns) {
        give_up(r);
        return;
    }
    plan_attempt(r, flapping ? now_ns + ms_ns(r->reconnect_delay_ms) : now_ns);
    tell_change(r);
}

/* ---- turning the wheel ---- */

static bool run_link(struct fl_remote *r, uint64_t now_ns)
{
    int n = fl_link_step(&r->link, now_ns);

    if (n < 0) {
        fl_error_set(&r->err, r->link.err.code, "%s", r->link.err.text);
        return attempt_failed(r, now_ns);
    }
    if (n > 0) {
        r->phase = FL_PHASE_SETUP;
        fl_admin_bind(r);
        fl_admin_run_seq(r, fl_setup_steps, went_live);
    }
    return true;
}

/* SETUP, LIVE, CLOSING: what has come, what is due, what is to be sent. */
static bool run_admin(struct fl_remote *r, uint64_t now_ns)
{
    if (fl_link_io(&r->link) < 0)
        fl_error_set(&r->err, r->link.err.code, "%s", r->link.err.text);
    if (!r->err.code)
        fl_admin_tick(r, now_ns);
    if (!r->err.code && fl_link_send(&r->link) < 0) /* what the answers led to */
        fl_error_set(&r->err, -ENOLINK, "send to the target failed");
    if (!r->err.code && r->phase == FL_PHASE_SETUP && now_ns >= r->attempt_deadline_ns)
        fl_error_set(&r->err, -ETIMEDOUT, "%s was not answered in time: the attempt took longer than %u ms",
                     r->step ? r->step->what : "a command", r->connect_timeout_ms);
    if (r->phase == FL_PHASE_CLOSING && (r->err.code || now_ns >= r->attempt_deadline_ns)) {
        closed(r);
        return false;
    }
    if (!r->err.code)
        return true;
    if (r->phase == FL_PHASE_LIVE)
        end_live(r, now_ns);
    else if (r->err.code == OTHER_NAMESPACE)
        give_up(r);
    else
        return attempt_failed(r, now_ns);
    return true;
}

static uint64_t next_deadline(const struct fl_remote *r)
{
    uint64_t at = UINT64_MAX;

    switch (r->phase) {
    case FL_PHASE_IDLE:
        break;
    case FL_PHASE_WAIT:
        at = r->next_attempt_ns;
        break;
    case FL_PHASE_LINK:
        at = fl_link_deadline(&r->link);
        break;
    case FL_PHASE_SETUP:
    case FL_PHASE_CLOSING:
        at = FL_MIN(r->attempt_deadline_ns, fl_admin_deadline(r));
        break;
    case FL_PHASE_LIVE:
        at = fl_admin_deadline(r);
        break;
    }
    return at;
}

void fl_remote_run(struct fl_remote *r)
{
    for (int turn = 0; turn < 16; turn++) { /* a bound for what leads from one phase straight to the next */
        enum fl_remote_phase before = r->phase;
        uint64_t now_ns = fl_now_ns();

        if (r->phase == FL_PHASE_WAIT && now_ns >= r->next_attempt_ns && !start_attempt(r, now_ns))
            return;
        if (r->phase == FL_PHASE_LINK && !run_link(r, now_ns))
            return;
        if (r->phase >= FL_PHASE_SETUP && !run_admin(r, now_ns))
            return;
        if (r->phase == before || r->phase == FL_PHASE_WAIT)
            break;
    }
    fl_pollset_sync(&r->pollset, &r->link);
    if (next_deadline(r) == UINT64_MAX)
        fl_timer_cancel(&r->timer);
    else
        fl_timer_set(r->loop, &r->timer, next_deadline(r));
}

static void on_ready(struct fl_watch *watch, uint32_t events)
{
    fl_remote_run(FL_CONTAINER_OF(watch, struct fl_remote, watch));
}

static void on_timer(struct fl_timer *timer)
{
    fl_remote_run(FL_CONTAINER_OF(timer, struct fl_remote, timer));
}

/* ---- messages ---- */

void fl_remote_start_open(struct fl_msg *msg)
{
    struct fl_remote *r = FL_CONTAINER_OF(msg, struct fl_remote, open_msg);
    int code;

    r->watch = (struct fl_watch){.fd = r->pollset.epfd, .ready = on_ready};
    r->timer = (struct fl_timer){.expired = on_timer};
    code = fl_watch_add(r->loop, &r->watch, EPOLLIN);
    if (code < 0) {
        fl_error_set(&r->err, code, "%s", strerror(-code));
        open_failed(r);
        return;
    }
    if (start_attempt(r, fl_now_ns()))
        fl_remote_run(r);
}

static void shut_down(struct fl_remote *r)
{
    fl_error_set(&r->err, -ESHUTDOWN, "closed"); /* run_admin goes on from here */
}

void fl_remote_start_close(struct fl_msg *msg)
{
    struct fl_remote *r = FL_CONTAINER_OF(msg, struct fl_remote, close_msg);

    if (r->phase != FL_PHASE_LIVE || r->discovery) {
        closed(r);
        return;
    }
    r->phase = FL_PHASE_CLOSING;
    r->attempt_deadline_ns = fl_now_ns() + ms_ns(CLOSE_MS);
    fl_admin_cut(r, -ECANCELED);
    if (r->reqs[FL_ADMIN_SEQ].state != FL_TCP_REQ_IDLE) { /* in the middle of a refresh */
        closed(r);
        return;
    }
    r->draft.cap = r->facts.cap;
    fl_admin_run_seq(r, fl_shutdown_steps, shut_down);
    fl_remote_run(r);
}

void fl_remote_loss_reported(struct fl_msg *msg)
{
    struct fl_remote *r = FL_CONTAINER_OF(msg, struct fl_remote, loss_msg);
    char text[sizeof(r->loss_text)];
    bool now;

    pthread_mutex_lock(&r->lock);
    r->loss_posted = false;
    now = r->loss_epoch == r->epoch;
    memcpy(text, r->loss_text, sizeof(text));
    pthread_mutex_unlock(&r->lock);
    if (!now || r->phase != FL_PHASE_LIVE)
        return;
    fl_error_set(&r->err, -ENOLINK, "%s", text);
    end_live(r, fl_now_ns());
    fl_remote_run(r);
}

void fl_remote_report_loss(struct fl_remote *r, uint32_t epoch, const char *text)
{
    pthread_mutex_lock(&r->lock);
    if (epoch == r->epoch && !r->loss_posted) {
        r->loss_posted = true;
        r->loss_epoch = epoch;
        snprintf(r->loss_text, sizeof(r->loss_text), "%s", text);
        r->loss_msg.run = fl_remote_loss_reported;
        fl_loop_post(r->loop, &r->loss_msg);
    }
    pthread_mutex_unlock(&r->lock);
}
