/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "base/unit.h"

struct item {
    int value;
    struct fl_list link;
};

static int sum_in_order(struct fl_list *head)
{
    struct item *item;
    int v = 0;

    fl_list_for_each (item, head, link)
        v = v * 10 + item->value;
    return v;
}

static void order_and_removal(void **state)
{
    struct fl_list head = FL_LIST_INIT(head);
    struct item a = {1, {0}}, b = {2, {0}}, c = {3, {0}};

    assert_true(fl_list_empty(&head));
    assert_null(fl_list_pop(&head));
    assert_null(FL_LIST_FIRST(&head, struct item, link));
    fl_list_add_tail(&head, &a.link);
    fl_list_add_tail(&head, &b.link);
    fl_list_add_head(&head, &c.link);
    assert_int_equal(sum_in_order(&head), 312);
    assert_ptr_equal(FL_LIST_FIRST(&head, struct item, link), &c);
    fl_list_del(&a.link);
    assert_int_equal(sum_in_order(&head), 32);
    assert_false(fl_list_linked(&a.link));
    fl_list_del(&a.link); /* harmless */
    assert_int_equal(sum_in_order(&head), 32);
    assert_ptr_equal(FL_LIST_ENTRY(fl_list_pop(&head), struct item, link), &c);
    assert_ptr_equal(FL_LIST_ENTRY(fl_list_pop(&head), struct item, link), &b);
    assert_true(fl_list_empty(&head));
}

static void removal_while_walking(void **state)
{
    struct fl_list head = FL_LIST_INIT(head);
    struct item items[5], *item, *tmp;

    for (int i = 0; i < 5; i++) {
        items[i].value = i + 1;
        fl_list_add_tail(&head, &items[i].link);
    }
    fl_list_for_each_safe (item, tmp, &head, link) {
        if (item->value % 2)
            fl_list_del(&item->link);
    }
    assert_int_equal(sum_in_order(&head), 24);
}

static void splice(void **state)
{
    struct fl_list to = FL_LIST_INIT(to), from = FL_LIST_INIT(from);
    struct item items[4];

    fl_list_splice(&to, &from);
    assert_true(fl_list_empty(&to));
    for (int i = 0; i < 4; i++) {
        items[i].value = i + 1;
        fl_list_add_tail(i < 2 ? &to : &from, &items[i].link);
    }
    fl_list_splice(&to, &from);
    assert_int_equal(sum_in_order(&to), 1234);
    assert_true(fl_list_empty(&from));
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(order_and_removal), cmocka_unit_test(removal_while_walking),
                       cmocka_unit_test(splice));
}
