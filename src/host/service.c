/* SPDX-License-Identifier: Apache-2.0 */
#include "host/service.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/try.h"

static struct {
    pthread_mutex_t lock; /* protects the rest, and start and end of the thread */
    uint32_t nr_users;
    struct fl_loop *loop;
    pthread_t thread;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *run(void *arg)
{
    pthread_setname_np(pthread_self(), "farlane-host");
    fl_loop_run(arg);
    return NULL;
}

static int start(void)
{
    const struct fl_loop_options options = {.poll = FL_POLL_SLEEP, .cpu = -1};
    sigset_t all, old;
    int r = fl_loop_create(&options, &service.loop);

    if (r < 0)
        return r;
    /* Signals are the program's, not this thread's. */
    fl_signals_but_faults(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    r = -pthread_create(&service.thread, NULL, run, service.loop);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r < 0)
        fl_loop_destroy(service.loop);
    return r;
}

int fl_service_get(struct fl_loop **loop)
{
    int r = 0;

    pthread_mutex_lock(&service.lock);
    if (!service.nr_users)
        r = start();
    if (r == 0) {
        service.nr_users++;
        *loop = service.loop;
    }
    pthread_mutex_unlock(&service.lock);
    return r;
}

void fl_service_put(void)
{
    pthread_mutex_lock(&service.lock);
    if (!--service.nr_users) {
        fl_loop_stop(service.loop);
        pthread_join(service.thread, NULL);
        fl_loop_destroy(service.loop);
        service.loop = NULL;
    }
    pthread_mutex_unlock(&service.lock);
}
