/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have a file open as a namespace: one that writes, or any number that read. */
#ifndef FL_BACKEND_FILE_LOCK_H
#define FL_BACKEND_FILE_LOCK_H

#include <stdbool.h>

#include <farlane/error.h>

/*
 * Locks the open file until its description is closed (also by the end of the process, however it ends).
 * -EBUSY: another has it; the text names that process where /proc shows it. Waits up to a second, for a
 * process that was just killed and for udev, which takes such a lock while it looks at a device.
 */
int fl_file_lock(int fd, const char *path, bool shared, struct fl_error *err);

#endif
