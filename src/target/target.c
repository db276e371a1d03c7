/* SPDX-License-Identifier: Apache-2.0 */
/* The target as a whole: its loops' workers, messages to all of them, the end. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "target/core.h"

#define DEFAULT_POOL_LEN (256u << 20) /* reserved address space; pages that were never used cost nothing */
#define ADMIN_POOL_LEN   (16u << 20)
#define DEFAULT_QUEUES   64u
#define DEFAULT_DEPTH    128u
#define STOP_DEADLINE_NS (10 * FL_NS_PER_S)

/* ---- rounds ---- */

struct fl_round *fl_round_new(struct fl_target *target, void (*each)(struct fl_round_leg *),
                              void (*done)(struct fl_round *))
{
    struct fl_round *round = calloc(1, sizeof(*round) + target->nr_workers * sizeof(round->legs[0]));

    if (!round)
        return NULL;
    round->target = target;
    round->each = each;
    round->done = done;
    round->nr_left = target->nr_workers;
    for (uint32_t i = 0; i < target->nr_workers; i++) {
        round->legs[i].round = round;
        round->legs[i].worker = &target->workers[i];
    }
    return round;
}

static void leg_run(struct fl_msg *msg)
{
    struct fl_round_leg *leg = FL_CONTAINER_OF(msg, struct fl_round_leg, msg);

    leg->round->each(leg);
}

void fl_round_start(struct fl_round *round)
{
    uint32_t nr = round->nr_left;

    round->target->nr_rounds++;
    for (uint32_t i = 0; i < nr; i++) {
        round->legs[i].msg.run = leg_run;
        fl_loop_post(round->legs[i].worker->loop, &round->legs[i].msg);
    }
}

static void leg_back(struct fl_msg *msg)
{
    struct fl_round *round = FL_CONTAINER_OF(msg, struct fl_round_leg, msg)->round;
    struct fl_target *target = round->target;

    if (--round->nr_left)
        return;
    target->nr_rounds--;
    if (round->done)
        round->done(round);
    free(round);
    fl_target_check_stopped(target);
}

void fl_round_ack(struct fl_round_leg *leg)
{
    leg->msg.run = leg_back;
    fl_loop_post(leg->round->target->loop, &leg->msg);
}

/* ---- set-up ---- */

static int check_options(struct fl_target_options *o, struct fl_error *err)
{
    if (!o->nr_loops)
        return fl_error_set(err, -EINVAL, "a target needs a loop");
    if (!o->pool_len)
        o->pool_len = DEFAULT_POOL_LEN;
    if (!o->max_queues)
        o->max_queues = DEFAULT_QUEUES;
    if (!o->max_depth)
        o->max_depth = DEFAULT_DEPTH;
    if (!o->mdts_len)
        o->mdts_len = FL_POOL_MAX_LEN;
    if (!o->min_kato_ms)
        o->min_kato_ms = 100;
    if (o->max_queues > 1024)
        return fl_error_set(err, -EINVAL, "%u I/O queues per controller are too many: 1 to 1024",
                            o->max_queues);
    if (o->shared_recv && (o->shared_recv < 8 || o->shared_recv > 16384))
        return fl_error_set(err, -EINVAL, "%u shared receives are out of range: 8 to 16384, or 0 for none",
                            o->shared_recv);
    if (o->max_depth < 2 || o->max_depth > 1024) /* CAP.MQES is 1 at least */
        return fl_error_set(err, -EINVAL, "a queue depth of %u is out of range: 2 to 1024", o->max_depth);
    /* MDTS counts in powers of two of 4 KiB, and its 0, which 4096 would be, stands for no limit (5.17.2.1).
     */
    if (!fl_is_pow2(o->mdts_len) || o->mdts_len < FL_TARGET_MDTS_MIN || o->mdts_len > FL_POOL_MAX_LEN)
        return fl_error_set(err, -EINVAL,
                            "a largest transfer of %u bytes cannot be: a power of two from %u to %u",
                            o->mdts_len, FL_TARGET_MDTS_MIN, FL_POOL_MAX_LEN);
    if (o->capsule_len > FL_TARGET_CAPSULE_MAX || (o->capsule_len > 0 && o->capsule_len % 16))
        return fl_error_set(err, -EINVAL,
                            "in-capsule data of %lld bytes cannot be: a multiple of 16 up to %u",
                            (long long)o->capsule_len, FL_TARGET_CAPSULE_MAX);
    return 0;
}

static int worker_init(struct fl_target *target, uint32_t index)
{
    struct fl_worker *w = &target->workers[index];

    w->target = target;
    w->loop = target->options.loops[index];
    w->index = index;
    fl_list_init(&w->scratch_wait);
    return fl_pool_create(target->options.pool_len, &w->pool);
}

static void free_target(struct fl_target *target)
{
    for (uint32_t i = 0; i < target->nr_workers; i++) {
        fl_pool_destroy(target->workers[i].pool);
        free(target->workers[i].scratch);
    }
    fl_pool_destroy(target->admin_pool);
    free(target->workers);
    free(target->options.loops);
    free(target);
}

int fl_target_create(const struct fl_target_options *options, struct fl_target **out, struct fl_error *err)
{
    struct fl_subsystem_options disc = {.nqn = FL_NQN_DISCOVERY, .allow_any_host = true};
    struct fl_target *target = calloc(1, sizeof(*target));
    size_t loops_len;
    int r;

    if (!target)
        return fl_error_set(err, -ENOMEM, "no memory for the target");
    target->options = *options;
    target->options.loops = NULL;
    r = check_options(&target->options, err);
    if (r < 0)
        goto free;
    r = -ENOMEM;
    loops_len = options->nr_loops * sizeof(*options->loops);
    target->options.loops = malloc(loops_len);
    target->workers = aligned_alloc(FL_CACHE_LINE,
                                    fl_round_up(options->nr_loops * sizeof(*target->workers), FL_CACHE_LINE));
    if (!target->options.loops || !target->workers)
        goto nomem;
    memcpy(target->options.loops, options->loops, loops_len);
    memset(target->workers, 0, options->nr_loops * sizeof(*target->workers));
    target->loop = options->loops[0];
    target->start_ns = fl_now_ns();
    fl_list_init(&target->subsystems);
    fl_list_init(&target->ports);
    fl_list_init(&target->controllers);
    fl_list_init(&target->fresh);
    for (uint32_t i = 0; i < options->nr_loops; i++) {
        target->nr_workers = i + 1;
        r = worker_init(target, i);
        if (r < 0)
            goto nomem;
    }
    r = fl_pool_create(ADMIN_POOL_LEN, &target->admin_pool);
    if (r < 0)
        goto nomem;
    r = fl_subsystem_add(target, &disc, &target->discovery, err);
    if (r < 0)
        goto free;
    *out = target;
    return 0;

nomem:
    fl_error_set(err, r, "no memory for the target's loops and pools");
free:
    free_target(target);
    return r;
}

/* ---- the end ---- */

void fl_target_check_stopped(struct fl_target *target)
{
    void (*done)(void *arg) = target->stopped;

    if (!target->stopping || !done || target->nr_controllers || target->nr_queues || target->nr_rounds ||
        target->nr_closing_ns)
        return;
    target->stopped = NULL;
    fl_timer_cancel(&target->stop_timer);
    done(target->stopped_arg);
}

static void stop_late(struct fl_timer *timer)
{
    struct fl_target *target = FL_CONTAINER_OF(timer, struct fl_target, stop_timer);

    FL_WARN("the target still waits for %u connections and %u namespaces with I/O that has not ended",
            target->nr_queues, target->nr_closing_ns);
    fl_timer_set(target->loop, timer, fl_loop_now(target->loop) + STOP_DEADLINE_NS);
}

static void ack_only(struct fl_round_leg *leg)
{
    fl_round_ack(leg);
}

void fl_target_shutdown(struct fl_target *target, void (*done)(void *arg), void *arg)
{
    struct fl_tctrl *ctrl, *next;
    struct fl_tqueue *q;
    struct fl_subsystem *ss;
    struct fl_round *round;

    target->stopping = true;
    fl_timer_cancel(&target->look_timer);
    fl_timer_cancel(&target->give_timer);
    target->stopped = done;
    target->stopped_arg = arg;
    fl_tport_close_all(target);
    fl_list_for_each_safe (ctrl, next, &target->controllers, link)
        fl_tctrl_kill(ctrl, "the target is stopping");
    fl_list_for_each (q, &target->fresh, link)
        fl_tqueue_close(q, "the target is stopping");
    fl_list_for_each (ss, &target->subsystems, link)
        for (uint32_t nsid = 1; nsid <= FL_NSID_MAX; nsid++)
            if (ss->ns[nsid])
                fl_namespace_remove(ss, nsid, UINT32_MAX, NULL);
    fl_timer_set(target->loop, &target->stop_timer, fl_loop_now(target->loop) + STOP_DEADLINE_NS);
    target->stop_timer.expired = stop_late;
    /* One turn through every loop, so that done never runs inside this call and after what was posted before
     * it. */
    round = fl_round_new(target, ack_only, NULL);
    if (round)
        fl_round_start(round);
    else
        fl_target_check_stopped(target);
}

void fl_target_destroy(struct fl_target *target)
{
    struct fl_subsystem *ss, *next;

    if (!target)
        return;
    fl_tport_close_all(target);
    fl_timer_cancel(&target->stop_timer);
    fl_timer_cancel(&target->look_timer);
    fl_timer_cancel(&target->give_timer);
    fl_list_for_each_safe (ss, next, &target->subsystems, link)
        fl_subsystem_free(ss);
    free_target(target);
}
