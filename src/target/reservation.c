/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations (base specification 2.0, 7.2 to 7.5 and 8.19). The state of a namespace lives on the control
 * loop; a command comes there by message from its queue's loop, changes the state, and is answered when every
 * loop has the new view of it, so that no command is let through by an old one after the answer, and when it
 * is on disk if it shall outlive a loss of power (reservation_state.c). One command at a time for each
 * namespace.
 */
#include <errno.h>
#include <stdlib.h>

#include "target/core.h"

static struct fl_tio *tio_of_msg(struct fl_msg *msg)
{
    return FL_CONTAINER_OF(msg, struct fl_tio, msg);
}

static const uint8_t *host_of(struct fl_tio *tio)
{
    return ((struct fl_tqueue *)fl_cmd_of_tio(tio)->conn->user)->hostid;
}

static bool all_registrants(enum fl_nvme_resv_type type)
{
    return type == FL_NVME_RESV_WRITE_EXCL_ALL_REGS || type == FL_NVME_RESV_EXCL_ACCESS_ALL_REGS;
}

/* Types whose end matters to the other registrants, who are told of it. */
static bool told_of_release(enum fl_nvme_resv_type type)
{
    return type >= FL_NVME_RESV_WRITE_EXCL_REG_ONLY;
}

static int find(const struct fl_resv *r, const uint8_t *hostid)
{
    for (uint32_t i = 0; i < r->nr; i++)
        if (!memcmp(r->reg[i].hostid, hostid, 16))
            return (int)i;
    return -1;
}

static bool is_holder(const struct fl_resv *r, int i)
{
    return i >= 0 && r->type && (r->holder == i || all_registrants(r->type));
}

/* ---- notices ---- */

static uint32_t notice_mask(enum fl_nvme_resv_notice notice)
{
    return notice == FL_NVME_RESV_NOTICE_REG_PREEMPTED ? FL_NVME_FEAT_RESV_MASK_REGPRE
           : notice == FL_NVME_RESV_NOTICE_RELEASED    ? FL_NVME_FEAT_RESV_MASK_RESREL
                                                       : FL_NVME_FEAT_RESV_MASK_RESPRE;
}

static void notify_host(struct fl_tns *ns, const uint8_t *hostid, enum fl_nvme_resv_notice notice)
{
    struct fl_tctrl *ctrl;

    fl_list_for_each (ctrl, &ns->ss->target->controllers, link) {
        struct fl_nvme_resv_log *log;

        if (ctrl->ss != ns->ss || ctrl->dying || memcmp(ctrl->hostid, hostid, 16) ||
            ctrl->resv_mask[ns->nsid] & notice_mask(notice))
            continue;
        ctrl->resv_log_count++;
        if (ctrl->resv_log_nr == FL_RESV_NOTICES) { /* the oldest goes; the host sees the gap in the count */
            ctrl->resv_log_first = (ctrl->resv_log_first + 1) % FL_RESV_NOTICES;
            ctrl->resv_log_nr--;
        }
        log = &ctrl->resv_log[(ctrl->resv_log_first + ctrl->resv_log_nr++) % FL_RESV_NOTICES];
        *log = (struct fl_nvme_resv_log){
            .count = le64_of(ctrl->resv_log_count), .type = (uint8_t)notice, .nsid = le32_of(ns->nsid)};
        fl_aer_raise(ctrl, FL_EVENT_RESERVATION);
    }
}

static void notify_others(struct fl_tns *ns, const uint8_t *but, enum fl_nvme_resv_notice notice)
{
    for (uint32_t i = 0; i < ns->resv.nr; i++)
        if (memcmp(ns->resv.reg[i].hostid, but, 16))
            notify_host(ns, ns->resv.reg[i].hostid, notice);
}

/* ---- telling the loops ---- */

struct publication {
    struct fl_tns *ns;
    void (*done)(void *arg);
    void *arg;
    struct fl_resv_view *views[]; /* one a worker */
};

static struct fl_resv_view *make_view(const struct fl_resv *r)
{
    struct fl_resv_view *view = calloc(1, sizeof(*view) + r->nr * sizeof(view->reg[0]));

    if (!view)
        return NULL;
    view->type = r->type;
    view->nr = r->nr;
    for (uint32_t i = 0; i < r->nr; i++) {
        memcpy(view->reg[i].hostid, r->reg[i].hostid, 16);
        view->reg[i].holder = is_holder(r, (int)i);
    }
    return view;
}

static void set_view(struct fl_round_leg *leg)
{
    struct publication *p = leg->round->arg[0];
    struct fl_ns_view *view = &p->ns->views[leg->worker->index];
    void *old = (void *)(uintptr_t)view->resv;

    view->resv = p->views[leg->worker->index];
    free(old);
    fl_round_ack(leg);
}

static void published(struct fl_round *round)
{
    struct publication *p = round->arg[0];

    if (p->done)
        p->done(p->arg);
    free(p);
}

void fl_resv_publish(struct fl_tns *ns, void (*done)(void *arg), void *arg)
{
    uint32_t nr = ns->ss->target->nr_workers;
    struct publication *p = calloc(1, sizeof(*p) + nr * sizeof(p->views[0]));
    struct fl_round *round = fl_round_new(ns->ss->target, set_view, published);

    if (!p || !round) /* letting I/O go on by the old view would break the promise of the command */
        abort();
    p->ns = ns;
    p->done = done;
    p->arg = arg;
    for (uint32_t i = 0; ns->resv.type && i < nr; i++) {
        p->views[i] = make_view(&ns->resv);
        if (!p->views[i])
            abort();
    }
    round->arg[0] = p;
    fl_round_start(round);
}

/* ---- what the commands do; each returns its status, and whether something changed by *changed ---- */

static void drop_registrant(struct fl_resv *r, uint32_t i)
{
    r->nr--;
    memmove(&r->reg[i], &r->reg[i + 1], (r->nr - i) * sizeof(r->reg[0]));
    if (r->holder == (int)i)
        r->holder = -1;
    else if (r->holder > (int)i)
        r->holder--;
}

static void end_reservation(struct fl_resv *r)
{
    r->type = FL_NVME_RESV_NONE;
    r->holder = -1;
}

/* A registrant leaves: its reservation ends with it, that of all registrants with the last of them. */
static void leave(struct fl_tns *ns, uint32_t i)
{
    struct fl_resv *r = &ns->resv;
    enum fl_nvme_resv_type type = r->type;
    bool held = type && r->holder == (int)i;
    uint8_t hostid[16];

    memcpy(hostid, r->reg[i].hostid, 16);
    drop_registrant(r, i);
    if (held || (all_registrants(type) && !r->nr)) {
        end_reservation(r);
        if (told_of_release(type))
            notify_others(ns, hostid, FL_NVME_RESV_NOTICE_RELEASED);
    }
}

static fl_nvme_status do_register(struct fl_tns *ns, struct fl_tio *tio)
{
    struct fl_resv *r = &ns->resv;
    uint64_t crkey = tio->u.resv.crkey, nrkey = tio->u.resv.arg;
    const uint8_t *hostid = host_of(tio);
    int i = find(r, hostid);

    switch (tio->u.resv.action) {
    case FL_NVME_RESV_REGISTER:
        if (i >= 0)
            return r->reg[i].key == nrkey ? FL_NVME_SC_SUCCESS : FL_NVME_SC_RESV_CONFLICT;
        if (r->nr == FL_REGISTRANTS)
            return FL_NVME_SC_INTERNAL;
        memcpy(r->reg[r->nr].hostid, hostid, 16);
        r->reg[r->nr++].key = nrkey;
        break;
    case FL_NVME_RESV_UNREGISTER:
        if (i < 0 || (!tio->u.resv.iekey && r->reg[i].key != crkey))
            return FL_NVME_SC_RESV_CONFLICT;
        leave(ns, (uint32_t)i);
        break;
    case FL_NVME_RESV_REPLACE:
        if (i < 0 || (!tio->u.resv.iekey && r->reg[i].key != crkey))
            return FL_NVME_SC_RESV_CONFLICT;
        r->reg[i].key = nrkey;
        break;
    default:
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    }
    r->gen++;
    /* CPTPL of a namespace that can keep nothing changes nothing (RESCAP, and PTPLS in the report, say so).
     */
    if (ns->resv_persists && tio->u.resv.cptpl >= FL_NVME_RESV_CPTPL_CLEAR)
        r->ptpl = tio->u.resv.cptpl == FL_NVME_RESV_CPTPL_PERSIST;
    return FL_NVME_SC_SUCCESS;
}

/* Takes away every registration with this key but one's own; returns how many. */
static uint32_t preempt_key(struct fl_tns *ns, const uint8_t *own, uint64_t key, bool any_key)
{
    struct fl_resv *r = &ns->resv;
    uint32_t nr = 0;

    for (uint32_t i = 0; i < r->nr;) {
        uint8_t hostid[16];

        if ((!any_key && r->reg[i].key != key) || !memcmp(r->reg[i].hostid, own, 16)) {
            i++;
            continue;
        }
        memcpy(hostid, r->reg[i].hostid, 16);
        drop_registrant(r, i);
        notify_host(ns, hostid, FL_NVME_RESV_NOTICE_REG_PREEMPTED);
        nr++;
    }
    return nr;
}

static void hold_by(struct fl_resv *r, const uint8_t *hostid, uint8_t type)
{
    r->type = (enum fl_nvme_resv_type)type;
    r->holder = all_registrants(r->type) ? -1 : find(r, hostid);
}

/* 8.19.7 */
static fl_nvme_status do_preempt(struct fl_tns *ns, struct fl_tio *tio)
{
    struct fl_resv *r = &ns->resv;
    const uint8_t *hostid = host_of(tio);
    uint64_t prkey = tio->u.resv.arg;
    enum fl_nvme_resv_type had = r->type;
    bool all = all_registrants(had);
    /* The reservation itself is meant by the holder's key, or by key 0 when all registrants hold it. */
    bool takes = had && (all ? !prkey : r->holder >= 0 && r->reg[r->holder].key == prkey);

    if (!takes && !prkey)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (!takes) {
        if (!preempt_key(ns, hostid, prkey, false))
            return FL_NVME_SC_RESV_CONFLICT;
        if (all && !r->nr)
            end_reservation(r);
        r->gen++;
        return FL_NVME_SC_SUCCESS;
    }
    end_reservation(r);
    preempt_key(ns, hostid, prkey, all);
    hold_by(r, hostid, tio->u.resv.type);
    if (told_of_release(had) && had != r->type)
        notify_others(ns, hostid, FL_NVME_RESV_NOTICE_RELEASED);
    r->gen++;
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status do_acquire(struct fl_tns *ns, struct fl_tio *tio)
{
    struct fl_resv *r = &ns->resv;
    int i = find(r, host_of(tio));
    uint8_t type = tio->u.resv.type;

    if (type < FL_NVME_RESV_WRITE_EXCL || type > FL_NVME_RESV_EXCL_ACCESS_ALL_REGS || tio->u.resv.iekey ||
        tio->u.resv.action > FL_NVME_RESV_PREEMPT_ABORT)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (i < 0 || r->reg[i].key != tio->u.resv.crkey)
        return FL_NVME_SC_RESV_CONFLICT;
    if (tio->u.resv.action != FL_NVME_RESV_ACQUIRE)
        return do_preempt(ns, tio);
    if (r->type)
        return is_holder(r, i) && r->type == type ? FL_NVME_SC_SUCCESS : FL_NVME_SC_RESV_CONFLICT;
    hold_by(r, r->reg[i].hostid, type);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status do_release(struct fl_tns *ns, struct fl_tio *tio)
{
    struct fl_resv *r = &ns->resv;
    const uint8_t *hostid = host_of(tio);
    int i = find(r, hostid);
    enum fl_nvme_resv_type had = r->type;

    if (tio->u.resv.iekey || tio->u.resv.action > FL_NVME_RESV_CLEAR)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (i < 0 || r->reg[i].key != tio->u.resv.crkey)
        return FL_NVME_SC_RESV_CONFLICT;
    if (tio->u.resv.action == FL_NVME_RESV_CLEAR) {
        notify_others(ns, hostid, FL_NVME_RESV_NOTICE_PREEMPTED);
        end_reservation(r);
        r->nr = 0;
        r->gen++;
        return FL_NVME_SC_SUCCESS;
    }
    if (!is_holder(r, i)) /* nothing of one's own to release: no error (7.4) */
        return FL_NVME_SC_SUCCESS;
    if (had != tio->u.resv.type)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    end_reservation(r);
    if (told_of_release(had))
        notify_others(ns, hostid, FL_NVME_RESV_NOTICE_RELEASED);
    return FL_NVME_SC_SUCCESS;
}

/* The long form, with 16-byte host identifiers: a host over fabrics has no other. */
static fl_nvme_status do_report(struct fl_tns *ns, struct fl_cmd *cmd)
{
    const struct fl_resv *r = &ns->resv;
    struct fl_log_page page = {.buf = cmd->buf, .len = cmd->data_len};
    struct fl_nvme_resv_status_ext head = {.gen = le32_of(r->gen),
                                           .rtype = (uint8_t)r->type,
                                           .regctl = le16_of((uint16_t)r->nr),
                                           .ptpls = r->ptpl};

    memset(cmd->buf, 0, cmd->data_len);
    fl_log_add(&page, &head, sizeof(head));
    for (uint32_t i = 0; i < r->nr; i++) {
        struct fl_nvme_resv_ctrl_ext c = {.cntlid = le16_of(0xffff), .rkey = le64_of(r->reg[i].key)};

        c.rcsts = is_holder(r, (int)i) ? FL_NVME_RESV_RCSTS_HOLDER : 0;
        memcpy(c.hostid, r->reg[i].hostid, 16);
        fl_log_add(&page, &c, sizeof(c));
    }
    return FL_NVME_SC_SUCCESS;
}

/* ---- one command at a time ---- */

static void run_next(struct fl_tns *ns);

static bool is_set_features(const struct fl_tio *tio)
{
    const struct fl_cmd *cmd = fl_cmd_of_tio((struct fl_tio *)tio);

    return ((struct fl_tqueue *)cmd->conn->user)->qid == 0;
}

static void finish_on_loop(struct fl_msg *msg)
{
    struct fl_tio *tio = tio_of_msg(msg);
    struct fl_cmd *cmd = fl_cmd_of_tio(tio);

    if (is_set_features(tio)) {
        fl_resv_ptpl_over(cmd);
        return;
    }
    cmd->to_host = cmd->sqe.opcode == FL_NVME_CMD_RESV_REPORT && !tio->u.resv.status;
    fl_tqueue_finish(cmd, tio->u.resv.status);
}

static void command_over(void *arg)
{
    struct fl_tio *tio = arg;
    struct fl_tns *ns = tio->view->ns;

    ns->resv_busy = false;
    if (ns->excl == &tio->excl)
        fl_excl_end(ns);
    tio->msg.run = finish_on_loop;
    fl_loop_post(tio->view->worker->loop, &tio->msg);
    run_next(ns);
}

static void end(struct fl_tns *ns, struct fl_tio *tio, fl_nvme_status status)
{
    tio->u.resv.status = status;
    if (status || is_set_features(tio))
        command_over(tio);
    else
        fl_resv_publish(ns, command_over, tio);
}

static void saved(struct fl_tns *ns, int result, void *arg)
{
    if (result < 0)
        ns->resv = *ns->resv_before;
    free(ns->resv_before);
    ns->resv_before = NULL;
    end(ns, arg, result < 0 ? FL_NVME_SC_INTERNAL : FL_NVME_SC_SUCCESS);
}

static fl_nvme_status change(struct fl_tns *ns, struct fl_tio *tio)
{
    if (is_set_features(tio))
        return fl_resv_change_ptpl(ns, tio->u.resv.cptpl);
    switch (fl_cmd_of_tio(tio)->sqe.opcode) {
    case FL_NVME_CMD_RESV_REGISTER:
        return do_register(ns, tio);
    case FL_NVME_CMD_RESV_ACQUIRE:
        return do_acquire(ns, tio);
    default:
        return do_release(ns, tio);
    }
}

static void execute(struct fl_tns *ns, struct fl_tio *tio)
{
    struct fl_cmd *cmd = fl_cmd_of_tio(tio);
    fl_nvme_status status;

    if (!is_set_features(tio) && cmd->sqe.opcode == FL_NVME_CMD_RESV_REPORT) {
        tio->u.resv.status = do_report(ns, cmd);
        command_over(tio);
        return;
    }
    if (ns->resv_persists) {
        ns->resv_before = malloc(sizeof(*ns->resv_before));
        if (!ns->resv_before) {
            end(ns, tio, FL_NVME_SC_INTERNAL);
            return;
        }
        *ns->resv_before = ns->resv;
    }
    status = change(ns, tio);
    if (!status && ns->resv_before && (ns->resv.ptpl || ns->resv_before->ptpl)) {
        if (fl_resv_save(ns, saved, tio) < 0)
            saved(ns, -ENOMEM, tio);
        return;
    }
    free(ns->resv_before);
    ns->resv_before = NULL;
    end(ns, tio, status);
}

static void alone(struct fl_excl *excl)
{
    struct fl_tio *tio = FL_CONTAINER_OF(excl, struct fl_tio, excl);

    execute(tio->view->ns, tio);
}

static void run_next(struct fl_tns *ns)
{
    struct fl_list *link = ns->resv_busy ? NULL : fl_list_pop(&ns->resv_queue);
    struct fl_tio *tio;
    struct fl_cmd *cmd;

    if (!link)
        return;
    tio = FL_CONTAINER_OF(link, struct fl_tio, bio.link);
    cmd = fl_cmd_of_tio(tio);
    ns->resv_busy = true;
    /* Preempt and Abort: nothing that the preempted hosts sent before may reach the medium after the answer.
     * What is in a back end is waited for, what is put aside is aborted when it looks at the reservation
     * again. */
    if (!is_set_features(tio) && cmd->sqe.opcode == FL_NVME_CMD_RESV_ACQUIRE &&
        tio->u.resv.action == FL_NVME_RESV_PREEMPT_ABORT) {
        tio->excl.go = alone;
        fl_excl_ask(ns, &tio->excl);
    } else {
        execute(ns, tio);
    }
}

void fl_resv_queue(struct fl_tns *ns, struct fl_tio *tio)
{
    fl_list_init(&tio->bio.link);
    fl_list_add_tail(&ns->resv_queue, &tio->bio.link);
    run_next(ns);
}

static void arrived(struct fl_msg *msg)
{
    struct fl_tio *tio = tio_of_msg(msg);

    fl_resv_queue(tio->view->ns, tio);
}

/* ---- on the queue's loop ---- */

static void send_to_control(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    tio->msg.run = arrived;
    fl_loop_post(tio->view->ns->ss->target->loop, &tio->msg);
}

static void received(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    uint32_t cdw10 = le32_get(cmd->sqe.cdw10);
    const le64 *keys = cmd->data;

    memset(&tio->u.resv, 0, sizeof(tio->u.resv));
    tio->u.resv.action = cdw10 & FL_NVME_RESV_ACTION_MASK;
    tio->u.resv.iekey = !!(cdw10 & FL_NVME_RESV_IEKEY);
    tio->u.resv.type = (uint8_t)(cdw10 >> FL_NVME_RESV_RTYPE_SHIFT & FL_NVME_RESV_RTYPE_MASK);
    tio->u.resv.cptpl = (uint8_t)(cdw10 >> FL_NVME_RESV_CPTPL_SHIFT);
    tio->u.resv.crkey = le64_get(keys[0]);
    if (cmd->sqe.opcode != FL_NVME_CMD_RESV_RELEASE)
        tio->u.resv.arg = le64_get(keys[1]);
    send_to_control(cmd);
}

static void report_buffer(struct fl_cmd *cmd)
{
    memset(&fl_tio_of(cmd)->u.resv, 0, sizeof(fl_tio_of(cmd)->u.resv));
    send_to_control(cmd);
}

void fl_io_resv(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t need = cmd->sqe.opcode == FL_NVME_CMD_RESV_RELEASE ? sizeof(struct fl_nvme_resv_release_data)
                                                                : sizeof(struct fl_nvme_resv_acquire_data);
    uint64_t len = ((uint64_t)le32_get(cmd->sqe.cdw10) + 1) * 4;

    FL_COUNT(q->io.nr_other, 1);
    FL_COUNT(view->io.nr_other, 1);
    if (cmd->sqe.opcode != FL_NVME_CMD_RESV_REPORT) {
        if (cmd->sgl_len != need)
            fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
        else
            fl_tqueue_receive(cmd, need, received);
    } else if (!(le32_get(cmd->sqe.cdw11) & FL_NVME_RESV_REPORT_EDS)) {
        fl_tqueue_finish(cmd, FL_NVME_SC_HOSTID_FORMAT | FL_NVME_DNR);
    } else if (len > q->mdts_len) {
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    } else if (cmd->sgl_len != len) {
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
    } else {
        cmd->data_len = (uint32_t)len;
        fl_tqueue_with_buffer(cmd, (uint32_t)len, report_buffer);
    }
}
