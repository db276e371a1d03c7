/* SPDX-License-Identifier: Apache-2.0 */
/* Admin commands: sequences, keep-alive, the asynchronous event, and those of other threads. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "host/remote.h"
#include "host/status.h"

#define AGAIN_MS 20 /* between two looks at CSTS */

static void clear_sqe(struct fl_request *req)
{
    req->pdu.sqe = (struct fl_nvme_sqe){.flags = FL_NVME_CMD_PSDT_SGL};
    req->data_len = 0;
}

void fl_admin_bind(struct fl_remote *r)
{
    for (uint32_t i = 0; i < FL_ADMIN_NR; i++)
        fl_link_bind(&r->link, &r->reqs[i], i);
}

/* ---- sequences ---- */

static void send_step(struct fl_remote *r)
{
    struct fl_request *req = &r->reqs[FL_ADMIN_SEQ];

    while (r->step->what && r->step->skip && r->step->skip(r))
        r->step++;
    if (!r->step->what) {
        void (*done)(struct fl_remote *) = r->seq_done;

        r->step = NULL;
        r->seq_deadline_ns = UINT64_MAX;
        done(r);
        return;
    }
    clear_sqe(req);
    r->step->build(r, &req->pdu.sqe);
    r->seq_iov = (struct iovec){r->seq_buf, r->step->data_len};
    req->iov = &r->seq_iov;
    req->nr_iov = 1;
    req->data_len = r->step->data_len;
    req->to_host = true;
    fl_link_submit(&r->link, req);
}

void fl_admin_run_seq(struct fl_remote *r, const struct fl_step *steps, void (*done)(struct fl_remote *r))
{
    assert(!r->step);
    r->step = steps;
    r->seq_done = done;
    r->seq_again_ns = UINT64_MAX;
    r->seq_deadline_ns = fl_now_ns() + FL_ADMIN_TIMEOUT_MS * FL_NS_PER_MS;
    send_step(r);
}

/* An error here is a broken association: r->err is set, and fl_remote_run, which is further up the stack,
 * ends it. */
static void step_done(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    fl_nvme_status status = fl_nvme_cqe_status(cqe);
    int code = 0;

    if (status && !r->step->optional)
        code = fl_error_set(&r->err, fl_io_status_errno(status), "%s: %s (status %xh)", r->step->what,
                            fl_nvme_status_text(status), fl_nvme_status_code(status));
    else if (!status && r->step->got)
        code = r->step->got(r, cqe);
    if (code == -EAGAIN) {
        r->seq_again_ns = fl_now_ns() + AGAIN_MS * FL_NS_PER_MS;
        return;
    }
    if (code < 0 && !r->step->optional) {
        fl_error_set(&r->err, code, "%s failed", r->step->what);
        return;
    }
    if (code < 0)
        fl_error_clear(&r->err);
    r->step++;
    send_step(r);
}

/* ---- events ---- */

static void refreshed(struct fl_remote *r);

static void send_event_request(struct fl_remote *r)
{
    struct fl_request *req = &r->reqs[FL_ADMIN_EVENT];

    clear_sqe(req);
    req->pdu.sqe.opcode = FL_NVME_ADM_ASYNC_EVENT;
    fl_link_submit(&r->link, req);
}

static void refresh(struct fl_remote *r)
{
    bool ns = fl_nvme_aer_type(r->event) == FL_NVME_AER_NOTICE &&
              fl_nvme_aer_info(r->event) == FL_NVME_AER_NOTICE_NS_CHANGED;

    if (r->step) {
        r->refresh_pending = true;
        return;
    }
    r->refresh_pending = false;
    r->draft = r->facts; /* written by this thread only */
    fl_admin_run_seq(r, ns ? fl_refresh_steps : fl_log_steps, refreshed);
}

static void refreshed(struct fl_remote *r)
{
    void (*changed)(struct fl_device *, void *);
    void *arg;

    pthread_mutex_lock(&r->lock);
    if (r->draft.block_len == r->facts.block_len) {
        r->facts = r->draft;
        __atomic_store_n(&r->base.len, r->facts.len, __ATOMIC_RELAXED);
    }
    changed = r->changed;
    arg = r->changed_arg;
    pthread_mutex_unlock(&r->lock);
    if (changed)
        changed(&r->base, arg);
    if (r->refresh_pending)
        refresh(r);
}

static void event_came(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    fl_nvme_status status = fl_nvme_cqe_status(cqe);

    if (status) { /* a controller that allows none; no more are asked for */
        FL_DEBUG("%s: asynchronous event request: %s", r->name, fl_nvme_status_text(status));
        return;
    }
    FL_DEBUG("%s: event %08x", r->name, le32_get(cqe->dw0));
    /* Of two events, the one of namespaces is the one to look after. */
    if (!r->refresh_pending || fl_nvme_aer_type(r->event) != FL_NVME_AER_NOTICE || fl_nvme_aer_info(r->event))
        r->event = le32_get(cqe->dw0);
    send_event_request(r);
    refresh(r);
}

/* ---- keep-alive ---- */

static void send_keep_alive(struct fl_remote *r, uint64_t now_ns)
{
    struct fl_request *req = &r->reqs[FL_ADMIN_KEEP_ALIVE];

    clear_sqe(req);
    req->pdu.sqe.opcode = FL_NVME_ADM_KEEP_ALIVE;
    fl_link_submit(&r->link, req);
    r->keep_alive_sent_ns = now_ns;
}

static void keep_alive_tick(struct fl_remote *r, uint64_t now_ns)
{
    uint64_t half_ns = r->kato_ms * FL_NS_PER_MS / 2;

    if (!r->keep_alive_sent_ns) {
        send_keep_alive(r, now_ns);
        r->keep_alive_ns = now_ns + half_ns;
    } else if (now_ns - r->keep_alive_sent_ns >= 2 * half_ns) {
        fl_error_set(&r->err, -ETIMEDOUT, "keep-alive was not answered within %u ms", r->kato_ms);
    } else {
        r->keep_alive_ns = r->keep_alive_sent_ns + 2 * half_ns;
    }
}

void fl_admin_start_live(struct fl_remote *r, uint64_t now_ns)
{
    r->keep_alive_sent_ns = 0;
    r->keep_alive_ns = r->kato_ms && r->facts.keep_alive ? now_ns + r->kato_ms * FL_NS_PER_MS / 2
                                                         : UINT64_MAX;
    r->refresh_pending = false;
    if (!r->discovery) /* read and closed */
        send_event_request(r);
}

/* ---- commands of other threads ---- */

static void end_call(struct fl_admin_call *call, int code)
{
    call->code = code;
    sem_post(&call->done); /* the last touch: it is on the caller's stack */
}

static void send_call(struct fl_remote *r, uint32_t slot, struct fl_admin_call *call)
{
    struct fl_request *req = &r->reqs[slot];

    r->calls[slot] = call;
    req->pdu.sqe = *call->sqe;
    req->pdu.sqe.flags = (uint8_t)((call->sqe->flags & ~FL_NVME_CMD_PSDT_MASK) | FL_NVME_CMD_PSDT_SGL);
    req->pdu.sqe.sgl = (struct fl_nvme_sgl){.type = FL_NVME_SGL_TRANSPORT};
    req->iov = &call->iov;
    req->nr_iov = 1;
    req->iov_skip = 0;
    req->data_len = (uint32_t)call->iov.iov_len;
    req->to_host = call->to_host;
    fl_link_submit(&r->link, req);
}

static void send_calls(struct fl_remote *r)
{
    for (uint32_t i = FL_ADMIN_CALLS; i < FL_ADMIN_NR && !fl_list_empty(&r->calls_waiting); i++)
        if (!r->calls[i])
            send_call(r, i, FL_LIST_ENTRY(fl_list_pop(&r->calls_waiting), struct fl_admin_call, link));
}

static void call_came(struct fl_msg *msg)
{
    struct fl_admin_call *call = FL_CONTAINER_OF(msg, struct fl_admin_call, msg);
    struct fl_remote *r = call->remote;

    if (r->phase != FL_PHASE_LIVE) {
        end_call(call, r->lost ? -ENODEV : -ENOLINK);
        return;
    }
    call->deadline_ns = fl_now_ns() + FL_ADMIN_TIMEOUT_MS * FL_NS_PER_MS;
    fl_list_add_tail(&r->calls_waiting, &call->link);
    send_calls(r);
    fl_remote_run(r);
}

void fl_admin_cut(struct fl_remote *r, int code)
{
    struct fl_list *l;

    for (uint32_t i = FL_ADMIN_CALLS; i < FL_ADMIN_NR; i++) {
        struct fl_admin_call *call = r->calls[i];

        r->calls[i] = NULL;
        if (call)
            end_call(call, code);
    }
    while ((l = fl_list_pop(&r->calls_waiting)))
        end_call(FL_LIST_ENTRY(l, struct fl_admin_call, link), code);
    r->step = NULL;
    r->seq_again_ns = r->seq_deadline_ns = r->keep_alive_ns = UINT64_MAX;
}

static int call_refused(int code, struct fl_error *err)
{
    if (code == -ENODEV)
        return fl_error_set(err, code, "the target was given up as lost");
    if (code == -ENOLINK)
        return fl_error_set(err, code, "there is no connection to the target now");
    return fl_error_set(err, code, "admin command: %s", strerror(-code));
}

int fl_admin_call(struct fl_remote *r, const struct fl_nvme_sqe *sqe, void *data, uint32_t len, bool to_host,
                  struct fl_nvme_cqe *cqe, struct fl_error *err)
{
    struct fl_admin_call call = {
        .msg.run = call_came, .remote = r, .sqe = sqe, .iov = {data, len}, .to_host = to_host};

    if (fl_loop_current() == r->loop)
        return fl_error_set(err, -EDEADLK,
                            "admin commands cannot be waited for on the library's service thread");
    sem_init(&call.done, 0, 0);
    fl_list_init(&call.link);
    fl_loop_post(r->loop, &call.msg);
    while (sem_wait(&call.done) < 0)
        ;
    sem_destroy(&call.done);
    if (call.code < 0)
        return call_refused(call.code, err);
    *cqe = call.cqe;
    return 0;
}

/* ---- answers ---- */

static void answered(struct fl_link *link, struct fl_request *req)
{
    struct fl_remote *r = FL_CONTAINER_OF(link, struct fl_remote, link);

    switch (req->slot) {
    case FL_ADMIN_SEQ:
        if (r->phase == FL_PHASE_SETUP)
            fl_remote_answer_due(r, fl_now_ns());
        step_done(r, &req->cqe);
        break;
    case FL_ADMIN_KEEP_ALIVE:
        r->keep_alive_sent_ns = 0;
        if (fl_nvme_cqe_status(&req->cqe))
            fl_error_set(&r->err, -EPROTO, "keep-alive was refused: %s",
                         fl_nvme_status_text(fl_nvme_cqe_status(&req->cqe)));
        r->keep_alive_ns = FL_MIN(r->keep_alive_ns, fl_now_ns() + r->kato_ms * FL_NS_PER_MS / 2);
        break;
    case FL_ADMIN_EVENT:
        event_came(r, &req->cqe);
        break;
    default: {
        struct fl_admin_call *call = r->calls[req->slot];

        r->calls[req->slot] = NULL;
        call->cqe = req->cqe;
        end_call(call, req->state == FL_REQUEST_UNSENT ? -(int)le32_get(req->cqe.dw0) : 0);
        send_calls(r);
    }
    }
}

const struct fl_link_ops fl_admin_ops = {.done = answered};

/* ---- time ---- */

static uint64_t calls_deadline(const struct fl_remote *r)
{
    uint64_t at = UINT64_MAX;

    for (uint32_t i = FL_ADMIN_CALLS; i < FL_ADMIN_NR; i++)
        if (r->calls[i])
            at = FL_MIN(at, r->calls[i]->deadline_ns);
    return at;
}

void fl_admin_tick(struct fl_remote *r, uint64_t now_ns)
{
    if (now_ns >= r->seq_again_ns) {
        r->seq_again_ns = UINT64_MAX;
        send_step(r);
    }
    if (now_ns >= r->keep_alive_ns)
        keep_alive_tick(r, now_ns);
    if (now_ns >= r->seq_deadline_ns)
        fl_error_set(&r->err, -ETIMEDOUT, "%s: not through with it after %u ms", r->step->what,
                     FL_ADMIN_TIMEOUT_MS);
    if (now_ns >= calls_deadline(r))
        fl_error_set(&r->err, -ETIMEDOUT, "an admin command was not answered within %u ms",
                     FL_ADMIN_TIMEOUT_MS);
}

uint64_t fl_admin_deadline(const struct fl_remote *r)
{
    uint64_t at = calls_deadline(r);

    at = FL_MIN(at, r->seq_again_ns);
    at = FL_MIN(at, r->seq_deadline_ns);
    return FL_MIN(at, r->keep_alive_ns);
}
