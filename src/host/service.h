/* SPDX-License-Identifier: Apache-2.0 */
/* The library's one thread of its own: it keeps remote controllers alive. It runs while there are any. */
#ifndef FL_HOST_SERVICE_H
#define FL_HOST_SERVICE_H

#include "loop/loop.h"

/* Starts the thread for the first user. Any thread. */
int fl_service_get(struct fl_loop **loop);
/* Ends it with the last. Not from the service thread itself. */
void fl_service_put(void);

#endif
