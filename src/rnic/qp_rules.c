/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which attributes a step from one state to another needs and allows (IBA volume 1, table 91 of 11.2.5.2),
 * and which values they may have. A log line names the one that is wrong.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "rnic/objects.h"

enum { RC, UC, UD, NR_TYPES };

#define ACCESS (IBV_QP_ACCESS_FLAGS)
#define CUR    (IBV_QP_CUR_STATE)
#define MIG    (IBV_QP_PATH_MIG_STATE)

struct step {
    enum ibv_qp_state from, to;
    int needs[NR_TYPES], allows[NR_TYPES];
};

static const struct step steps[] = {
    {IBV_QPS_RESET,
     IBV_QPS_INIT,
     {IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS,
      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
     {0, 0, 0}},
    {IBV_QPS_INIT,
     IBV_QPS_INIT,
     {0, 0, 0},
     {IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS, IBV_QP_PKEY_INDEX | IBV_QP_PORT | ACCESS,
      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
          IBV_QP_MIN_RNR_TIMER,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, 0},
     {ACCESS | IBV_QP_PKEY_INDEX, ACCESS | IBV_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
      IBV_QP_SQ_PSN, IBV_QP_SQ_PSN},
     {CUR | ACCESS | IBV_QP_MIN_RNR_TIMER | MIG, CUR | ACCESS | MIG, CUR | IBV_QP_QKEY}},
    {IBV_QPS_RTS,
     IBV_QPS_RTS,
     {0, 0, 0},
     {CUR | ACCESS | IBV_QP_MIN_RNR_TIMER | MIG, CUR | ACCESS | MIG, CUR | IBV_QP_QKEY}},
    {IBV_QPS_RTS,
     IBV_QPS_SQD,
     {0, 0, 0},
     {CUR | IBV_QP_EN_SQD_ASYNC_NOTIFY, CUR | IBV_QP_EN_SQD_ASYNC_NOTIFY, CUR | IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {IBV_QPS_SQD,
     IBV_QPS_RTS,
     {0, 0, 0},
     {CUR | ACCESS | IBV_QP_MIN_RNR_TIMER | MIG, CUR | ACCESS | MIG, CUR | IBV_QP_QKEY}},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {0, 0, 0},
     {CUR | ACCESS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | MIG,
      CUR | ACCESS | IBV_QP_PKEY_INDEX | IBV_QP_AV | MIG, CUR | IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS, {0, 0, 0}, {0, CUR | ACCESS, CUR | IBV_QP_QKEY}},
};

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const struct {
    int bit;
    const char *name;
} names[] = {
    {IBV_QP_CUR_STATE, "cur_qp_state"},
    {IBV_QP_EN_SQD_ASYNC_NOTIFY, "en_sqd_async_notify"},
    {IBV_QP_ACCESS_FLAGS, "qp_access_flags"},
    {IBV_QP_PKEY_INDEX, "pkey_index"},
    {IBV_QP_PORT, "port_num"},
    {IBV_QP_QKEY, "qkey"},
    {IBV_QP_AV, "ah_attr"},
    {IBV_QP_PATH_MTU, "path_mtu"},
    {IBV_QP_TIMEOUT, "timeout"},
    {IBV_QP_RETRY_CNT, "retry_cnt"},
    {IBV_QP_RNR_RETRY, "rnr_retry"},
    {IBV_QP_RQ_PSN, "rq_psn"},
    {IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic"},
    {IBV_QP_ALT_PATH, "alt_ah_attr"},
    {IBV_QP_MIN_RNR_TIMER, "min_rnr_timer"},
    {IBV_QP_SQ_PSN, "sq_psn"},
    {IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic"},
    {IBV_QP_PATH_MIG_STATE, "path_mig_state"},
    {IBV_QP_CAP, "cap"},
    {IBV_QP_DEST_QPN, "dest_qp_num"},
    {IBV_QP_RATE_LIMIT, "rate_limit"},
};

static const char *name_of(int mask)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(names); i++)
        if (names[i].bit & mask)
            return names[i].name;
    return "an unknown attribute";
}

static const char *state_name(enum ibv_qp_state state)
{
    return (unsigned int)state < FL_ARRAY_LEN(state_names) ? state_names[state] : "an unknown state";
}

static int refuse(const struct fl_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, const char *what,
                  const char *why)
{
    FL_WARN("%s: queue pair 0x%06x, %s to %s: %s %s", qp->qp.context->device->name, qp->qp.qp_num,
            state_name(from), state_name(to), what, why);
    return EINVAL;
}

static const struct step *find(enum ibv_qp_state from, enum ibv_qp_state to)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(steps); i++)
        if (steps[i].from == from && steps[i].to == to)
            return &steps[i];
    return NULL;
}

/* NULL, or what is wrong with the value */
static const char *judge(const struct fl_qp *qp, const struct ibv_qp_attr *a, int bit, char buf[64])
{
    enum ibv_mtu port_mtu = fl_device_mtu(fl_context_of(qp->qp.context)->device);
    const unsigned int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    unsigned int value = 0;
    bool ok = true;
    switch (bit) {
    case IBV_QP_PORT:
        ok = (value = a->port_num) == 1;
        break;
    case IBV_QP_PKEY_INDEX:
        ok = !(value = a->pkey_index);
        break;
    case IBV_QP_ACCESS_FLAGS:
        ok = !((value = a->qp_access_flags) & ~rights);
        break;
    case IBV_QP_PATH_MTU:
        ok = (value = a->path_mtu) >= IBV_MTU_256 && a->path_mtu <= port_mtu;
        break;
    case IBV_QP_DEST_QPN:
        ok = (value = a->dest_qp_num) <= FL_IB_QPN_MASK;
        break;
    case IBV_QP_TIMEOUT:
        ok = (value = a->timeout) <= 31;
        break;
    case IBV_QP_RETRY_CNT:
        ok = (value = a->retry_cnt) <= 7;
        break;
    case IBV_QP_RNR_RETRY:
        ok = (value = a->rnr_retry) <= 7;
        break;
    case IBV_QP_MIN_RNR_TIMER:
        ok = (value = a->min_rnr_timer) <= 31;
        break;
    case IBV_QP_MAX_QP_RD_ATOMIC:
        ok = (value = a->max_rd_atomic) <= FL_ROCE_RD_MAX;
        break;
    case IBV_QP_MAX_DEST_RD_ATOMIC:
        ok = (value = a->max_dest_rd_atomic) <= FL_ROCE_RD_MAX;
        break;
    case IBV_QP_PATH_MIG_STATE:
        ok = (value = a->path_mig_state) == IBV_MIG_MIGRATED;
        break;
    default:
        break;
    }
    if (ok)
        return NULL;
    if (bit == IBV_QP_PATH_MTU)
        snprintf(buf, 64, "has the value %u, the port's MTU is %d", value, port_mtu);
    else
        snprintf(buf, 64, "has the value %u", value);
    return buf;
}

int fl_qp_attr_check(const struct fl_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
                     const struct ibv_qp_attr *attr, int mask)
{
    char buf[64];
    int type = qp->qp.qp_type == IBV_QPT_RC ? RC : qp->qp.qp_type == IBV_QPT_UC ? UC : UD;
    int given = mask & ~IBV_QP_STATE, needs = 0, allows = CUR;
    if (to != IBV_QPS_RESET && to != IBV_QPS_ERR) { /* these two follow any state, with nothing more */
        const struct step *step = find(from, to);
        if (!step || (from == IBV_QPS_SQE && type == RC))
            return refuse(qp, from, to, "the states", "do not follow each other");
        needs = step->needs[type];
        allows |= step->allows[type] | needs;
    }
    if (needs & ~given)
        return refuse(qp, from, to, name_of(needs & ~given), "is missing");
    if (given & ~allows)
        return refuse(qp, from, to, name_of(given & ~allows), "cannot be set at this step");
    if ((mask & CUR) && attr->cur_qp_state != from)
        return refuse(qp, from, to, "cur_qp_state", "is not the state it is in");
    for (size_t i = 0; i < FL_ARRAY_LEN(names); i++) {
        const char *why = given & names[i].bit ? judge(qp, attr, names[i].bit, buf) : NULL;
        if (why)
            return refuse(qp, from, to, names[i].name, why);
    }
    return 0;
}
