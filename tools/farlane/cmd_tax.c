/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "bench.h"
#include "cmd.h"
#include "tax.h"

enum { OPT_SECONDS = 256, OPT_ROUNDS, OPT_SIZE, OPT_FOLDER, OPT_OURS, OPT_JSON, OPT_HTML };

static const struct cmd_option options[] = {
    {OPT_SECONDS, "seconds", "N", "measured time of each run, default 0.6"},
    {OPT_ROUNDS, "rounds", "N", "rounds over all paths in turn, default 3"},
    {OPT_SIZE, "size", "SIZE",
     "use the first SIZE of the device, default 256M; so long is a file that is made"},
    {OPT_FOLDER, "folder", "PATH",
     "where to make it: on the disk that matters; default $TMPDIR, else /var/tmp"},
    {OPT_OURS, "ours", NULL, "leave out fio, NBD, iSCSI and the kernel's nvmet, even where they are there"},
    {OPT_JSON, "json", NULL, "as an object, with the least and most of each figure"},
    {OPT_HTML, "html", "FILE", "also as a page with plots that stands alone"},
    CMD_OPTION_END,
};

struct tax_args {
    struct tax tax;
    const char *html;
    bool json;
};

static bool take_operand(const struct cmd_args *args, struct tax *tax)
{
    if (!fl_url_has_scheme(args->arg)) {
        cmd_usage(args->cmd, "'%s' is no URL: for a file write file:%s", args->arg, args->arg);
        return false;
    }
    if (tax->nr_urls == TAX_MAX_PATHS / 2) {
        cmd_usage(args->cmd, "more than %d URLs", TAX_MAX_PATHS / 2);
        return false;
    }
    tax->urls[tax->nr_urls++] = args->arg;
    return true;
}

static bool take_seconds(const struct cmd_args *args, double *seconds)
{
    char *end;

    *seconds = strtod(args->arg, &end);
    if (*args->arg && !*end && *seconds >= 0.1 && *seconds <= 3600)
        return true;
    cmd_usage(args->cmd, "--seconds %s: a number of seconds from 0.1 to 3600", args->arg);
    return false;
}

static bool take_option(const struct cmd_args *args, int id, struct tax_args *a)
{
    uint64_t v;

    switch (id) {
    case OPT_SECONDS:
        return take_seconds(args, &a->tax.seconds);
    case OPT_ROUNDS:
        if (!cmd_args_number(args, 1, TAX_MAX_ROUNDS, &v))
            return false;
        a->tax.nr_rounds = (uint32_t)v;
        return true;
    case OPT_SIZE:
        if (!cmd_args_size(args, &a->tax.size))
            return false;
        if (a->tax.size >= TAX_MIN_SIZE)
            return true;
        cmd_usage(args->cmd, "--size %s: at least 1M", args->arg);
        return false;
    case OPT_FOLDER:
        a->tax.folder = args->arg;
        return true;
    case OPT_OURS:
        a->tax.ours_only = true;
        return true;
    case OPT_JSON:
        a->json = true;
        return true;
    case OPT_HTML:
        a->html = args->arg;
        return true;
    default:
        return take_operand(args, &a->tax);
    }
}

static int tax(struct tax_args *a)
{
    struct fl_error err = {0};
    int rc = tax_open(&a->tax, &err);

    if (rc == 0)
        rc = tax_run(&a->tax, &err);
    if (rc == 0 && a->html)
        rc = tax_html(&a->tax, a->html, &err);
    if (rc == 0 && a->json) {
        json_t *json = tax_json(&a->tax);

        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(json);
    } else if (rc == 0) {
        tax_report(&a->tax);
    }
    tax_close(&a->tax);
    if (a->tax.stopped_by)
        return EXIT_SIGNALLED + a->tax.stopped_by;
    return rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct tax_args *a = calloc(1, sizeof(*a));
    struct cmd_args args;
    int id, status;

    if (!a)
        return EXIT_FAILED;
    tax_init(&a->tax);
    cmd_args_init(&args, &cmd_tax, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP || !take_option(&args, id, a)) {
            free(a);
            return id == CMD_HELP ? EXIT_OK : EXIT_USAGE;
        }
    }
    status = tax(a);
    free(a);
    return status;
}

const struct cmd cmd_tax = {
    .name = "tax",
    .summary = "what each way to a device costs here, measured side by side",
    .usage = "tax [URL...] [--seconds N] [--rounds N] [--size SIZE] [--folder PATH] [--json] [--html FILE]",
    .details =
        "Without a URL it makes a file and measures every way to it that this machine has: by itself "
        "(io_uring), over "
        "NVMe/RDMA on shared\n"
        "memory and on RoCE v2, over NVMe/TCP with and without digests, and, where they are installed, over "
        "NBD (nbdkit) and "
        "iSCSI (tgt);\n"
        "fio measures the local device once more, as a check on farlane's own figures. Only reads; what it "
        "made is removed.\n"
        "With a local URL it does the same for that device; with URLs of a target it measures these, beside "
        "the local one if "
        "there is one.\n"
        "\n"
        "Examples:\n"
        "  farlane tax\n"
        "  farlane tax --folder /mnt/nvme --rounds 7 --html tax.html\n"
        "  farlane tax file:/dev/nvme0n1 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --ours\n",
    .options = options,
    .run = run,
};
