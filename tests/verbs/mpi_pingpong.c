/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks pass messages of growing length to and fro, each adding to every byte, and check them. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { TURNS = 20, LEN_MAX = 1 << 22 };

static unsigned char buf[LEN_MAX];

static void add_one(int len)
{
    for (int i = 0; i < len; i++)
        buf[i]++;
}

static int differs(int len, unsigned char from)
{
    for (int i = 0; i < len; i++)
        if (buf[i] != from)
            return 1;
    return 0;
}

static double pingpong(int rank, int len)
{
    double start = MPI_Wtime();
    for (int i = 0; i < TURNS; i++) {
        if (rank == 0) {
            memset(buf, i, (size_t)len);
            MPI_Send(buf, len, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        }
        MPI_Recv(buf, len, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        add_one(len);
        if (rank == 1)
            MPI_Send(buf, len, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        else if (differs(len, (unsigned char)(i + 2)))
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return (MPI_Wtime() - start) / TURNS / 2;
}

int main(int argc, char **argv)
{
    int rank, nr, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nr);
    for (int len = 1; len <= LEN_MAX && nr == 2; len *= 8) {
        double each = pingpong(rank, len);
        if (rank == 0)
            printf("%8d bytes %10.2f us\n", len, each * 1e6);
    }
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1)
        printf("%d ranks, sum %d\n", nr, sum);
    MPI_Finalize();
    return 0;
}
