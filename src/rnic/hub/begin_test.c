/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that run one after the other, each its own hub: queue pair numbers that a peer may still have in
 * TIMEWAIT do not come again. */
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit.h"
#include "rnic/hub/server.h"

enum { HUBS = 500 }; /* by chance two of so many begin with the same block 999 times in 1000 */

#define APART_NS (4 * FL_NS_PER_S) /* the longest TIMEWAIT */

static int first_block(int epoll_fd, const char *name)
{
    struct fl_hub_will will = {0};
    struct fl_hub_estates estates;
    struct fl_hub_server *server;
    fl_hub_estates_init(&estates);
    const struct fl_hub_server_options options = {
        .name = name, .address = "here", .epoll_fd = epoll_fd, .will = &will, .estates = &estates};
    assert_int_equal(fl_hub_server_start(&options, &server), 0);
    int block = fl_hub_block_get(fl_hub_server_table(server), fl_hub_server_self(server));
    assert_true(block > 0);
    fl_hub_server_stop(server);
    fl_hub_estates_fini(&estates);
    return block;
}

static void blocks_of_hubs_in_a_row(void **state)
{
    static struct {
        int block;
        uint64_t at;
    } hubs[HUBS];
    char name[64];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(epoll_fd >= 0);
    snprintf(name, sizeof(name), "farlane-begin-test-%d", (int)getpid());
    for (int i = 0; i < HUBS; i++) {
        usleep(2000); /* a process takes longer to begin */
        hubs[i].block = first_block(epoll_fd, name);
        hubs[i].at = fl_now_ns();
        for (int j = 0; j < i; j++)
            if (hubs[j].block == hubs[i].block)
                assert_true(hubs[i].at - hubs[j].at > APART_NS);
    }
    close(epoll_fd);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(blocks_of_hubs_in_a_row));
}
