/* SPDX-License-Identifier: Apache-2.0 */
/* `farlane info` and `farlane discover`. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/url.h"
#include "base/util.h"
#include "base/uuid.h"
#include "endpoint.h"
#include "term.h"

enum { OPT_JSON = 256 };
#define MAX_NAMESPACES 4096u

static const struct cmd_option info_options[] = {
    {OPT_JSON, "json", NULL, "as JSON"},
    DEVICE_OPTIONS,
    CMD_OPTION_END,
};

struct info_args {
    struct url_args base;
    bool json;
};

static bool take_option(const struct cmd_args *args, int id, struct url_args *base)
{
    FL_CONTAINER_OF(base, struct info_args, base)->json |= id == OPT_JSON;
    return true;
}

static void print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

/* ---- info ---- */

static json_t *info_json(const struct fl_device_info *i)
{
    char uuid[FL_UUID_TEXT_LEN];
    struct fl_uuid u;
    json_t *json;

    memcpy(u.b, i->uuid, sizeof(u.b));
    json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "url", i->url, "transport",
                     i->transport, "nqn", i->subnqn, "model", i->model, "serial", i->serial, "firmware",
                     i->firmware, "nsid", (json_int_t)i->nsid, "block", (json_int_t)i->block_len, "size",
                     (json_int_t)i->len, "blocks", (json_int_t)i->nr_blocks);
    json_object_update_new(json, json_pack("{s:s, s:s, s:s}", "path", i->path, "path_why", i->path_why,
                                           "rdma_device", i->rdma_device));
    json_object_update_new(json, json_pack("{s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:s}", "uuid",
                                           fl_uuid_format(&u, uuid), "max_transfer",
                                           (json_int_t)i->max_transfer_len, "max_queues",
                                           (json_int_t)i->max_queues, "max_depth", (json_int_t)i->max_depth,
                                           "volatile_cache", i->volatile_cache, "read_only", i->read_only,
                                           "hdgst", i->hdgst, "ddgst", i->ddgst, "state", i->state));
    return json;
}

static void line(const char *name, const char *fmt, ...) FL_PRINTF(2, 3);
static void line(const char *name, const char *fmt, ...)
{
    va_list args;

    printf("%s%-14s%s ", term_on(stdout, TERM_DIM), name, term_off(stdout));
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* What a target says of its cache is all that is known of a remote namespace: it may stand on RAM. */
static const char *write_cache(const struct fl_device_info *i)
{
    if (!strcmp(i->transport, "ram"))
        return "none: it is RAM of this process, and ends with it";
    if (!strcmp(i->transport, "null"))
        return "none: nothing that is written is kept";
    if (!i->subnqn[0])
        return i->volatile_cache ? "volatile: flush to make writes durable"
               : i->read_only    ? "none: nothing can be written"
                                 : "none: a completed write is durable";
    return i->volatile_cache ? "volatile: flush before you rely on it"
                             : "none: the target calls a completed write durable";
}

static void print_info(const struct fl_device_info *i)
{
    char size[FL_SIZE_TEXT_LEN], uuid[FL_UUID_TEXT_LEN];
    struct fl_uuid u;

    memcpy(u.b, i->uuid, sizeof(u.b));
    line("url", "%s", i->url);
    line("state", "%s", i->state);
    line("size", "%s (%" PRIu64 " bytes)", fl_size_format(i->len, size), i->len);
    line("blocks", "%" PRIu64 " of %u bytes", i->nr_blocks, i->block_len);
    if (i->subnqn[0]) {
        line("subsystem", "%s", i->subnqn);
        line("namespace", "%u", i->nsid);
        line("model", "%s", i->model);
        line("serial", "%s", i->serial);
        line("firmware", "%s", i->firmware);
    }
    if (!fl_uuid_is_zero(&u))
        line("uuid", "%s", fl_uuid_format(&u, uuid));
    line("transport", "%s", i->transport);
    if (i->subnqn[0])
        line("path", "%s%s%s%s%s%s", i->path, i->rdma_device[0] ? " by " : "", i->rdma_device,
             i->path_why[0] ? " (" : "", i->path_why, i->path_why[0] ? ")" : "");
    if (i->subnqn[0])
        line("digests", "%s",
             i->hdgst && i->ddgst ? "header, data"
             : i->hdgst           ? "header"
             : i->ddgst           ? "data"
                                  : "none");
    if (i->max_transfer_len)
        line("max transfer", "%s (larger I/O is split)", fl_size_format(i->max_transfer_len, size));
    if (i->max_queues)
        line("queues", "%u with up to %u commands each", i->max_queues, i->max_depth);
    line("write cache", "%s", write_cache(i));
    if (i->read_only)
        line("access", "%sread only%s", term_on(stdout, TERM_YELLOW), term_off(stdout));
}

/* A URL without ns= of a subsystem that has several namespaces: the list of them. */
static int list_namespaces(const struct info_args *a, struct fl_error *err)
{
    uint32_t *nsids = calloc(MAX_NAMESPACES, sizeof(*nsids));
    struct fl_device_info info;
    struct fl_device *dev;
    json_t *list = json_array();
    int rc, i;

    rc = nsids ? fl_subsystem_open(a->base.url, &a->base.device, &dev, err) : -ENOMEM;
    if (rc < 0) {
        free(nsids);
        json_decref(list);
        return rc;
    }
    fl_device_info(dev, &info);
    rc = fl_device_namespaces(dev, nsids, MAX_NAMESPACES, err);
    for (i = 0; i < rc; i++) {
        char url[1100];

        snprintf(url, sizeof(url), "%s%sns=%u", a->base.url, strchr(a->base.url, '?') ? "&" : "?", nsids[i]);
        if (a->json)
            json_array_append_new(list, json_pack("{s:I, s:s}", "nsid", (json_int_t)nsids[i], "url", url));
        else if (i == 0)
            printf("%s has %d namespaces:\n  %s\n", info.subnqn, rc, url);
        else
            printf("  %s\n", url);
    }
    if (rc == 0 && !a->json)
        printf("%s has no namespace (yet)\n", info.subnqn);
    if (rc >= 0 && a->json)
        print_json(json_pack("{s:s, s:s, s:s, s:O}", "nqn", info.subnqn, "model", info.model, "serial",
                             info.serial, "namespaces", list));
    fl_device_close(dev);
    free(nsids);
    json_decref(list);
    return rc < 0 ? rc : 0;
}

static bool names_subsystem_only(const char *text)
{
    struct fl_url *url = calloc(1, sizeof(*url));
    bool only = url && fl_url_parse(text, url, NULL) == 0 && fl_url_is_remote(url) && url->nqn[0] &&
                !url->nsid;

    free(url);
    return only;
}

static int run_info(int argc, char **argv)
{
    struct info_args a = {0};
    struct fl_device_info info;
    struct fl_error err = {0};
    struct fl_device *dev;
    int rc = url_args_take(&cmd_info, argc, argv, &a.base, take_option);

    if (rc)
        return rc - 1;
    rc = fl_device_open(a.base.url, &a.base.device, &dev, &err);
    if (rc < 0 && (rc == -ENOENT || rc == -EINVAL || rc == -ENOTUNIQ) && names_subsystem_only(a.base.url)) {
        struct fl_error second = {0};

        if (list_namespaces(&a, &second) == 0)
            return EXIT_OK;
    }
    if (rc < 0)
        return cmd_fail(&err, rc);
    device_info_settled(dev, &info);
    fl_device_close(dev);
    if (a.json)
        print_json(info_json(&info));
    else
        print_info(&info);
    return EXIT_OK;
}

const struct cmd cmd_info = {
    .name = "info",
    .summary = "what a namespace is: size, blocks, limits, how it is connected",
    .usage = "info URL [--json]",
    .details = "Without ns= in the URL, a subsystem with several namespaces tells which there are.\n"
               "\n"
               "Examples:\n"
               "  farlane info 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1'\n"
               "  farlane info file:disk.img --json\n",
    .options = info_options,
    .run = run_info,
};

/* ---- discover ---- */

static void print_entries(const struct fl_discovered *e, uint32_t nr)
{
    struct table t;
    uint32_t i;

    table_init(&t, "TYPE", "TRANSPORT", "ADDRESS", "PORT", "SUBSYSTEM", NULL);
    for (i = 0; i < nr; i++) {
        table_cell(&t, "%s", e[i].type);
        table_cell(&t, "%s%s", e[i].transport, e[i].tls_required ? " (TLS)" : "");
        table_cell(&t, "%s", e[i].address);
        table_cell(&t, "%s", e[i].port);
        table_cell(&t, "%s", e[i].subnqn);
    }
    table_print(&t, stdout, 0);
    for (i = 0; i < nr && strcmp(e[i].type, "nvm"); i++)
        ;
    if (i < nr)
        printf("\nNext: farlane info '%s'\n", e[i].url);
}

static void print_entries_json(const struct fl_discovered *e, uint32_t nr)
{
    json_t *list = json_array();
    uint32_t i;

    for (i = 0; i < nr; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:b, s:s}", "type",
                                              e[i].type, "transport", e[i].transport, "family", e[i].adrfam,
                                              "address", e[i].address, "port", e[i].port, "nqn", e[i].subnqn,
                                              "portid", (json_int_t)e[i].portid, "tls_required",
                                              e[i].tls_required, "url", e[i].url));
    print_json(list);
}

static int run_discover(int argc, char **argv)
{
    struct info_args a = {0};
    struct fl_discovered *entries = NULL;
    struct fl_error err = {0};
    uint32_t nr = 0;
    int rc = url_args_take(&cmd_discover, argc, argv, &a.base, take_option);

    if (rc)
        return rc - 1;
    if (!fl_url_has_scheme(a.base.url)) {
        cmd_complain("'%s' is no URL of a machine: write nvme+tcp://HOST[:PORT] or nvme+rdma://HOST[:PORT]",
                     a.base.url);
        return EXIT_USAGE;
    }
    rc = fl_discover(a.base.url, &a.base.device, &entries, &nr, &err);
    if (rc < 0)
        return cmd_fail(&err, rc);
    if (a.json)
        print_entries_json(entries, nr);
    else if (nr == 0)
        printf("%s answers, and shows nothing to this host\n", a.base.url);
    else
        print_entries(entries, nr);
    free(entries);
    return EXIT_OK;
}

const struct cmd cmd_discover = {
    .name = "discover",
    .summary = "ask a machine which subsystems it serves",
    .usage = "discover nvme+tcp|rdma://HOST[:PORT] [--json]",
    .details = "Examples:\n"
               "  farlane discover nvme+tcp://10.0.0.1\n"
               "  farlane discover 'nvme+tcp://[fe80::1%eth0]:8009' --json\n",
    .options = info_options,
    .run = run_discover,
};
