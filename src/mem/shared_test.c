/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unit.h"
#include "mem/shared.h"

#define LEN 8192u

static void regions_are_found_and_listed(void **state)
{
    struct fl_shared_region regions[FL_SHARED_MAX];
    uint8_t *a = fl_shared_alloc(LEN), *b = fl_shared_alloc(LEN);
    uint32_t id_a = fl_shared_find(a, LEN), id_b = fl_shared_find(b + 1, LEN - 1);
    assert_non_null(a);
    assert_non_null(b);
    assert_true(id_a && id_b > id_a);
    assert_int_equal(fl_shared_newest(), id_b);
    assert_int_equal(fl_shared_find(a + 1, LEN), 0);
    assert_int_equal(fl_shared_find(&id_a, 4), 0);
    assert_int_equal(fl_shared_find(a, SIZE_MAX), 0);
    assert_int_equal(fl_shared_list(id_a, regions, FL_SHARED_MAX), 1);
    assert_int_equal(regions[0].id, id_b);
    /* It is the same memory, and nobody can take it away. */
    strcpy((char *)b, "here");
    char *again = mmap(NULL, LEN, PROT_READ, MAP_SHARED, regions[0].fd, 0);
    assert_string_equal(again, "here");
    assert_int_equal(ftruncate(regions[0].fd, 0), -1);
    close(regions[0].fd);
    munmap(again, LEN);
    uint32_t freed = fl_shared_nr_freed();
    fl_shared_free(b, LEN);
    assert_int_equal(fl_shared_nr_freed(), freed + 1);
    assert_int_equal(fl_shared_find(b, LEN), 0);
    assert_int_equal(fl_shared_list(id_a, regions, FL_SHARED_MAX), 0);
    fl_shared_free(a, LEN);
}

static void more_than_peers_know_are_memory_too(void **state)
{
    uint8_t *p[FL_SHARED_MAX + 1];
    for (int i = 0; i <= FL_SHARED_MAX; i++) {
        p[i] = fl_shared_alloc(LEN);
        assert_non_null(p[i]);
        p[i][LEN - 1] = 1;
    }
    assert_true(fl_shared_find(p[0], LEN));
    assert_int_equal(fl_shared_find(p[FL_SHARED_MAX], LEN), 0);
    for (int i = 0; i <= FL_SHARED_MAX; i++)
        fl_shared_free(p[i], LEN);
    errno = 0;
    assert_null(fl_shared_alloc(0));
    assert_int_equal(errno, EINVAL);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(regions_are_found_and_listed),
                       cmocka_unit_test(more_than_peers_know_are_memory_too));
}
