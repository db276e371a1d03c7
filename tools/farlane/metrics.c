/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics in Prometheus' text format 0.0.4. docs/control.md lists the names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "control.h"

/* One metric family is written at a time, so the target is visited once a family. */
struct family {
    FILE *f;
    const char *name;
    uint32_t which;
};

static void begin(struct family *fam, const char *name, const char *type, const char *help)
{
    fam->name = name;
    fprintf(fam->f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: backslash, quote and newline are escaped. */
static void label(FILE *f, const char *name, const char *value)
{
    fprintf(f, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            fputc('\\', f);
        if (*value == '\n')
            fputs("\\n", f);
        else
            fputc(*value, f);
    }
    fputc('"', f);
}

/* ---- namespaces ---- */

static const struct {
    const char *name, *type, *help;
} namespace_families[] = {
    {"farlane_namespace_size_bytes", "gauge", "Size of a namespace."},
    {"farlane_namespace_reads_total", "counter", "Read commands completed."},
    {"farlane_namespace_writes_total", "counter", "Write commands completed."},
    {"farlane_namespace_other_commands_total", "counter", "Other commands completed."},
    {"farlane_namespace_read_bytes_total", "counter", "Bytes read by hosts."},
    {"farlane_namespace_written_bytes_total", "counter", "Bytes written by hosts."},
    {"farlane_namespace_errors_total", "counter", "Commands that ended with an error."},
    {"farlane_namespace_zero_copy_bytes_total", "counter", "Payload that the target did not copy."},
    {"farlane_namespace_copied_bytes_total", "counter", "Payload that the target copied."},
};

static void write_namespace(void *arg, const struct fl_namespace_info *info)
{
    const struct fl_io_counters *io = &info->io;
    const uint64_t values[] = {info->len,     io->nr_reads,  io->nr_writes,     io->nr_other,  io->read_len,
                               io->write_len, io->nr_errors, io->zero_copy_len, io->copied_len};
    struct family *fam = arg;

    fprintf(fam->f, "%s{", fam->name);
    label(fam->f, "subsystem", info->ss_nqn);
    fprintf(fam->f, ",nsid=\"%u\",", info->nsid);
    label(fam->f, "backend", info->backend);
    fprintf(fam->f, "} %llu\n", (unsigned long long)values[fam->which]);
}

static void write_namespaces(struct server *s, struct family *fam)
{
    const struct fl_target_visitor visitor = {.ns = write_namespace};

    for (fam->which = 0; fam->which < sizeof(namespace_families) / sizeof(namespace_families[0]);
         fam->which++) {
        begin(fam, namespace_families[fam->which].name, namespace_families[fam->which].type,
              namespace_families[fam->which].help);
        fl_target_visit(s->target, &visitor, fam);
    }
}

/* ---- loops ---- */

static const struct {
    const char *name, *type, *help;
} loop_families[] = {
    {"farlane_loop_busy_seconds_total", "counter", "CPU time with work, without polling."},
    {"farlane_loop_connections", "gauge", "Connections that live on a loop."},
    {"farlane_loop_buffer_bytes", "gauge", "Size of a loop's buffer pool."},
    {"farlane_loop_buffer_used_bytes", "gauge", "Buffers in use."},
    {"farlane_loop_buffer_peak_bytes", "gauge", "Most buffers that were in use."},
    {"farlane_loop_buffer_waits_total", "counter", "Commands that had to wait for a buffer."},
};

static void write_loop(void *arg, const struct fl_loop_info *info)
{
    const double values[] = {(double)info->busy_ns / 1e9,  info->nr_connections,
                             (double)info->pool.total_len, (double)info->pool.used_len,
                             (double)info->pool.peak_len,  (double)info->pool.nr_waits};
    struct family *fam = arg;

    fprintf(fam->f, "%s{loop=\"%u\"} %.15g\n", fam->name, info->index, values[fam->which]);
}

static void write_loops(struct server *s, struct family *fam)
{
    const struct fl_target_visitor visitor = {.loop = write_loop};

    for (fam->which = 0; fam->which < sizeof(loop_families) / sizeof(loop_families[0]); fam->which++) {
        begin(fam, loop_families[fam->which].name, loop_families[fam->which].type,
              loop_families[fam->which].help);
        fl_target_visit(s->target, &visitor, fam);
    }
}

/* ---- listeners and controllers ---- */

static void write_listener(void *arg, const struct fl_listener_info *info)
{
    struct family *fam = arg;

    fprintf(fam->f, "%s{", fam->name);
    label(fam->f, "url", info->url);
    fprintf(fam->f, "} %u\n", fam->which ? info->nr_connections : !strcmp(info->state, "listening"));
}

struct controller_counts {
    struct server *s;
    struct family *fam;
    const char *nqn;
    uint32_t n;
};

static void count_controller(void *arg, const struct fl_controller_info *info)
{
    struct controller_counts *c = arg;

    c->n += !strcmp(c->nqn, info->ss_nqn);
}

static void write_subsystem(void *arg, const struct fl_subsystem_info *info)
{
    const struct fl_target_visitor visitor = {.controller = count_controller};
    struct controller_counts *c = arg;

    c->nqn = info->nqn;
    c->n = 0;
    fl_target_visit(c->s->target, &visitor, c);
    fprintf(c->fam->f, "%s{", c->fam->name);
    label(c->fam->f, "subsystem", info->nqn);
    fprintf(c->fam->f, "} %u\n", c->n);
}

static void add_digest_errors(void *arg, const struct fl_queue_info *info)
{
    *(uint64_t *)arg += info->conn.nr_digest_errors;
}

static void write_connections(struct server *s, struct family *fam)
{
    const struct fl_target_visitor listeners = {.listener = write_listener};
    const struct fl_target_visitor subsystems = {.subsystem = write_subsystem};
    const struct fl_target_visitor queues = {.queue = add_digest_errors};
    struct controller_counts counts = {.s = s, .fam = fam};
    uint64_t digest_errors = 0;

    begin(fam, "farlane_listener_up", "gauge", "1 while a listener listens.");
    fam->which = 0;
    fl_target_visit(s->target, &listeners, fam);
    begin(fam, "farlane_listener_connections", "gauge", "Connections that came through a listener.");
    fam->which = 1;
    fl_target_visit(s->target, &listeners, fam);
    begin(fam, "farlane_controllers", "gauge", "Connected controllers of a subsystem.");
    fl_target_visit(s->target, &subsystems, &counts);
    fl_target_visit(s->target, &queues, &digest_errors);
    begin(fam, "farlane_connection_digest_errors", "gauge",
          "Data digest errors seen on the connections that there are now.");
    fprintf(fam->f, "%s %llu\n", fam->name, (unsigned long long)digest_errors);
}

/* ---- the process ---- */

static uint64_t resident_len(void)
{
    unsigned long long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_process(struct server *s, struct family *fam)
{
    struct timespec cpu;

    begin(fam, "farlane_build_info", "gauge", "Version of the program.");
    fprintf(fam->f, "%s{version=\"%s\"} 1\n", fam->name, FARLANE_VERSION);
    begin(fam, "farlane_uptime_seconds", "gauge", "Time since the start.");
    fprintf(fam->f, "%s %.3f\n", fam->name, (double)(fl_now_ns() - s->start_ns) / 1e9);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    begin(fam, "process_cpu_seconds_total", "counter", "CPU time of the process, polling included.");
    fprintf(fam->f, "%s %.6f\n", fam->name, (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    begin(fam, "process_resident_memory_bytes", "gauge", "Resident memory.");
    fprintf(fam->f, "%s %llu\n", fam->name, (unsigned long long)resident_len());
}

char *metrics_text(struct server *s, size_t *len)
{
    char *text = NULL;
    struct family fam = {.f = open_memstream(&text, len)};

    if (!fam.f)
        abort();
    write_process(s, &fam);
    write_connections(s, &fam);
    write_namespaces(s, &fam);
    write_loops(s, &fam);
    fclose(fam.f);
    return text;
}
