/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of an association: attempt, live, broken, attempt again, lost or closed. All on the service thread,
 * and nothing here blocks, so that one dead target delays no other.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "host/remote.h"

#define CLOSE_MS        1000           /* for a polite end */
#define LAST_ATTEMPT_MS 50             /* less time than this left: no attempt any more */
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

/* Takes what r->err says as the reason that others see. */
static void note_reason(struct fl_remote *r)
{
    pthread_mutex_lock(&r->lock);
    memcpy(r->reason, r->err.text, sizeof(r->reason));
    r->reason_code = r->err.code;
    pthread_mutex_unlock(&r->lock);
}

static void give_up(struct fl_remote *r)
{
    FL_ERR("%s: given up as lost: %s", r->name, r->err.text);
    note_reason(r);
    fl_link_stop(&r->link);
    r->phase = FL_PHASE_IDLE;
    __atomic_store_n(&r->lost, -ENODEV, __ATOMIC_RELEASE);
    pthread_mutex_lock(&r->lock);
    r->state = FL_REMOTE_LOST;
    fl_remote_queues_wake(r);
    pthread_mutex_unlock(&r->lock);
    tell_change(r);
}

/* The target said that to ask again is of no use. */
static void refused_for_good(struct fl_remote *r)
{
    fl_error_wrap(&r->err, r->err.code,
                  "the target refuses to take this host back, and says not to try again");
    give_up(r);
}

static void plan_attempt(struct fl_remote *r, uint64_t at_ns)
{
    r->phase = FL_PHASE_WAIT;
    pthread_mutex_lock(&r->lock);
    r->next_attempt_ns = at_ns;
    pthread_mutex_unlock(&r->lock);
}

/* The target is given up at the loss time-out. When that is nearer than the usual pause, one more attempt is
 * made half-way, as long as it would have time to succeed. */
static void plan_next(struct fl_remote *r, uint64_t now_ns)
{
    uint64_t left_ns = r->loss_deadline_ns > now_ns ? r->loss_deadline_ns - now_ns : 0;

    if (!left_ns)
        give_up(r);
    else if (left_ns > ms_ns(r->reconnect_delay_ms))
        plan_attempt(r, now_ns + ms_ns(r->reconnect_delay_ms));
    else
        plan_attempt(r, left_ns / 2 >= ms_ns(LAST_ATTEMPT_MS) ? now_ns + left_ns / 2 : r->loss_deadline_ns);
}

/* One cause is told once, however many attempts fail of it. */
static void tell_failure(struct fl_remote *r, uint64_t now_ns)
{
    enum fl_log_level level = r->warned_code == r->err.code ? FL_LOG_INFO : FL_LOG_WARN;
    char left[40] = "";

    if (r->loss_deadline_ns != UINT64_MAX && r->loss_deadline_ns > now_ns)
        snprintf(left, sizeof(left), " (given up in %" PRIu64 " s)",
                 (r->loss_deadline_ns - now_ns + FL_NS_PER_S - 1) / FL_NS_PER_S);
    if (fl_log_enabled(level))
        fl_log(level, "%s: attempt %u to reconnect failed: %s%s", r->name, r->attempt, r->err.text, left);
    r->warned_code = r->err.code;
    note_reason(r);
}

static bool attempt_failed(struct fl_remote *r, uint64_t now_ns)
{
    r->reached = r->link.state > FL_LINK_DIAL;
    fl_link_stop(&r->link);
    fl_admin_cut(r, -ENOLINK);
    if (r->state == FL_REMOTE_OPENING) {
        open_failed(r);
        return false;
    }
    if (r->link.nvme_status & FL_NVME_DNR) {
        refused_for_good(r);
    } else {
        tell_failure(r, now_ns);
        plan_next(r, now_ns);
    }
    return true;
}

void fl_remote_answer_due(struct fl_remote *r, uint64_t now_ns)
{
    r->attempt_deadline_ns = now_ns + ms_ns(r->connect_timeout_ms);
    if (r->state !=
        FL_REMOTE_OPENING) /* nor may an attempt outlast the time after which the target is given up */
        r->attempt_deadline_ns = FL_MIN(r->attempt_deadline_ns, r->loss_deadline_ns);
}

static bool start_attempt(struct fl_remote *r, uint64_t now_ns)
{
    struct fl_link_options options = {
        .addrs = r->addrs,
        .nr_addrs = r->nr_addrs,
        .rdma = r->rdma,
        .dev = r->dev,
        .hdgst = r->hdgst,
        .ddgst = r->ddgst,
        .sqsize = FL_ADMIN_SQSIZE,
        .cntlid = FL_NVMF_CNTLID_DYNAMIC,
        .kato_ms = r->kato_ms,
        .nr_reqs = FL_ADMIN_NR,
        .max_data_len = FL_REMOTE_MAX_XFER,
        .capsule_len = FL_TCP_ADMIN_DATA_LEN,
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
    fl_remote_answer_due(r, now_ns);
    options.timeout_ms = (uint32_t)FL_MAX((r->attempt_deadline_ns - now_ns) / FL_NS_PER_MS, 1ull);
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
    struct fl_taken taken;

    if (!same_namespace(r))
        return; /* r->err is set, run_admin ends it */
    fl_link_taken(&r->link, &taken);
    pthread_mutex_lock(&r->lock);
    r->facts = r->draft;
    r->taken = taken;
    r->state = FL_REMOTE_LIVE;
    r->reason[0] = '\0';
    r->reason_code = 0;
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
    note_reason(r);
    fl_link_stop(&r->link);
    fl_admin_cut(r, -ENOLINK);
    /* A target that lets us in and throws us out at once is down as long as that goes on. */
    if (!flapping || !r->loss_deadline_ns) {
        r->loss_deadline_ns = r->loss_timeout_ms == UINT32_MAX ? UINT64_MAX
                                                               : now_ns + ms_ns(r->loss_timeout_ms);
        pthread_mutex_lock(&r->lock);
        r->attempt = 0;
        pthread_mutex_unlock(&r->lock);
        r->warned_code = 0;
    }
    set_state(r, FL_REMOTE_DOWN);
    turn_epoch(r);
    tell_change(r);
    if (r->no_reconnect || now_ns >= r->loss_deadline_ns)
        give_up(r);
    else if (flapping)
        plan_next(r, now_ns);
    else
        plan_attempt(r, now_ns);
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
        fl_remote_answer_due(r, now_ns);
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
        fl_error_set(&r->err, -ETIMEDOUT, "%s was not answered within %u ms",
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

static bool next_attempt(struct fl_remote *r, uint64_t now_ns)
{
    if (now_ns < r->loss_deadline_ns)
        return start_attempt(r, now_ns);
    give_up(r);
    return true;
}

void fl_remote_run(struct fl_remote *r)
{
    for (int turn = 0; turn < 16; turn++) { /* a bound for what leads from one phase straight to the next */
        enum fl_remote_phase before = r->phase;
        uint64_t now_ns = fl_now_ns();

        if (r->phase == FL_PHASE_WAIT && now_ns >= r->next_attempt_ns && !next_attempt(r, now_ns))
            return;
        if (r->phase == FL_PHASE_LINK && !run_link(r, now_ns))
            return;
        if (r->phase >= FL_PHASE_SETUP && !run_admin(r, now_ns))
            return;
        if (r->phase == before || r->phase == FL_PHASE_WAIT) {
            if (!fl_link_arm(&r->link))
                break;
            turn--; /* more has come: what comes is bounded by what is out */
        }
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
    if (r->reqs[FL_ADMIN_SEQ].state != FL_REQUEST_IDLE) { /* in the middle of a refresh */
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
