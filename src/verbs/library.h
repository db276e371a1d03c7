/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared library found at run time, its functions put into a table: farlane also runs where it is not
 * installed.
 */
#ifndef FL_VERBS_LIBRARY_H
#define FL_VERBS_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <farlane/error.h>

typedef void (*fl_any_function)(void);

struct fl_symbol {
    const char *name;
    size_t at;               /* in the table */
    fl_any_function or_else; /* what an older library lacks; NULL: cannot do without */
};

/* FL_SYMBOL(struct fl_verbs, alloc_pd, "ibv_alloc_pd", NULL) */
#define FL_SYMBOL(type, member, symbol, less)                     \
    {                                                             \
        (symbol), offsetof(type, member), (fl_any_function)(less) \
    }

struct fl_library {
    const char *file;    /* "libibverbs.so.1" */
    const char *package; /* whose it is, for people */
    const char *version; /* of the package, from which on nothing is lacking that is needed */
    const struct fl_symbol *symbols;
    size_t nr_symbols;
    void *table;
    /* private; lock = PTHREAD_MUTEX_INITIALIZER */
    pthread_mutex_t lock;
    bool loaded;
};

/*
 * At the first call; the library is kept. 0; -ENOENT with text: it is not installed, or too old, and the next
 * call tries again. dlsym() gives the default version, which is that of the header; a preloaded library of
 * the same functions does not stand before it, as the handle's own scope is searched. Any thread.
 */
int fl_library_load(struct fl_library *library, struct fl_error *err);

#endif
