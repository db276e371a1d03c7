/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor under the software RNIC on UDP: what two processes of this machine can do with datagrams of RoCE
 * v2's sizes when they do nothing else. `exchange`: a request (BTH, RETH, ICRC) answered by bs bytes of data,
 * one at a time, both ends polling. `stream`: packets of bs bytes in bursts that the kernel cuts and joins
 * (GSO, GRO), the ICRC's CRC-32 computed over each at both ends; a credit after each window, so that nothing
 * is lost. One JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apart.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/histogram.h"
#include "base/util.h"

#define REQUEST_LEN 32 /* BTH 12, RETH 16, ICRC 4 */
#define ANSWER_LEN  20 /* BTH 12, AETH 4, ICRC 4; and data */
#define PACKET_LEN  16 /* BTH 12, ICRC 4; and data */
#define BURST_LEN   65000u
#define WINDOW_LEN  (256u << 10)
#define NR_WINDOWS  2 /* that may be on their way */

struct options {
    bool stream;
    size_t bs;
    double seconds;
    struct apart apart;
};

static void *make_buf(size_t len)
{
    void *buf = aligned_alloc(4096, fl_round_up(len, 4096));

    if (!buf)
        die("aligned_alloc");
    memset(buf, 1, len);
    return buf;
}

static int make_socket(const char *address)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), len = 8 << 20;

    if (inet_pton(AF_INET, address, &addr.sin_addr) != 1) {
        fprintf(stderr, "udp_floor: %s is no IPv4 address\n", address);
        exit(2);
    }

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die("bind");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof(len));
    return fd;
}

/* Tells the other end the name of ours, and connects to its. */
static void join(int fd, int in, int out)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof(addr);

    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0 ||
        write(out, &addr, sizeof(addr)) != sizeof(addr) || read(in, &addr, sizeof(addr)) != sizeof(addr) ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die("connect");
}

static size_t take(int fd, void *buf, size_t len)
{
    ssize_t n = recv(fd, buf, len, 0);

    if (n < 0 && errno != EAGAIN)
        die("recv");
    return n < 0 ? 0 : (size_t)n;
}

static void put(int fd, const void *buf, size_t len)
{
    while (send(fd, buf, len, 0) < 0)
        if (errno != EAGAIN && errno != ENOBUFS)
            die("send");
}

static void answer(int fd, size_t bs)
{
    uint8_t *buf = make_buf(bs + ANSWER_LEN), in[REQUEST_LEN];

    for (;;)
        if (take(fd, in, sizeof(in)))
            put(fd, buf, bs + ANSWER_LEN);
}

static void exchange(int fd, const struct options *o, struct fl_histogram *latency)
{
    uint8_t *buf = make_buf(o->bs + ANSWER_LEN), request[REQUEST_LEN] = {0};
    uint64_t start = fl_now_ns(), warm = start + 300000000, end = warm + (uint64_t)(o->seconds * 1e9),
             now = start;

    while (now < end) {
        uint64_t asked = now;

        put(fd, request, sizeof(request));
        while (!take(fd, buf, o->bs + ANSWER_LEN))
            ;
        now = fl_now_ns();
        if (now >= warm)
            fl_histogram_record(latency, now - asked);
    }
    printf("{\"what\": \"exchange\", \"bs\": %zu, \"iops\": %.0f, \"mean_us\": %.3f, \"p50_us\": %.3f, "
           "\"p99_us\": %.3f}\n",
           o->bs, 1e9 / fl_histogram_mean(latency), fl_histogram_mean(latency) / 1e3,
           (double)fl_histogram_percentile(latency, 50) / 1e3,
           (double)fl_histogram_percentile(latency, 99) / 1e3);
}

static uint32_t nr_in_burst(size_t bs)
{
    return (uint32_t)FL_MAX(FL_MIN(BURST_LEN / (bs + PACKET_LEN), (size_t)64), (size_t)1);
}

static void sink(int fd, size_t bs)
{
    size_t packet = bs + PACKET_LEN;
    uint64_t got = 0, told = 0;
    uint8_t *buf = make_buf(65536);
    uint32_t crc = 0;

    for (;;) {
        size_t n = take(fd, buf, 65536);

        for (size_t at = 0; at + packet <= n; at += packet)
            crc ^= fl_crc32(0, buf + at, packet);
        got += n;
        while (got - told >= WINDOW_LEN) {
            told += WINDOW_LEN;
            put(fd, &crc, sizeof(crc));
        }
    }
}

static void stream(int fd, const struct options *o)
{
    size_t packet = o->bs + PACKET_LEN, burst = nr_in_burst(o->bs) * packet;
    uint8_t *buf = make_buf(burst), *from = make_buf(1 << 20);
    uint64_t start = fl_now_ns(), warm = start + 300000000, end = warm + (uint64_t)(o->seconds * 1e9),
             now = start;
    uint64_t sent = 0, allowed = NR_WINDOWS * WINDOW_LEN, counted_from = 0;
    uint32_t credit;
    size_t at = 0;

    while (now < end) {
        while (take(fd, &credit, sizeof(credit)))
            allowed += WINDOW_LEN;
        if (sent + burst <= allowed) {
            for (size_t i = 0; i < burst; i += packet, at = (at + o->bs) % ((1 << 20) - o->bs)) {
                memcpy(buf + i + 12, from + at, o->bs);
                credit = fl_crc32(0, buf + i, packet - 4);
                memcpy(buf + i + packet - 4, &credit, 4);
            }
            put(fd, buf, burst);
            sent += burst;
        }
        now = fl_now_ns();
        if (now < warm) {
            counted_from = sent;
            start = now;
        }
    }
    printf("{\"what\": \"stream\", \"bs\": %zu, \"gb_per_s\": %.3f}\n", o->bs,
           (double)(sent - counted_from) * ((double)o->bs / (double)packet) / (double)(now - start));
}

static void usage(FILE *out)
{
    fputs("usage: udp_floor [--stream] [--bs BYTES] [--seconds S] [--cpus CLIENT,SERVER]\n"
          "                 [--addresses CLIENT,SERVER] [--netns CLIENT,SERVER]\n"
          "Datagrams of RoCE v2's sizes over loopback, nothing else; prints one JSON object.\n",
          out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"stream", no_argument, NULL, 'S'},
        {"bs", required_argument, NULL, 'b'},
        {"seconds", required_argument, NULL, 's'},
        {"cpus", required_argument, NULL, 'c'},
        {"addresses", required_argument, NULL, 'a'},
        {"netns", required_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options o = {
        .bs = 4096, .seconds = 2, .apart = {.cpus = {0, 1}, .address = {"127.0.0.1", "127.0.0.1"}}};
    struct fl_histogram *latency = calloc(1, sizeof(*latency));
    int opt, fd, one = 1, segment, to_server[2], to_client[2];
    pid_t child;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'S':
            o.stream = true;
            break;
        case 'b':
            o.bs = strtoul(optarg, NULL, 10);
            break;
        case 's':
            o.seconds = strtod(optarg, NULL);
            break;
        case 'n':
            if (split_pair(optarg, o.apart.netns))
                break;
            usage(stderr);
            return 2;
        case 'a':
            if (split_pair(optarg, o.apart.address))
                break;
            usage(stderr);
            return 2;
        case 'c':
            if (sscanf(optarg, "%d,%d", &o.apart.cpus[0], &o.apart.cpus[1]) == 2)
                break;
            /* fall through */
        default:
            usage(opt == 'h' ? stdout : stderr);
            return opt == 'h' ? 0 : 2;
        }
    }
    if (!o.bs || o.bs > 4096 || o.seconds <= 0 || !latency) {
        usage(stderr);
        return 2;
    }
    if (pipe(to_server) < 0 || pipe(to_client) < 0)
        die("pipe");
    child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        stand_apart(&o.apart, 1);
        fd = make_socket(o.apart.address[1]);
        if (o.stream && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) < 0)
            die("GRO");
        join(fd, to_server[0], to_client[1]);
        o.stream ? sink(fd, o.bs) : answer(fd, o.bs);
    }
    stand_apart(&o.apart, 0);
    fd = make_socket(o.apart.address[0]);
    segment = (int)(o.bs + PACKET_LEN);
    if (o.stream && setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) < 0)
        die("GSO");
    join(fd, to_client[0], to_server[1]);
    fl_histogram_init(latency);
    o.stream ? stream(fd, &o) : exchange(fd, &o, latency);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
