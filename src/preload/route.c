/* SPDX-License-Identifier: Apache-2.0 */
/* Whose object is it? */
#include "preload/preload.h"
#include "rnic/verbs.h"

bool fl_is_soft(const struct ibv_context *context)
{
    return context->ops.poll_cq == fl_cq_poll; /* in every context of ours, and in no other */
}

const struct fl_verbs *fl_verbs_of(const struct ibv_context *context)
{
    return fl_is_soft(context) ? &fl_verbs_soft : fl_real_verbs();
}

const struct fl_verbs *fl_verbs_of_device(const struct ibv_device *device)
{
    return fl_device_is_soft(device) ? &fl_verbs_soft : fl_real_verbs();
}
