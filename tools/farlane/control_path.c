/* SPDX-License-Identifier: Apache-2.0 */
/* Where the control socket is when nobody says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "control.h"

static int own_folder(const char *folder, bool make, struct fl_error *err)
{
    struct stat st;

    if (make && mkdir(folder, 0700) < 0 && errno != EEXIST)
        return fl_error_set(err, -errno, "cannot make the folder %s of the control socket: %s", folder,
                            strerror(errno));
    if (lstat(folder, &st) < 0)
        return fl_error_set(err, -errno,
                            "there is no folder %s: is farlane serving here as this user? Else say --control",
                            folder);
    /* In /tmp somebody else could have made it first. */
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
        return fl_error_set(err, -EPERM, "%s does not belong to this user alone: say --control PATH", folder);
    return 0;
}

int control_default_path(char *path, size_t len, bool make_folder, struct fl_error *err)
{
    const char *said = getenv("FARLANE_CONTROL"), *runtime = getenv("XDG_RUNTIME_DIR");
    char folder[100];
    int rc;

    if (said && said[0]) {
        snprintf(path, len, "%s", said);
        return 0;
    }
    if (geteuid() == 0)
        snprintf(folder, sizeof(folder), "/run/farlane");
    else if (runtime && runtime[0] == '/' && strlen(runtime) < 60)
        snprintf(folder, sizeof(folder), "%s/farlane", runtime);
    else
        snprintf(folder, sizeof(folder), "/tmp/farlane-%u", (unsigned)geteuid());
    rc = own_folder(folder, make_folder, err);
    if (rc == 0)
        snprintf(path, len, "%s/control.sock", folder);
    return rc;
}
