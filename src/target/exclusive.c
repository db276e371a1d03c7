/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an operation is atomic against every write of a namespace, on whatever loop, while a plain write takes
 * no lock:
 *   1. who wants it asks the control loop; requests are granted one at a time, in order (fl_excl_ask);
 *   2. a round tells each loop to hold: from then on its writes are put aside, and it acknowledges when the
 * last write that it had in a back end has ended. A loop's own flag costs a write one test of its own memory;
 *   3. with all acknowledgements in, excl->go runs: nothing else changes the namespace until fl_excl_end;
 *   4. a second round lets the writes that were put aside go on, after a look at the reservation that may
 * have come meanwhile. Compare-and-write and Preempt and Abort stand on this.
 */
#include <stdlib.h>

#include "target/core.h"

static void start_next(struct fl_tns *ns);

static void hold(struct fl_round_leg *leg)
{
    struct fl_tns *ns = leg->round->arg[0];
    struct fl_ns_view *view = &ns->views[leg->worker->index];

    view->hold = true;
    if (!view->nr_writes) {
        fl_round_ack(leg);
        return;
    }
    view->drain = leg;
}

static void all_hold(struct fl_round *round)
{
    struct fl_tns *ns = round->arg[0];

    ns->excl->go(ns->excl);
}

static void start_next(struct fl_tns *ns)
{
    struct fl_list *link = ns->excl ? NULL : fl_list_pop(&ns->excl_queue);
    struct fl_round *round;

    if (!link)
        return;
    ns->excl = FL_CONTAINER_OF(link, struct fl_excl, link);
    round = fl_round_new(ns->ss->target, hold, all_hold);
    if (!round) { /* it fails, and must look at what it was granted: nothing */
        struct fl_excl *excl = ns->excl;

        ns->excl = NULL;
        excl->go(excl);
        return;
    }
    round->arg[0] = ns;
    fl_round_start(round);
}

void fl_excl_ask(struct fl_tns *ns, struct fl_excl *excl)
{
    fl_list_init(&excl->link);
    fl_list_add_tail(&ns->excl_queue, &excl->link);
    start_next(ns);
}

static void let_go(struct fl_round_leg *leg)
{
    struct fl_tns *ns = leg->round->arg[0];
    struct fl_ns_view *view = &ns->views[leg->worker->index];
    struct fl_list held;
    struct fl_list *link;

    view->hold = false;
    fl_list_init(&held);
    fl_list_splice(&held, &view->held);
    while ((link = fl_list_pop(&held))) {
        struct fl_tio *tio = FL_CONTAINER_OF(link, struct fl_tio, bio.link);

        tio->cancel = NULL;
        tio->next(fl_cmd_of_tio(tio));
    }
    fl_round_ack(leg);
}

static void all_gone_on(struct fl_round *round)
{
    struct fl_tns *ns = round->arg[0];

    ns->excl = NULL;
    start_next(ns);
}

void fl_excl_end(struct fl_tns *ns)
{
    struct fl_round *round = fl_round_new(ns->ss->target, let_go, all_gone_on);

    if (!round) /* a few hundred bytes; without them the namespace would stand still for ever */
        abort();
    round->arg[0] = ns;
    fl_round_start(round);
}

static void cancel_held(struct fl_cmd *cmd)
{
    fl_list_del(&fl_tio_of(cmd)->bio.link);
}

bool fl_io_held(struct fl_ns_view *view, struct fl_cmd *cmd, void (*again)(struct fl_cmd *cmd))
{
    struct fl_tio *tio = fl_tio_of(cmd);

    /* The command was checked when it came; since then, while its data was on the way, another host may have
     * preempted. */
    if (view->resv && !fl_io_check_access(view, cmd->conn->user, FL_NVME_ACCESS_WRITE)) {
        fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_PREEMPT);
        return true;
    }
    if (!view->hold)
        return false;
    tio->next = again;
    fl_tqueue_track(cmd, FL_TIO_WAITING, cancel_held);
    fl_list_add_tail(&view->held, &tio->bio.link);
    return true;
}
