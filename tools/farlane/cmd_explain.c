/* SPDX-License-Identifier: Apache-2.0 */
/* `farlane explain`: which path the bytes to a URL take, and why no better one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "base/util.h"
#include "endpoint.h"
#include "explain.h"

enum { OPT_JSON = 256, OPT_NO_CONNECT };

static const struct cmd_option options[] = {
    {OPT_JSON, "json", NULL, "as JSON"},
    {OPT_NO_CONNECT, "no-connect", NULL, "do not connect: only what this machine knows by itself"},
    DEVICE_OPTIONS,
    CMD_OPTION_END,
};

static int run(int argc, char **argv);

const struct cmd cmd_explain = {
    .name = "explain",
    .summary = "which path the bytes to a URL take, and why no better one",
    .usage = "explain URL [--no-connect] [--json]",
    .details =
        "Looks at the route to the target and at the RDMA devices of this machine, then connects, so that "
        "what\n"
        "it tells is what was. The paths, best first: RDMA by hardware; RDMA on shared memory, within this\n"
        "host; RoCE v2 over UDP, by the software RNIC; TCP. It needs no root. Exit status 3 and others: the\n"
        "target could not be connected to; 7: not by what --require asks for.\n"
        "\n"
        "Examples:\n"
        "  farlane explain 'nvme+rdma://10.0.0.1/nqn.2026-01.org.example:disk?ns=1'\n"
        "  farlane explain nvme+tcp://10.0.0.1 --no-connect --json\n",
    .options = options,
    .run = run,
};

struct explain_args {
    struct url_args base;
    bool json, no_connect;
};

static bool take_option(const struct cmd_args *args, int id, struct url_args *base)
{
    struct explain_args *a = FL_CONTAINER_OF(base, struct explain_args, base);

    a->json |= id == OPT_JSON;
    a->no_connect |= id == OPT_NO_CONNECT;
    return true;
}

/* ---- what this machine knows ---- */

static int resolve(const struct fl_url *url, struct explanation *e, struct fl_error *err)
{
    char text[FL_HOST_LEN + 16];
    int n;

    snprintf(text, sizeof(text), strchr(url->host, ':') ? "[%s]:%s" : "%s:%s", url->host, url->port);
    n = fl_addr_resolve(text, FL_URL_DEFAULT_PORT, &e->to, 1, err);
    return n < 0 ? n : 0;
}

/* What a better way than `taken` lacks, where nothing was said of it. */
static void fill_gaps(struct explanation *e, const char *why)
{
    for (int i = 0; i < (int)e->path; i++)
        if (!*e->choice.why_not[i])
            snprintf(e->choice.why_not[i], FL_WHY_LEN, "%.*s", FL_WHY_LEN - 1, why);
}

static int look(const struct fl_url *url, const struct fl_device_options *o, struct explanation *e,
                struct fl_error *err)
{
    bool rdma = url->kind == FL_URL_NVME_RDMA, any = !*url->dev || !strcmp(url->dev, "auto");
    bool required = rdma && any && o->require == FL_REQUIRE_HARDWARE;
    struct fl_choose_facts facts;
    int r = fl_choose_look(&e->to, false, &facts);

    if (r < 0)
        return fl_error_set(err, r, "this machine's devices cannot be listed: %s", strerror(-r));
    e->route = facts.route;
    e->code = fl_choose(&facts, required ? "hardware" : url->dev, &e->choice, &e->err);
    e->path = e->choice.path;
    fl_choose_forget(&facts);
    if (!rdma) { /* there is a route, or TCP will say that there is none */
        e->path = FL_PATH_TCP;
        e->code = e->code == -ENODEV ? 0 : e->code;
        fill_gaps(e, "the URL asks for TCP: write nvme+rdma:// if the target serves that");
    } else if (e->code == -ENODEV && url->fallback_tcp && !o->require) {
        e->code = 0;
    }
    if (!e->code)
        fl_error_clear(&e->err);
    return 0;
}

/* ---- what is ---- */

/* The cause without the advice that follows it, and without the URL, which stands above. */
static void cause_of(const struct explanation *e, char to[FL_WHY_LEN])
{
    const char *text = e->err.text;
    size_t len = strlen(e->url);

    if (!strncmp(text, e->url, len) && !strncmp(text + len, ": ", 2))
        text += len + 2;
    len = strcspn(text, ";");
    snprintf(to, FL_WHY_LEN, "%.*s", (int)FL_MIN(len, FL_WHY_LEN - 1u), text);
}

/* There is no path: what became of each. */
static void tell_failure(const struct fl_url *url, const struct fl_device_options *o, struct explanation *e)
{
    const bool rdma = url->kind == FL_URL_NVME_RDMA, by_tcp = !rdma || (url->fallback_tcp && !o->require);
    char cause[FL_WHY_LEN];

    cause_of(e, cause);
    for (int i = 0; i < FL_PATH_TCP; i++) {
        if (*e->choice.why_not[i])
            continue;
        snprintf(e->choice.why_not[i], FL_WHY_LEN, "%s",
                 e->path == FL_PATH_HARDWARE && i > FL_PATH_HARDWARE
                     ? "hardware is taken where a port of it leads there"
                 : by_tcp ? "it could not be connected to"
                          : cause);
    }
    snprintf(e->choice.why_not[FL_PATH_TCP], FL_WHY_LEN, "%s",
             by_tcp       ? cause
             : o->require ? "RDMA is required"
                          : "the URL asks for RDMA: write nvme+tcp:// if the target serves that");
}

static void take_info(struct explanation *e, const struct fl_device_info *info)
{
    e->connected = true;
    e->code = 0;
    fl_error_clear(&e->err);
    e->target_pid = info->target_pid;
    for (int i = 0; i < FL_NR_PATHS; i++)
        if (!strcmp(info->path, fl_path_name((enum fl_path)i)))
            e->path = (enum fl_path)i;
    snprintf(e->choice.device, sizeof(e->choice.device), "%s", info->rdma_device);
    fill_gaps(e, info->path_why);
}

static void connect_to(const char *url, const struct fl_device_options *o, struct explanation *e)
{
    struct fl_error err = {0};
    struct fl_device_info info;
    struct fl_device *dev;
    int r = fl_subsystem_open(url, o, &dev, &err);

    if (r < 0) {
        e->code = r;
        e->err = err;
        return;
    }
    device_info_settled(dev, &info);
    fl_device_close(dev);
    take_info(e, &info);
}

static int explain(const struct explain_args *a, const struct fl_url *url)
{
    struct explanation e = {.url = a->base.url, .path = FL_PATH_TCP};
    struct fl_error err = {0};
    int r = resolve(url, &e, &err);

    if (r == 0)
        r = look(url, &a->base.device, &e, &err);
    if (r < 0)
        return cmd_fail(&err, r);
    if (!a->no_connect)
        connect_to(a->base.url, &a->base.device, &e);
    if (e.code && !e.connected)
        tell_failure(url, &a->base.device, &e);
    if (a->json)
        explain_json(&e);
    else
        explain_text(&e);
    return e.code < 0 ? cmd_fail(&e.err, e.code) : EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct explain_args a = {0};
    struct fl_url *url = calloc(1, sizeof(*url));
    struct fl_error err = {0};
    int status, rc = url_args_take(&cmd_explain, argc, argv, &a.base, take_option);

    if (rc || !url) {
        free(url);
        return rc ? rc - 1 : EXIT_FAILED;
    }
    rc = fl_url_parse(a.base.url, url, &err);
    if (rc < 0)
        status = cmd_fail(&err, rc);
    else if (fl_url_is_remote(url))
        status = explain(&a, url);
    else
        status = explain_local(a.base.url, a.json);
    free(url);
    return status;
}
