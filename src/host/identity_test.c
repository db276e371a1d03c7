/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/identity.h"

static void takes_what_is_given(void **state)
{
    struct fl_host_identity who, again;
    struct fl_error err = {0};
    const uint8_t id[16] = {1, 2, 3}, zero[16] = {0};

    assert_int_equal(fl_host_identity("nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff",
                                      NULL, &who, &err),
                     0);
    assert_int_equal(who.id.b[15], 0xff);
    assert_int_equal(fl_host_identity("nqn.2026-01.org.example:a", NULL, &who, &err), 0);
    assert_int_equal(fl_host_identity("nqn.2026-01.org.example:a", NULL, &again, &err), 0);
    assert_memory_equal(who.id.b, again.id.b, 16);
    assert_false(fl_uuid_is_zero(&who.id));
    assert_int_equal(fl_host_identity("nqn.2026-01.org.example:b", NULL, &again, &err), 0);
    assert_memory_not_equal(who.id.b, again.id.b, 16);
    assert_int_equal(fl_host_identity("nqn.2026-01.org.example:a", id, &who, &err), 0);
    assert_memory_equal(who.id.b, id, 16);
    assert_int_equal(fl_host_identity("nqn.2026-01.org.example:a", zero, &who, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_host_identity("not an NQN", NULL, &who, &err), -EINVAL);
}

static void keeps_the_one_that_it_made(void **state)
{
    char dir[] = "/tmp/fl-identity-XXXXXX", path[128];
    struct fl_host_identity who, again;
    struct fl_error err = {0};
    FILE *f;

    if (access("/etc/nvme/hostnqn", R_OK) == 0)
        return; /* the machine's goes first */
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/state", dir);
    setenv("XDG_STATE_HOME", path, 1);
    assert_int_equal(fl_host_identity(NULL, NULL, &who, &err), 0);
    assert_int_equal(fl_host_identity(NULL, NULL, &again, &err), 0);
    assert_string_equal(who.nqn, again.nqn);
    assert_memory_equal(who.id.b, again.id.b, 16);
    snprintf(path, sizeof(path), "%s/state/farlane/hostnqn", dir);
    assert_string_equal(again.source, path);

    f = fopen(path, "w"); /* somebody spoilt it: said, and not overwritten */
    fputs("  \n", f);
    fclose(f);
    unlink(path);
    f = fopen(path, "w");
    fputs("nonsense\n", f);
    fclose(f);
    assert_int_equal(fl_host_identity(NULL, NULL, &who, &err), -EINVAL);
    assert_true(strstr(err.text, "farlane/hostnqn") != NULL);
    unlink(path);
    snprintf(path, sizeof(path), "%s/state/farlane", dir);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/state", dir);
    rmdir(path);
    rmdir(dir);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(takes_what_is_given), cmocka_unit_test(keeps_the_one_that_it_made));
}
