/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "base/url.h"
#include "base/util.h"
#include "pump.h"

enum { OPT_VERIFY = 256, OPT_FORCE, OPT_DEPTH, OPT_CHUNK, OPT_JSON };

static const struct cmd_option options[] = {
    {OPT_VERIFY, "verify", NULL, "read DST back and compare checksums"},
    {OPT_FORCE, "force", NULL, "overwrite a file that is there already"},
    {OPT_DEPTH, "depth", "N", "pieces on their way at a time, default 8"},
    {OPT_CHUNK, "chunk", "SIZE", "size of a piece, default 1M"},
    {'q', "quiet", NULL, "no progress, and nothing to say when all is well"},
    {OPT_JSON, "json", NULL, "tell the result as a JSON object"},
    DEVICE_OPTIONS,
    CMD_OPTION_END,
};

struct copy {
    const char *src, *dst;
    bool verify, force, quiet, json;
    uint64_t depth, chunk_len;
    struct fl_device_options device;
    struct endpoint from, to;
    char *made;     /* the path of the file that dst, a URL, has made; NULL: none */
    char *made_url; /* dst, with the size that the file is made with */
    uint32_t *crc;
    struct pump_result copied, verified;
};

/* A file: URL whose file is not there, and that names no size: the file gets the source's. */
static int name_size(struct copy *c, struct fl_error *err)
{
    struct fl_url *url = calloc(1, sizeof(*url));
    int rc = url ? fl_url_parse(c->dst, url, err) : -ENOMEM;
    struct stat st;

    if (rc < 0 || url->kind != FL_URL_FILE || stat(url->path, &st) == 0 || errno != ENOENT)
        goto free_url;
    c->made = strdup(url->path);
    if (!url->size)
        url->size = fl_round_up(c->from.len, url->block_len ? url->block_len : 512);
    c->made_url = malloc(FL_URL_TEXT_LEN);
    if (c->made && c->made_url)
        fl_url_format(url, c->made_url, FL_URL_TEXT_LEN);
    else
        rc = -ENOMEM;
free_url:
    free(url);
    return rc;
}

static int open_sink_device(struct copy *c, struct fl_error *err)
{
    int rc = name_size(c, err);

    if (rc == 0)
        rc = endpoint_open_device(&c->to, c->made_url ? c->made_url : c->dst, &c->device, (uint32_t)c->depth,
                                  (uint32_t)c->chunk_len, err);
    c->to.created = rc == 0 && c->made;
    return rc;
}

static int open_both(struct copy *c, struct fl_error *err)
{
    int rc;

    if (fl_url_has_scheme(c->src))
        rc = endpoint_open_device(&c->from, c->src, &c->device, (uint32_t)c->depth, (uint32_t)c->chunk_len,
                                  err);
    else
        rc = endpoint_open_source_file(&c->from, c->src, err);
    if (rc < 0)
        return rc;
    if (fl_url_has_scheme(c->dst))
        rc = open_sink_device(c, err);
    pump_catch_signals(); /* from here on, an interrupt must not leave half a file behind */
    if (!fl_url_has_scheme(c->dst))
        rc = endpoint_open_sink_file(&c->to, c->dst, c->force, err);
    if (rc < 0)
        endpoint_close(&c->from);
    return rc;
}

/* By another path, or another name for the same file. */
static bool same_file(const struct copy *c)
{
    struct stat from, to;

    return c->from.fd >= 0 && c->to.fd >= 0 && !fstat(c->from.fd, &from) && !fstat(c->to.fd, &to) &&
           from.st_dev == to.st_dev && from.st_ino == to.st_ino;
}

static int check_sizes(const struct copy *c, struct fl_error *err)
{
    char from[FL_SIZE_TEXT_LEN], to[FL_SIZE_TEXT_LEN];

    if (c->to.len >= c->from.len)
        return 0;
    return fl_error_set(err, -ENOSPC,
                        "%s is too small: it has %" PRIu64 " bytes (%s), and %s has %" PRIu64
                        " (%s); nothing was written",
                        c->dst, c->to.len, fl_size_format(c->to.len, to), c->src, c->from.len,
                        fl_size_format(c->from.len, from));
}

static int move(struct copy *c, struct fl_error *err)
{
    struct progress progress;
    const struct pump_options pump = {
        .from = &c->from,
        .to = &c->to,
        .len = c->from.len,
        .depth = (uint32_t)c->depth,
        .chunk_len = (uint32_t)c->chunk_len,
        .crc = c->crc,
        .progress = &progress,
    };
    int rc;

    progress_start(&progress, "copying ", c->from.len, c->quiet);
    rc = pump_run(&pump, &c->copied, err);
    if (rc == 0)
        rc = endpoint_sync(&c->to, err);
    progress_end(&progress);
    if (rc == 0 && c->to.kind == ENDPOINT_FILE && c->to.len == UINT64_MAX &&
        ftruncate(c->to.fd, (off_t)c->from.len) < 0)
        rc = fl_error_set(err, -errno, "cannot set the size of %s: %s", c->dst, strerror(errno));
    return rc;
}

static int verify(struct copy *c, struct fl_error *err)
{
    struct endpoint none = {.kind = ENDPOINT_NONE, .name = "nothing", .fd = -1, .block_len = 1};
    struct progress progress;
    const struct pump_options pump = {
        .from = &c->to,
        .to = &none,
        .len = c->from.len,
        .depth = (uint32_t)c->depth,
        .chunk_len = (uint32_t)c->chunk_len,
        .crc = c->crc,
        .check = true,
        .progress = &progress,
    };
    int rc;

    if (c->to.kind == ENDPOINT_FILE) /* from the disk, not from memory that was just written */
        posix_fadvise(c->to.fd, 0, 0, POSIX_FADV_DONTNEED);
    progress_start(&progress, "verifying", c->from.len, c->quiet);
    rc = pump_run(&pump, &c->verified, err);
    progress_end(&progress);
    if (rc == -EILSEQ)
        fl_error_set(err, rc,
                     "%s differs from what was written, first in the %" PRIu64 " KiB from offset %" PRIu64
                     " on",
                     c->dst, c->chunk_len >> 10, c->verified.differ_at);
    return rc;
}

static double rate(const struct pump_result *r)
{
    return r->ns ? (double)r->len * 1e9 / (double)r->ns : 0;
}

static void report(const struct copy *c)
{
    char size[FL_SIZE_TEXT_LEN], speed[FL_SIZE_TEXT_LEN];
    json_t *json;

    if (c->json) {
        json = json_pack("{s:s, s:s, s:I, s:f, s:f, s:b}", "src", c->src, "dst", c->dst, "bytes",
                         (json_int_t)c->copied.len, "seconds", (double)c->copied.ns / 1e9, "gb_per_s",
                         rate(&c->copied) / 1e9, "verified", c->verify);
        json_dumpf(json, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(json);
    } else if (!c->quiet) {
        printf("copied %s in %.2f s, %s", fl_size_format(c->copied.len, size), (double)c->copied.ns / 1e9,
               fl_rate_format(rate(&c->copied), speed));
        if (c->verify)
            printf("; read back and equal (CRC-32C of each %s), %s", fl_size_format(c->chunk_len, size),
                   fl_rate_format(rate(&c->verified), speed));
        putchar('\n');
    }
}

/* Half a file would be taken for a whole one. */
static void clean_up(const struct copy *c, int rc, struct fl_error *err)
{
    if (!c->to.created)
        fl_error_wrap(err, rc, "%s is now incomplete", c->dst);
    else if (unlink(c->made ? c->made : c->dst) == 0)
        fl_error_wrap(err, rc, "%s was not complete, and is removed", c->dst);
    else
        fl_error_wrap(err, rc, "%s is not complete, and cannot be removed (%s)", c->dst, strerror(errno));
}

static int copy(struct copy *c)
{
    struct fl_error err = {0};
    int rc = open_both(c, &err);

    if (rc < 0)
        goto free_names;
    if (same_file(c))
        rc = fl_error_set(&err, -EINVAL, "%s and %s are the same file; nothing was written", c->src, c->dst);
    else
        rc = endpoint_check_writable(&c->to, &err);
    if (rc == 0)
        rc = check_sizes(c, &err);
    if (rc < 0 && c->made) /* with a size that is too small */
        unlink(c->made);
    if (rc == 0) {
        c->crc = calloc(c->from.len / c->chunk_len + 1, sizeof(*c->crc));
        rc = c->crc ? move(c, &err) : -ENOMEM;
        if (rc < 0)
            clean_up(c, rc, &err);
    }
    if (rc == 0 && c->verify) {
        rc = verify(c, &err);
        if (rc == -EINTR)
            fl_error_wrap(&err, rc, "%s is written, but was not read back to its end", c->dst);
    }
    if (rc == 0)
        report(c);
    endpoint_close(&c->from);
    endpoint_close(&c->to);
free_names:
    free(c->crc);
    free(c->made);
    free(c->made_url);
    if (rc == -EINTR)
        cmd_complain("%s", err.text);
    return rc == -EINTR ? EXIT_SIGNALLED + pump_signal() : rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
}

static bool take_option(const struct cmd_args *args, int id, struct copy *c)
{
    bool bad = false;

    if (device_option(args, id, &c->device, &bad))
        return !bad;
    switch (id) {
    case OPT_VERIFY:
        c->verify = true;
        return true;
    case OPT_FORCE:
        c->force = true;
        return true;
    case OPT_JSON:
        c->json = true;
        return true;
    case 'q':
        c->quiet = true;
        return true;
    case OPT_DEPTH:
        return cmd_args_number(args, 1, 256, &c->depth);
    case OPT_CHUNK:
        if (!cmd_args_size(args, &c->chunk_len))
            return false;
        if (fl_is_pow2(c->chunk_len) && c->chunk_len >= 4096 && c->chunk_len <= 64u << 20)
            return true;
        cmd_usage(args->cmd, "--chunk %s: a power of two from 4k to 64M", args->arg);
        return false;
    default:
        break;
    }
    if (c->dst) {
        cmd_usage(args->cmd, "SRC and DST are enough: '%s' is too much", args->arg);
        return false;
    }
    *(c->src ? &c->dst : &c->src) = args->arg;
    return true;
}

static int run(int argc, char **argv)
{
    struct copy c = {.depth = PUMP_DEPTH, .chunk_len = PUMP_CHUNK_LEN};
    struct cmd_args args;
    int id;

    cmd_args_init(&args, &cmd_copy, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP)
            return cmd_args_status(id);
        if (!take_option(&args, id, &c))
            return EXIT_USAGE;
    }
    if (!c.dst)
        return cmd_usage(&cmd_copy, "from where to where? farlane %s", cmd_copy.usage);
    if (!strcmp(c.src, c.dst))
        return cmd_usage(&cmd_copy, "SRC and DST are the same");
    if (!strcmp(c.src, "-") || !strcmp(c.dst, "-"))
        return cmd_usage(
            &cmd_copy,
            "'-' is no file: for standard input and output there are farlane write and farlane read; a file "
            "of that name is ./-");
    return copy(&c);
}

const struct cmd cmd_copy = {
    .name = "copy",
    .summary = "copy a whole namespace or file to another, with a check if wanted",
    .usage = "copy SRC DST [--verify]",
    .details = "SRC and DST are each a path or the URL of a namespace. A file that DST names, also as "
               "file:PATH, is made; a namespace\n"
               "that is there has to be as large as SRC at least, which is looked at before anything is "
               "written. What was copied is flushed.\n"
               "Standard input and output are for farlane write and farlane read. An interrupted copy "
               "removes the file that it\n"
               "began, and leaves with 130.\n"
               "\n"
               "Examples:\n"
               "  farlane copy disk.img 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --verify\n"
               "  farlane copy 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' backup.img\n",
    .options = options,
    .run = run,
};
