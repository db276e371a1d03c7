/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and GIDs follow the host's interfaces: in a network namespace of its own, which has a loopback
 * alone. */
#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rnic/test_interface.h"
#include "rnic/test_verbs.h"

static void set_mtu(int mtu)
{
    configure(SIOCSIFMTU, "lo", &(struct ifreq){.ifr_mtu = mtu});
}

static union ibv_gid mapped(const char *text)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
    inet_pton(AF_INET, text, gid.raw + 12);
    return gid;
}

static int index_of(struct ibv_context *context, const char *text)
{
    union ibv_gid want = mapped(text), gid;
    for (int i = 0; i < FL_GID_MAX; i++) {
        assert_int_equal(fl_context_query_gid(context, 1, i, &gid), 0);
        if (!memcmp(&gid, &want, sizeof(gid)))
            return i;
    }
    return -1;
}

static void expect_event(struct ibv_context *context, enum ibv_event_type type)
{
    struct pollfd p = {.fd = context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    do {
        assert_int_equal(poll(&p, 1, 5000), 1);
        assert_int_equal(fl_async_get(context, &event), 0);
        assert_int_equal(event.element.port_num, 1);
        fl_async_ack(&event);
    } while (event.event_type != type);
}

static void test_no_address_no_device(void **state)
{
    int nr = -1;
    struct ibv_device **list = fl_device_list_get(&nr);
    assert_non_null(list);
    assert_int_equal(nr, 0);
    assert_null(list[0]);
    fl_device_list_free(list);
}

static void test_loopback_comes_up(void **state)
{
    struct ibv_port_attr port;
    struct ibv_gid_entry entries[FL_GID_MAX];
    set_up(true);
    struct ibv_context *context = tv_open_loopback();
    assert_string_equal(fl_device_name(context->device), "farlane0");
    assert_int_equal(fl_context_query_port(context, 1, &port, sizeof(port)), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.active_mtu, IBV_MTU_4096);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(fl_context_query_port(context, 2, &port, sizeof(port)), EINVAL);
    assert_int_equal(index_of(context, "127.0.0.1"), 0);
    ssize_t n = fl_context_query_gid_table(context, entries, FL_GID_MAX, 0, sizeof(entries[0]));
    assert_true(n >= 1);
    assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_int_equal(entries[0].ndev_ifindex, if_nametoindex("lo"));
    assert_int_equal(fl_context_query_gid_ex(context, 1, 40, &entries[0], 0, sizeof(entries[0])), ENODATA);
    assert_int_equal(fl_context_query_gid_ex(context, 1, 400, &entries[0], 0, sizeof(entries[0])), EINVAL);
    assert_int_equal(fl_context_close(context), 0);
}

static void test_addresses_come_and_go(void **state)
{
    struct ibv_context *context = tv_open_loopback();
    add_address("lo:1", "127.0.0.2");
    expect_event(context, IBV_EVENT_GID_CHANGE);
    int second = index_of(context, "127.0.0.2");
    assert_true(second > 0);
    add_address("lo:2", "127.0.0.3");
    expect_event(context, IBV_EVENT_GID_CHANGE);
    int third = index_of(context, "127.0.0.3");
    remove_address("lo:1");
    expect_event(context, IBV_EVENT_GID_CHANGE);
    assert_int_equal(index_of(context, "127.0.0.2"), -1);
    assert_int_equal(index_of(context, "127.0.0.3"), third); /* keeps its index */
    add_address("lo:1", "127.0.0.4");
    expect_event(context, IBV_EVENT_GID_CHANGE);
    assert_int_equal(index_of(context, "127.0.0.4"), second); /* takes the free one */
    assert_int_equal(fl_context_close(context), 0);
}

static void test_port_state_and_mtu(void **state)
{
    struct ibv_context *context = tv_open_loopback();
    struct ibv_port_attr port;
    set_mtu(1500);
    set_up(false);
    expect_event(context, IBV_EVENT_PORT_ERR);
    assert_int_equal(fl_context_query_port(context, 1, &port, sizeof(port)), 0);
    assert_int_equal(port.state, IBV_PORT_DOWN);
    assert_int_equal(port.active_mtu, IBV_MTU_1024); /* as the kernel's rxe has it */
    set_up(true);
    expect_event(context, IBV_EVENT_PORT_ACTIVE);
    set_mtu(65536);
    assert_int_equal(fl_context_close(context), 0);
}

static void test_mtu_of_interface(void **state)
{
    assert_int_equal(fl_mtu_of_interface(65536), IBV_MTU_4096);
    assert_int_equal(fl_mtu_of_interface(4200), IBV_MTU_4096);
    assert_int_equal(fl_mtu_of_interface(4199), IBV_MTU_2048);
    assert_int_equal(fl_mtu_of_interface(9000), IBV_MTU_4096);
    assert_int_equal(fl_mtu_of_interface(1500), IBV_MTU_1024);
    assert_int_equal(fl_mtu_of_interface(1280), IBV_MTU_1024);
    assert_int_equal(fl_mtu_of_interface(576), IBV_MTU_256);
    assert_int_equal(fl_mtu_of_interface(0), IBV_MTU_256);
}

/* An address vector follows the table of that moment. */
static void test_gone_gid_is_refused(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    add_address("lo:5", "127.0.0.9");
    expect_event(tv->context, IBV_EVENT_GID_CHANGE);
    tv->attr.ah_attr.grh.sgid_index = (uint8_t)index_of(tv->context, "127.0.0.9");
    struct ibv_ah *ah = fl_ah_create(tv->pd, &tv->attr.ah_attr);
    assert_non_null(ah);
    assert_int_equal(fl_ah_destroy(ah), 0);
    remove_address("lo:5");
    expect_event(tv->context, IBV_EVENT_GID_CHANGE);
    assert_null(fl_ah_create(tv->pd, &tv->attr.ah_attr));
    assert_int_equal(errno, EINVAL);
    tv_free(tv);
}

static struct ibv_context *open_by_address(const char *address, int *nr)
{
    struct ibv_device **list = fl_device_list_get(nr);
    struct ibv_context *context = NULL;
    for (int i = 0; list[i] && !context; i++) {
        context = fl_context_open(list[i]);
        assert_non_null(context);
        if (index_of(context, address) < 0) {
            fl_context_close(context);
            context = NULL;
        }
    }
    fl_device_list_free(list);
    return context;
}

static void test_interface_is_removed(void **state)
{
    int nr, after, fd = make_interface("fltest0", "10.98.0.1");
    struct ibv_port_attr port;
    if (fd < 0)
        skip();
    struct ibv_context *context = open_by_address("10.98.0.1", &nr);
    assert_non_null(context);
    close(fd);
    expect_event(context, IBV_EVENT_DEVICE_FATAL);
    assert_int_equal(index_of(context, "10.98.0.1"), -1);
    assert_int_equal(fl_context_query_port(context, 1, &port, sizeof(port)), 0);
    assert_int_equal(port.state, IBV_PORT_DOWN);
    assert_null(open_by_address("10.98.0.1", &after));
    assert_int_equal(after, nr - 1);
    assert_int_equal(fl_context_close(context), 0);
}

/* What cannot be seen for want of descriptors is not gone: each further one that is left is another place to
 * fail at. */
static void test_no_descriptor_is_left(void **state)
{
    struct ibv_context *context = tv_open_loopback();
    uint32_t removals = fl_devices_nr_removals;
    struct rlimit before, few;
    int lowest = dup(0);
    assert_true(lowest >= 0 && !close(lowest));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    for (int left = 0; left < 4; left++) {
        few.rlim_cur = (rlim_t)(lowest + left);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        int r = fl_devices_scan();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(r, left < 2 ? -EMFILE : 0);
        assert_int_equal(fl_devices_nr_removals, removals);
        assert_int_equal(index_of(context, "127.0.0.1"), 0);
    }
    assert_int_equal(fl_context_close(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_address_no_device),  cmocka_unit_test(test_loopback_comes_up),
        cmocka_unit_test(test_addresses_come_and_go), cmocka_unit_test(test_port_state_and_mtu),
        cmocka_unit_test(test_mtu_of_interface),      cmocka_unit_test(test_gone_gid_is_refused),
        cmocka_unit_test(test_no_descriptor_is_left), cmocka_unit_test(test_interface_is_removed),
    };
    if (!own_network())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
