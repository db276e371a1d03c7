/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a transfer: a namespace (by URL), a file (by path), or a stream (standard input or output). */
#ifndef FARLANE_ENDPOINT_H
#define FARLANE_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/host.h>

#include "cmd.h"

/* Options of every command that opens namespaces. */
enum { OPT_HOSTNQN = 200, OPT_CONNECT_TIMEOUT, OPT_REQUIRE };
#define DEVICE_OPTIONS                                                                 \
    {OPT_HOSTNQN, "hostnqn", "NQN",                                                    \
     "connect under this name, default the machine's or one kept for this user"},      \
        {OPT_REQUIRE, "require", "rdma|hardware",                                      \
         "fail, with status 7, rather than go by less: by TCP, or by software"},       \
    {                                                                                  \
        OPT_CONNECT_TIMEOUT, "timeout", "SECONDS",                                     \
            "give up when a step of connecting is not answered for so long, default 5" \
    }
/* True if the option was one of them and right; *bad: it was wrong, and a message printed. */
bool device_option(const struct cmd_args *args, int id, struct fl_device_options *options, bool *bad);

/* What commands that take one URL have in common. */
struct url_args {
    const char *url;
    struct fl_device_options device;
};

/* Takes the URL and the options of every such command, and the others by take(): false is wrong usage, with a
 * message printed. 0, or an exit status plus 1. */
int url_args_take(const struct cmd *cmd, int argc, char **argv, struct url_args *base,
                  bool (*take)(const struct cmd_args *args, int id, struct url_args *base));

/* As fl_device_info; waits a moment for a path that is being set up. */
void device_info_settled(struct fl_device *dev, struct fl_device_info *info);

enum endpoint_kind { ENDPOINT_DEVICE, ENDPOINT_FILE, ENDPOINT_STREAM, ENDPOINT_NONE };

struct endpoint {
    enum endpoint_kind kind;
    const char *name; /* as the user wrote it */
    struct fl_device *dev;
    struct fl_device_info info;
    struct fl_queue *queue;
    struct fl_queue *aside; /* for the rest of a block, while `queue` is at work; made when needed */
    int fd;
    bool created;       /* the file was not there before */
    uint64_t len;       /* size; of a stream: UINT64_MAX */
    uint32_t block_len; /* 1 for files and streams */
};

/* Depth: chunks at a time, each of at most chunk_len bytes. */
int endpoint_open_device(struct endpoint *e, const char *url, const struct fl_device_options *options,
                         uint32_t depth, uint32_t chunk_len, struct fl_error *err);
/* An error if nothing can be written to it, which is known without trying. */
int endpoint_check_writable(const struct endpoint *e, struct fl_error *err);
int endpoint_open_source_file(struct endpoint *e, const char *path, struct fl_error *err);
/* Makes the file, or takes what is there if `overwrite`. Block devices are written in place. */
int endpoint_open_sink_file(struct endpoint *e, const char *path, bool overwrite, struct fl_error *err);
void endpoint_stream(struct endpoint *e, int fd, const char *name);
/* `code` of a queue or an I/O of dev. Where that is that its target is away (-ENOLINK) or was given up
 * (-ENODEV): why, so that -EACCES and -ENOENT stay what they are when connecting; else -ETIMEDOUT. */
int device_lost_code(struct fl_device *dev, int code);
/* What an I/O failed of, with what is known of the device by now: info is what it was when it was opened.
 * Returns the error's code, never -EINVAL or -ERANGE: nobody gave a wrong value. */
int device_io_error(struct fl_device *dev, const struct fl_device_info *info, const char *what, int code,
                    uint16_t nvme_status, struct fl_error *err);
/* Everything written is durable afterwards. */
int endpoint_sync(struct endpoint *e, struct fl_error *err);
void endpoint_close(struct endpoint *e);
/* The rest of a block beside the data: one block at off, aligned. */
int endpoint_read_block(struct endpoint *e, uint64_t off, void *block, struct fl_error *err);

#endif
