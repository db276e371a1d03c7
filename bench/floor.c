/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: what a TCP connection on this machine can do when two processes exchange the bytes of NVMe/TCP and do nothing else.
 * The client keeps `depth` requests of 72 bytes (a command capsule) in flight; the server answers each with 24 bytes (a data
 * header) and bs bytes of data. With --write the data goes the other way: 72 + bytes, answered by 24. Both ends poll
 * with non-blocking calls on a CPU each; all that has come is answered in one call. Nothing is parsed, checked or stored.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
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

#include "base/clock.h"
#include "base/histogram.h"

#define CAPSULE_LEN 72
#define HEADER_LEN 24
#define BUF_LEN (4u << 20)

static void die(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void bind_cpu(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set) < 0)
        die("sched_setaffinity");
}

static void *make_buf(void)
{
    void *buf = aligned_alloc(4096, BUF_LEN);

    if (!buf)
        die("aligned_alloc");
    memset(buf, 1, BUF_LEN);
    return buf;
}

static void set_up(int fd)
{
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        die("socket options");
}

/* Sends what fits; returns the bytes sent. */
static size_t put(int fd, const void *buf, size_t len)
{
    ssize_t n = send(fd, buf, len < BUF_LEN ? len : BUF_LEN, MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN)
        die("send");
    return n < 0 ? 0 : (size_t)n;
}

static size_t take(int fd, void *buf, size_t len)
{
    ssize_t n = recv(fd, buf, len < BUF_LEN ? len : BUF_LEN, 0);

    if (n == 0)
        exit(0);
    if (n < 0 && errno != EAGAIN)
        die("recv");
    return n < 0 ? 0 : (size_t)n;
}

static void serve(int fd, size_t request_len, size_t answer_len)
{
    void *in = make_buf(), *out = make_buf();
    uint64_t got = 0, asked = 0, owed = 0;

    for (;;) {
        got += take(fd, in, BUF_LEN);
        owed += (got / request_len - asked) * answer_len;
        asked = got / request_len;
        if (owed)
            owed -= put(fd, out, owed);
    }
}

struct result {
    uint64_t nr;
    double seconds;
};

static struct result drive(int fd, size_t request_len, size_t answer_len, uint32_t depth, double seconds,
                           struct fl_histogram *latency)
{
    void *in = make_buf(), *out = make_buf();
    uint64_t *started = calloc(depth, sizeof(*started));
    uint64_t got = 0, answered = 0, owed = depth * request_len, start = fl_now_ns(), now = start, end, counted_from = 0;
    uint64_t warm = start + 300000000;
    struct result result = {0};

    if (!started)
        die("calloc");
    for (uint32_t i = 0; i < depth; i++)
        started[i] = now;
    end = warm + (uint64_t)(seconds * 1e9);
    while (now < end) {
        uint64_t nr;

        if (owed)
            owed -= put(fd, out, owed);
        got += take(fd, in, BUF_LEN);
        nr = got / answer_len - answered;
        if (!nr)
            continue;
        now = fl_now_ns();
        for (uint64_t i = 0; i < nr; i++) {
            uint64_t *at = &started[(answered + i) % depth];

            if (now >= warm)
                fl_histogram_record(latency, now - *at);
            *at = now;
        }
        answered += nr;
        owed += nr * request_len;
        if (now >= warm && !result.nr++) {
            counted_from = answered;
            start = now;
        }
    }
    result.nr = answered - counted_from;
    result.seconds = (double)(now - start) / 1e9;
    return result;
}

static int connect_pair(int *listener)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd;

    *listener = socket(AF_INET, SOCK_STREAM, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&addr, len) < 0 || listen(*listener, 1) < 0 ||
        getsockname(*listener, (struct sockaddr *)&addr, &len) < 0)
        die("listen");
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, len) < 0)
        die("connect");
    return fd;
}

static void usage(FILE *out)
{
    fputs("usage: floor [--bs BYTES] [--depth N] [--seconds S] [--write] [--cpus HOST,TARGET]\n"
          "Exchanges the bytes of NVMe/TCP over loopback, nothing else, and prints one JSON object.\n", out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"bs", required_argument, NULL, 'b'}, {"depth", required_argument, NULL, 'd'}, {"seconds", required_argument, NULL, 's'},
        {"write", no_argument, NULL, 'w'},    {"cpus", required_argument, NULL, 'c'},  {"help", no_argument, NULL, 'h'},
        {0},
    };
    size_t bs = 4096, request_len, answer_len;
    uint32_t depth = 1;
    double seconds = 2;
    bool write = false;
    int cpu[2] = {0, 1}, opt, listener, fd;
    struct fl_histogram *latency;
    struct result r;
    pid_t child;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'b': bs = strtoul(optarg, NULL, 10); break;
        case 'd': depth = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 's': seconds = strtod(optarg, NULL); break;
        case 'w': write = true; break;
        case 'c':
            if (sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) == 2)
                break;
            /* fall through */
        default: usage(opt == 'h' ? stdout : stderr); return opt == 'h' ? 0 : 2;
        }
    }
    if (!bs || bs > BUF_LEN || !depth || depth > 4096 || seconds <= 0) {
        usage(stderr);
        return 2;
    }
    request_len = CAPSULE_LEN + (write ? bs : 0);
    answer_len = HEADER_LEN + (write ? 0 : bs);
    fd = connect_pair(&listener);
    child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        int served = accept(listener, NULL, NULL);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fd);
        if (served < 0)
            die("accept");
        set_up(served);
        bind_cpu(cpu[1]);
        serve(served, request_len, answer_len);
    }
    close(listener);
    set_up(fd);
    bind_cpu(cpu[0]);
    latency = calloc(1, sizeof(*latency));
    if (!latency)
        die("calloc");
    fl_histogram_init(latency);
    r = drive(fd, request_len, answer_len, depth, seconds, latency);
    close(fd);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("{\"bs\": %zu, \"depth\": %u, \"rw\": \"%s\", \"iops\": %.0f, \"gb_per_s\": %.3f, \"mean_us\": %.3f, \"p99_us\": %.3f}\n", bs,
           depth, write ? "write" : "read", (double)r.nr / r.seconds, (double)r.nr * (double)bs / r.seconds / 1e9,
           fl_histogram_mean(latency) / 1e3, (double)fl_histogram_percentile(latency, 99) / 1e3);
    return 0;
}
