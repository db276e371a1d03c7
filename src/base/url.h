/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of namespaces, remote and local:
 *
 *     nvme+tcp://HOST[:4420]/NQN[?ns=1&hdgst=1&ddgst=1&queues=N&depth=N&host=HOSTNQN&kato=MS]
 *     nvme+rdma://HOST[:4420]/NQN[?ns=1&dev=auto|soft|hardware|NAME&fallback=tcp&...]
 *     file:PATH[,bs=512|4096][,size=SIZE][,direct=0|1][,ro=1][,prealloc=1][,lock=0][,uring=0|1]
 *     ram:SIZE[,bs=512|4096][,huge=0|1]        null:SIZE[,bs=512|4096]
 *
 * Without an NQN, a URL names a discovery service. IPv6 addresses stand in brackets, their scope after % or
 * %25. In NQN, path and values, %XX is the byte XX: that is how a comma gets into a path and & or ? into an
 * NQN.
 */
#ifndef FL_BASE_URL_H
#define FL_BASE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

#include "base/address.h"
#include "base/nqn.h"

#define FL_URL_PATH_LEN     4096
#define FL_URL_DEFAULT_PORT 4420
/* Any text that fl_url_format makes: each byte of the longest path written as %XX, and the options. */
#define FL_URL_TEXT_LEN (3 * FL_URL_PATH_LEN + 1024)

enum fl_url_kind { FL_URL_NVME_TCP, FL_URL_NVME_RDMA, FL_URL_FILE, FL_URL_RAM, FL_URL_NULL };

enum fl_url_choice { FL_URL_AUTO, FL_URL_ON, FL_URL_OFF };

/* All zero where nothing was given, but the port, which has its default. */
struct fl_url {
    enum fl_url_kind kind;

    /* nvme+tcp, nvme+rdma */
    char host[FL_HOST_LEN]; /* name or address, without brackets; a scope follows % */
    char port[8];
    char nqn[FL_NQN_LEN]; /* "": a discovery service */
    uint32_t nsid;        /* 0: not given */
    bool hdgst, ddgst;
    uint32_t nr_queues; /* I/O queues; 0: not given */
    uint32_t depth;     /* entries of a queue; 0: not given */
    uint32_t kato_ms;   /* 0: not given */
    char hostnqn[FL_NQN_LEN];
    char dev[64];      /* rdma: auto, soft, hardware, or a device's name; "": not given */
    bool fallback_tcp; /* rdma: else by TCP */

    /* file, ram, null */
    char path[FL_URL_PATH_LEN]; /* file */
    uint64_t size;              /* bytes; file: 0 is the file's own, else the file is made that long */
    uint32_t block_len;         /* 0: default */
    enum fl_url_choice direct;  /* file: O_DIRECT */
    enum fl_url_choice uring;   /* file: io_uring, else threads */
    enum fl_url_choice lock;    /* file: refuse when another process has it open as a namespace */
    bool prealloc;              /* file: take the space at once */
    enum fl_url_choice huge;    /* ram: huge pages */
    bool read_only;
};

/* -EINVAL, and in `err` what is wrong at which character. Asks no name service and opens nothing. */
int fl_url_parse(const char *text, struct fl_url *url, struct fl_error *err);

/* The canonical text, which parses back to the same. Returns the length that it needs, like snprintf. */
int fl_url_format(const struct fl_url *url, char *buf, size_t len);

/* Whether the text begins like a URL of ours (else a command takes it for the name of a file). */
bool fl_url_has_scheme(const char *text);

static inline bool fl_url_is_remote(const struct fl_url *url)
{
    return url->kind == FL_URL_NVME_TCP || url->kind == FL_URL_NVME_RDMA;
}

#endif
