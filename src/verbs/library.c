/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static int fill(const struct fl_library *library, void *handle, struct fl_error *err)
{
    for (size_t i = 0; i < library->nr_symbols; i++) {
        const struct fl_symbol *symbol = &library->symbols[i];
        fl_any_function f = (fl_any_function)dlsym(handle, symbol->name);
        if (!f)
            f = symbol->or_else;
        if (!f)
            return fl_error_set(err, -ENOENT, "%s has no %s: %s %s or newer is needed", library->file,
                                symbol->name, library->package, library->version);
        memcpy((char *)library->table + symbol->at, &f, sizeof(f));
    }
    return 0;
}

static int load(const struct fl_library *library, struct fl_error *err)
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return fl_error_set(err, -ENOENT, "RDMA hardware needs %s of %s, which is not installed: %s",
                            library->file, library->package, dlerror());
    int r = fill(library, handle, err);
    if (r)
        dlclose(handle);
    return r;
}

int fl_library_load(struct fl_library *library, struct fl_error *err)
{
    pthread_mutex_lock(&library->lock);
    int r = library->loaded ? 0 : load(library, err);
    library->loaded = !r;
    pthread_mutex_unlock(&library->lock);
    return r;
}
