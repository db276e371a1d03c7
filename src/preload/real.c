/* SPDX-License-Identifier: Apache-2.0 */
/* The libibverbs below this one: found by its own handle, in which this library's functions do not stand. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "preload/preload.h"

static struct {
    pthread_once_t once;
    const struct fl_verbs *verbs;
    void *library;
} real = {.once = PTHREAD_ONCE_INIT};

static void find(void)
{
    struct fl_error err = {0};
    const char *mode = getenv("FARLANE_RNIC");
    if (mode && !strcmp(mode, "only"))
        return;
    fl_dlopen_below = true;
    if (fl_verbs_hardware(&real.verbs, &err))
        FL_INFO("without RDMA hardware: %s", err.text);
    else
        real.library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL); /* it is there by now */
    fl_dlopen_below = false;
}

const struct fl_verbs *fl_real_verbs(void)
{
    pthread_once(&real.once, find);
    return real.verbs;
}

fl_real_function fl_real_find(const char *name)
{
    pthread_once(&real.once, find);
    return real.library ? (fl_real_function)dlsym(real.library, name) : NULL;
}

fl_real_function fl_real_find_cm(const char *name)
{
    fl_dlopen_below = true;
    void *library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    fl_dlopen_below = false;
    return library ? (fl_real_function)dlsym(library, name) : NULL;
}
