/* SPDX-License-Identifier: Apache-2.0 */
#include "host/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define SYSTEM_DIR "/etc/nvme"

/* The first line of DIR/NAME without blanks around it: its length, 0 when there is no such file or nothing in
 * it. */
static int read_line(const char *dir, const char *name, char *buf, size_t cap)
{
    char path[PATH_MAX], text[512];
    size_t start, len;
    ssize_t n;
    int fd;

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    start = strspn(text, " \t");
    len = strlen(text + start);
    while (len && (text[start + len - 1] == ' ' || text[start + len - 1] == '\t'))
        len--;
    if (len >= cap)
        return 0;
    memcpy(buf, text + start, len);
    buf[len] = '\0';
    return (int)len;
}

/* The same identifier each time for an NQN that has no UUID of its own: a UUID of version 8 from two hashes
 * of it. */
static void id_from_nqn(const char *nqn, struct fl_uuid *id)
{
    uint64_t h[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    for (const char *c = nqn; *c; c++) {
        h[0] = (h[0] ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
        h[1] = (h[1] ^ (uint8_t)(*c + 1)) * UINT64_C(0x100000001b3);
    }
    memcpy(id->b, h, sizeof(id->b));
    id->b[6] = (id->b[6] & 0x0f) | 0x80;
    id->b[8] = (id->b[8] & 0x3f) | 0x80;
}

static void complete_id(struct fl_host_identity *who)
{
    if (!fl_nqn_uuid(who->nqn, &who->id))
        id_from_nqn(who->nqn, &who->id);
}

/* 1: a pair, or an NQN alone, is kept there; 0: no; negative errno: what is there is no good. */
static int load(const char *dir, struct fl_host_identity *who, struct fl_error *err)
{
    char text[FL_UUID_TEXT_LEN + 8];

    if (!read_line(dir, "hostnqn", who->nqn, sizeof(who->nqn)))
        return 0;
    if (fl_nqn_check(who->nqn, FL_NQN_FIELD_LEN, err) < 0)
        return fl_error_wrap(err, -EINVAL, "%s/hostnqn", dir);
    if (!read_line(dir, "hostid", text, sizeof(text)))
        complete_id(who);
    else if (fl_uuid_parse(text, &who->id, err) < 0)
        return fl_error_wrap(err, -EINVAL, "%s/hostid", dir);
    snprintf(who->source, sizeof(who->source), "%.250s/hostnqn", dir);
    return 1;
}

static bool state_dir(char dir[PATH_MAX])
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;

    if (xdg && xdg[0] == '/')
        n = snprintf(dir, PATH_MAX, "%s/farlane", xdg);
    else if (home && home[0] == '/')
        n = snprintf(dir, PATH_MAX, "%s/.local/state/farlane", home);
    else
        return false;
    return n < PATH_MAX;
}

static void make_dirs(char *dir)
{
    for (char *c = dir + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        mkdir(dir, 0700);
        *c = '/';
    }
    mkdir(dir, 0700);
}

/* Writes DIR/NAME unless it is there: under a name of its own first, so that nobody reads half of it. */
static bool keep(const char *dir, const char *name, const char *text)
{
    char path[PATH_MAX + 16], tmp[PATH_MAX + 48];
    bool ok;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    snprintf(tmp, sizeof(tmp), "%s.%d", path, (int)getpid());
    f = fopen(tmp, "wxe");
    if (!f)
        return false;
    ok = fprintf(f, "%s\n", text) > 0;
    ok = fclose(f) == 0 && ok;
    if (ok && link(tmp, path) < 0 && errno != EEXIST)
        ok = false;
    unlink(tmp);
    return ok;
}

static int make_one(struct fl_host_identity *who, struct fl_error *err)
{
    static struct fl_uuid for_process;
    char dir[PATH_MAX], text[FL_UUID_TEXT_LEN];
    bool have_dir = state_dir(dir);
    int r;

    if (have_dir) {
        r = load(dir, who, err);
        if (r)
            return r;
    }
    if (fl_uuid_is_zero(&for_process))
        fl_uuid_make(&for_process);
    who->id = for_process;
    fl_nqn_from_uuid(&who->id, who->nqn);
    if (have_dir) {
        make_dirs(dir);
        /* No hostid beside it: the UUID in the NQN says it, and so two processes cannot keep halves of two
         * pairs. */
        if (keep(dir, "hostnqn", who->nqn) && load(dir, who, err) == 1)
            return 1;
    }
    snprintf(who->source, sizeof(who->source), "made for this process, as it could not be kept");
    FL_WARN("host NQN %s: %s", fl_uuid_format(&who->id, text), who->source);
    return 1;
}

int fl_host_identity(const char *nqn, const uint8_t *id, struct fl_host_identity *who, struct fl_error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int r = 1;

    *who = (struct fl_host_identity){0};
    if (nqn && *nqn) {
        r = fl_nqn_check(nqn, FL_NQN_FIELD_LEN, err);
        if (r < 0)
            return fl_error_wrap(err, r, "host NQN");
        snprintf(who->nqn, sizeof(who->nqn), "%s", nqn);
        snprintf(who->source, sizeof(who->source), "given");
        complete_id(who);
    } else {
        pthread_mutex_lock(&lock);
        r = load(SYSTEM_DIR, who, err);
        if (r == 0)
            r = make_one(who, err);
        pthread_mutex_unlock(&lock);
        if (r < 0)
            return r;
    }
    if (id)
        memcpy(who->id.b, id, sizeof(who->id.b));
    if (fl_uuid_is_zero(&who->id))
        return fl_error_set(err, -EINVAL, "a host identifier must not be zero");
    FL_INFO("host NQN %s (%s)", who->nqn, who->source);
    return 0;
}
