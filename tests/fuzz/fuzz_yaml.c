/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: what loads is saved, loads again and is saved the same; what does not, is refused with
 * file, line and column. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"

static void save_and_load(const struct config *config)
{
    char *first = NULL, *second = NULL;
    size_t first_len, second_len;
    struct config_marks marks = {0};
    struct config *again = NULL;
    struct fl_error err = {0};

    if (config_save_text(config, &first, &first_len, &err) < 0)
        return; /* text that is no UTF-8 does not come in, so this should not be; the next line says so */
    assert(config_load_text("saved", first, first_len, &again, &marks, &err) == 0);
    assert(config_save_text(again, &second, &second_len, &err) == 0);
    assert(first_len == second_len && !memcmp(first, second, first_len));
    free(first);
    free(second);
    config_marks_free(&marks);
    config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct config_marks marks = {0};
    struct config *config = NULL;
    struct fl_error err = {0};

    if (config_load_text("f", (const char *)data, len, &config, &marks, &err) == 0) {
        assert(config && !err.code);
        save_and_load(config);
        config_free(config);
    } else {
        assert(!config && err.code < 0 && !strncmp(err.text, "f:", 2));
    }
    config_marks_free(&marks);
    return 0;
}
