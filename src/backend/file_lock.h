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

/*
 * A block device that is mounted must not be written behind the file system's back: the kernel refuses it
 * with O_EXCL. A descriptor that keeps others out until it is closed, or negative errno. Comes after the
 * lock, which tells other servers of the device by name; waits as long as that.
 */
int fl_file_claim(const char *path);

#endif
