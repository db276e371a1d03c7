/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "check.h"

char *shell_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
    size_t len = strlen(word);
    char *out, *at;

    if (len && strspn(word, plain) == len)
        return strdup(word);
    out = at = malloc(4 * len + 3); /* each ' becomes '\'' */
    if (!out)
        return NULL;
    *at++ = '\'';
    for (; *word; word++) {
        if (*word == '\'') {
            memcpy(at, "'\\''", 4);
            at += 4;
        } else {
            *at++ = *word;
        }
    }
    *at++ = '\'';
    *at = 0;
    return out;
}
