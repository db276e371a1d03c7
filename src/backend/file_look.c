/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the path still names the file that was opened: else nobody finds again what is written. */
#include <errno.h>
#include <sys/stat.h>

#include "backend/file.h"

int fl_file_look(struct fl_backend *backend, struct fl_error *err)
{
    const struct fl_file *file = fl_file_of(backend);
    struct stat opened, named;

    if (file->is_block || fstat(file->fd, &opened) < 0)
        return 0;
    if (stat(file->path, &named) == 0) {
        if (named.st_ino == opened.st_ino && named.st_dev == opened.st_dev)
            return 0;
        return fl_error_set(err, -ESTALE,
                            "\"%s\" is another file now; the one that is served %s. Copy it to a file of its "
                            "own by its URL: a restart "
                            "would serve the other one",
                            file->path,
                            opened.st_nlink ? "has another name" : "was deleted and ends with this process");
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return 0; /* nothing is known */
    if (opened.st_nlink)
        return fl_error_set(err, -ESTALE,
                            "\"%s\" was renamed or moved: it is served on, but a restart would not find it",
                            file->path);
    return fl_error_set(
        err, -ESTALE,
        "\"%s\" was deleted: it is served on, and lost with this process. Copy it to a file by its URL",
        file->path);
}
