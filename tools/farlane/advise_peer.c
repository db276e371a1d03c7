/* SPDX-License-Identifier: Apache-2.0 */
/* Which namespace of the peer is measured, by which URLs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advise.h"
#include "base/url.h"

/* The subsystem's first namespace, if it has one. */
static int add_nsid(char url[ADVISE_URL_LEN], struct fl_error *err)
{
    const struct fl_device_options options = {0};
    const size_t len = strlen(url);
    struct fl_device *dev;
    uint32_t nsid;
    int rc;

    if (strstr(url, "ns="))
        return 0;
    rc = fl_subsystem_open(url, &options, &dev, err);
    if (rc < 0)
        return rc;
    rc = fl_device_namespaces(dev, &nsid, 1, err);
    fl_device_close(dev);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return fl_error_set(err, -ENOENT, "%s has no namespace to measure", url);
    snprintf(url + len, ADVISE_URL_LEN - len, "%sns=%u", strchr(url, '?') ? "&" : "?", nsid);
    return 0;
}

/* What a discovery log tells of the first subsystem in it that this command can reach. */
static void take_entries(const struct fl_discovered *e, uint32_t nr, struct advise_peer *peer)
{
    const char *nqn = NULL;
    uint32_t i;

    for (i = 0; i < nr; i++) {
        char *url = !strncmp(e[i].url, "nvme+rdma:", 10) ? peer->rdma
                    : !strncmp(e[i].url, "nvme+tcp:", 9) ? peer->tcp
                                                         : NULL;

        if (strcmp(e[i].type, "nvm") || e[i].tls_required || !url || *url ||
            (nqn && strcmp(nqn, e[i].subnqn)))
            continue;
        nqn = e[i].subnqn;
        snprintf(url, ADVISE_URL_LEN, "%s", e[i].url);
    }
}

/* nqn=…?ns=N of one URL is that of the other. */
static void copy_nsid(const char *from, char to[ADVISE_URL_LEN])
{
    const char *nsid = strstr(from, "ns=");
    const size_t len = strlen(to);

    if (*to && nsid && !strstr(to, "ns="))
        snprintf(to + len, ADVISE_URL_LEN - len, "%s%.*s", strchr(to, '?') ? "&" : "?",
                 (int)strcspn(nsid, "&"), nsid);
}

static int look_up(const char *scheme, const char *host, struct advise_peer *peer, struct fl_error *err)
{
    const struct fl_device_options options = {0};
    struct fl_discovered *entries = NULL;
    char url[ADVISE_URL_LEN];
    uint32_t nr = 0;
    int rc;

    snprintf(url, sizeof(url), "%s://%.300s", scheme, host);
    rc = fl_discover(url, &options, &entries, &nr, err);
    if (rc < 0)
        return rc;
    take_entries(entries, nr, peer);
    free(entries);
    if (!peer->tcp[0] && !peer->rdma[0])
        return fl_error_set(err, -ENOENT, "%s answers, and serves no namespace that this host may see", host);
    return 0;
}

/* Whether it leads there; if not it is forgotten, and why is kept. */
static int try_url(char url[ADVISE_URL_LEN], char why_not[256], struct fl_error *err)
{
    const struct fl_device_options options = {0};
    const size_t len = strlen(url);
    struct fl_device *dev;
    int rc;

    if (!url[0]) {
        snprintf(why_not, 256, "it is not served there");
        return -ENOENT;
    }
    rc = fl_device_open(url, &options, &dev, err);
    if (rc == 0) {
        fl_device_close(dev);
        return 0;
    }
    snprintf(why_not, 256, "%.255s",
             strncmp(err->text, url, len) || strncmp(err->text + len, ": ", 2) ? err->text
                                                                               : err->text + len + 2);
    url[0] = '\0';
    return rc;
}

/* One that leads there is enough. The error is that of the URL that comes first. */
static int try_both(struct advise_peer *peer, bool rdma_first, struct fl_error *err)
{
    struct fl_error of_rdma = {0}, of_tcp = {0};
    const int rdma = try_url(peer->rdma, peer->rdma_why_not, &of_rdma);
    const int tcp = try_url(peer->tcp, peer->tcp_why_not, &of_tcp);

    if (rdma == 0 || tcp == 0)
        return 0;
    *err = rdma_first ? of_rdma : of_tcp;
    return rdma_first ? rdma : tcp;
}

int advise_peer_find(const char *host, struct advise_peer *peer, struct fl_error *err)
{
    struct fl_error second = {0};
    bool rdma;
    int rc;

    *peer = (struct advise_peer){0};
    rc = look_up("nvme+tcp", host, peer, err);
    if (rc == -EINVAL)
        return rc;
    if (rc < 0 && look_up("nvme+rdma", host, peer, &second) < 0)
        return fl_error_wrap(
            err, rc,
            "--peer %s: nothing to measure there (on that machine: farlane serve --ns ram:1G "
            "--listen tcp://ADDR --listen rdma://ADDR)",
            host);
    fl_error_clear(err);
    rdma = !peer->tcp[0];
    rc = add_nsid(rdma ? peer->rdma : peer->tcp, err);
    if (rc < 0)
        return rc;
    copy_nsid(peer->tcp, peer->rdma);
    return try_both(peer, rdma, err);
}

int advise_peer_of(const char *text, struct advise_peer *peer, struct fl_error *err)
{
    struct fl_url *url = calloc(1, sizeof(*url));
    int rc = url ? fl_url_parse(text, url, err) : -ENOMEM;

    *peer = (struct advise_peer){0};
    if (rc == 0 && !url->nqn[0])
        rc = fl_error_set(err, -EINVAL, "%s names no subsystem: --peer takes a machine, and finds one there",
                          text);
    if (rc == 0) {
        const bool rdma = url->kind == FL_URL_NVME_RDMA;

        snprintf(rdma ? peer->rdma : peer->tcp, ADVISE_URL_LEN, "%.1000s", text);
        snprintf(peer->host, sizeof(peer->host), "%.200s:%s", url->host, url->port);
        url->kind = rdma ? FL_URL_NVME_TCP : FL_URL_NVME_RDMA;
        url->hdgst = url->ddgst = url->fallback_tcp = false;
        url->dev[0] = '\0';
        fl_url_format(url, rdma ? peer->tcp : peer->rdma, ADVISE_URL_LEN);
        rc = try_both(peer, rdma, err);
    }
    free(url);
    return rc;
}
