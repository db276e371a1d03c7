/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the discovery log (base specification 5.16.1.23), which may change while it is read. */
#include "host/discover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "base/util.h"
#include "host/device.h"

#define PIECE_LEN 4096u

static const char *name_of(const char *const *names, size_t nr, uint8_t value)
{
    return value < nr && names[value] ? names[value] : "unknown";
}

static void set_url(struct fl_discovered *e, const struct fl_disc_record *rec)
{
    struct fl_url url = {.kind = FL_URL_NVME_TCP};
    bool disc = rec->subtype != FL_DISC_SUBTYPE_NVM;

    if (rec->trtype != FL_DISC_TRTYPE_TCP && rec->trtype != FL_DISC_TRTYPE_RDMA)
        return;
    if (rec->trtype == FL_DISC_TRTYPE_RDMA)
        url.kind = FL_URL_NVME_RDMA;
    if (strlen(rec->trsvcid) >= sizeof(url.port) || strlen(rec->traddr) >= sizeof(url.host) ||
        strlen(rec->subnqn) >= sizeof(url.nqn))
        return;
    memcpy(url.host, rec->traddr, strlen(rec->traddr) + 1);
    memcpy(url.port, rec->trsvcid, strlen(rec->trsvcid) + 1);
    if (!disc)
        memcpy(url.nqn, rec->subnqn, strlen(rec->subnqn) + 1);
    /* Only what parses back is worth showing: the peer chose these bytes. */
    if (fl_url_format(&url, e->url, sizeof(e->url)) >= (int)sizeof(e->url) ||
        fl_url_parse(e->url, &url, NULL) < 0)
        e->url[0] = '\0';
}

void fl_disc_present(const struct fl_disc_record *rec, struct fl_discovered *e)
{
    static const char *const types[] = {[FL_DISC_SUBTYPE_REFERRAL] = "discovery",
                                        [FL_DISC_SUBTYPE_NVM] = "nvm",
                                        [FL_DISC_SUBTYPE_CURRENT] = "current"};
    static const char *const transports[] = {[FL_DISC_TRTYPE_RDMA] = "rdma",
                                             [FL_DISC_TRTYPE_FC] = "fc",
                                             [FL_DISC_TRTYPE_TCP] = "tcp",
                                             [FL_DISC_TRTYPE_LOOP] = "loop"};
    static const char *const families[] = {
        [FL_DISC_ADRFAM_PCI] = "pci", [FL_DISC_ADRFAM_IPV4] = "ipv4", [FL_DISC_ADRFAM_IPV6] = "ipv6",
        [FL_DISC_ADRFAM_IB] = "ib",   [FL_DISC_ADRFAM_FC] = "fc",     [FL_DISC_ADRFAM_LOOP] = "loop"};

    uint8_t treq = rec->treq & FL_DISC_TREQ_SECURE_MASK;

    *e = (struct fl_discovered){.portid = rec->portid};
    snprintf(e->transport, sizeof(e->transport), "%s",
             name_of(transports, FL_ARRAY_LEN(transports), rec->trtype));
    snprintf(e->adrfam, sizeof(e->adrfam), "%s", name_of(families, FL_ARRAY_LEN(families), rec->adrfam));
    snprintf(e->type, sizeof(e->type), "%s", name_of(types, FL_ARRAY_LEN(types), rec->subtype));
    snprintf(e->address, sizeof(e->address), "%s", rec->traddr);
    snprintf(e->port, sizeof(e->port), "%s", rec->trsvcid);
    snprintf(e->subnqn, sizeof(e->subnqn), "%.*s", (int)sizeof(e->subnqn) - 1, rec->subnqn);
    /* TLS when the entry demands it, or names it and leaves open whether it must be. "Not required" means
     * plain. */
    e->tls_required = rec->trtype == FL_DISC_TRTYPE_TCP &&
                      (treq == FL_DISC_TREQ_SECURE_REQUIRED ||
                       (treq == FL_DISC_TREQ_SECURE_UNSPECIFIED && rec->sectype != FL_DISC_TCP_SECTYPE_NONE));
    set_url(e, rec);
}

/* The header: how many entries there are, and of which state of the log. */
static int read_header(const struct fl_disc_reader *in, uint64_t *genctr, uint64_t *numrec,
                       struct fl_error *err)
{
    struct fl_disc_header header;
    uint32_t offset;
    int r = in->read(in->arg, &header, 0, sizeof(header), err);

    if (r < 0)
        return r;
    if (fl_disc_header_decode(&header, sizeof(header), genctr, numrec, &offset) < 0)
        return fl_error_set(err, -EPROTO, "the discovery log is of a form that is not known (byte %u)",
                            offset);
    if (*numrec > FL_DISC_MAX_ENTRIES)
        return fl_error_set(err, -EPROTO,
                            "the discovery log says that it has %llu entries; %u are read at most",
                            (unsigned long long)*numrec, FL_DISC_MAX_ENTRIES);
    return 0;
}

struct list {
    struct fl_discovered *entries;
    uint32_t nr, cap;
};

/* Grows with what has come, not with what the peer promises. */
static struct fl_discovered *add(struct list *list)
{
    if (list->nr == list->cap) {
        uint32_t cap = list->cap ? list->cap * 2 : 16;
        struct fl_discovered *entries = realloc(list->entries, cap * sizeof(*entries));

        if (!entries)
            return NULL;
        list->entries = entries;
        list->cap = cap;
    }
    return &list->entries[list->nr++];
}

/* Entries first..first+nr-1; an entry that makes no sense is left out. */
static int read_entries(const struct fl_disc_reader *in, uint64_t first, uint32_t nr, struct list *list,
                        struct fl_error *err)
{
    struct fl_disc_entry piece[PIECE_LEN / sizeof(struct fl_disc_entry)];
    int r = in->read(in->arg, piece, sizeof(struct fl_disc_header) + first * sizeof(piece[0]),
                     nr * (uint32_t)sizeof(piece[0]), err);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < nr; i++) {
        struct fl_disc_record rec;
        struct fl_discovered *entry;

        if (fl_disc_entry_decode(&piece[i], &rec, NULL) < 0)
            continue;
        entry = add(list);
        if (!entry)
            return fl_error_set(err, -ENOMEM, "out of memory");
        fl_disc_present(&rec, entry);
    }
    return 0;
}

/* 0; 1: the log changed meanwhile. */
static int read_once(const struct fl_disc_reader *in, struct list *list, struct fl_error *err)
{
    uint64_t genctr, numrec, genctr_after, numrec_after;
    uint32_t nr_per_piece = PIECE_LEN / sizeof(struct fl_disc_entry);
    int r = read_header(in, &genctr, &numrec, err);

    list->nr = 0;
    for (uint64_t i = 0; r == 0 && i < numrec; i += nr_per_piece)
        r = read_entries(in, i, (uint32_t)FL_MIN(numrec - i, (uint64_t)nr_per_piece), list, err);
    if (r == 0)
        r = read_header(in, &genctr_after, &numrec_after, err);
    if (r == 0 && (genctr != genctr_after || numrec != numrec_after))
        r = 1;
    return r;
}

int fl_disc_read(const struct fl_disc_reader *in, struct fl_discovered **entries, uint32_t *nr,
                 struct fl_error *err)
{
    struct list list = {0};
    int r = 1;

    for (int i = 0; i < FL_DISC_MAX_TRIES && r == 1; i++)
        r = read_once(in, &list, err);
    if (r == 1)
        r = fl_error_set(err, -EAGAIN,
                         "the discovery log changed each of the %d times that it was read: try again later",
                         FL_DISC_MAX_TRIES);
    if (r < 0) {
        free(list.entries);
        return r;
    }
    *entries = list.entries;
    *nr = list.nr;
    return 0;
}

static int read_log(void *arg, void *buf, uint64_t off, uint32_t len, struct fl_error *err)
{
    struct fl_nvme_sqe sqe = {.opcode = FL_NVME_ADM_GET_LOG_PAGE};

    fl_nvme_log_set(&sqe, FL_NVME_LOG_DISCOVERY, 0, false, off, len);
    return fl_admin_command(arg, &sqe, buf, len, true, NULL, NULL, err);
}

int fl_discover(const char *url, const struct fl_device_options *options, struct fl_discovered **entries,
                uint32_t *nr, struct fl_error *err)
{
    struct fl_disc_reader in = {.read = read_log};
    struct fl_device *dev;
    struct fl_url parsed;
    int r = fl_url_parse(url, &parsed, err);

    if (r < 0)
        return r;
    if (!fl_url_is_remote(&parsed))
        return fl_error_set(err, -EINVAL,
                            "%s: discovery needs nvme+tcp://HOST[:PORT] or nvme+rdma://HOST[:PORT]", url);
    if (parsed.nqn[0] && !fl_nqn_is_discovery(parsed.nqn))
        return fl_error_set(err, -EINVAL, "%s names a subsystem; discovery takes the URL without it", url);
    r = fl_subsystem_open(url, options, &dev, err);
    if (r < 0)
        return r;
    in.arg = dev;
    r = fl_disc_read(&in, entries, nr, err);
    fl_device_close(dev);
    return r;
}
