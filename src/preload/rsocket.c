/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets over RDMA are librdmacm's own, on the verbs and the connection manager that the program sees: those
 * of the software RNIC where there are no real devices. It takes the identifiers for its own and reads fields
 * behind the public ones (struct fl_cma_id has them in their places, rnic/cma/parts.h). Which, is known of
 * the releases that were looked at: with others there are no sockets. Without rsocket() there is no
 * descriptor for the rest of its functions, so they need no face here.
 */
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "preload/preload.h"

#define FIRST_RELEASE 28u
#define LAST_RELEASE  64u

typedef int (*make_function)(int domain, int type, int protocol);

/* The release of rdma-core stands in the name of the file: librdmacm.so.1.3.44.0 */
static bool is_known(make_function make)
{
    Dl_info info;
    unsigned int release = 0;
    if (!dladdr((void *)make, &info))
        return false;
    char *path = realpath(info.dli_fname, NULL);
    const char *name = path ? strrchr(path, '/') : NULL;
    bool known = name && sscanf(name, "/librdmacm.so.1.%*u.%u.", &release) == 1 && release >= FIRST_RELEASE &&
                 release <= LAST_RELEASE;
    if (!known)
        FL_WARN("sockets over RDMA are not supported with %s: known are the releases %u to %u of rdma-core",
                path ? path : info.dli_fname, FIRST_RELEASE, LAST_RELEASE);
    free(path);
    return known;
}

FL_EXPORT int rsocket(int domain, int type, int protocol)
{
    make_function make = (make_function)fl_real_find_cm("rsocket");
    if (make && (fl_cm() != &fl_rdmacm_soft || is_known(make)))
        return make(domain, type, protocol);
    errno = EPROTONOSUPPORT;
    return -1;
}
