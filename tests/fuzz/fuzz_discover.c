/* SPDX-License-Identifier: Apache-2.0 */
/* The discovery log as a host reads it: in pieces, from a target that may change it, or say what it likes. */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "base/util.h"
#include "host/discover.h"

struct input {
    const uint8_t *data;
    size_t len;
    uint32_t nr_reads, change_every;
};

/* The page is the input over and over; the generation changes as the first byte says. */
static int read_page(void *arg, void *buf, uint64_t off, uint32_t len, struct fl_error *err)
{
    struct input *in = arg;
    uint8_t *to = buf;

    assert(len && len % 4 == 0 && len <= 4096);
    if (++in->nr_reads > 256)
        return fl_error_set(err, -EIO, "enough");
    for (uint32_t i = 0, at = in->len ? (uint32_t)(off % in->len) : 0; i < len; i++) {
        to[i] = in->len ? in->data[at] : 0;
        at = at + 1 < in->len ? at + 1 : 0;
    }
    if (off == 0 && len >= 8 && in->change_every)
        to[0] = (uint8_t)(in->nr_reads / in->change_every);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct input in = {0};
    struct fl_disc_reader reader = {.read = read_page, .arg = &in};
    struct fl_discovered *list = NULL;
    struct fl_error err = {0};
    uint32_t nr = 0;
    int r;

    if (!len)
        return 0;
    in = (struct input){.data = data + 1, .len = len - 1, .change_every = data[0]};
    r = fl_disc_read(&reader, &list, &nr, &err);
    if (r < 0) {
        assert(err.code == r && err.text[0]);
        return 0;
    }
    for (uint32_t i = 0; i < nr; i++) {
        struct fl_url url;

        assert(memchr(list[i].subnqn, 0, sizeof(list[i].subnqn)) &&
               memchr(list[i].address, 0, sizeof(list[i].address)));
        assert(!list[i].url[0] || fl_url_parse(list[i].url, &url, NULL) == 0);
    }
    free(list);
    return 0;
}
