/* SPDX-License-Identifier: Apache-2.0 */
#include "tls.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { HASH_LEN = 32, KEY_LEN = 16, IV_LEN = 12, TAG_LEN = 16, RANDOM_LEN = 32, RECORD_HEADER_LEN = 5 };
enum { RECORD_CCS = 20, RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, RECORD_DATA = 23 };
enum { HS_CLIENT_HELLO = 1, HS_SERVER_HELLO = 2, HS_FINISHED = 20, HS_KEY_UPDATE = 24 };

struct reader {      /* of one direction */
    const char *who; /* CLIENT or SERVER, as the key log has it */
    const char *keylog_path;
    const uint8_t *random; /* the client's */
    uint8_t secret[HASH_LEN], key[KEY_LEN], iv[IV_LEN];
    uint64_t seq;
    bool encrypted, finished;
    uint8_t *out;
    size_t out_len;
};

bool tls_is_tls(const struct flow *flow)
{
    const struct flow_half *half = &flow->half[FLOW_OUT];
    return half->len > RECORD_HEADER_LEN && half->bytes[0] == RECORD_HANDSHAKE && half->bytes[1] == 3;
}

static bool parse_hex(const char *text, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        out[i] = (uint8_t)byte;
    }
    return true;
}

static int find_secret(const struct reader *r, const char *kind, uint8_t secret[HASH_LEN])
{
    char want[64], label[64], random_hex[2 * RANDOM_LEN + 1], secret_hex[2 * HASH_LEN + 1];
    uint8_t random[RANDOM_LEN];
    int found = -ENOKEY;
    FILE *f = fopen(r->keylog_path, "r");
    if (!f)
        return -errno;
    snprintf(want, sizeof(want), "%s_%s", r->who, kind);
    while (found && fscanf(f, "%63s %64s %64s", label, random_hex, secret_hex) == 3)
        if (!strcmp(label, want) && parse_hex(random_hex, random, RANDOM_LEN) &&
            !memcmp(random, r->random, RANDOM_LEN) && parse_hex(secret_hex, secret, HASH_LEN))
            found = 0;
    fclose(f);
    return found;
}

/* HKDF-Expand-Label of RFC 8446 7.1 with an empty context; one block of HMAC is enough for what we derive. */
static void expand_label(const uint8_t secret[HASH_LEN], const char *label, uint8_t *out, uint8_t out_len)
{
    uint8_t info[64], block[HASH_LEN];
    size_t n = 0, label_len = strlen(label) + 6;
    info[n++] = 0;
    info[n++] = out_len;
    info[n++] = (uint8_t)label_len;
    n += (size_t)snprintf((char *)info + n, sizeof(info) - n, "tls13 %s", label);
    info[n++] = 0; /* length of the context */
    info[n++] = 1; /* block number */
    HMAC(EVP_sha256(), secret, HASH_LEN, info, n, block, NULL);
    memcpy(out, block, out_len);
}

static void use_secret(struct reader *r)
{
    expand_label(r->secret, "key", r->key, KEY_LEN);
    expand_label(r->secret, "iv", r->iv, IV_LEN);
    r->seq = 0;
    r->encrypted = true;
}

static int take_secret(struct reader *r, const char *kind)
{
    int ret = find_secret(r, kind, r->secret);
    if (!ret)
        use_secret(r);
    return ret;
}

/* RFC 8446 5.2 and 5.3. plain has room for len. Returns the length of the plain text, inner type and padding
 * included, or -EBADMSG. */
static int open_record(struct reader *r, const uint8_t *header, const uint8_t *body, size_t len,
                       uint8_t *plain)
{
    uint8_t nonce[IV_LEN], tag[TAG_LEN];
    int n = 0, rest = 0, ok;
    if (len <= TAG_LEN)
        return -EBADMSG;
    memcpy(nonce, r->iv, IV_LEN);
    for (int i = 0; i < 8; i++)
        nonce[IV_LEN - 1 - i] ^= (uint8_t)(r->seq >> 8 * i);
    r->seq++;
    memcpy(tag, body + len - TAG_LEN, TAG_LEN);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    ok = ctx && EVP_DecryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, r->key, nonce) &&
         EVP_DecryptUpdate(ctx, NULL, &n, header, RECORD_HEADER_LEN) &&
         EVP_DecryptUpdate(ctx, plain, &n, body, (int)(len - TAG_LEN)) &&
         EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_LEN, tag) &&
         EVP_DecryptFinal_ex(ctx, plain + n, &rest);
    EVP_CIPHER_CTX_free(ctx);
    return ok ? n + rest : -EBADMSG;
}

/* Handshake messages under encryption. Those of our captures do not span records. */
static int handshake(struct reader *r, const uint8_t *bytes, size_t len)
{
    while (len) {
        if (len < 4)
            return -EPROTO;
        size_t body_len = (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
        if (body_len > len - 4)
            return -EPROTO;
        if (bytes[0] == HS_FINISHED) {
            int ret = take_secret(r, "TRAFFIC_SECRET_0");
            if (ret)
                return ret;
            r->finished = true;
        } else if (bytes[0] == HS_KEY_UPDATE) {
            uint8_t next[HASH_LEN];
            expand_label(r->secret, "traffic upd", next, HASH_LEN);
            memcpy(r->secret, next, HASH_LEN);
            use_secret(r);
        }
        bytes += 4 + body_len;
        len -= 4 + body_len;
    }
    return 0;
}

static int take_record(struct reader *r, const uint8_t *header, const uint8_t *body, size_t len)
{
    if (header[0] == RECORD_CCS ||
        header[0] == RECORD_ALERT) /* 5: CCS means nothing; an alert in clear ends the connection */
        return 0;
    if (header[0] == RECORD_HANDSHAKE) { /* ClientHello, ServerHello: everything after is encrypted */
        return r->encrypted ? -EPROTO : take_secret(r, "HANDSHAKE_TRAFFIC_SECRET");
    }
    if (header[0] != RECORD_DATA || !r->encrypted)
        return -EPROTO;
    uint8_t *plain = malloc(len);
    if (!plain)
        return -ENOMEM;
    int n = open_record(r, header, body, len, plain), ret = 0;
    while (n > 0 && !plain[n - 1]) /* padding */
        n--;
    if (n <= 0) {
        ret = n ? n : -EPROTO;
    } else if (plain[n - 1] == RECORD_HANDSHAKE) {
        ret = handshake(r, plain, (size_t)n - 1);
    } else if (plain[n - 1] == RECORD_DATA && r->finished) {
        memcpy(r->out + r->out_len, plain, (size_t)n - 1);
        r->out_len += (size_t)n - 1;
    } else if (plain[n - 1] != RECORD_ALERT) {
        ret = -EPROTO;
    }
    free(plain);
    return ret;
}

static int open_half(struct flow_half *half, const char *who, const uint8_t *random, const char *keylog_path)
{
    struct reader r = {.who = who, .keylog_path = keylog_path, .random = random};
    int ret = 0;
    r.out = malloc(half->len + 1);
    if (!r.out)
        return -ENOMEM;
    for (size_t at = 0; at < half->len && !ret;) {
        const uint8_t *header = half->bytes + at;
        size_t left = half->len - at, len = left < RECORD_HEADER_LEN ? 0 : (size_t)header[3] << 8 | header[4];
        if (left < RECORD_HEADER_LEN || len > left - RECORD_HEADER_LEN)
            ret = -EPROTO;
        else
            ret = take_record(&r, header, header + RECORD_HEADER_LEN, len);
        at += RECORD_HEADER_LEN + len;
    }
    if (!ret && !r.finished)
        ret = -EPROTO;
    if (ret) {
        free(r.out);
        return ret;
    }
    free(half->bytes);
    half->bytes = r.out;
    half->len = r.out_len;
    return 0;
}

int tls_open(struct flow *flow, const char *keylog_path)
{
    struct flow_half *out = &flow->half[FLOW_OUT], *back = &flow->half[FLOW_BACK];
    uint8_t random[RANDOM_LEN];
    /* record header, handshake header, version, random; then in ServerHello the session id and the cipher
     * suite */
    enum { RANDOM_AT = RECORD_HEADER_LEN + 4 + 2 };
    if (out->len < RANDOM_AT + RANDOM_LEN || out->bytes[RECORD_HEADER_LEN] != HS_CLIENT_HELLO)
        return -EPROTO;
    size_t suite_at = RANDOM_AT + RANDOM_LEN + 1 +
                      (back->len > RANDOM_AT + RANDOM_LEN ? back->bytes[RANDOM_AT + RANDOM_LEN] : 0);
    if (back->len < suite_at + 2 || back->bytes[RECORD_HEADER_LEN] != HS_SERVER_HELLO ||
        back->bytes[suite_at] != 0x13 || back->bytes[suite_at + 1] != 0x01)
        return -EPROTO;
    memcpy(random, out->bytes + RANDOM_AT, RANDOM_LEN);
    int ret = open_half(out, "CLIENT", random, keylog_path);
    return ret ? ret : open_half(back, "SERVER", random, keylog_path);
}
