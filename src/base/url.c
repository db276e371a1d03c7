/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"

#define KIND(k) (1u << FL_URL_##k)
#define REMOTE  (KIND(NVME_TCP) | KIND(NVME_RDMA))
#define LOCAL   (KIND(FILE) | KIND(RAM) | KIND(NULL))

static const char *const schemes[] = {
    [FL_URL_NVME_TCP] = "nvme+tcp://", [FL_URL_NVME_RDMA] = "nvme+rdma://",
    [FL_URL_FILE] = "file:",           [FL_URL_RAM] = "ram:",
    [FL_URL_NULL] = "null:",
};

enum option_type { OPT_BOOL, OPT_CHOICE, OPT_NUMBER, OPT_BLOCK_LEN, OPT_SIZE, OPT_NQN, OPT_TEXT, OPT_TCP };

/* Every key there is, in the order in which they are written: parsing and formatting both go by this table.
 */
static const struct option {
    const char *key;
    unsigned kinds;
    enum option_type type;
    size_t at;      /* offset in struct fl_url */
    uint64_t limit; /* OPT_NUMBER: the largest; OPT_TEXT, OPT_NQN: room */
} options[] = {
    {"ns", REMOTE, OPT_NUMBER, offsetof(struct fl_url, nsid), 0xfffffffe},
    {"hdgst", REMOTE, OPT_BOOL, offsetof(struct fl_url, hdgst), 0},
    {"ddgst", REMOTE, OPT_BOOL, offsetof(struct fl_url, ddgst), 0},
    {"queues", REMOTE, OPT_NUMBER, offsetof(struct fl_url, nr_queues), 65534},
    {"depth", REMOTE, OPT_NUMBER, offsetof(struct fl_url, depth), 65536},
    {"kato", REMOTE, OPT_NUMBER, offsetof(struct fl_url, kato_ms), UINT32_MAX},
    {"host", REMOTE, OPT_NQN, offsetof(struct fl_url, hostnqn), FL_NQN_LEN},
    {"dev", KIND(NVME_RDMA), OPT_TEXT, offsetof(struct fl_url, dev), sizeof(((struct fl_url *)0)->dev)},
    {"fallback", KIND(NVME_RDMA), OPT_TCP, offsetof(struct fl_url, fallback_tcp), 0},
    {"bs", LOCAL, OPT_BLOCK_LEN, offsetof(struct fl_url, block_len), 0},
    {"size", KIND(FILE), OPT_SIZE, offsetof(struct fl_url, size), 0},
    {"direct", KIND(FILE), OPT_CHOICE, offsetof(struct fl_url, direct), 0},
    {"uring", KIND(FILE), OPT_CHOICE, offsetof(struct fl_url, uring), 0},
    {"lock", KIND(FILE), OPT_CHOICE, offsetof(struct fl_url, lock), 0},
    {"prealloc", KIND(FILE), OPT_BOOL, offsetof(struct fl_url, prealloc), 0},
    {"huge", KIND(RAM), OPT_CHOICE, offsetof(struct fl_url, huge), 0},
    {"ro", LOCAL, OPT_BOOL, offsetof(struct fl_url, read_only), 0},
};

static bool option_applies(const struct option *o, enum fl_url_kind kind)
{
    return o->kinds >> kind & 1;
}

/* ---- parsing ---- */

struct parser {
    const char *text;
    struct fl_url *url;
    unsigned seen; /* bit i: options[i] was given */
    struct fl_error *err;
};

static int fail(struct parser *p, const char *at, const char *fmt, ...) FL_PRINTF(3, 4);

static int fail(struct parser *p, const char *at, const char *fmt, ...)
{
    char why[240];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return fl_error_set(p->err, -EINVAL, "\"%.160s%s\", character %td: %s", p->text,
                        strlen(p->text) > 160 ? "..." : "", at - p->text + 1, why);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* [from, to) with %XX turned into bytes. Control characters are refused: no name, path or value has them. */
static int decode(struct parser *p, const char *from, const char *to, char *out, size_t room)
{
    size_t n = 0;

    for (const char *s = from; s < to; s++) {
        int c = (unsigned char)*s;

        if (c == '%') {
            int high = to - s > 2 ? hex_value(s[1]) : -1, low = high < 0 ? -1 : hex_value(s[2]);

            if (low < 0)
                return fail(p, s,
                            "%% must be followed by two hexadecimal digits (%% itself is written %%25)");
            c = high << 4 | low;
            if (iscntrl(c))
                return fail(p, s, "a control character is not allowed");
            s += 2;
        } else if (iscntrl(c)) {
            return fail(p, s, "a control character is not allowed");
        }
        if (n + 1 >= room)
            return fail(p, from, "too long: at most %zu bytes are allowed here", room - 1);
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return 0;
}

static int set_option(struct parser *p, const struct option *o, const char *value, const char *at)
{
    void *field = (char *)p->url + o->at;
    struct fl_error why = {0};
    uint64_t v = 0;
    int rc = 0;

    switch (o->type) {
    case OPT_BOOL:
    case OPT_CHOICE:
        if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
            return fail(p, at, "%s is 0 or 1", o->key);
        if (o->type == OPT_BOOL)
            *(bool *)field = *value == '1';
        else
            *(enum fl_url_choice *)field = *value == '1' ? FL_URL_ON : FL_URL_OFF;
        break;
    case OPT_TCP:
        if (strcmp(value, "tcp"))
            return fail(p, at, "%s is tcp, or left away", o->key);
        *(bool *)field = true;
        break;
    case OPT_NUMBER:
        rc = fl_number_parse(value, 1, o->limit, o->key, &v, &why);
        *(uint32_t *)field = (uint32_t)v;
        break;
    case OPT_BLOCK_LEN:
        rc = fl_size_parse(value, &v, &why);
        if (!rc && v != 512 && v != 4096)
            return fail(p, at, "the block size is 512 or 4096");
        *(uint32_t *)field = (uint32_t)v;
        break;
    case OPT_SIZE:
        rc = fl_size_parse(value, &v, &why);
        if (!rc && !v)
            return fail(p, at, "the size must not be 0");
        *(uint64_t *)field = v;
        break;
    case OPT_NQN:
        rc = fl_nqn_check(value, FL_NQN_FIELD_LEN, &why);
        if (!rc)
            strcpy(field, value); /* checked: at most FL_NQN_MAX bytes */
        break;
    case OPT_TEXT:
        if (!*value)
            return fail(p, at, "%s is empty", o->key);
        if (strlen(value) >= o->limit)
            return fail(p, at, "%s is too long: at most %" PRIu64 " bytes", o->key, o->limit - 1);
        strcpy(field, value);
        break;
    }
    return rc ? fail(p, at, "%s", why.text) : 0;
}

static int unknown_key(struct parser *p, const char *key, int key_len)
{
    char known[160] = "";
    size_t n = 0;

    for (size_t i = 0; i < FL_ARRAY_LEN(options); i++) {
        if (option_applies(&options[i], p->url->kind))
            n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", options[i].key);
    }
    return fail(p, key, "\"%.*s\" is not an option here; there are %s%s", key_len, key, known,
                p->url->kind == FL_URL_FILE ? " (a comma in a path is written %2C)" : "");
}

/* KEY=VALUE pairs from `s` on, with `separator` between them. */
static int parse_options(struct parser *p, const char *s, char separator)
{
    for (;;) {
        const char *end = strchrnul(s, separator), *equals = memchr(s, '=', (size_t)(end - s));
        const char *key_end = equals ? equals : end;
        char value[FL_NQN_FIELD_LEN];
        size_t i = 0;
        int rc;

        if (key_end == s)
            return fail(p, s, "an option is missing: write KEY=VALUE");
        while (i < FL_ARRAY_LEN(options) && (!option_applies(&options[i], p->url->kind) ||
                                             strlen(options[i].key) != (size_t)(key_end - s) ||
                                             memcmp(options[i].key, s, (size_t)(key_end - s)) != 0))
            i++;
        if (i == FL_ARRAY_LEN(options))
            return unknown_key(p, s, (int)FL_MIN(key_end - s, (ptrdiff_t)40));
        if (!equals)
            return fail(p, s, "%s needs a value: %s=...", options[i].key, options[i].key);
        if (p->seen >> i & 1)
            return fail(p, s, "%s is given twice", options[i].key);
        p->seen |= 1u << i;
        rc = decode(p, equals + 1, end, value, sizeof(value));
        if (!rc)
            rc = set_option(p, &options[i], value, equals + 1);
        if (rc)
            return rc;
        if (!*end)
            return 0;
        s = end + 1;
    }
}

/* "%25eth0" (RFC 6874) as "%eth0", which is how people paste it. */
static void unescape_scope(char *authority)
{
    char *percent = strchr(authority, '%');

    if (percent && percent[1] == '2' && percent[2] == '5' && percent[3] && percent[3] != ']')
        memmove(percent + 1, percent + 3, strlen(percent + 3) + 1);
}

static bool name_ok(const char *s)
{
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")] == '\0';
}

/* Whether the scope exists on this machine is not asked: that is for whoever connects. */
static bool ip6_ok(const char *s)
{
    const char *percent = strchrnul(s, '%');
    char plain[INET6_ADDRSTRLEN];
    struct in6_addr in6;

    if ((size_t)(percent - s) >= sizeof(plain))
        return false;
    memcpy(plain, s, (size_t)(percent - s));
    plain[percent - s] = '\0';
    return inet_pton(AF_INET6, plain, &in6) == 1 && (!*percent || (percent[1] && name_ok(percent + 1)));
}

static int parse_authority(struct parser *p, const char *from, const char *to)
{
    char authority[FL_HOST_LEN + 16];
    struct fl_error why = {0};
    int port, rc;

    if (from == to)
        return fail(p, from, "the host is missing");
    if ((size_t)(to - from) >= sizeof(authority))
        return fail(p, from, "the host is too long");
    memcpy(authority, from, (size_t)(to - from));
    authority[to - from] = '\0';
    unescape_scope(authority);
    rc = fl_addr_split(authority, p->url->host, sizeof(p->url->host), &port, &why);
    if (rc)
        return fail(p, from, "%s", why.text);
    if (*from != '[' && strchr(p->url->host, ':'))
        return fail(p, from, "an IPv6 address needs brackets: [%.60s]", p->url->host);
    if (*from == '[' ? !ip6_ok(p->url->host) : !name_ok(p->url->host))
        return fail(p, from,
                    *from == '[' ? "\"%.80s\" is not an IPv6 address" : "\"%.80s\" is not a host name",
                    p->url->host);
    if (!port)
        return fail(p, from, "port 0 cannot be connected to");
    snprintf(p->url->port, sizeof(p->url->port), "%u", (uint16_t)(port < 0 ? FL_URL_DEFAULT_PORT : port));
    return 0;
}

static int parse_remote(struct parser *p, const char *s)
{
    const char *query = strchrnul(s, '?'), *slash = memchr(s, '/', (size_t)(query - s));
    const char *hash = strchr(s, '#');
    struct fl_error why = {0};
    char nqn[FL_NQN_FIELD_LEN];
    int rc;

    if (hash)
        return fail(p, hash, "# is not allowed (in an NQN it is written %%23)");
    rc = parse_authority(p, s, slash ? slash : query);
    if (rc)
        return rc;
    if (slash && slash + 1 < query) {
        rc = decode(p, slash + 1, query, nqn, sizeof(nqn));
        if (rc)
            return rc;
        if (fl_nqn_check(nqn, sizeof(nqn), &why))
            return fail(p, slash + 1, "%s", why.text);
        strcpy(p->url->nqn, nqn); /* checked: at most FL_NQN_MAX bytes */
    }
    return *query ? parse_options(p, query + 1, '&') : 0;
}

static int parse_local(struct parser *p, const char *s)
{
    const char *end = strchrnul(s, ',');
    struct fl_error why = {0};
    char size[64];
    int rc;

    if (p->url->kind == FL_URL_FILE) {
        if (end == s)
            return fail(p, s, "the path is missing: file:PATH");
        rc = decode(p, s, end, p->url->path, sizeof(p->url->path));
    } else {
        rc = decode(p, s, end, size, sizeof(size));
        if (!rc && fl_size_parse(size, &p->url->size, &why))
            rc = fail(p, s, "%s", why.text);
        if (!rc && !p->url->size)
            rc = fail(p, s, "the size must not be 0");
    }
    if (rc)
        return rc;
    return *end ? parse_options(p, end + 1, ',') : 0;
}

static int scheme_of(const char *text)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(schemes); i++) {
        if (!strncmp(text, schemes[i], strlen(schemes[i])))
            return (int)i;
    }
    return -1;
}

bool fl_url_has_scheme(const char *text)
{
    return scheme_of(text) >= 0;
}

int fl_url_parse(const char *text, struct fl_url *url, struct fl_error *err)
{
    struct parser p = {.text = text, .url = url, .err = err};
    int kind = scheme_of(text);
    const char *rest;

    memset(url, 0, sizeof(*url));
    if (!strncmp(text, "tcp://", strlen("tcp://")) || !strncmp(text, "rdma://", strlen("rdma://")))
        return fl_error_set(err, -EINVAL,
                            "\"%.160s\" is not a URL of a namespace but where a target listens: write "
                            "nvme+%.160s",
                            text, text);
    if (kind < 0)
        return fl_error_set(err, -EINVAL,
                            "\"%.160s\" is not a URL of a namespace: nvme+tcp://HOST/NQN, "
                            "nvme+rdma://HOST/NQN, file:PATH, ram:SIZE, null:SIZE",
                            text);
    url->kind = (enum fl_url_kind)kind;
    rest = text + strlen(schemes[kind]);
    return fl_url_is_remote(url) ? parse_remote(&p, rest) : parse_local(&p, rest);
}

/* ---- formatting ---- */

struct writer {
    char *buf;
    size_t len, at;
};

static void put_char(struct writer *w, char c)
{
    if (w->at + 1 < w->len)
        w->buf[w->at] = c;
    w->at++;
}

static void put(struct writer *w, const char *s)
{
    while (*s)
        put_char(w, *s++);
}

/* Escapes what would end the part, and what does not survive a shell or a line of text. */
static void put_escaped(struct writer *w, const char *s, const char *special)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c <= ' ' || c == 0x7f || c == '%' || strchr(special, *s)) {
            put_char(w, '%');
            put_char(w, hex[c >> 4]);
            put_char(w, hex[c & 15]);
        } else {
            put_char(w, (char)c);
        }
    }
}

/* Writes the value, unless it is what stands when the option is left out. */
static bool option_value(const struct fl_url *url, const struct option *o, char *value, size_t len)
{
    const void *field = (const char *)url + o->at;
    char size[FL_SIZE_TEXT_LEN];

    switch (o->type) {
    case OPT_BOOL:
        snprintf(value, len, "1");
        return *(const bool *)field;
    case OPT_CHOICE:
        snprintf(value, len, "%d", *(const enum fl_url_choice *)field == FL_URL_ON);
        return *(const enum fl_url_choice *)field != FL_URL_AUTO;
    case OPT_TCP:
        snprintf(value, len, "tcp");
        return *(const bool *)field;
    case OPT_NUMBER:
    case OPT_BLOCK_LEN:
        snprintf(value, len, "%" PRIu32, *(const uint32_t *)field);
        return *(const uint32_t *)field;
    case OPT_SIZE:
        snprintf(value, len, "%s", fl_size_format_exact(*(const uint64_t *)field, size));
        return *(const uint64_t *)field;
    case OPT_NQN:
    case OPT_TEXT:
        snprintf(value, len, "%s", (const char *)field);
        return *value;
    }
    return false;
}

static void put_options(struct writer *w, const struct fl_url *url, char first, char separator,
                        const char *special)
{
    char value[FL_NQN_FIELD_LEN];

    for (size_t i = 0; i < FL_ARRAY_LEN(options); i++) {
        if (!option_applies(&options[i], url->kind) || !option_value(url, &options[i], value, sizeof(value)))
            continue;
        put_char(w, first);
        put(w, options[i].key);
        put_char(w, '=');
        put_escaped(w, value, special);
        first = separator;
    }
}

static void put_host(struct writer *w, const char *host)
{
    bool ip6 = strchr(host, ':');

    if (ip6)
        put_char(w, '[');
    for (; *host; host++) {
        put_char(w, *host);
        if (*host == '%')
            put(w, "25");
    }
    if (ip6)
        put_char(w, ']');
}

int fl_url_format(const struct fl_url *url, char *buf, size_t len)
{
    struct writer w = {.buf = buf, .len = len};
    char size[FL_SIZE_TEXT_LEN];

    put(&w, schemes[url->kind]);
    if (fl_url_is_remote(url)) {
        put_host(&w, url->host);
        put_char(&w, ':');
        put(&w, url->port);
        if (*url->nqn) {
            put_char(&w, '/');
            put_escaped(&w, url->nqn, "?#");
        }
        put_options(&w, url, '?', '&', "&#");
    } else {
        if (url->kind == FL_URL_FILE)
            put_escaped(&w, url->path, ",");
        else
            put(&w, fl_size_format_exact(url->size, size));
        put_options(&w, url, ',', ',', ",");
    }
    if (len)
        buf[FL_MIN(w.at, len - 1)] = '\0';
    return (int)w.at;
}
