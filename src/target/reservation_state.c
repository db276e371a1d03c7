/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations that outlive a loss of power (PTPL): kept with the namespace's data. A command is not answered
 * before its effect would survive, and that may take as long as the disk does; so the state is written beside
 * the control loop, where keep alive and every host's admin commands go on meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "loop/aside.h"
#include "target/core.h"

#define STATE_MAGIC UINT32_C(0x31565246) /* "FRV1" */

struct state_reg {
    uint8_t hostid[16];
    le64 key;
};

struct state {
    le32 magic, gen;
    uint8_t type, nr, rsvd[2];
    le32 holder; /* FFFFFFFFh: none */
    struct state_reg reg[FL_REGISTRANTS];
};
_Static_assert(FL_REGISTRANTS <= 255, "struct state counts them in a byte");

struct save {
    struct fl_aside aside;
    struct fl_tns *ns;
    struct fl_backend *be;
    struct state state;
    size_t len;
    int result;
    void (*done)(struct fl_tns *ns, int result, void *arg);
    void *arg;
};

static size_t encode(const struct fl_resv *r, struct state *s)
{
    uint32_t nr = r->ptpl ? r->nr : 0;

    *s = (struct state){.magic = le32_of(STATE_MAGIC), .gen = le32_of(r->gen), .holder = le32_of(UINT32_MAX)};
    s->nr = (uint8_t)nr;
    if (r->ptpl) {
        s->type = (uint8_t)r->type;
        s->holder = le32_of((uint32_t)r->holder);
    }
    for (uint32_t i = 0; i < nr; i++) {
        memcpy(s->reg[i].hostid, r->reg[i].hostid, 16);
        s->reg[i].key = le64_of(r->reg[i].key);
    }
    return offsetof(struct state, reg) + nr * sizeof(s->reg[0]);
}

static void write_state(struct fl_aside *aside)
{
    struct save *save = FL_CONTAINER_OF(aside, struct save, aside);

    save->result = save->be->ops->state_save(save->be, &save->state, save->len);
}

static void written(struct fl_aside *aside)
{
    struct save *save = FL_CONTAINER_OF(aside, struct save, aside);
    struct fl_tns *ns = save->ns;

    if (save->result < 0)
        FL_ERR("namespace %u of %s (%s): its reservations cannot be stored: %s", ns->nsid, ns->ss->nqn,
               ns->spec, strerror(-save->result));
    save->done(ns, save->result, save->arg);
    free(save);
    fl_tns_put(ns);
}

int fl_resv_save(struct fl_tns *ns, void (*done)(struct fl_tns *ns, int result, void *arg), void *arg)
{
    struct save *save = calloc(1, sizeof(*save));

    if (!save)
        return -ENOMEM;
    save->aside = (struct fl_aside){.work = write_state, .done = written};
    save->ns = ns;
    save->be = ns->be;
    save->len = encode(&ns->resv, &save->state);
    save->done = done;
    save->arg = arg;
    fl_tns_hold(ns);
    fl_aside_start(ns->ss->target->loop, &save->aside);
    return 0;
}

void fl_resv_load(struct fl_tns *ns)
{
    struct fl_resv *r = &ns->resv;
    struct state s;
    int len = ns->be->ops->state_load ? ns->be->ops->state_load(ns->be, &s, sizeof(s)) : -EOPNOTSUPP;
    uint32_t holder;

    ns->resv_persists = (len >= 0 || len == -ENOENT) && !ns->be->read_only;
    if (len < (int)offsetof(struct state, reg))
        return;
    holder = le32_get(s.holder);
    if (le32_get(s.magic) != STATE_MAGIC || s.nr > FL_REGISTRANTS ||
        s.type > FL_NVME_RESV_EXCL_ACCESS_ALL_REGS ||
        (size_t)len != offsetof(struct state, reg) + s.nr * sizeof(s.reg[0]) ||
        (holder != UINT32_MAX && holder >= s.nr)) {
        FL_WARN("namespace %u of %s (%s): the reservations kept with it cannot be read and are dropped",
                ns->nsid, ns->ss->nqn, ns->spec);
        return;
    }
    if (!s.nr)
        return;
    r->ptpl = true;
    r->gen = le32_get(s.gen);
    r->type = (enum fl_nvme_resv_type)s.type;
    r->holder = (int)holder;
    r->nr = s.nr;
    for (uint32_t i = 0; i < r->nr; i++) {
        memcpy(r->reg[i].hostid, s.reg[i].hostid, 16);
        r->reg[i].key = le64_get(s.reg[i].key);
    }
}

/* ---- Set Features, Reservation Persistence: one namespace, or all of them one after the other ---- */

static struct fl_tns *next_of_all(struct fl_subsystem *ss, uint32_t from)
{
    for (uint32_t nsid = from; nsid <= FL_NSID_MAX; nsid++)
        if (fl_tns_find(ss, nsid))
            return ss->ns[nsid];
    return NULL;
}

static void ask(struct fl_cmd *cmd, struct fl_tns *ns)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    tio->view = &ns->views[0]; /* the admin queue's loop is the control loop, and so is worker 0's */
    tio->view->nr_in_flight++;
    fl_resv_queue(ns, tio);
}

fl_nvme_status fl_resv_change_ptpl(struct fl_tns *ns, bool ptpl)
{
    if (ptpl != ns->resv.ptpl && !ns->resv_persists)
        return FL_NVME_SC_FEATURE_NOT_CHANGEABLE | FL_NVME_DNR;
    ns->resv.ptpl = ptpl;
    return FL_NVME_SC_SUCCESS;
}

void fl_resv_ptpl_over(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_ns_view *view = tio->view;
    struct fl_tns *next = NULL;

    if (!tio->u.resv.status && le32_get(cmd->sqe.nsid) == FL_NVME_NSID_ALL)
        next = next_of_all(view->ns->ss, view->nsid + 1);
    if (!next) {
        fl_tqueue_finish(cmd, tio->u.resv.status);
        return;
    }
    ask(cmd, next);
    if (--view->nr_in_flight == 0 && view->removing)
        fl_view_idle(view);
}

void fl_resv_set_ptpl(struct fl_tctrl *ctrl, struct fl_cmd *cmd, bool ptpl)
{
    uint32_t nsid = le32_get(cmd->sqe.nsid);
    struct fl_tns *ns = nsid == FL_NVME_NSID_ALL ? next_of_all(ctrl->ss, 1) : fl_tns_find(ctrl->ss, nsid);

    if (!ns) {
        fl_tqueue_finish(cmd,
                         nsid == FL_NVME_NSID_ALL ? FL_NVME_SC_SUCCESS : FL_NVME_SC_INVALID_NS | FL_NVME_DNR);
        return;
    }
    memset(&fl_tio_of(cmd)->u.resv, 0, sizeof(fl_tio_of(cmd)->u.resv));
    fl_tio_of(cmd)->u.resv.cptpl = ptpl;
    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    ask(cmd, ns);
}
