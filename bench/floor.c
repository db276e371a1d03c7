/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: what a TCP connection on this machine can do when two processes exchange the bytes of NVMe/TCP
 * and do nothing else. The client keeps `depth` requests of 72 bytes (a command capsule) in flight; the
 * server answers each with 24 bytes (a data header) and bs bytes of data. With --write the data goes the
 * other way: 72 + bytes, answered by 24. Both ends poll with non-blocking calls on a CPU each; all that has
 * come is answered in one call. Nothing is parsed, checked or stored.
 *
 * With --memory the server's data lies in random blocks of that much memory, as a namespace's does, instead
 * of in one buffer that stays in its caches: that is what the kernel's copy from or to memory costs anyone.
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
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/histogram.h"

#define CAPSULE_LEN 72
#define HEADER_LEN  24
#define BUF_LEN     (4u << 20)
#define NR_IOV      128

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
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno",
                     4); /* within a host nothing is paced, as farlane has it */
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

/* A stream of records, each a header and a block that lies anywhere in memory; `at` bytes of it are done. */
struct scatter {
    uint8_t *mem, *header;
    uint64_t nr_blocks, at;
    size_t header_len, bs;
};

static uint8_t *block_of(const struct scatter *s, uint64_t record)
{
    return s->mem + (record * 0x9e3779b97f4a7c15u >> 20) % s->nr_blocks * s->bs;
}

/* What comes next, at most max bytes of it. */
static int next_iov(const struct scatter *s, struct iovec *iov, uint64_t max)
{
    uint64_t record = s->at / (s->header_len + s->bs);
    size_t off = s->at % (s->header_len + s->bs);
    int n = 0;

    for (; max && n + 2 <= NR_IOV; record++, off = 0) {
        if (off < s->header_len) {
            iov[n] = (struct iovec){.iov_base = s->header, .iov_len = s->header_len - off};
            off = s->header_len;
            max -= iov[n].iov_len < max ? iov[n].iov_len : max;
            n++;
        }
        if (max) {
            size_t skip = off - s->header_len;

            iov[n] = (struct iovec){.iov_base = block_of(s, record) + skip,
                                    .iov_len = s->bs - skip < max ? s->bs - skip : max};
            max -= iov[n++].iov_len;
        }
    }
    return n;
}

static size_t moved(struct scatter *s, ssize_t n, const char *what)
{
    if (n == 0 && *what == 'r')
        exit(0);
    if (n < 0 && errno != EAGAIN)
        die(what);
    s->at += n > 0 ? (uint64_t)n : 0;
    return n > 0 ? (size_t)n : 0;
}

static void serve_memory(int fd, size_t bs, bool write, size_t memory)
{
    struct scatter s = {.mem = mmap(NULL, memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                        .header = make_buf(),
                        .nr_blocks = memory / bs,
                        .header_len = write ? CAPSULE_LEN : HEADER_LEN,
                        .bs = bs};
    size_t request_len = CAPSULE_LEN + (write ? bs : 0), answer_len = HEADER_LEN + (write ? 0 : bs);
    uint64_t got = 0, asked = 0, owed = 0;
    void *buf = make_buf();
    struct iovec iov[NR_IOV];
    struct msghdr msg = {.msg_iov = iov};

    if (s.mem == MAP_FAILED)
        die("mmap");
    madvise(s.mem, memory, MADV_HUGEPAGE);
    memset(s.mem, 1, memory);
    put(fd, buf, 1); /* ready */
    for (;;) {
        if (write) {
            msg.msg_iovlen = (size_t)next_iov(&s, iov, UINT64_MAX);
            got += moved(&s, recvmsg(fd, &msg, 0), "recvmsg");
        } else {
            got += take(fd, buf, BUF_LEN);
        }
        owed += (got / request_len - asked) * answer_len;
        asked = got / request_len;
        if (!owed)
            continue;
        if (write) {
            owed -= put(fd, buf, owed);
        } else {
            msg.msg_iovlen = (size_t)next_iov(&s, iov, owed);
            owed -= moved(&s, sendmsg(fd, &msg, MSG_NOSIGNAL), "sendmsg");
        }
    }
}

static void await_ready(int fd)
{
    char byte;

    while (!take(fd, &byte, 1))
        usleep(1000);
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
    uint64_t got = 0, answered = 0, owed = depth * request_len, start = fl_now_ns(), now = start, end,
             counted_from = 0;
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
    fputs("usage: floor [--bs BYTES] [--depth N] [--seconds S] [--write] [--memory BYTES] [--cpus "
          "HOST,TARGET]\n"
          "Exchanges the bytes of NVMe/TCP over loopback, nothing else, and prints one JSON object.\n",
          out);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"bs", required_argument, NULL, 'b'},      {"depth", required_argument, NULL, 'd'},
        {"seconds", required_argument, NULL, 's'}, {"write", no_argument, NULL, 'w'},
        {"cpus", required_argument, NULL, 'c'},    {"memory", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    size_t bs = 4096, memory = 0, request_len, answer_len;
    uint32_t depth = 1;
    double seconds = 2;
    bool write = false;
    int cpu[2] = {0, 1}, opt, listener, fd;
    struct fl_histogram *latency;
    struct result r;
    pid_t child;

    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'b':
            bs = strtoul(optarg, NULL, 10);
            break;
        case 'd':
            depth = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            seconds = strtod(optarg, NULL);
            break;
        case 'w':
            write = true;
            break;
        case 'm':
            memory = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            if (sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) == 2)
                break;
            /* fall through */
        default:
            usage(opt == 'h' ? stdout : stderr);
            return opt == 'h' ? 0 : 2;
        }
    }
    if (!bs || bs > BUF_LEN || !depth || depth > 4096 || seconds <= 0 || (memory && memory < bs)) {
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
        if (memory)
            serve_memory(served, bs, write, memory);
        serve(served, request_len, answer_len);
    }
    close(listener);
    set_up(fd);
    bind_cpu(cpu[0]);
    if (memory)
        await_ready(fd);
    latency = calloc(1, sizeof(*latency));
    if (!latency)
        die("calloc");
    fl_histogram_init(latency);
    r = drive(fd, request_len, answer_len, depth, seconds, latency);
    close(fd);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("{\"bs\": %zu, \"depth\": %u, \"rw\": \"%s\", \"iops\": %.0f, \"gb_per_s\": %.3f, \"mean_us\": "
           "%.3f, \"p99_us\": %.3f}\n",
           bs, depth, write ? "write" : "read", (double)r.nr / r.seconds,
           (double)r.nr * (double)bs / r.seconds / 1e9, fl_histogram_mean(latency) / 1e3,
           (double)fl_histogram_percentile(latency, 99) / 1e3);
    return 0;
}
