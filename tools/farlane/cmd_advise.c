/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA or TCP: measured by what `farlane tax` does, judged by advise_judge.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "advise.h"
#include "base/url.h"
#include "base/util.h"
#include "bench.h"
#include "cmd.h"

#define LOOK_US  400000 /* at what the CPUs do before it is measured */
#define MAX_TEXT (1 << 20)

enum { OPT_BUDGET = 256, OPT_PEER, OPT_SECONDS, OPT_SIZE, OPT_FOLDER, OPT_JSON };

static const struct cmd_option options[] = {
    {OPT_BUDGET, "budget-us", "N", "latency that the fabric may add, in microseconds"},
    {OPT_PEER, "peer", "HOST[:PORT]", "measure to a target there instead of within this machine"},
    {OPT_SECONDS, "seconds", "N", "measured time of each run, default 0.6"},
    {OPT_SIZE, "size", "SIZE",
     "use the first SIZE of the device, default 256M; so long is a file that is made"},
    {OPT_FOLDER, "folder", "PATH",
     "where to make it: on the disk that matters; default $TMPDIR, else /var/tmp"},
    {OPT_JSON, "json", NULL, "as an object, with every figure"},
    CMD_OPTION_END,
};

struct advise_args {
    struct advise advise;
    const char *spec, *url; /* operands: of this machine, of a target */
    bool json;
};

static bool take_operand(const struct cmd_args *args, struct advise_args *a)
{
    const bool local = bench_is_local(args->arg);
    const char **where = local ? &a->spec : &a->url;

    if (!fl_url_has_scheme(args->arg)) {
        cmd_usage(args->cmd, "'%s' is no URL: for a file or a disk write file:%s", args->arg, args->arg);
        return false;
    }
    if (*where) {
        cmd_usage(args->cmd, "%s and %s: one %s at a time", *where, args->arg, local ? "device" : "target");
        return false;
    }
    *where = args->arg;
    return true;
}

static bool take_number(const struct cmd_args *args, double least, double most, const char *what,
                        double *value)
{
    char *end;

    *value = strtod(args->arg, &end);
    if (*args->arg && !*end && *value >= least && *value <= most)
        return true;
    cmd_usage(args->cmd, "--%s %s: a number of %s from %g to %.0f", args->name, args->arg, what, least, most);
    return false;
}

static bool take_option(const struct cmd_args *args, int id, struct advise_args *a)
{
    struct tax *tax = &a->advise.tax;

    switch (id) {
    case OPT_BUDGET:
        return take_number(args, 0.1, 1e6, "microseconds", &a->advise.budget_us);
    case OPT_PEER:
        a->advise.host = args->arg;
        return true;
    case OPT_SECONDS:
        return take_number(args, 0.1, 60, "seconds", &tax->seconds);
    case OPT_SIZE:
        if (!cmd_args_size(args, &tax->size))
            return false;
        if (tax->size >= TAX_MIN_SIZE)
            return true;
        cmd_usage(args->cmd, "--size %s: at least 1M", args->arg);
        return false;
    case OPT_FOLDER:
        tax->folder = args->arg;
        return true;
    case OPT_JSON:
        a->json = true;
        return true;
    default:
        return take_operand(args, a);
    }
}

/* ---- figures ---- */

static const struct tax_path *find_path(const struct advise *a, const char *key, const char *url)
{
    uint32_t i;

    for (i = 0; i < a->tax.nr_paths; i++) {
        const struct tax_path *p = &a->tax.paths[i];

        if (url ? !strcmp(p->url, url) : !strcmp(p->key, key))
            return p;
    }
    return NULL;
}

/* Vain polling is not counted: it gives way when there is other work. */
static double cores_of(const struct tax_path *p, bool both_ends)
{
    double sum = 0;
    uint32_t i;

    for (i = 0; i < p->nr_rounds; i++) {
        const struct tax_sample *s = &p->sample[TAX_IOPS][i];

        if (s->host_cores < 0 || s->busy < 0)
            return -1;
        sum += s->host_cores * s->busy + (both_ends ? FL_MAX(s->target_cores, 0.0) : 0);
    }
    return p->nr_rounds ? sum / p->nr_rounds : -1;
}

static const char *take_path(const struct tax_path *p, bool both_ends, struct advise_path *to)
{
    struct tax_figure p50;

    *to = (struct advise_path){.known = p && p->nr_rounds, .rate = -1, .cores = -1};
    if (!to->known)
        return p ? p->why_not : "";
    p50 = tax_figure(p, TAX_P50);
    *to = (struct advise_path){.known = true,
                               .us = p50.median,
                               .spread = (p50.most - p50.least) / 2,
                               .p99 = tax_figure(p, TAX_P99).median,
                               .rate = tax_figure(p, TAX_RATE).median,
                               .cores = cores_of(p, both_ends)};
    return "";
}

static enum advise_kind kind_of(const struct tax_path *p)
{
    if (!p || !p->nr_rounds)
        return ADVISE_HARDWARE; /* nothing to say of it */
    return !strcmp(p->way, "shm") ? ADVISE_SHM : !strcmp(p->way, "udp") ? ADVISE_UDP : ADVISE_HARDWARE;
}

static void add_case(struct advise *a, const char *where, const struct tax_path *rdma,
                     const struct tax_path *tcp, bool both_ends)
{
    struct advise_case *c = &a->cases[a->nr_cases++];
    const struct tax_path *base = tax_base(&a->tax);

    *c = (struct advise_case){
        .where = where,
        .facts = {.kind = kind_of(rdma),
                  .budget_us = a->budget_us,
                  .device_us = base ? tax_figure(base, TAX_P50).median : a->service_us,
                  .loss = advise_loss(&a->seen, !a->host),
                  .cores_free = a->cores_free},
    };
    c->rdma_why_not = take_path(rdma, both_ends, &c->facts.rdma);
    c->tcp_why_not = take_path(tcp, both_ends, &c->facts.tcp);
    c->advice = advise_judge(&c->facts);
}

/* What people know the way by, instead of its URL. */
static void name_path(struct tax_path *p)
{
    static const struct {
        const char *way, *name;
    } names[] = {{"tcp", "NVMe/TCP"},
                 {"udp", "NVMe/RDMA, software"},
                 {"shm", "NVMe/RDMA, shared memory"},
                 {"hardware", "NVMe/RDMA, hardware"}};
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(names); i++)
        if (!strcmp(p->key, "url") && !strcmp(p->way, names[i].way))
            snprintf(p->name, sizeof(p->name), "%s", names[i].name);
}

static void judge(struct advise *a)
{
    static char where[80];
    uint32_t i;

    for (i = 0; i < a->tax.nr_paths; i++)
        name_path(&a->tax.paths[i]);
    if (a->host) {
        snprintf(where, sizeof(where), "to %.40s", a->host);
        add_case(a, where, find_path(a, NULL, a->peer.rdma), find_path(a, NULL, a->peer.tcp), false);
        if (a->peer.rdma_why_not[0])
            a->cases[0].rdma_why_not = a->peer.rdma_why_not;
        if (a->peer.tcp_why_not[0])
            a->cases[0].tcp_why_not = a->peer.tcp_why_not;
        return;
    }
    add_case(a, "within this host", find_path(a, "rdma-shm", NULL), find_path(a, "tcp", NULL), true);
    add_case(a, "to other machines", find_path(a, "rdma-udp", NULL), find_path(a, "tcp", NULL), false);
}

/* ---- measuring ---- */

static int find_urls(struct advise_args *a, struct fl_error *err)
{
    struct advise *v = &a->advise;
    int rc = 0;

    if (v->host)
        rc = advise_peer_find(v->host, &v->peer, err);
    else if (a->url)
        rc = advise_peer_of(a->url, &v->peer, err);
    if (a->url)
        v->host = v->peer.host;
    if (a->spec)
        v->tax.urls[v->tax.nr_urls++] = a->spec;
    if (v->peer.rdma[0])
        v->tax.urls[v->tax.nr_urls++] = v->peer.rdma;
    if (v->peer.tcp[0])
        v->tax.urls[v->tax.nr_urls++] = v->peer.tcp;
    return rc;
}

/* The peer's device, where no device of this machine is what the paths are held against. */
static double service_us(struct tax *tax)
{
    double least = -1;
    uint32_t i;

    for (i = 0; i < tax->nr_paths && !tax_base(tax); i++) {
        const double us = tax->paths[i].nr_rounds ? tax_service_us(tax, &tax->paths[i]) : -1;

        if (us >= 0 && (least < 0 || us < least))
            least = us;
    }
    return least;
}

/* The programs that are started write there at their end; it is gone with this process, however that ends. */
static int open_counters(void)
{
    const int fd = memfd_create("counters", MFD_CLOEXEC);
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    if (fd >= 0)
        setenv("FARLANE_RNIC_STATS", path, 1);
    return fd;
}

static char *read_counters(int fd)
{
    char *text = calloc(1, MAX_TEXT);

    if (text && fd >= 0 && pread(fd, text, MAX_TEXT - 1, 0) < 0)
        text[0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}

static int measure(struct advise *a, struct fl_error *err)
{
    const int fd = open_counters();
    struct advise_look *before = advise_look_take(), *start, *end = NULL;
    char *rnic = NULL;
    int rc;

    usleep(LOOK_US);
    start = advise_look_take();
    rc = tax_open(&a->tax, err);
    if (rc == 0)
        rc = tax_run(&a->tax, err);
    if (rc == 0)
        a->service_us = service_us(&a->tax);
    tax_close(&a->tax); /* the servers' counters come at their end */
    if (rc == 0) {
        end = advise_look_take();
        rnic = read_counters(fd);
        if (!before || !start || !end || !rnic)
            rc = fl_error_set(err, -ENOMEM, "out of memory");
    }
    if (rc == 0) {
        a->cores_free = advise_cores_free(before, start);
        advise_see(start, end, a->tax.took, rnic, &a->seen);
    }
    free(rnic);
    advise_look_free(before);
    advise_look_free(start);
    advise_look_free(end);
    return rc;
}

static int advise(struct advise_args *a)
{
    struct advise *v = &a->advise;
    struct fl_error err = {0};
    int rc = find_urls(a, &err);

    if (rc == 0)
        rc = measure(v, &err);
    if (v->tax.stopped_by)
        return EXIT_SIGNALLED + v->tax.stopped_by;
    if (rc < 0)
        return cmd_fail(&err, rc);
    judge(v);
    if (a->json) {
        json_t *json = advise_json(v);

        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(json);
    } else {
        advise_show(v);
    }
    return EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct advise_args *a = calloc(1, sizeof(*a));
    struct cmd_args args;
    int id, status;

    if (!a)
        return EXIT_FAILED;
    tax_init(&a->advise.tax);
    a->advise.tax.ours_only = a->advise.tax.brief = true;
    a->advise.service_us = -1;
    cmd_args_init(&args, &cmd_advise, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP || !take_option(&args, id, a)) {
            free(a);
            return id == CMD_HELP ? EXIT_OK : EXIT_USAGE;
        }
    }
    if (a->advise.host && a->url)
        status = cmd_usage(&cmd_advise, "--peer %s and %s: each says what to measure to: choose one",
                           a->advise.host, a->url);
    else
        status = advise(a);
    free(a);
    return status;
}

const struct cmd cmd_advise = {
    .name = "advise",
    .summary = "RDMA or TCP for your device here, with the figures, and what would change it",
    .usage = "advise [SPEC] [URL | --peer HOST[:PORT]] [--budget-us N] [--json]",
    .details = "Measures as farlane tax does: the device by itself (SPEC, or a file that it makes) and the "
               "ways to it; with\n"
               "--peer or the URL of a target, the ways to the first namespace there. Looks at what was sent "
               "again, and at\n"
               "the CPUs. Two verdicts without a peer: within this host, and what can be said of others "
               "without a wire.\n"
               "A difference counts if it is more than 10 % of what an application sees, and more than the "
               "rounds differ.\n"
               "Only reads; what it made is removed. Less than a minute.\n"
               "\n"
               "Exit status: 0 it was measured, whichever the verdict, 1 nothing could be measured, "
               "2 wrong usage,\n"
               "3 the peer cannot be reached, 4 it does not let this host in, 5 it serves nothing, or there "
               "is no such device.\n"
               "\n"
               "Examples:\n"
               "  farlane advise file:/dev/nvme0n1\n"
               "  farlane advise --budget-us 20 --folder /mnt/nvme\n"
               "  farlane advise --peer 10.0.0.1 --json | jq -r '.advice[].verdict'\n",
    .options = options,
    .run = run,
};
