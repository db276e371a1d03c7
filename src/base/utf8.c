/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* RFC 3629, section 4: by first byte, how many follow and the range of the second (the rest are 80 to BF). */
static const struct {
    uint8_t from, to, more, second_from, second_to;
} forms[] = {
    {0x00, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf},
    {0xe1, 0xec, 2, 0x80, 0xbf}, {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf},
    {0xf0, 0xf0, 3, 0x90, 0xbf}, {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f},
};

/* Bytes of the character at the start of `b`; 0: none that is valid. */
static size_t char_len(const uint8_t *b, size_t len)
{
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        if (b[0] < forms[f].from || b[0] > forms[f].to)
            continue;
        if (len < 1u + forms[f].more)
            return 0;
        for (size_t i = 1; i <= forms[f].more; i++) {
            uint8_t from = i == 1 ? forms[f].second_from : 0x80;
            uint8_t to = i == 1 ? forms[f].second_to : 0xbf;

            if (b[i] < from || b[i] > to)
                return 0;
        }
        return 1u + forms[f].more;
    }
    return 0;
}

size_t fl_utf8_valid_len(const char *s, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t n = char_len((const uint8_t *)s + at, len - at);

        if (!n)
            break;
        at += n;
    }
    return at;
}

char *fl_utf8_make_harmless(char *s)
{
    size_t left = strlen(s), valid = fl_utf8_valid_len(s, left);

    for (char *c = s; left; c++, left--) {
        if (!valid) {
            *c = '?';
            valid = fl_utf8_valid_len(c + 1, left - 1);
            continue;
        }
        valid--;
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
        else if ((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] < 0xa0)
            c[0] = c[1] = '?';
    }
    return s;
}
