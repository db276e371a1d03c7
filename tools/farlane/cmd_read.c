/* SPDX-License-Identifier: Apache-2.0 */
/* `farlane read` and `farlane write`: a namespace to standard output, standard input to a namespace. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "base/url.h"
#include "base/util.h"
#include "pump.h"

enum { OPT_OFFSET = 256, OPT_LENGTH };

static const struct cmd_option read_options[] = {
    {OPT_OFFSET, "offset", "SIZE", "start here, default 0; any byte"},
    {OPT_LENGTH, "length", "SIZE", "as many bytes, default all that follow"},
    {'f', "force", NULL, "write data to a terminal, too"},
    DEVICE_OPTIONS,
    CMD_OPTION_END,
};

static const struct cmd_option write_options[] = {
    {OPT_OFFSET, "offset", "SIZE", "start here, default 0; any byte"},
    {'q', "quiet", NULL, "say nothing when all is well"},
    DEVICE_OPTIONS,
    CMD_OPTION_END,
};

struct transfer_args {
    struct url_args base;
    uint64_t off, len;
    bool has_len, force, quiet;
};

static bool take_option(const struct cmd_args *args, int id, struct url_args *base)
{
    struct transfer_args *t = FL_CONTAINER_OF(base, struct transfer_args, base);

    switch (id) {
    case OPT_OFFSET:
        return cmd_args_size(args, &t->off);
    case OPT_LENGTH:
        return t->has_len = cmd_args_size(args, &t->len);
    case 'f':
        return t->force = true;
    default:
        return t->quiet = true;
    }
}

static int too_far(const struct endpoint *e, uint64_t off, struct fl_error *err)
{
    char at[FL_SIZE_TEXT_LEN], size[FL_SIZE_TEXT_LEN];

    return fl_error_set(err, -EINVAL,
                        "offset %" PRIu64 " bytes (%s) lies behind the end of %s, which has %" PRIu64
                        " bytes (%s)",
                        off, fl_size_format(off, at), e->name, e->len, fl_size_format(e->len, size));
}

static int too_long(const struct endpoint *e, uint64_t off, uint64_t len, struct fl_error *err)
{
    char more[FL_SIZE_TEXT_LEN], size[FL_SIZE_TEXT_LEN];

    return fl_error_set(err, -EINVAL,
                        "%" PRIu64 " bytes (%s) from offset %" PRIu64
                        " bytes on reach behind the end of %s, which has %" PRIu64 " bytes (%s)",
                        len, fl_size_format(len, more), off, e->name, e->len, fl_size_format(e->len, size));
}

/* ---- read ---- */

static int run_read(int argc, char **argv)
{
    struct transfer_args t = {0};
    struct endpoint from, to;
    struct pump_options pump = {.from = &from, .to = &to, .depth = PUMP_DEPTH, .chunk_len = PUMP_CHUNK_LEN};
    struct pump_result result;
    struct fl_error err = {0};
    int rc = url_args_take(&cmd_read, argc, argv, &t.base, take_option);

    if (rc)
        return rc - 1;
    if (isatty(STDOUT_FILENO) == 1 && !t.force)
        return cmd_usage(&cmd_read,
                         "standard output is a terminal: redirect it (> FILE, | hexdump -C), or say --force");
    rc = endpoint_open_device(&from, t.base.url, &t.base.device, PUMP_DEPTH, PUMP_CHUNK_LEN, &err);
    if (rc < 0)
        return cmd_fail(&err, rc);
    endpoint_stream(&to, STDOUT_FILENO, "standard output");
    if (t.off > from.len)
        rc = too_far(&from, t.off, &err);
    else if (t.has_len && t.len > from.len - t.off)
        rc = too_long(&from, t.off, t.len, &err);
    pump.from_off = t.off;
    pump.len = t.has_len ? t.len : from.len - t.off;
    if (rc == 0)
        rc = pump_run(&pump, &result, &err);
    endpoint_close(&from);
    /* Whoever reads has read enough (head -c): no fault of ours, and nothing to say. */
    if (rc == -EPIPE)
        return EXIT_FAILED;
    return rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
}

const struct cmd cmd_read = {
    .name = "read",
    .summary = "read from a namespace to standard output",
    .usage = "read URL [--offset N] [--length N]",
    .details =
        "Offset and length are bytes, or sizes as 4k, 1M, 2G.\n"
        "\n"
        "Examples:\n"
        "  farlane read 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --length 4k | hexdump -C\n"
        "  farlane read 'nvme+tcp://[::1]/nqn.2026-01.org.example:disk?ns=1' | sha256sum\n",
    .options = read_options,
    .run = run_read,
};

/* ---- write ---- */

static int write_stream(struct endpoint *to, const struct transfer_args *t, struct fl_error *err)
{
    char moved[FL_SIZE_TEXT_LEN], rate[FL_SIZE_TEXT_LEN];
    struct endpoint from;
    struct pump_options pump = {
        .from = &from, .to = to, .to_off = t->off, .depth = PUMP_DEPTH, .chunk_len = PUMP_CHUNK_LEN};
    struct pump_result result;
    struct stat st;
    int rc;

    if (t->off > to->len)
        return too_far(to, t->off, err);
    endpoint_stream(&from, STDIN_FILENO, "standard input");
    /* What surely does not fit is refused before anything is written. */
    if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode)) {
        off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);

        if (at >= 0 && st.st_size > at && (uint64_t)(st.st_size - at) > to->len - t->off)
            return fl_error_set(err, -ENOSPC,
                                "%" PRIu64 " bytes do not fit: %s has %" PRIu64 " bytes from offset %" PRIu64
                                " on",
                                (uint64_t)(st.st_size - at), to->name, to->len - t->off, t->off);
    }
    pump.len = UINT64_MAX;
    rc = pump_run(&pump, &result, err);
    if (rc == -ENOSPC) {
        const struct fl_error full = *err;

        *err = (struct fl_error){0};
        return fl_error_set(err, rc, "%.400s; %s of it are written, and not flushed", full.text,
                            fl_size_format(result.len, moved));
    }
    if (rc == 0)
        rc = endpoint_sync(to, err);
    if (rc == 0 && !t->quiet)
        fprintf(stderr, "%s written and flushed, %s\n", fl_size_format(result.len, moved),
                fl_rate_format((double)result.len * 1e9 / (double)FL_MAX(result.ns, (uint64_t)1), rate));
    return rc;
}

static int run_write(int argc, char **argv)
{
    struct transfer_args t = {0};
    struct endpoint to;
    struct fl_error err = {0};
    int rc = url_args_take(&cmd_write, argc, argv, &t.base, take_option);

    if (rc)
        return rc - 1;
    if (isatty(STDIN_FILENO) == 1)
        return cmd_usage(&cmd_write, "standard input is a terminal: redirect it (< FILE)");
    rc = endpoint_open_device(&to, t.base.url, &t.base.device, PUMP_DEPTH, PUMP_CHUNK_LEN, &err);
    if (rc < 0)
        return cmd_fail(&err, rc);
    rc = write_stream(&to, &t, &err);
    endpoint_close(&to);
    return rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
}

const struct cmd cmd_write = {
    .name = "write",
    .summary = "write standard input to a namespace, and flush it",
    .usage = "write URL [--offset N]",
    .details =
        "Data may start and end inside a block: the rest of that block is read first and stays as it is.\n"
        "\n"
        "Examples:\n"
        "  farlane write 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' < disk.img\n"
        "  echo hello | farlane write 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --offset 1M\n",
    .options = write_options,
    .run = run_write,
};
