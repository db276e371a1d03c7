/* SPDX-License-Identifier: Apache-2.0 */
/*
 * farlane doctor --peer: every path to the peer, proved by packets and transfers, and both ends compared. A
 * path is the address that the user named, and each pair of addresses of one subnet beside it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "peer_prove.h"

#define PATHS_MAX 16
#define SMALL_MSS \
    536 /* passes everywhere, so that both ends can talk about a path that swallows large packets */

struct asker {
    struct doctor *d;
    const char *host;
    json_t *here, *there; /* facts */
    struct peer_path paths[PATHS_MAX];
    int nr_paths;
    double seconds; /* of the transfers */
};

static void addr_of(const struct fl_addr *a, struct in6_addr *ip)
{
    memset(ip, 0, sizeof(*ip));
    if (a->ss.ss_family == AF_INET) {
        ip->s6_addr[10] = ip->s6_addr[11] = 0xff;
        memcpy(ip->s6_addr + 12, &((const struct sockaddr_in *)&a->ss)->sin_addr, 4);
    } else {
        *ip = ((const struct sockaddr_in6 *)&a->ss)->sin6_addr;
    }
}

static bool addr_from(struct fl_addr *a, const struct in6_addr *ip, uint16_t port)
{
    char text[INET6_ADDRSTRLEN];

    if (IN6_IS_ADDR_V4MAPPED(ip))
        inet_ntop(AF_INET, ip->s6_addr + 12, text, sizeof(text));
    else
        inet_ntop(AF_INET6, ip, text, sizeof(text));
    return fl_addr_parse_ip(text, port, a, NULL) == 0;
}

static int open_path(struct peer_path *path, bool careful)
{
    const int mss = SMALL_MSS;
    int fd = socket(path->to.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;
    socklen_t len = sizeof(path->from.ss);

    if (fd < 0)
        return -errno;
    if (careful)
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
    if (path->from.len && bind(fd, (const struct sockaddr *)&path->from.ss, path->from.len) < 0)
        r = -errno;
    if (!r)
        r = peer_connect(fd, &path->to, PEER_PATIENCE_MS);
    if (!r && getsockname(fd, (struct sockaddr *)&path->from.ss, &len) < 0)
        r = -errno;
    if (r < 0) {
        close(fd);
        return r;
    }
    path->from.len = len;
    fl_addr_set_port(&path->from, 0);
    return fd;
}

/* ---- what the peer's doctor finds there ---- */

static void take_finding(struct asker *a, const json_t *f)
{
    const char *id = json_string_value(json_object_get(f, "check")),
               *level = json_string_value(json_object_get(f, "level"));
    const char *subject = json_string_value(json_object_get(f, "subject"));
    const char *evidence = json_string_value(json_object_get(f, "evidence"));
    char label[SYS_TEXT_LEN], *remedy;
    struct finding *mine;
    int at = LEVEL_BAD;

    while (level && at <= LEVEL_SLOW && strcmp(level, level_name((enum level)at)))
        at++;
    if (!id || !level || !subject || !evidence || at > LEVEL_SLOW || !doctor_knows(id))
        return;
    snprintf(label, sizeof(label), "on %.100s: %.100s", a->host, subject);
    report_as(a->d, id, (enum level)at, label, "", "%.1000s", evidence);
    mine = a->d->nr_findings ? &a->d->findings[a->d->nr_findings - 1] : NULL;
    if (!mine || a->d->broken)
        return;
    /* To be run there, not here: its words are the peer's, so it is no command of our script */
    const char *theirs = json_string_value(json_object_get(f, "remedy"));
    if (asprintf(&remedy, "# on %s: %.1000s", a->host, theirs ? theirs : "") < 0)
        return;
    free(mine->remedy);
    mine->remedy = remedy;
}

static void take_findings(struct asker *a, struct peer_line *line)
{
    struct fl_error err = {0};
    json_t *answer, *f;
    size_t i;
    int r = peer_question(line,
                          json_pack("{s:s, s:I, s:f}", "ask", "findings", "plan", (json_int_t)a->d->plan_len,
                                    "seconds", a->seconds),
                          &answer, 8 * PEER_PATIENCE_MS, &err);

    if (r < 0) {
        report_as(a->d, "peer-reach", LEVEL_UNSEEN, a->host, NULL, "what its doctor finds there: %s",
                  err.text);
        return;
    }
    json_array_foreach(json_object_get(answer, "findings"), i, f) take_finding(a, f);
    json_decref(answer);
}

/* ---- paths ---- */

static bool shares_subnet(const struct in6_addr *a, const struct in6_addr *b, json_int_t len)
{
    for (json_int_t bit = 0; bit < len && bit < 128; bit++)
        if ((a->s6_addr[bit / 8] ^ b->s6_addr[bit / 8]) & 0x80 >> bit % 8)
            return false;
    return len > 0;
}

static void add_path(struct asker *a, const struct in6_addr *from, const struct in6_addr *to, uint16_t port)
{
    struct peer_path *p = &a->paths[a->nr_paths];
    struct in6_addr old;

    for (int i = 0; i < a->nr_paths; i++) {
        addr_of(&a->paths[i].to, &old);
        if (IN6_ARE_ADDR_EQUAL(&old, to))
            return;
    }
    if (a->nr_paths < PATHS_MAX && addr_from(&p->from, from, 0) && addr_from(&p->to, to, port))
        a->nr_paths++;
}

/* Pairs of addresses in one subnet, on interfaces that carry data. Link-local ones are in one with everybody.
 */
static void find_paths(struct asker *a, uint16_t port)
{
    json_t *x, *y, *p, *q;
    size_t i, j, m, n;

    json_array_foreach(json_object_get(a->here, "interfaces"), i, x)
    {
        if (json_is_true(json_object_get(x, "loopback")) || json_is_true(json_object_get(x, "bridge")))
            continue;
        json_array_foreach(json_object_get(x, "addrs"), j, p)
        {
            json_array_foreach(json_object_get(a->there, "interfaces"), m, y)
            {
                json_array_foreach(json_object_get(y, "addrs"), n, q)
                {
                    struct in6_addr from, to;
                    const char *f = json_string_value(json_object_get(p, "addr")),
                               *t = json_string_value(json_object_get(q, "addr"));

                    if (!f || !t || inet_pton(AF_INET6, f, &from) != 1 || inet_pton(AF_INET6, t, &to) != 1 ||
                        IN6_IS_ADDR_LINKLOCAL(&from) || IN6_ARE_ADDR_EQUAL(&from, &to) ||
                        !shares_subnet(&from, &to, json_integer_value(json_object_get(p, "len"))))
                        continue;
                    add_path(a, &from, &to, port);
                }
            }
        }
    }
}

/* What needs no large packet. False: large ones do not pass. */
static bool look_carefully(struct asker *a, struct peer_line *line, const struct peer_path *path,
                           const char *label)
{
    struct in6_addr from, to;
    int64_t mtu_here, mtu_there;
    char here_if[SYS_NAME_LEN], there_if[SYS_NAME_LEN];
    bool passes;

    addr_of(&path->from, &from);
    addr_of(&path->to, &to);
    snprintf(here_if, sizeof(here_if), "%.63s", facts_interface_of(a->here, &from, &mtu_here));
    snprintf(there_if, sizeof(there_if), "%.63s", facts_interface_of(a->there, &to, &mtu_there));
    facts_compare(a->d, a->here, a->there, here_if, there_if);
    if (mtu_here <= 0)
        mtu_here = 1500;
    passes = prove_mtu(a->d, line, path, label, mtu_there > 0 && mtu_there < mtu_here ? mtu_there : mtu_here);
    prove_roce_port(a->d, line, path, label);
    prove_nvme_port(a->d, line, path, label);
    return passes;
}

static bool has_rdma(const json_t *facts)
{
    return json_array_size(json_object_get(facts, "rdma"));
}

/* The transfers, on a connection with segments of full size */
static void transfer(struct asker *a, struct peer_path *path, const char *label, bool first)
{
    uint64_t start = fl_now_ns();
    struct peer_line line;
    int fd = open_path(path, false);

    if (fd < 0) {
        report_as(a->d, "peer-tcp", LEVEL_BAD, label, NULL, "a second connection: %s", strerror(-fd));
        return;
    }
    peer_line_init(&line, fd);
    prove_tcp(a->d, &line, label);
    prove_rdma(a->d, &line, path, label, false);
    if (has_rdma(a->here) && has_rdma(a->there))
        prove_rdma(a->d, &line, path, label, true);
    a->seconds += (double)(fl_now_ns() - start) / FL_NS_PER_S;
    if (first)
        take_findings(a, &line);
    peer_line_fini(&line);
    close(fd);
}

/* One path; the first brings the facts, and the other paths. */
static void visit(struct asker *a, int at)
{
    struct peer_path *path = &a->paths[at];
    char from[FL_ADDR_IP_LEN], to[FL_ADDR_IP_LEN], label[2 * FL_ADDR_IP_LEN + 4], port[8];
    struct fl_error err = {0};
    struct peer_line line;
    int fd = open_path(path, true), r;
    bool passes = false;
    json_t *facts;

    fl_addr_format_ip(&path->to, to);
    snprintf(port, sizeof(port), "%u", fl_addr_port(&path->to));
    if (fd < 0) {
        report_as(a->d, "peer-reach", at ? LEVEL_HINT : LEVEL_BAD, at ? to : a->host, port, "%s port %s: %s",
                  to, port, strerror(-fd));
        return;
    }
    peer_line_init(&line, fd);
    snprintf(label, sizeof(label), "%s - %s", fl_addr_format_ip(&path->from, from), to);
    r = peer_question(&line, json_pack("{s:s}", "ask", "hello"), &facts, PEER_PATIENCE_MS, &err);
    if (!r && json_integer_value(json_object_get(facts, "version")) != PEER_VERSION) {
        r = fl_error_set(&err, -EPROTO, "what answers is no doctor of this version");
        json_decref(facts);
    }
    if (r < 0) {
        report_as(a->d, "peer-reach", LEVEL_BAD, a->host, port, "%s port %s: %s", to, port, err.text);
    } else {
        const char *version = json_string_value(json_object_get(facts, "farlane"));

        if (!at) {
            a->there = json_incref(facts);
            report_as(a->d, "peer-reach", LEVEL_OK, a->host, NULL, "its doctor answers at %s", to);
            report_as(a->d, "peer-version",
                      version && !strcmp(version, FARLANE_VERSION) ? LEVEL_OK : LEVEL_HINT, a->host, NULL,
                      "farlane %s here, %.32s there", FARLANE_VERSION, version ? version : "?");
            if (!fl_addr_is_loopback(&path->to))
                find_paths(a, fl_addr_port(&path->to));
        }
        json_decref(facts);
        passes = look_carefully(a, &line, path, label);
        if (!passes)
            report_as(a->d, "peer-tcp", LEVEL_UNSEEN, label, NULL,
                      "not tried, nor RDMA: packets of full size do not pass");
        if (!passes && !at)
            take_findings(a, &line);
    }
    peer_line_fini(&line);
    close(fd); /* the peer serves one connection at a time */
    if (passes)
        transfer(a, path, label, !at);
}

bool peer_resolve(const char *host, struct fl_addr *to, struct in6_addr *ip, struct fl_error *err)
{
    if (fl_addr_resolve(host, PEER_PORT, to, 1, err) < 1)
        return false;
    addr_of(to, ip);
    return true;
}

void peer_ask(struct doctor *d, const char *host)
{
    struct asker a = {.d = d, .host = host, .here = facts_json(d->sys), .nr_paths = 1};
    struct in6_addr ip;
    struct fl_error err = {0};

    if (!a.here) {
        d->broken = true;
    } else if (!peer_resolve(host, &a.paths[0].to, &ip, &err)) {
        report_as(d, "peer-reach", LEVEL_BAD, host, "4419", "%s", err.text);
    } else {
        for (int i = 0; i < a.nr_paths; i++)
            visit(&a, i);
    }
    d->load_s = a.seconds;
    json_decref(a.here);
    json_decref(a.there);
}
