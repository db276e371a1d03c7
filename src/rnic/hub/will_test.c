/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/estate.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit.h"

static struct fl_hub_bond bond_of(uint32_t number)
{
    return (struct fl_hub_bond){.local_id = number, .remote_id = ~number, .remote_qpn = 7};
}

/* What another process finds there. */
static uint32_t count(const struct fl_hub_will_shared *theirs)
{
    struct fl_hub_bond bond;
    uint32_t at = 0, nr = 0;
    for (; fl_hub_will_next(theirs, &at, &bond); nr++)
        assert_int_equal(bond.remote_id, ~bond.local_id);
    return nr;
}

static void test_bonds_come_and_go(void **state)
{
    static int numbers[FL_HUB_WILL_MAX];
    struct fl_hub_will will;
    struct fl_hub_bond bond;
    assert_int_equal(fl_hub_will_create(&will), 0);
    const struct fl_hub_will_shared *theirs = fl_hub_will_map(will.fd);
    assert_non_null(theirs);
    assert_int_equal(count(theirs), 0);
    for (uint32_t i = 0; i < FL_HUB_WILL_MAX; i++) {
        bond = bond_of(i);
        numbers[i] = fl_hub_will_add(&will, &bond);
        assert_true(numbers[i] >= 0);
    }
    assert_int_equal(fl_hub_will_add(&will, &bond), -ENOSPC);
    fl_hub_will_del(&will, -ENOSPC);
    assert_int_equal(count(theirs), FL_HUB_WILL_MAX);
    for (uint32_t i = 0; i < FL_HUB_WILL_MAX; i += 2)
        fl_hub_will_del(&will, numbers[i]);
    assert_int_equal(count(theirs), FL_HUB_WILL_MAX / 2);
    assert_true(fl_hub_will_add(&will, &bond) >= 0);
    assert_int_equal(count(theirs), FL_HUB_WILL_MAX / 2 + 1);
    fl_hub_will_unmap(theirs);
    fl_hub_will_fini(&will);
    assert_int_equal(fl_hub_will_add(&will, &bond), -ENOSPC); /* none is no fault */
    fl_hub_will_del(&will, 0);
    assert_int_equal(fl_hub_will_bind(&will), 0);
}

static void test_bound_until_it_is_taken_back(void **state)
{
    struct fl_hub_will will;
    assert_int_equal(fl_hub_will_create(&will), 0);
    const struct fl_hub_will_shared *theirs = fl_hub_will_map(will.fd);
    uint64_t first = fl_hub_will_bind(&will), second;
    assert_true(fl_hub_will_is_bound(theirs, first));
    assert_false(fl_hub_will_is_bound(theirs, 0));
    second = fl_hub_will_bind(&will); /* to another hub */
    assert_false(fl_hub_will_is_bound(theirs, first));
    assert_true(fl_hub_will_is_bound(theirs, second));
    fl_hub_will_unbind(&will);
    assert_false(fl_hub_will_is_bound(theirs, second));
    assert_false(fl_hub_will_is_bound(theirs, 0));
    fl_hub_will_unmap(theirs);
    fl_hub_will_fini(&will);
}

static void test_what_could_shrink_is_not_mapped(void **state)
{
    int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, sizeof(struct fl_hub_will_shared)), 0);
    assert_null(fl_hub_will_map(fd));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    const struct fl_hub_will_shared *will = fl_hub_will_map(fd);
    assert_non_null(will);
    fl_hub_will_unmap(will);
    assert_int_equal(ftruncate(fd, 2 * sizeof(struct fl_hub_will_shared)), 0);
    assert_null(fl_hub_will_map(fd));
    assert_null(fl_hub_will_map(STDIN_FILENO));
    close(fd);
}

static void test_nonsense_is_bounded(void **state)
{
    static struct fl_hub_will_shared nonsense;
    memset(&nonsense, 0xff, sizeof(nonsense));
    struct fl_hub_bond bond;
    uint32_t at = 0;
    assert_false(fl_hub_will_next(&nonsense, &at, &bond));
    assert_int_equal(at, FL_HUB_WILL_MAX);
}

/* Of two connections, each is told three times, and there is an end. */
static void test_estate(void **state)
{
    struct fl_hub_estates estates;
    struct fl_hub_will will;
    struct fl_hub_bond bond = bond_of(1);
    uint64_t now = 1000, end = now + FL_NS_PER_S;
    uint32_t told[3] = {0};
    fl_hub_estates_init(&estates);
    assert_int_equal(fl_hub_estates_deadline(&estates), UINT64_MAX);
    assert_int_equal(fl_hub_will_create(&will), 0);
    fl_hub_will_add(&will, &bond);
    bond = bond_of(2);
    fl_hub_will_add(&will, &bond);
    fl_hub_estates_add(&estates, fl_hub_will_map(will.fd), now);
    fl_hub_will_fini(&will); /* the process is gone */
    assert_int_equal(fl_hub_estates_deadline(&estates), now);
    for (; (now = fl_hub_estates_deadline(&estates)) != UINT64_MAX;) {
        assert_true(now < end);
        while (fl_hub_estates_next(&estates, now, &bond))
            told[bond.local_id]++;
    }
    assert_int_equal(told[1], 3);
    assert_int_equal(told[2], 3);
    assert_int_equal(estates.nr, 0);
}

static void test_estates_have_a_limit(void **state)
{
    struct fl_hub_estates estates;
    struct fl_hub_will will;
    struct fl_hub_bond bond = bond_of(1);
    fl_hub_estates_init(&estates);
    assert_int_equal(fl_hub_will_create(&will), 0);
    fl_hub_will_add(&will, &bond);
    for (uint32_t i = 0; i < FL_HUB_ESTATES + 2; i++)
        fl_hub_estates_add(&estates, fl_hub_will_map(will.fd), 0);
    assert_int_equal(estates.nr, FL_HUB_ESTATES);
    fl_hub_estates_fini(&estates);
    assert_int_equal(estates.nr, 0);
    fl_hub_will_fini(&will);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(test_bonds_come_and_go), cmocka_unit_test(test_bound_until_it_is_taken_back),
        cmocka_unit_test(test_what_could_shrink_is_not_mapped), cmocka_unit_test(test_nonsense_is_bounded),
        cmocka_unit_test(test_estate), cmocka_unit_test(test_estates_have_a_limit));
}
