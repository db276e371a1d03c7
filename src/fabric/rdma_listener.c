/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/util.h"
#include "fabric/fabric.h"
#include "fabric/rdma_conn.h"
#include "verbs/choose.h"

#define BACKLOG 256

struct fl_listener {
    struct fl_listen_options options;
    const struct fl_rdma_lib *lib;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct fl_watch watch;
    struct fl_rdma_shared *shared; /* for each device */
};

static void ready(struct fl_watch *watch, uint32_t events)
{
    struct fl_listener *l = FL_CONTAINER_OF(watch, struct fl_listener, watch);
    struct rdma_cm_event *event;
    char text[FL_ADDR_TEXT_LEN];

    if (l->lib->cm->get_cm_event(l->channel, &event))
        return;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        (void)fl_rdma_conn_create(&l->options, l->lib, &l->shared, event); /* it has said why */
        return;
    }
    if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        FL_WARN("the interface of %s is gone: nobody can connect there until the listener is made anew",
                fl_addr_format(&l->options.addr, text));
    l->lib->cm->ack_cm_event(event);
}

static int failed(const struct fl_addr *addr, struct fl_error *err)
{
    int r = errno ? -errno : -EIO;
    char text[FL_ADDR_TEXT_LEN];

    if (r == -EADDRINUSE) /* our own listeners are compared before, by the target */
        return fl_error_set(err, r, "%s is in use: another RDMA program listens on this port",
                            fl_addr_format(addr, text));
    if (r == -EADDRNOTAVAIL || r == -ENODEV)
        return fl_error_set(err, -EADDRNOTAVAIL, "no RDMA device of this machine has the address of %s",
                            fl_addr_format(addr, text));
    return fl_error_set(err, r, "%s: listen: %s", fl_addr_format(addr, text), strerror(-r));
}

/* By which device, and whose functions those are. */
static int choose(const struct fl_listen_options *o, const struct fl_rdma_lib **lib, struct fl_error *err)
{
    char text[FL_ADDR_TEXT_LEN];
    struct fl_choice choice;
    int r;

    *lib = o->rdma;
    if (*lib)
        return 0;
    r = fl_choose_at(&o->addr, o->dev, &choice, err);
    if (r == 0)
        r = fl_rdma_lib_get(choice.hardware, lib, err);
    if (r < 0)
        return fl_error_wrap(err, r == -ENODEV ? -EADDRNOTAVAIL : r, "%s", fl_addr_format(&o->addr, text));
    FL_INFO("rdma://%s: by %s%s%s", fl_addr_format(&o->addr, text),
            choice.hardware ? "hardware" : "the software RNIC", *choice.device ? ", " : "", choice.device);
    return 0;
}

static int rdma_listen_(const struct fl_listen_options *options, struct fl_listener **listener,
                        struct fl_error *err)
{
    struct fl_listener *l = calloc(1, sizeof(*l));
    struct fl_addr addr = options->addr;
    int one = 1, r;

    if (!l)
        return fl_error_set(err, -ENOMEM, "no memory for a listener");
    l->options = *options;
    l->options.dev = NULL;
    r = choose(options, &l->lib, err);
    if (r < 0)
        goto free_listener;
    l->channel = l->lib->cm->create_event_channel();
    if (!l->channel) {
        r = fl_rdma_no_manager(l->lib, err);
        goto free_listener;
    }
    if (fcntl(l->channel->fd, F_SETFL, O_NONBLOCK) < 0 ||
        l->lib->cm->create_id(l->channel, &l->id, l, RDMA_PS_TCP)) {
        r = fl_rdma_no_manager(l->lib, err);
        goto destroy_channel;
    }
    /* [::] and 0.0.0.0 are two listeners: each may be added and removed alone. */
    if (addr.ss.ss_family == AF_INET6)
        (void)l->lib->cm->set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one));
    if (l->lib->cm->bind_addr(l->id, (struct sockaddr *)&addr.ss) || l->lib->cm->listen(l->id, BACKLOG)) {
        r = failed(&addr, err);
        goto destroy_id;
    }
    l->watch = (struct fl_watch){.fd = l->channel->fd, .ready = ready};
    r = fl_watch_add(options->loop, &l->watch, EPOLLIN);
    if (r < 0) {
        fl_error_set(err, r, "the listener could not be watched: %s", strerror(-r));
        goto destroy_id;
    }
    fl_addr_set_port(&l->options.addr, be16toh(l->lib->cm->get_src_port(l->id)));
    *listener = l;
    return 0;

destroy_id:
    l->lib->cm->destroy_id(l->id);
destroy_channel:
    l->lib->cm->destroy_event_channel(l->channel);
free_listener:
    free(l);
    return r;
}

static void rdma_unlisten(struct fl_listener *l)
{
    fl_watch_del(&l->watch);
    l->lib->cm->destroy_id(l->id);
    l->lib->cm->destroy_event_channel(l->channel);
    while (l->shared) {
        struct fl_rdma_shared *shared = l->shared;

        l->shared = shared->next;
        fl_rdma_shared_put(shared); /* connections have theirs */
    }
    free(l);
}

static void rdma_listener_addr(const struct fl_listener *l, struct fl_addr *addr)
{
    *addr = l->options.addr;
}

const struct fl_transport fl_rdma_transport = {
    .name = "rdma",
    .most_capsule_len = 64u << 10, /* each receive has that much memory */
    .listen = rdma_listen_,
    .unlisten = rdma_unlisten,
    .listener_addr = rdma_listener_addr,
};
