/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that need no connection: to requests that none comes of, and to messages about those that are gone.
 */
#include "rnic/cm/parts.h"

static struct fl_cm_mad *new_answer(struct fl_cm *cm, const struct fl_cm_meta *meta,
                                    const struct fl_cm_mad *mad, enum fl_cm_attr attr)
{
    if (cm->answers_tail - cm->answers_head == FL_CM_ANSWERS_MAX) {
        cm->stats.nr_answers_dropped++;
        return NULL;
    }
    struct fl_cm_tx *tx = &cm->answers[cm->answers_tail++ % FL_CM_ANSWERS_MAX];
    tx->local = meta->local;
    tx->remote = meta->remote;
    tx->scope_id = meta->scope_id;
    tx->traffic_class = meta->traffic_class;
    tx->hop_limit = 64;
    fl_cm_init(&tx->mad, attr, be64_get(mad->hdr.tid));
    return &tx->mad;
}

void fl_cm_reject_stranger(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                           enum fl_cm_about about, uint16_t reason, const void *ari, size_t ari_len)
{
    struct fl_cm_mad *rej = new_answer(cm, meta, mad, FL_CM_REJ);
    if (!rej)
        return;
    /* The sender's ID comes first in all of them; the second of a REQ is not one. */
    rej->rej.remote_id = mad->rep.local_id;
    if (about != FL_CM_ABOUT_REQ)
        rej->rej.local_id = mad->rep.remote_id;
    fl_cm_rej_about_set(&rej->rej, (uint8_t)about);
    rej->rej.reason = be16_of(reason);
    if (ari_len)
        memcpy(rej->rej.ari, ari, ari_len);
    fl_cm_rej_ari_len_set(&rej->rej, (uint8_t)ari_len);
}

void fl_cm_drep_stranger(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad)
{
    struct fl_cm_mad *drep = new_answer(cm, meta, mad, FL_CM_DREP);
    if (!drep)
        return;
    drep->drep.local_id = mad->dreq.remote_id;
    drep->drep.remote_id = mad->dreq.local_id;
}

void fl_cm_sidr_stranger(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                         uint8_t status)
{
    struct fl_cm_mad *rep = new_answer(cm, meta, mad, FL_CM_SIDR_REP);
    if (!rep)
        return;
    rep->sidr_rep.request_id = mad->sidr_req.request_id;
    rep->sidr_rep.status = status;
    rep->sidr_rep.service_id = mad->sidr_req.service_id;
}
