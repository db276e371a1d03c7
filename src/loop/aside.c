/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/aside.h"

#include <pthread.h>
#include <signal.h>

#include "base/util.h"

#define STACK_LEN (256u << 10)

static void back(struct fl_msg *msg)
{
    struct fl_aside *aside = FL_CONTAINER_OF(msg, struct fl_aside, msg);

    aside->done(aside);
}

static void *run(void *arg)
{
    struct fl_aside *aside = arg;

    aside->work(aside);
    fl_loop_post(aside->loop, &aside->msg); /* the last touch */
    return NULL;
}

static int start_thread(struct fl_aside *aside)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_LEN);
    sigfillset(&all); /* signals are the program's; one meant for it must not end up here */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, &attr, run, aside);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

void fl_aside_start(struct fl_loop *loop, struct fl_aside *aside)
{
    aside->loop = loop;
    aside->msg.run = back;
    if (start_thread(aside))
        run(aside);
}
