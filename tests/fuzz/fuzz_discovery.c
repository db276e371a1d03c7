/* SPDX-License-Identifier: Apache-2.0 */
/* A discovery log page: what is taken from it is written and read again as the same. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint64_t genctr, numrec;
    uint32_t offset = UINT32_MAX;
    if (fl_disc_header_decode(data, len, &genctr, &numrec, &offset)) {
        assert(offset == 0 || offset == 16);
        return 0;
    }
    size_t nr = fl_disc_nr_here(len, numrec);
    assert(nr <= numrec && (nr + 1) * 1024 <= len);
    for (size_t i = 0; i < nr; i++) {
        struct fl_disc_record record, again;
        struct fl_disc_entry entry;
        const struct fl_disc_entry *given = (const void *)(data + 1024 * (i + 1));
        if (fl_disc_entry_decode(given, &record, &offset)) {
            assert(offset == 32 || offset == 256 || offset == 512);
            continue;
        }
        assert(strlen(record.trsvcid) <= 32 && strlen(record.traddr) <= 256);
        assert(strlen(record.subnqn) >= 1 && strlen(record.subnqn) <= 223);
        assert(!fl_disc_entry_encode(&entry, &record));
        assert(!fl_disc_entry_decode(&entry, &again, NULL));
        assert(!memcmp(&record, &again, sizeof(record)));
    }
    return 0;
}
