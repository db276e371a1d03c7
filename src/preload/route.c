/* SPDX-License-Identifier: Apache-2.0 */
/* Whose object is it? */
#include <pthread.h>

#include "base/log.h"
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

static const struct fl_rdmacm *cm = &fl_rdmacm_soft;

static void choose_cm(void)
{
    struct fl_error err = {0};
    const struct fl_rdmacm *real;
    if (!fl_real_devices())
        return;
    fl_dlopen_below = true;
    int r = fl_rdmacm_hardware(&real, &err);
    fl_dlopen_below = false;
    if (r)
        FL_WARN("the connection manager is the software RNIC's: %s", err.text);
    else
        cm = real;
}

const struct fl_rdmacm *fl_cm(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_cm);
    return cm;
}
