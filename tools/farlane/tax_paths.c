/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/url.h"
#include "base/util.h"
#include "bench.h"
#include "tax.h"

#define NQN        "nqn.2026-01.io.farlane:tax"
#define IQN        "iqn.2026-01.io.farlane:tax"
#define READY_MS   20000
#define CHUNK_LEN  (1u << 20)
#define SECTOR     4096
#define TGT_TRIES  100
#define NO_SHM     "FARLANE_SHM=0"
#define IS_FILE(s) (!strncmp((s), "file:", 5))

/* ---- the device ---- */

static int make_file(struct tax *tax, struct fl_error *err)
{
    void *chunk = malloc(CHUNK_LEN);
    uint64_t at;
    struct statvfs fs;
    char path[300];
    int fd, rc = 0;

    if (statvfs(tax->work, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < tax->size) {
        free(chunk);
        return fl_error_set(err, -ENOSPC,
                            "%s has no room for a file of %" PRIu64
                            " MiB to measure; --folder says where else, "
                            "--size how long",
                            tax->folder, tax->size >> 20);
    }
    snprintf(path, sizeof(path), "%s/disk", tax->work);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (at = 0; chunk && fd >= 0 && rc == 0 && at < tax->size; at += CHUNK_LEN) {
        const size_t len = FL_MIN(tax->size - at, (uint64_t)CHUNK_LEN);
        ssize_t n;

        bench_pattern_fill(chunk, at, CHUNK_LEN, SECTOR, 1);
        n = pwrite(fd, chunk, len, (off_t)at);
        if (n != (ssize_t)len)
            rc = n < 0 ? -errno : -ENOSPC;
    }
    if (!chunk || fd < 0 || (rc == 0 && fsync(fd) < 0))
        rc = chunk ? -errno : -ENOMEM;
    if (fd >= 0)
        close(fd);
    free(chunk);
    if (rc < 0)
        return fl_error_set(err, rc,
                            "cannot make a file of %" PRIu64 " MiB to measure in %s: %s; --folder says where "
                            "else, --size how long",
                            tax->size >> 20, tax->folder, strerror(-rc));
    snprintf(tax->spec, sizeof(tax->spec), "file:%s,ro=1,lock=0", path);
    return 0;
}

/* A file is read beside whoever has it open. */
static int take_spec(struct tax *tax, const char *spec, struct fl_error *err)
{
    const bool plain = IS_FILE(spec) && !strchr(spec, ',');

    if (tax->spec[0])
        return fl_error_set(
            err, -EINVAL, "%s and %s: one local device at a time, which is what the others are held against",
            tax->spec, spec);
    if ((size_t)snprintf(tax->spec, sizeof(tax->spec), "%s%s", spec, plain ? ",ro=1,lock=0" : "") >=
        sizeof(tax->spec))
        return fl_error_set(err, -ENAMETOOLONG, "%.40s…: too long", spec);
    return 0;
}

/* What is told of the size is what is read: a device may be shorter than was asked for. */
static int look_at_device(struct tax *tax, struct fl_error *err)
{
    struct fl_device_info info;
    struct fl_device *dev;
    int rc = fl_device_open(tax->spec, NULL, &dev, err);

    if (rc < 0)
        return rc;
    fl_device_info(dev, &info);
    fl_device_close(dev);
    snprintf(tax->how, sizeof(tax->how), "%s", info.path_why);
    tax->size = FL_MIN(tax->size, info.len);
    return 0;
}

/* "file:PATH,…" without the rest. */
static void file_of(const struct tax *tax, char *path, size_t size)
{
    snprintf(path, size, "%.*s", (int)strcspn(tax->spec + 5, ","), tax->spec + 5);
}

/* ---- paths ---- */

static struct tax_path *add_path(struct tax *tax, const char *key, const char *name)
{
    struct tax_path *p = &tax->paths[tax->nr_paths];

    if (tax->nr_paths + 1 < TAX_MAX_PATHS)
        tax->nr_paths++;
    *p = (struct tax_path){.key = key, .copies = -1};
    snprintf(p->name, sizeof(p->name), "%s", name);
    return p;
}

/* The text may stand in another path. */
static void FL_PRINTF(2, 3) leave_out(struct tax_path *p, const char *fmt, ...)
{
    char text[sizeof(p->why_not)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memcpy(p->why_not, text, sizeof(text));
}

/* ---- farlane's own servers ---- */

/* url: of the namespace as it can be reached; "": p->why_not says why not. */
static pid_t serve(struct tax *tax, struct tax_path *p, const char *listen)
{
    char control[300];
    const char *argv[] = {tax->exe,  "serve", "--json", "--control", control, "--ns",
                          tax->spec, "--nqn", NQN,      "--listen",  listen,  NULL};
    const char *env[] = {p->env, NULL}, *url;
    struct child *c = &tax->servers[tax->nr_servers];
    struct fl_error err = {0};
    json_t *ready;
    char *line;

    snprintf(control, sizeof(control), "%s/control%u", tax->work, tax->nr_servers);
    if (child_start(c, argv, p->env ? env : NULL, &err) < 0) {
        leave_out(p, "%.200s", err.text);
        return 0;
    }
    tax->nr_servers++;
    line = child_line(c, READY_MS);
    ready = line ? json_loads(line, 0, NULL) : NULL;
    url = json_string_value(json_object_get(json_array_get(json_object_get(ready, "namespaces"), 0), "url"));
    if (url) {
        snprintf(p->url, sizeof(p->url), "%s", url);
    } else {
        char why[200];

        leave_out(p, "farlane serve did not come up: %s", child_complaint(c, why, sizeof(why)));
    }
    json_decref(ready);
    free(line);
    return url ? c->pid : 0;
}

/* The name says what is so, not what was hoped for: where io_uring is forbidden, files are read by threads.
 */
static const char *local_name(const struct tax *tax)
{
    const bool direct = !strncmp(tax->how, "direct", 6), uring = strstr(tax->how, ", io_uring") != NULL;

    if (!IS_FILE(tax->spec))
        return "local";
    if (uring)
        return direct ? "local, io_uring" : "local, io_uring, page cache";
    return direct ? "local, threads: no io_uring" : "local, threads, page cache";
}

/* Through the page cache a byte is copied once more. */
static bool is_cached(const struct tax *tax)
{
    return IS_FILE(tax->spec) && strncmp(tax->how, "direct", 6) != 0;
}

static bool has_remote(const struct tax *tax)
{
    uint32_t i;

    for (i = 0; i < tax->nr_urls; i++)
        if (!bench_is_local(tax->urls[i]))
            return true;
    return false;
}

/* Out of the device and in again. What copies there, a driver of the kernel's perhaps, is not known. */
static void add_hardware(struct tax *tax)
{
    char listen[128], device[FL_RDMA_NAME_LEN], name[64];
    struct fl_error err = {0};
    const int rc = tax_hardware(listen, sizeof(listen), device, &err);
    struct tax_path *p;

    if (rc == 0)
        return;
    snprintf(name, sizeof(name), "NVMe/RDMA, %.40s", device);
    p = add_path(tax, "rdma-hardware", name);
    p->wants = "hardware";
    if (rc < 0)
        leave_out(p, "%.200s", err.text);
    else
        p->target = serve(tax, p, listen);
}

static void add_own(struct tax *tax)
{
    struct tax_path *p = add_path(tax, "local", local_name(tax)), *tcp;
    const double cached = is_cached(tax) ? 1 : 0;

    p->local = true;
    snprintf(p->url, sizeof(p->url), "%s", tax->spec);
    p->copies = IS_FILE(tax->spec) ? cached : 1;
    if (tax->brief && has_remote(tax))
        return;

    add_hardware(tax);

    p = add_path(tax, "rdma-shm", "NVMe/RDMA, shared memory");
    p->wants = "shm";
    p->copies = cached + 1;
    p->target = serve(tax, p, "rdma://127.0.0.1:0");

    p = add_path(tax, "rdma-udp", "NVMe/RDMA, RoCE v2 over UDP");
    p->env = NO_SHM;
    p->wants = "udp";
    p->copies = cached + 3; /* into the socket, out of the socket, to the place that the packet names */
    p->target = serve(tax, p, "rdma://127.0.0.1:0");

    tcp = add_path(tax, "tcp", "NVMe/TCP");
    tcp->copies = cached + 2; /* into the socket, and out of it into place */
    tcp->target = serve(tax, tcp, "tcp://127.0.0.1:0");

    if (tax->brief)
        return;
    p = add_path(tax, "tcp-digest", "NVMe/TCP, both digests");
    p->copies = tcp->copies;
    p->target = tcp->target;
    if (tcp->target)
        stpcpy(stpncpy(p->url, tcp->url, TAX_TEXT - 32), "&hdgst=1&ddgst=1");
    else
        leave_out(p, "%.200s", tcp->why_not);

    p = add_path(tax, "tcp-tls", "NVMe/TCP, TLS");
    leave_out(p, "farlane has no TLS yet");
}

/* ---- others' ---- */

static int free_port(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
        port = ntohs(sa.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

static bool answers(int port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd, i;
    bool yes = false;

    for (i = 0; i < 100 && !yes; i++) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        yes = fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0;
        if (fd >= 0)
            close(fd);
        if (!yes)
            usleep(20000);
    }
    return yes;
}

static struct child *start_server(struct tax *tax, struct tax_path *p, const char *const *argv, bool deaf,
                                  int port)
{
    struct child *c = &tax->servers[tax->nr_servers];
    struct fl_error err = {0};
    char why[200];

    if ((deaf ? child_start_deaf(c, argv, &err) : child_start(c, argv, NULL, &err)) < 0) {
        leave_out(p, "%.200s", err.text);
        return NULL;
    }
    tax->nr_servers++;
    p->target = c->pid;
    if (answers(port))
        return c;
    leave_out(p, "%s did not come up: %s", argv[0], child_complaint(c, why, sizeof(why)));
    return NULL;
}

/* The same device by the same kernel interface, seen by a program that is not ours. */
static void add_fio(struct tax *tax)
{
    struct tax_path *p = add_path(tax, "fio-local", "local, io_uring, by fio");

    p->tool = TAX_FIO;
    p->local = true;
    p->copies = 0;
    file_of(tax, p->url, sizeof(p->url));
    if (!child_exists("fio"))
        leave_out(p, "fio is not installed");
}

/* Its CPU time is that of kernel threads: not known. */
static void add_nvmet(struct tax *tax)
{
    struct tax_path *p = add_path(tax, "nvmet", "NVMe/TCP, kernel nvmet");
    const char *missing = tax_nvmet_missing(tax_nvmet_configfs());
    struct child *c = &tax->servers[tax->nr_servers];
    char file[TAX_TEXT], real[PATH_MAX], nqn[64], why[200], *line;
    const int port = free_port();
    struct fl_error err = {0};

    file_of(tax, file, sizeof(file));
    snprintf(nqn, sizeof(nqn), NQN "-%d", (int)getpid());
    snprintf(p->url, sizeof(p->url), "nvme+tcp://127.0.0.1:%d/%s?ns=1", port, nqn);
    if (missing || !realpath(file, real)) {
        leave_out(p, "%s", missing ? missing : strerror(errno));
        return;
    }
    if (tax_nvmet_start(c, nqn, real, port, &err) < 0) {
        leave_out(p, "%.200s", err.text);
        return;
    }
    tax->nr_servers++;
    line = child_line(c, READY_MS);
    if (!line || !tax_nvmet_listens(port))
        leave_out(p, "the kernel did not serve it: %s", child_complaint(c, why, sizeof(why)));
    free(line);
}

static void add_nbd(struct tax *tax)
{
    struct tax_path *p = add_path(tax, "nbd", "NBD, nbdkit and fio");
    char file[TAX_TEXT], port_text[16];
    const char *argv[] = {"nbdkit",  "--foreground", "--readonly", "-i",         "127.0.0.1", "-p",
                          port_text, "file",         file,         "cache=none", NULL};
    const int port = free_port();

    p->tool = TAX_FIO;
    file_of(tax, file, sizeof(file));
    snprintf(port_text, sizeof(port_text), "%d", port);
    snprintf(p->url, sizeof(p->url), "nbd://127.0.0.1:%d", port);
    if (!child_exists("nbdkit") || !child_exists("fio"))
        leave_out(p, "nbdkit and fio are not both installed");
    else
        start_server(tax, p, argv, false, port);
}

static bool tgtadm(const char *instance, const char *const *more, struct fl_error *err)
{
    const char *argv[24] = {"tgtadm", "-C", instance, "--lld", "iscsi"};
    uint32_t nr = 5, i;
    char *out;

    for (i = 0; more[i] && nr < FL_ARRAY_LEN(argv) - 1; i++)
        argv[nr++] = more[i];
    out = child_run(argv, NULL, READY_MS, err);
    free(out);
    return out != NULL;
}

static void add_iscsi(struct tax *tax)
{
    struct tax_path *p = add_path(tax, "iscsi", "iSCSI, tgt and libiscsi");
    char file[TAX_TEXT], portal[64], instance[16];
    const int port = free_port();
    const char *daemon[] = {"tgtd", "-f", "-C", instance, "--iscsi", portal, NULL};
    const char *show[] = {"--mode", "target", "--op", "show", NULL};
    const char *target[] = {"--mode", "target", "--op", "new", "--tid", "1", "-T", IQN, NULL};
    const char *lun[] = {"--mode",   "logicalunit", "--op",       "new",    "--tid", "1",  "--lun", "1",
                         "--bstype", "rdwr",        "--bsoflags", "direct", "-b",    file, NULL};
    const char *bind[] = {"--mode", "target", "--op", "bind", "--tid", "1", "-I", "ALL", NULL};
    struct fl_error err = {0};
    int i;

    p->tool = TAX_ISCSI_PERF;
    file_of(tax, file, sizeof(file));
    snprintf(portal, sizeof(portal), "portal=127.0.0.1:%d", port);
    snprintf(instance, sizeof(instance), "%d", TAX_TGT_INSTANCE(getpid()));
    snprintf(p->url, sizeof(p->url), "iscsi://127.0.0.1:%d/" IQN "/1", port);
    if (!child_exists("tgtd") || !child_exists("iscsi-perf"))
        leave_out(p, "tgtd and iscsi-perf are not both installed");
    else if (geteuid())
        leave_out(p, "tgtd runs as root only");
    else if (start_server(tax, p, daemon, true, port)) {
        for (i = 0; i < TGT_TRIES && !tgtadm(instance, show, NULL); i++)
            usleep(20000);
        if (!tgtadm(instance, target, &err) || !tgtadm(instance, lun, &err) || !tgtadm(instance, bind, &err))
            leave_out(p, "%.200s", err.text);
    }
}

/* ---- */

static int add_url(struct tax *tax, const char *url, struct fl_error *err)
{
    struct fl_url parsed;
    struct tax_path *p;

    if (fl_url_parse(url, &parsed, err) < 0)
        return err->code;
    p = add_path(tax, "url", "");
    snprintf(p->name, sizeof(p->name), "%.63s", url);
    snprintf(p->url, sizeof(p->url), "%.1200s", url);
    p->target = bench_peer_find(url);
    return 0;
}

static int find_work_folder(struct tax *tax, struct fl_error *err)
{
    const ssize_t len = readlink("/proc/self/exe", tax->exe, sizeof(tax->exe) - 1);

    tax->exe[FL_MAX(len, 0)] = '\0';
    snprintf(tax->work, sizeof(tax->work), "%s/farlane-tax-XXXXXX", tax->folder);
    if (mkdtemp(tax->work)) {
        const int rc = tax_guard_start(tax, err);

        if (rc < 0)
            rmdir(tax->work);
        return rc;
    }
    return fl_error_set(err, -errno, "cannot make a folder in %s: %s; --folder says where else", tax->folder,
                        strerror(errno));
}

void tax_init(struct tax *tax)
{
    const char *tmp = getenv("TMPDIR");

    *tax = (struct tax){.seconds = 0.6,
                        .nr_rounds = 3,
                        .size = UINT64_C(256) << 20,
                        .folder = tmp && *tmp ? tmp : "/var/tmp"};
}

int tax_open(struct tax *tax, struct fl_error *err)
{
    uint32_t i;
    int rc = find_work_folder(tax, err);

    for (i = 0; i < tax->nr_urls && rc == 0; i++)
        if (bench_is_local(tax->urls[i]))
            rc = take_spec(tax, tax->urls[i], err);
    if (rc == 0 && !tax->nr_urls)
        rc = make_file(tax, err);
    if (rc == 0 && tax->spec[0])
        rc = look_at_device(tax, err);
    if (rc == 0 && tax->spec[0])
        add_own(tax);
    if (rc == 0 && IS_FILE(tax->spec) && !tax->ours_only) {
        add_nvmet(tax);
        add_fio(tax);
        add_nbd(tax);
        add_iscsi(tax);
    }
    for (i = 0; i < tax->nr_urls && rc == 0; i++)
        if (!bench_is_local(tax->urls[i]))
            rc = add_url(tax, tax->urls[i], err);
    return rc;
}

void tax_close(struct tax *tax)
{
    uint32_t i;

    for (i = 0; i < tax->nr_servers; i++)
        child_stop(&tax->servers[i]);
    tax->nr_servers = 0;
    for (i = 0; i < tax->nr_paths; i++) {
        json_decref(tax->paths[i].histogram);
        tax->paths[i].histogram = NULL;
    }
    tax_guard_end(tax);
}
