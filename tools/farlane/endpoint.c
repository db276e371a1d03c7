/* SPDX-License-Identifier: Apache-2.0 */
#include "endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/url.h"
#include "base/util.h"
#include "host/status.h"

static bool take_require(const struct cmd_args *args, enum fl_require *require)
{
    if (!strcmp(args->arg, "rdma"))
        *require = FL_REQUIRE_RDMA;
    else if (!strcmp(args->arg, "hardware"))
        *require = FL_REQUIRE_HARDWARE;
    else if (!strcmp(args->arg, "gpudirect"))
        cmd_usage(args->cmd, "--require gpudirect is not supported yet: rdma and hardware are");
    else
        cmd_usage(args->cmd, "--require is rdma or hardware, not '%s'", args->arg);
    return *require != FL_REQUIRE_NOTHING;
}

bool device_option(const struct cmd_args *args, int id, struct fl_device_options *options, bool *bad)
{
    uint64_t v;

    switch (id) {
    case OPT_HOSTNQN:
        options->hostnqn = args->arg;
        return true;
    case OPT_REQUIRE:
        options->require = FL_REQUIRE_NOTHING;
        *bad = !take_require(args, &options->require);
        return true;
    case OPT_CONNECT_TIMEOUT:
        *bad = !cmd_args_number(args, 1, 3600, &v);
        if (!*bad)
            options->connect_timeout_ms = (uint32_t)v * 1000;
        return true;
    default:
        return false;
    }
}

int url_args_take(const struct cmd *cmd, int argc, char **argv, struct url_args *base,
                  bool (*take)(const struct cmd_args *args, int id, struct url_args *base))
{
    struct cmd_args args;
    int id;

    cmd_args_init(&args, cmd, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        bool bad = false;

        if (id == CMD_BAD || id == CMD_HELP)
            return cmd_args_status(id) + 1;
        if (device_option(&args, id, &base->device, &bad))
            ;
        else if (id != CMD_OPERAND)
            bad = !take(&args, id, base);
        else if (base->url)
            bad = cmd_usage(cmd, "one URL is enough: '%s' is too much", args.arg);
        else
            base->url = args.arg;
        if (bad)
            return EXIT_USAGE + 1;
    }
    if (!base->url)
        return cmd_usage(cmd, "which URL? farlane %s", cmd->usage) + 1;
    return 0;
}

#define SETTLE_MS 500

void device_info_settled(struct fl_device *dev, struct fl_device_info *info)
{
    fl_device_info(dev, info);
    for (int i = 0; i < SETTLE_MS && info->path_settling; i++) {
        usleep(1000);
        fl_device_info(dev, info);
    }
}

static void reset(struct endpoint *e, enum endpoint_kind kind, const char *name)
{
    *e = (struct endpoint){.kind = kind, .name = name, .fd = -1, .block_len = 1};
}

int endpoint_open_device(struct endpoint *e, const char *url, const struct fl_device_options *options,
                         uint32_t depth, uint32_t chunk_len, struct fl_error *err)
{
    uint64_t commands;
    int rc;

    reset(e, ENDPOINT_DEVICE, url);
    rc = fl_device_open(url, options, &e->dev, err);
    if (rc < 0)
        return rc;
    fl_device_info(e->dev, &e->info);
    e->len = e->info.len;
    e->block_len = e->info.block_len;
    commands = depth;
    if (e->info.max_transfer_len && e->info.max_transfer_len < chunk_len)
        commands *= (chunk_len + e->info.max_transfer_len - 1) / e->info.max_transfer_len;
    if (e->info.max_depth)
        commands = FL_MIN(commands, (uint64_t)e->info.max_depth);
    rc = fl_queue_create(e->dev, (uint32_t)FL_MAX(commands, (uint64_t)2), &e->queue, err);
    if (rc < 0) {
        fl_device_close(e->dev);
        e->dev = NULL;
    }
    return rc;
}

/* A file that may be written, and yet was opened for reading only: another process has it. */
static bool is_in_use(const char *text)
{
    struct fl_url *url = calloc(1, sizeof(*url));
    const bool in_use = url && fl_url_parse(text, url, NULL) == 0 && url->kind == FL_URL_FILE &&
                        !url->read_only && access(url->path, W_OK) == 0;

    free(url);
    return in_use;
}

int endpoint_check_writable(const struct endpoint *e, struct fl_error *err)
{
    if (e->kind != ENDPOINT_DEVICE || !e->info.read_only)
        return 0;
    if (is_in_use(e->name))
        return fl_error_set(err, -EBUSY, "%s is in use by another process; nothing was written", e->name);
    return fl_error_set(err, -EROFS, "%s is read-only; nothing was written", e->name);
}

int endpoint_open_source_file(struct endpoint *e, const char *path, struct fl_error *err)
{
    struct stat st;
    off_t end;

    reset(e, ENDPOINT_FILE, path);
    e->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO would wait here for its writer */
    if (e->fd < 0 || fstat(e->fd, &st) < 0)
        return fl_error_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
    end = lseek(e->fd, 0, SEEK_END); /* also tells the size of a block device */
    if ((!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) || end < 0) {
        close(e->fd);
        e->fd = -1;
        return fl_error_set(err, S_ISDIR(st.st_mode) ? -EISDIR : -ESPIPE,
                            "%s is %s: a file, a block device or a URL is needed", path,
                            S_ISDIR(st.st_mode) ? "a folder" : "a stream without a size");
    }
    e->len = (uint64_t)end;
    return 0;
}

int endpoint_open_sink_file(struct endpoint *e, const char *path, bool overwrite, struct fl_error *err)
{
    struct stat st;
    off_t end;

    reset(e, ENDPOINT_FILE, path);
    e->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (e->fd >= 0) {
        e->created = true;
        e->len = UINT64_MAX;
        return 0;
    }
    if (errno == EEXIST)
        e->fd = open(path, O_RDWR | O_CLOEXEC);
    if (e->fd < 0 || fstat(e->fd, &st) < 0)
        return fl_error_set(err, -errno, "cannot write to %s: %s", path, strerror(errno));
    if (!overwrite && S_ISREG(st.st_mode) && st.st_size > 0) {
        close(e->fd);
        e->fd = -1;
        return fl_error_set(err, -EEXIST, "%s is there already: say --force to overwrite it", path);
    }
    /* The lock that a target has on the files it serves: its hosts must not find them changed or cut. */
    if (flock(e->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        close(e->fd);
        e->fd = -1;
        return fl_error_set(err, -EBUSY,
                            "%s is in use by another program, maybe as a namespace: stop that first, or copy "
                            "to the URL of the namespace",
                            path);
    }
    end = lseek(e->fd, 0, SEEK_END);
    e->len = S_ISREG(st.st_mode) || end < 0 ? UINT64_MAX : (uint64_t)end;
    return 0;
}

void endpoint_stream(struct endpoint *e, int fd, const char *name)
{
    reset(e, ENDPOINT_STREAM, name);
    e->fd = fd;
    e->len = UINT64_MAX;
}

int device_lost_code(struct fl_device *dev, int code)
{
    struct fl_device_info now;

    if (code != -ENODEV && code != -ENOLINK)
        return code;
    fl_device_info(dev, &now);
    switch (now.reason_code) {
    case -EACCES:
    case -EPERM:
    case -ENOENT:
        return now.reason_code;
    default:
        return now.reason_code ? -ETIMEDOUT : code;
    }
}

int device_io_error(struct fl_device *dev, const struct fl_device_info *info, const char *what, int code,
                    uint16_t nvme_status, struct fl_error *err)
{
    char cause[FL_STATUS_TEXT_LEN];
    struct fl_device_info now;
    const int result = code;

    fl_device_info(dev, &now);
    if ((code == -EINVAL || code == -ERANGE) && now.len < info->len)
        return fl_error_set(err, -EIO, "%s %s: it has shrunk from %" PRIu64 " to %" PRIu64 " bytes meanwhile",
                            what, info->url, info->len, now.len);
    code = device_lost_code(dev, code);
    fl_error_set(err, code, "%s %s: %s%s%s", what, info->url, fl_io_result_text(result, nvme_status, cause),
                 *now.reason ? ": " : "", now.reason);
    return code == -EINVAL || code == -ERANGE ? -EIO : code;
}

int endpoint_sync(struct endpoint *e, struct fl_error *err)
{
    if (e->kind == ENDPOINT_DEVICE)
        return fl_flush(e->queue, err);
    if (e->kind == ENDPOINT_FILE && fsync(e->fd) < 0 && errno != EINVAL && errno != EROFS)
        return fl_error_set(err, -errno, "%s may not be on disk: %s", e->name, strerror(errno));
    return 0;
}

void endpoint_close(struct endpoint *e)
{
    if (e->aside)
        fl_queue_destroy(e->aside);
    if (e->queue)
        fl_queue_destroy(e->queue);
    if (e->dev)
        fl_device_close(e->dev);
    if (e->kind == ENDPOINT_FILE && e->fd >= 0)
        close(e->fd);
    e->aside = e->queue = NULL;
    e->dev = NULL;
    e->fd = -1;
}

int endpoint_read_block(struct endpoint *e, uint64_t off, void *block, struct fl_error *err)
{
    int rc;

    if (!e->aside) {
        rc = fl_queue_create(e->dev, 2, &e->aside, err);
        if (rc < 0)
            return device_lost_code(e->dev, rc);
    }
    return device_lost_code(e->dev, fl_read(e->aside, block, off, e->block_len, err));
}
