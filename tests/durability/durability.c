/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a target, its host, or both at random moments, many times, and checks that no write that was
 * acknowledged as durable (by a flush that followed it, or by FUA) is lost, and that no block is torn or
 * holds what was never written.
 *
 *     durability FARLANE [--kills 30] [--seed N]
 *
 * The host is a process of its own; what it was promised stands in memory that it shares with this one, so
 * that its death loses nothing of it. kill -9 leaves the kernel alive: this finds promises that the target
 * made too early, I/O that was reordered or lost on the way and whatever a restart does wrong, not what a
 * power failure would do (docs/design/backend.md).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <farlane/host.h>

#include "base/crc.h"
#include "base/util.h"

#define NR_UNITS  1024
#define UNIT_LEN  4096u
#define DEPTH     16
#define NR_KINDS  256 /* of the latest operations of a unit that are remembered */
#define MAX_AHEAD 200 /* operations of a unit that no flush has covered yet */
#define MAGIC     0x66617262u

/* What was asked for and what was promised, by unit. `issued` is written before the submission, `durable`
 * after the completion: whenever the writer dies, the truth lies between. */
struct promise {
    uint64_t issued, durable;
    uint8_t kind[NR_KINDS]; /* by sequence number: 0 data, 1 zeroes */
};

struct journal {
    struct promise unit[NR_UNITS];
    uint64_t nr_writes, nr_flushes, nr_fua; /* acknowledged */
};

struct head {
    uint32_t magic, crc; /* of the rest of the unit */
    uint64_t unit, seq;
};

static struct journal *journal;
static char dir[] = "/tmp/farlane-durability.XXXXXX";
static char path[64], url[256];
static unsigned seed;
static int port;

static unsigned pick(unsigned below)
{
    return (unsigned)rand_r(&seed) % below;
}

static void die(const char *what)
{
    fprintf(stderr, "durability: %s: %s (kept: %s)\n", what, strerror(errno), dir);
    exit(1);
}

/* ---- the host that writes, until it or its target is killed ---- */

struct op {
    struct fl_io io;
    struct iovec iov;
    bool busy;
    uint32_t unit;
    uint64_t seq;
    uint8_t *buf;
    uint64_t *covered; /* flush: what had been acknowledged by unit when it was submitted */
};

static uint64_t acked[NR_UNITS];
static bool unit_busy[NR_UNITS];
static bool lost;

static void promise_durable(uint32_t unit, uint64_t seq)
{
    if (journal->unit[unit].durable < seq)
        __atomic_store_n(&journal->unit[unit].durable, seq, __ATOMIC_RELEASE);
}

static void op_done(struct fl_io *io, int result)
{
    struct op *op = FL_CONTAINER_OF(io, struct op, io);

    op->busy = false;
    if (io->op != FL_IO_FLUSH)
        unit_busy[op->unit] = false;
    if (result) {
        lost = true;
        return;
    }
    if (io->op == FL_IO_FLUSH) {
        for (uint32_t i = 0; i < NR_UNITS; i++)
            promise_durable(i, op->covered[i]);
        journal->nr_flushes++;
        return;
    }
    acked[op->unit] = op->seq;
    journal->nr_writes++;
    if (io->flags & FL_IO_FUA) {
        promise_durable(op->unit, op->seq);
        journal->nr_fua++;
    }
}

static void prepare_flush(struct op *op)
{
    memcpy(op->covered, acked, sizeof(acked));
    op->io = (struct fl_io){.op = FL_IO_FLUSH, .done = op_done};
}

static void prepare_write(struct op *op)
{
    struct promise *p;
    struct head *head = (struct head *)op->buf;
    bool zero = pick(16) == 0;

    do
        op->unit = pick(NR_UNITS);
    while (unit_busy[op->unit]);
    p = &journal->unit[op->unit];
    if (p->issued - p->durable >= MAX_AHEAD) {
        prepare_flush(op);
        return;
    }
    unit_busy[op->unit] = true;
    op->seq = p->issued + 1;
    memset(op->buf, (int)(op->seq * 7 + op->unit), UNIT_LEN);
    *head = (struct head){.magic = MAGIC, .unit = op->unit, .seq = op->seq};
    head->crc = fl_crc32c(0, &head->unit, UNIT_LEN - offsetof(struct head, unit));
    p->kind[op->seq % NR_KINDS] = zero;
    __atomic_store_n(&p->issued, op->seq, __ATOMIC_RELEASE);
    op->iov = (struct iovec){.iov_base = op->buf, .iov_len = UNIT_LEN};
    op->io = (struct fl_io){.op = zero ? FL_IO_WRITE_ZEROES : FL_IO_WRITE,
                            .flags = pick(8) == 0 ? FL_IO_FUA : 0,
                            .off = (uint64_t)op->unit * UNIT_LEN,
                            .len = UNIT_LEN,
                            .iov = &op->iov,
                            .nr_iov = !zero,
                            .done = op_done};
}

static void write_until_lost(void)
{
    const struct fl_device_options options = {.no_reconnect = true, .connect_timeout_ms = 20000};
    static struct op ops[DEPTH];
    struct fl_device *dev;
    struct fl_queue *q;
    struct fl_error err = {0};

    for (uint32_t i = 0; i < NR_UNITS; i++)
        acked[i] = journal->unit[i].durable;
    if (fl_device_open(url, &options, &dev, &err) || fl_queue_create(dev, DEPTH, &q, &err))
        _exit(0); /* the target was killed already */
    for (int i = 0; i < DEPTH; i++) {
        ops[i].buf = aligned_alloc(4096, UNIT_LEN);
        ops[i].covered = malloc(sizeof(acked));
    }
    while (!lost) {
        int n;

        for (int i = 0; i < DEPTH; i++) {
            if (ops[i].busy)
                continue;
            if (pick(24) == 0)
                prepare_flush(&ops[i]);
            else
                prepare_write(&ops[i]);
            ops[i].busy = true;
            if (fl_submit(q, &ops[i].io))
                ops[i].busy = false, lost = true;
        }
        n = fl_queue_poll(q);
        if (n < 0)
            break;
        if (!n)
            fl_queue_wait(q, 100);
    }
    _exit(0);
}

/* ---- checking ---- */

static bool has_zeroes_between(const struct promise *p)
{
    if (!p->durable)
        return true; /* as it was made */
    for (uint64_t seq = p->durable; seq <= p->issued; seq++)
        if (p->kind[seq % NR_KINDS])
            return true;
    return false;
}

static bool is_zero(const uint8_t *buf)
{
    return !buf[0] && !memcmp(buf, buf + 1, UNIT_LEN - 1);
}

/* How many units are wrong. What is found becomes the new truth: it is on the medium. */
static int check(const uint8_t *data, const char *how)
{
    int faults = 0;

    for (uint32_t i = 0; i < NR_UNITS; i++) {
        const uint8_t *buf = data + (size_t)i * UNIT_LEN;
        const struct head *head = (const struct head *)buf;
        struct promise *p = &journal->unit[i];

        if (is_zero(buf)) {
            if (has_zeroes_between(p))
                continue;
            fprintf(stderr, "%s: unit %u holds zeroes; durable %llu, issued %llu\n", how, i,
                    (unsigned long long)p->durable, (unsigned long long)p->issued);
        } else if (head->magic != MAGIC || head->unit != i ||
                   head->crc != fl_crc32c(0, &head->unit, UNIT_LEN - offsetof(struct head, unit))) {
            fprintf(stderr, "%s: unit %u is torn or foreign\n", how, i);
        } else if (head->seq < p->durable || head->seq > p->issued || p->kind[head->seq % NR_KINDS]) {
            fprintf(stderr, "%s: unit %u holds write %llu; durable %llu, issued %llu\n", how, i,
                    (unsigned long long)head->seq, (unsigned long long)p->durable,
                    (unsigned long long)p->issued);
        } else {
            continue;
        }
        faults++;
    }
    return faults;
}

static int check_file(uint8_t *data)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || pread(fd, data, (size_t)NR_UNITS * UNIT_LEN, 0) != (ssize_t)NR_UNITS * UNIT_LEN)
        die(path);
    close(fd);
    return check(data, "the file");
}

static int check_remote(uint8_t *data)
{
    const struct fl_device_options options = {.connect_timeout_ms = 20000};
    struct fl_device *dev;
    struct fl_queue *q;
    struct fl_error err = {0};
    int faults;

    if (fl_device_open(url, &options, &dev, &err) || fl_queue_create(dev, 8, &q, &err) ||
        fl_read(q, data, 0, (uint64_t)NR_UNITS * UNIT_LEN, &err)) {
        fprintf(stderr, "durability: the restarted target cannot be read: %s\n", err.text);
        return 1;
    }
    faults = check(data, "the target");
    fl_queue_destroy(q);
    fl_device_close(dev);
    return faults;
}

/* ---- processes ---- */

static void send_output_to_log(void)
{
    char log[96];

    snprintf(log, sizeof(log), "%s/target.log", dir);
    if (!freopen(log, "a", stdout) || dup2(fileno(stdout), STDERR_FILENO) < 0)
        _exit(127);
}

static pid_t start_target(const char *farlane, const char *options, int round)
{
    char ns[128], listen[64], control[96];
    pid_t pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(ns, sizeof(ns), "file:%s%s", path, options);
    snprintf(listen, sizeof(listen), "tcp://127.0.0.1:%d", port);
    snprintf(control, sizeof(control), "%s/control-%d.sock", dir, round);
    send_output_to_log();
    execl(farlane, farlane, "serve", "--ns", ns, "--listen", listen, "--nqn",
          "nqn.2026-01.io.farlane:durability", "--control", control, NULL);
    _exit(127);
}

/* Until somebody listens; dies when the target has ended. */
static void await_target(pid_t pid)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (int i = 0; i < 6000; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
        bool ok = !connect(fd, (struct sockaddr *)&to, sizeof(to));

        close(fd);
        if (ok)
            return;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            errno = ECHILD;
            die("the target ended by itself: see target.log");
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    errno = ETIMEDOUT;
    die("the target does not listen");
}

static void end(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) ||
        getsockname(fd, (struct sockaddr *)&at, &len))
        die("no free port");
    close(fd);
    return ntohs(at.sin_port);
}

/* One kill, and what it left. */
static int run_round(const char *farlane, int round, uint8_t *data)
{
    static const char *const options[] = {"", ",bs=4096", ",direct=0", ",uring=0"};
    const char *opt = options[round % (int)FL_ARRAY_LEN(options)];
    unsigned victim = pick(4); /* 0, 1: target; 2: host, then target; 3: both at once */
    pid_t target = start_target(farlane, opt, round), writer;
    int faults;

    await_target(target);
    writer = fork();
    if (!writer) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        send_output_to_log();
        seed += (unsigned)round;
        write_until_lost();
    }
    nanosleep(&(struct timespec){.tv_nsec = (long)(5 + pick(400)) * 1000000}, NULL);
    if (victim == 2) { /* the target goes on with what it was told, and is killed in that */
        end(writer);
        nanosleep(&(struct timespec){.tv_nsec = (long)pick(3000) * 1000}, NULL);
    } else if (victim == 3) {
        kill(writer, SIGKILL);
    }
    end(target);
    if (victim < 2)
        nanosleep(&(struct timespec){.tv_nsec = 20000000},
                  NULL); /* it notices, and does not write its journal any more */
    if (victim != 2)
        end(writer);
    faults = check_file(data);
    target = start_target(farlane, opt, round + 100000);
    await_target(target);
    faults += check_remote(data);
    end(target);
    /* Versions that did not survive will not come back: the next round starts from what there is. */
    for (uint32_t i = 0; i < NR_UNITS; i++) {
        const struct head *head = (const struct head *)(data + (size_t)i * UNIT_LEN);

        if (head->magic == MAGIC && head->seq < journal->unit[i].issued)
            journal->unit[i].issued = journal->unit[i].durable = head->seq;
    }
    return faults;
}

static int remove_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(name);
}

int main(int argc, char **argv)
{
    int kills = 30, round = 0, faults = 0, fd;
    uint8_t *data = malloc((size_t)NR_UNITS * UNIT_LEN);

    seed = (unsigned)time(NULL);
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--kills"))
            kills = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            seed = (unsigned)atoi(argv[i + 1]);
    }
    if (argc < 2 || kills < 1 || !data) {
        fprintf(stderr, "usage: durability FARLANE [--kills 30] [--seed N]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %u\n", seed);
    if (!mkdtemp(dir))
        die(dir);
    snprintf(path, sizeof(path), "%s/disk", dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)NR_UNITS * UNIT_LEN))
        die(path);
    close(fd);
    journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (journal == MAP_FAILED)
        die("memory");
    port = free_port();
    snprintf(url, sizeof(url), "nvme+tcp://127.0.0.1:%d/nqn.2026-01.io.farlane:durability?ns=1", port);
    for (; round < kills && !faults; round++)
        faults = run_round(argv[1], round, data);
    printf("%d kills, %llu writes acknowledged (%llu with FUA), %llu flushes: %d units wrong\n", round,
           (unsigned long long)journal->nr_writes, (unsigned long long)journal->nr_fua,
           (unsigned long long)journal->nr_flushes, faults);
    if (!faults && journal->nr_flushes < (uint64_t)kills) {
        fprintf(stderr, "durability: fewer flushes than kills: this has tested nothing\n");
        faults = 1;
    }
    if (faults) {
        fprintf(stderr, "durability: kept: %s\n", dir);
        return 1;
    }
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(data);
    return 0;
}
