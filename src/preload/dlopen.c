/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that look for libibverbs or librdmacm themselves (dlopen, then dlsym in that handle) would find
 * the real one's functions: they get this library's handle. All other calls go on to dlopen itself, and so
 * that it sees the caller, by whose place in memory it knows which paths to search.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/util.h"
#include "preload/preload.h"

/* This library's own pages, from the linker */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_ours(const void *caller)
{
    return (const char *)caller >= __ehdr_start && (const char *)caller < _end;
}

/* libibverbs.so, libibverbs.so.1, libibverbs.so.1.14.44.0, with or without folders before it */
static bool is_library(const char *file, const char *name)
{
    const char *base = strrchr(file, '/');
    size_t len = strlen(name);
    base = base ? base + 1 : file;
    return !strncmp(base, name, len) && (!base[len] || base[len] == '.');
}

__thread bool fl_dlopen_below;

typedef void *(*dlopen_function)(const char *file, int mode);

/* Apart, so that dlopen() below has no frame of its own and may end in a jump. */
__attribute__((noinline)) static void *own_handle(int mode, dlopen_function real)
{
    Dl_info info;
    return dladdr(__ehdr_start, &info) ? real(info.dli_fname, mode & ~RTLD_GLOBAL) : NULL;
}

__attribute__((noinline)) static dlopen_function real_dlopen(void)
{
    static dlopen_function real;
    if (!real)
        real = (dlopen_function)dlsym(RTLD_NEXT, "dlopen");
    return real;
}

#if defined(__clang__)
#define JUMPS
#define JUMP __attribute__((musttail))
#else
#define JUMPS __attribute__((optimize("O2"))) /* -foptimize-sibling-calls, in unoptimized builds too */
#define JUMP
#endif

/* The last call is a jump, which leaves the caller's address where the real one looks for it. */
JUMPS FL_EXPORT void *dlopen(const char *file, int mode)
{
    dlopen_function real = real_dlopen();
    if (file && (is_library(file, "libibverbs.so") || is_library(file, "librdmacm.so")) && !fl_dlopen_below &&
        !is_ours(__builtin_return_address(0)))
        return own_handle(mode, real);
    JUMP return real(file, mode);
}
