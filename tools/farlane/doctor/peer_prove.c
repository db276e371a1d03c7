/* SPDX-License-Identifier: Apache-2.0 */
/* What is proved on one path, each part a question to the peer's doctor and packets or a transfer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/util.h"
#include "peer_prove.h"
#include "port.h"
#include "rnic/hub/unix.h"

int peer_connect(int fd, const struct fl_addr *to, int ms)
{
    const struct timeval patience = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* connect() too */
    if (!connect(fd, (const struct sockaddr *)&to->ss, to->len))
        return 0;
    return errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT : -errno;
}

int peer_question(struct peer_line *line, json_t *ask, json_t **answer, int ms, struct fl_error *err)
{
    json_int_t code;
    int r = peer_line_put(line, ask);

    json_decref(ask);
    if (!r)
        r = peer_line_get(line, answer, ms);
    if (r < 0)
        return fl_error_set(err, r, "the peer's doctor did not answer: %s", strerror(-r));
    code = json_integer_value(json_object_get(*answer, "error"));
    if (code) {
        const char *text = json_string_value(json_object_get(*answer, "text"));

        r = fl_error_set(err, code < 0 && code > -4096 ? (int)code : -EPROTO, "the peer says: %.300s",
                         text ? text : "error");
        json_decref(*answer);
        *answer = NULL;
    }
    return r;
}

/* Opens the two sockets of a probe, ours and the peer's at port `at` (0: any). */
static int open_probe(struct peer_line *line, const struct peer_path *path, int at, struct fl_error *err)
{
    struct fl_addr from = path->from, to = path->to;
    socklen_t len = sizeof(from.ss);
    json_t *answer;
    int fd = probe_socket(&from, NULL), r;

    if (fd < 0 || getsockname(fd, (struct sockaddr *)&from.ss, &len) < 0)
        return fl_error_set(err, fd < 0 ? fd : -errno, "no socket: %s", strerror(fd < 0 ? -fd : errno));
    r = peer_question(line,
                      json_pack("{s:s, s:i, s:i}", "ask", "probe", "port", fl_addr_port(&from), "at", at),
                      &answer, PEER_PATIENCE_MS, err);
    if (!r) {
        fl_addr_set_port(&to, (uint16_t)json_integer_value(json_object_get(answer, "port")));
        json_decref(answer);
        if (connect(fd, (const struct sockaddr *)&to.ss, to.len) < 0)
            r = fl_error_set(err, -errno, "no socket: %s", strerror(errno));
    }
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

bool prove_mtu(struct doctor *d, struct peer_line *line, const struct peer_path *path, const char *label,
               int64_t mtu)
{
    struct fl_error err = {0};
    struct probe_result got = {0};
    char most[16];
    int fd = open_probe(line, path, 0, &err), want = mtu > 65535 ? 65535 : (int)mtu, least;

    if (fd < 0) {
        report_as(d, "peer-mtu", LEVEL_UNSEEN, label, NULL, "%s", err.text);
        return true;
    }
    probe_path(fd, path->to.ss.ss_family == AF_INET6, want, &got);
    close(fd);
    least = FL_MIN(got.there, got.back);
    snprintf(most, sizeof(most), "%d", least);
    report_as(d, "peer-mtu", least >= want ? LEVEL_OK : LEVEL_BAD, label, most,
              "%s of %d bytes with DF: there %s%d, back %s%d; RoCE may send %u bytes a packet",
              least >= want ? "packets" : "not all packets", want, got.there >= want ? "" : "only up to ",
              got.there, got.back >= want ? "" : "only up to ", got.back, roce_mtu(least));
    return least >= want;
}

void prove_roce_port(struct doctor *d, struct peer_line *line, const struct peer_path *path,
                     const char *label)
{
    struct fl_error err = {0};
    struct probe_result got = {0};
    uint16_t port;
    int fd;

    if (fl_hub_udp_port(&port, &err) < 0) {
        report_as(d, "peer-roce-port", LEVEL_UNSEEN, label, NULL, "%s", err.text);
        return;
    }
    fd = open_probe(line, path, port, &err);
    if (fd < 0) {
        report_as(d, "peer-roce-port", LEVEL_UNSEEN, label, NULL, "UDP %u: %s%s", port, err.text,
                  err.code == -EADDRINUSE ? "; an RNIC has it there, see peer-rdma-soft" : "");
        return;
    }
    probe_path(fd, path->to.ss.ss_family == AF_INET6, 0, &got);
    close(fd);
    report_as(d, "peer-roce-port", got.there && got.back ? LEVEL_OK : LEVEL_BAD, label, NULL,
              "UDP %u: datagrams %s", port,
              got.there && got.back ? "pass" : "or their answers do not arrive");
}

void prove_nvme_port(struct doctor *d, struct peer_line *line, const struct peer_path *path,
                     const char *label)
{
    struct fl_addr to = path->to;
    struct fl_error err = {0};
    json_t *answer;
    bool busy;
    int fd, r = peer_question(line, json_pack("{s:s, s:i}", "ask", "knock", "port", 4420), &answer,
                              PEER_PATIENCE_MS, &err);

    if (r < 0) {
        report_as(d, "peer-nvme-port", LEVEL_UNSEEN, label, NULL, "%s", err.text);
        return;
    }
    busy = json_is_true(json_object_get(answer, "busy"));
    json_decref(answer);
    fl_addr_set_port(&to, 4420);
    fd = socket(to.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    r = fd < 0 ? -errno : peer_connect(fd, &to, 2000);
    if (fd >= 0)
        close(fd);
    /* A refusal comes from the peer itself, or from a firewall that is polite */
    report_as(d, "peer-nvme-port", !r ? LEVEL_OK : LEVEL_BAD, label, NULL, "TCP 4420 (%s there): %s",
              busy ? "something listens" : "doctor listened", r ? strerror(-r) : "a connection was made");
}

void prove_tcp(struct doctor *d, struct peer_line *line, const char *label)
{
    struct bulk_result got = {0};
    int r = bulk_ask(line, &got);

    if (r < 0)
        report_as(d, "peer-tcp", LEVEL_BAD, label, NULL, "%s",
                  r == -EBADMSG ? "bytes arrived damaged: the CRCs differ" : strerror(-r));
    else
        /* A single one may be a probe of the tail that a late answer needed not */
        report_as(d, "peer-tcp",
                  got.retransmits > 4 && got.retransmits > got.segments / 1000 ? LEVEL_SLOW : LEVEL_OK, label,
                  NULL,
                  "%u MiB each way arrived whole: %.2f GB/s there, %.2f GB/s back; round trip %.3f ms, %u "
                  "of %u segments sent again",
                  PEER_BULK_LEN >> 20, got.there_gbps, got.back_gbps, got.rtt_us / 1000.0, got.retransmits,
                  got.segments);
}

void prove_rdma(struct doctor *d, struct peer_line *line, const struct peer_path *path, const char *label,
                bool hardware)
{
    const char *id = hardware ? "peer-rdma" : "peer-rdma-soft";
    struct rdma_result got = {0};
    struct fl_error err = {0};
    struct fl_addr to = path->to;
    json_t *answer;
    int r = peer_question(line, json_pack("{s:s, s:b}", "ask", "rdma", "hardware", hardware), &answer,
                          PEER_PATIENCE_MS, &err);

    if (r < 0) {
        report_as(d, id, hardware ? LEVEL_BAD : LEVEL_SLOW, label, NULL, "%s", err.text);
        return;
    }
    fl_addr_set_port(&to, (uint16_t)json_integer_value(json_object_get(answer, "port")));
    json_decref(answer);
    r = rdma_peer_ask(hardware, &path->from, &to, &got, &err);
    if (!peer_line_get(line, &answer, 4 * PEER_PATIENCE_MS)) { /* comes in any case */
        if (!r && json_integer_value(json_object_get(answer, "crc")) != (json_int_t)got.crc)
            r = fl_error_set(&err, -EBADMSG, "RDMA WRITE left other bytes than were sent");
        json_decref(answer);
    } else if (!r) {
        r = fl_error_set(&err, -ECONNRESET, "the peer did not say what arrived");
    }
    if (r < 0)
        report_as(d, id, LEVEL_BAD, label, NULL, "%s", err.text);
    else
        report_as(
            d, id, LEVEL_OK, label, NULL,
            "%s: WRITE %.2f GB/s, READ %.2f GB/s, 8 bytes in %.1f us, %u bytes a packet; all bytes compared",
            got.dev, got.write_gbps, got.read_gbps, got.latency_us, got.path_mtu);
}
