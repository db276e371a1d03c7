/* SPDX-License-Identifier: Apache-2.0 */
/* The other texts that people write: addresses, sizes, CPU lists, NQNs, UUIDs; each back through its
 * formatter. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/cpulist.h"
#include "base/nqn.h"
#include "base/size.h"

static void address(const char *text)
{
    struct fl_addr addr, again;
    char buf[FL_ADDR_TEXT_LEN];

    if (fl_addr_parse(text, 4420, &addr, NULL))
        return;
    assert(!fl_addr_parse(fl_addr_format(&addr, buf), 1, &again, NULL));
    assert(fl_addr_equal(&addr, &again));
}

static void size(const char *text)
{
    char buf[FL_SIZE_TEXT_LEN];
    uint64_t v, again;

    if (fl_size_parse(text, &v, NULL))
        return;
    assert(!fl_size_parse(fl_size_format_exact(v, buf), &again, NULL));
    assert(v == again);
    fl_size_format(v, buf);
}

static void cpulist(const char *text)
{
    static struct fl_cpulist list, again;
    char buf[8192];

    if (fl_cpulist_parse(text, &list, NULL))
        return;
    assert((size_t)fl_cpulist_format(&list, buf, sizeof(buf)) < sizeof(buf));
    assert(!fl_cpulist_parse(buf, &again, NULL));
    assert(list.nr == again.nr && !memcmp(list.cpu, again.cpu, list.nr * sizeof(list.cpu[0])));
}

/* As a field of a command: not terminated, unless the input has a zero. */
static void nqn(const uint8_t *data, size_t len)
{
    struct fl_uuid uuid;
    struct fl_error err = {0};

    if (fl_nqn_check((const char *)data, len, &err))
        assert(err.text[0]);
    else
        fl_nqn_uuid((const char *)data, &uuid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);

    memcpy(text, data, len);
    text[len] = '\0';
    address(text);
    size(text);
    cpulist(text);
    nqn(data, len);
    nqn((const uint8_t *)text, len + 1);
    free(text);
    return 0;
}
