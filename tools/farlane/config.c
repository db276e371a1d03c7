/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/url.h"

static void *need(void *p)
{
    if (!p) {
        fputs("farlane: out of memory\n", stderr);
        abort();
    }
    return p;
}

struct config *config_create(void)
{
    return need(calloc(1, sizeof(struct config)));
}

/* Appends a zeroed entry of `size` bytes to a list. */
static void *append(void **list, uint32_t *nr, size_t size)
{
    char *grown = need(realloc(*list, (*nr + 1) * size));

    *list = grown;
    grown += *nr * size;
    memset(grown, 0, size);
    (*nr)++;
    return grown;
}

struct config_listener *config_add_listener(struct config *config, const char *address)
{
    struct config_listener *l = append((void **)&config->listeners, &config->nr_listeners, sizeof(*l));

    l->address = need(strdup(address));
    return l;
}

void config_add_ana(struct config_listener *listener, uint32_t group, const char *state)
{
    struct config_ana *ana = append((void **)&listener->ana, &listener->nr_ana, sizeof(*ana));

    config_set_number(&ana->group, group);
    ana->state = need(strdup(state));
}

void config_drop_listeners(struct config *config)
{
    uint32_t i, k;

    for (i = 0; i < config->nr_listeners; i++) {
        struct config_listener *l = &config->listeners[i];

        for (k = 0; k < l->nr_ana; k++) {
            free(l->ana[k].group);
            free(l->ana[k].state);
        }
        free(l->ana);
        free(l->address);
        free(l->strict);
        free(l->hdgst);
        free(l->ddgst);
    }
    free(config->listeners);
    config->listeners = NULL;
    config->nr_listeners = 0;
}

struct config_subsystem *config_add_subsystem(struct config *config, const char *nqn)
{
    struct config_subsystem *ss = append((void **)&config->subsystems, &config->nr_subsystems, sizeof(*ss));

    ss->nqn = need(strdup(nqn));
    return ss;
}

struct config_namespace *config_add_namespace(struct config_subsystem *ss, const char *spec)
{
    struct config_namespace *ns = append((void **)&ss->namespaces, &ss->nr_namespaces, sizeof(*ns));

    ns->spec = need(strdup(spec));
    return ns;
}

void config_add_host(struct config_subsystem *ss, const char *hostnqn)
{
    char **host = append((void **)&ss->hosts, &ss->nr_hosts, sizeof(*host));

    *host = need(strdup(hostnqn));
}

char *config_absolute_spec(const char *spec)
{
    struct fl_url *url = need(calloc(1, sizeof(*url)));
    char *text = need(malloc(FL_URL_TEXT_LEN)), *folder = getcwd(NULL, 0);
    int len;

    snprintf(text, FL_URL_TEXT_LEN, "%s", spec);
    if (folder && fl_url_parse(spec, url, NULL) == 0 && url->kind == FL_URL_FILE && url->path[0] != '/') {
        char *path = need(malloc(strlen(folder) + strlen(url->path) + 2));

        len = sprintf(path, "%s/%s", folder, url->path);
        if ((size_t)len < sizeof(url->path)) {
            memcpy(url->path, path, (size_t)len + 1);
            fl_url_format(url, text, FL_URL_TEXT_LEN);
        }
        free(path);
    }
    free(folder);
    free(url);
    return text;
}

void config_set_text(char **member, const char *text)
{
    free(*member);
    *member = text ? need(strdup(text)) : NULL;
}

void config_set_number(uint32_t **member, uint32_t value)
{
    if (!*member)
        *member = need(malloc(sizeof(**member)));
    **member = value;
}

void config_set_bool(bool **member, bool value)
{
    if (!*member)
        *member = need(malloc(sizeof(**member)));
    **member = value;
}

/* ---- reading the file ---- */

static int read_all(int fd, const char *file, char **text, size_t *len, struct fl_error *err)
{
    size_t cap = 65536;
    char *buf = malloc(cap);
    ssize_t n = -1;

    for (*len = 0; buf; *len += (size_t)n) {
        if (*len > CONFIG_MAX_LEN) {
            free(buf);
            return fl_error_set(err, -EFBIG, "%s is larger than 1 MiB: is it a farlane configuration?", file);
        }
        if (*len == cap) {
            char *grown = realloc(buf, cap *= 2);

            if (!grown)
                break;
            buf = grown;
        }
        n = read(fd, buf + *len, cap - *len);
        if (n <= 0)
            break;
    }
    if (n != 0) {
        int code = buf && n < 0 ? -errno : -ENOMEM;

        free(buf);
        return fl_error_set(err, code, "cannot read %s: %s", file, strerror(-code));
    }
    *text = buf;
    return 0;
}

int config_load(const char *file, struct config **config, struct config_marks *marks, struct fl_error *err)
{
    char *text = NULL;
    size_t len = 0;
    int fd, rc;

    fd = strcmp(file, "-") ? open(file, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
    if (fd < 0)
        return fl_error_set(err, -errno, "cannot open the configuration %s: %s", file, strerror(errno));
    rc = read_all(fd, file, &text, &len, err);
    close(fd);
    if (rc < 0)
        return rc;
    rc = config_load_text(file, text, len, config, marks, err);
    free(text);
    return rc;
}

/* ---- marks ---- */

void config_marks_free(struct config_marks *marks)
{
    uint32_t i;

    for (i = 0; i < marks->nr; i++)
        free(marks->mark[i].path);
    free(marks->mark);
    free(marks->file);
    memset(marks, 0, sizeof(*marks));
}

static const struct config_mark *find_mark(const struct config_marks *marks, const char *path)
{
    uint32_t i;

    for (i = 0; i < marks->nr; i++)
        if (!strcmp(marks->mark[i].path, path))
            return &marks->mark[i];
    return NULL;
}

/* Cuts the last part off "a[0].b": "a[0]", then "a". */
static void parent_path(char *path)
{
    char *dot = strrchr(path, '.'), *bracket = strrchr(path, '[');

    if (dot < bracket)
        dot = bracket;
    if (dot)
        *dot = 0;
    else
        path[0] = 0;
}

void config_mark_typed(struct config_marks *marks, const char *path)
{
    struct config_mark *mark;
    size_t len = strlen(path);
    uint32_t i;

    if (!marks->file)
        return;
    for (i = 0; i < marks->nr; i++) {
        const char *rest = marks->mark[i].path + len;

        if (!strncmp(marks->mark[i].path, path, len) && (!*rest || *rest == '.' || *rest == '['))
            marks->mark[i].line = 0;
    }
    if (find_mark(marks, path))
        return;
    mark = append((void **)&marks->mark, &marks->nr, sizeof(*mark));
    marks->cap = marks->nr;
    mark->path = need(strdup(path));
}

int config_error_at(const struct config_marks *marks, int code, struct fl_error *err, const char *fmt, ...)
{
    const struct config_mark *mark = NULL;
    char path[256];
    va_list args;

    va_start(args, fmt);
    vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    if (!marks || !marks->file)
        return code;
    while (!(mark = find_mark(marks, path)) && path[0])
        parent_path(path);
    if (mark && !mark->line)
        return code;
    if (mark)
        return fl_error_wrap(err, code, "%s:%u:%u", marks->file, mark->line, mark->column);
    return fl_error_wrap(err, code, "%s", marks->file);
}
