/* SPDX-License-Identifier: Apache-2.0 */
/* Where NVMe status becomes errno, what is worth another try, and both in words. */
#ifndef FL_HOST_STATUS_H
#define FL_HOST_STATUS_H

#include <stdbool.h>

#include "wire/nvme_status.h"

/* The errno for the status of an I/O command; 0 for success. */
int fl_io_status_errno(fl_nvme_status status);
/* The same for Connect, whose command specific codes mean other things. */
int fl_connect_status_errno(fl_nvme_status status);

enum fl_retry {
    FL_RETRY_NEVER, /* final */
    FL_RETRY_NOW,   /* lost on the way: send it again */
    FL_RETRY_LATER, /* the target isn't ready: after a pause */
};
enum fl_retry fl_io_status_retry(fl_nvme_status status);

/* What became of an I/O, for people: the status in words if there is one, else the errno. Returns buf. */
#define FL_STATUS_TEXT_LEN 160
char *fl_io_result_text(int result, fl_nvme_status status, char buf[FL_STATUS_TEXT_LEN]);

#endif
