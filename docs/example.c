/* SPDX-License-Identifier: Apache-2.0 */
/* cc example.c $(pkg-config --cflags --libs farlane) && ./a.out 'nvme+tcp://HOST/NQN?ns=1'   (or ram:64M, file:PATH) */
#include <stdio.h>
#include <string.h>

#include <farlane/host.h>

static int nr_done, nr_failed;

static void done(struct fl_io *io, int result) /* runs inside fl_queue_poll */
{
    nr_done++;
    nr_failed += result < 0;
}

int main(int argc, char **argv)
{
    enum { NR = 32, LEN = 4096 };
    static char bufs[NR][LEN];
    struct fl_error err = {0};
    struct fl_device *dev;
    struct fl_queue *q;
    struct iovec iov[NR];
    struct fl_io io[NR];

    if (argc != 2 || fl_device_open(argv[1], NULL, &dev, &err) < 0 || fl_queue_create(dev, NR, &q, &err) < 0)
        return fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: example URL"), 1;

    strcpy(bufs[0], "hello, remote storage"); /* synchronous: write, make durable, read back */
    if (fl_write(q, bufs[0], 0, LEN, &err) < 0 || fl_flush(q, &err) < 0 || fl_read(q, bufs[1], 0, LEN, &err) < 0)
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("%s\n", bufs[1]);

    for (int i = 0; i < NR; i++) { /* 32 reads at a time, straight into our memory */
        iov[i] = (struct iovec){bufs[i], LEN};
        io[i] = (struct fl_io){.op = FL_IO_READ, .off = i * LEN, .len = LEN, .iov = &iov[i], .nr_iov = 1, .done = done};
        if (fl_submit(q, &io[i]) < 0)
            return 1;
    }
    while (nr_done < NR)
        if (fl_queue_poll(q) == 0)
            fl_queue_wait(q, -1);
    printf("%d reads, %d failed\n", nr_done, nr_failed);
    fl_queue_destroy(q);
    fl_device_close(dev);
    return nr_failed != 0;
}
