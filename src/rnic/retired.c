/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/retired.h"

#include <pthread.h>
#include <stdlib.h>

#define RETIRED_MAX 256u

struct fl_rnic fl_rnic_none = {.gone = true};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *retired[RETIRED_MAX]; /* lock, and the next: the oldest is at the place of the next */
static uint32_t nr_retired;
static struct fl_context none = {.rnic = &fl_rnic_none};

void fl_retire(void *memory)
{
    pthread_mutex_lock(&lock);
    void **at = &retired[nr_retired++ % RETIRED_MAX];
    void *oldest = *at;
    *at = memory;
    pthread_mutex_unlock(&lock);
    free(oldest);
}

struct ibv_context *fl_retired_context(const struct ibv_context *context)
{
    static bool ready;
    pthread_mutex_lock(&lock);
    if (!ready) {
        fl_context_set_verbs(&none.verbs);
        none.verbs.context.async_fd = none.verbs.context.cmd_fd = -1;
        pthread_mutex_init(&none.verbs.context.mutex, NULL);
        ready = true;
    }
    none.verbs.context.device = context->device;
    none.device = FL_CONTAINER_OF(context->device, struct fl_device, device);
    pthread_mutex_unlock(&lock);
    return &none.verbs.context;
}
