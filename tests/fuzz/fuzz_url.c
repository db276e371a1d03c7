/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: whatever parses is written in a canonical form, which parses to the same and is written the same
 * again. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char first[FL_URL_TEXT_LEN], second[FL_URL_TEXT_LEN];
    static struct fl_url url, again;
    struct fl_error err = {0};
    char *text = malloc(len + 1);
    int n;

    memcpy(text, data, len);
    text[len] = '\0';
    if (fl_url_parse(text, &url, &err)) {
        assert(err.code == -22 && err.text[0]);
    } else {
        assert(!err.code);
        n = fl_url_format(&url, first, sizeof(first));
        assert(n > 0 && (size_t)n < sizeof(first) && strlen(first) == (size_t)n);
        assert(!fl_url_parse(first, &again, NULL));
        fl_url_format(&again, second, sizeof(second));
        assert(!strcmp(first, second));
        assert(!memcmp(&url, &again, sizeof(url)));
    }
    free(text);
    return 0;
}
