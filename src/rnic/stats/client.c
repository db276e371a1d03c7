/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/stats/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "rnic/hub/find.h"

#define HUB_MS    1000 /* for the hub to answer */
#define NO_HUB_MS 150  /* for another one to take over from a hub that was killed */
#define VIEW_MS   5000 /* for all that a process says of itself */
#define ANSWER_MS 1000 /* for one answer: its thread may have to wait for a CPU */
#define TRIES     3    /* when what is asked goes meanwhile: the hub, queue pairs */
#define DEVICES   4096

static bool wait_readable(int fd, uint64_t end_ns)
{
    uint64_t now = fl_now_ns();
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    return now < end_ns && poll(&pfd, 1, (int)((end_ns - now) / FL_NS_PER_MS) + 1) > 0;
}

/* ---- the list ---- */

static int connect_to_hub(struct fl_hub_link *link, const char *name)
{
    uint64_t end = fl_now_ns() + NO_HUB_MS * FL_NS_PER_MS;
    struct fl_hub_search search;
    int rc;
    while ((rc = fl_hub_find(link, name, 0, "", true, &search)) == -ENOENT && fl_now_ns() < end)
        poll(NULL, 0, 5);
    return rc;
}

static int wait_for_welcome(struct fl_hub_link *link)
{
    uint64_t end = fl_now_ns() + HUB_MS * FL_NS_PER_MS;
    struct fl_hub_msg msg;
    while (!link->welcome) {
        if (!wait_readable(link->fd, end))
            return -ETIMEDOUT;
        int rc = fl_hub_link_recv(link, &msg);
        if (rc < 0)
            return rc;
        if (rc > 0 && msg.type == FL_HUB_WELCOME && msg.status)
            return -EUSERS;
    }
    return 0;
}

static int read_table(const struct fl_hub_link *link, int hub_pid, struct fl_stats_listed **list)
{
    struct fl_stats_listed *all = calloc(FL_HUB_SLOTS, sizeof(*all));
    struct fl_hub_slot entry;
    int nr = 0;
    if (!all)
        return -ENOMEM;
    for (uint32_t slot = 1; slot < FL_HUB_SLOTS; slot++) {
        if (!fl_hub_slot_read(link->shared, slot, &entry) || entry.state != FL_HUB_MEMBER ||
            !entry.address[0])
            continue;
        all[nr] = (struct fl_stats_listed){
            .pid = entry.pid, .uid = entry.uid, .slot = slot, .is_hub = hub_pid && entry.pid == hub_pid};
        fl_stats_address(entry.address, all[nr++].address);
    }
    *list = all;
    return nr;
}

/* Another takes over from a hub that goes while it is asked. */
static int ask_hub(struct fl_hub_link *link, const char *name, struct fl_hub_peer *hub)
{
    int rc = -EPIPE;
    for (int i = 0; i < TRIES && (rc == -EPIPE || rc == -ECONNRESET); i++) {
        fl_hub_link_fini(link);
        fl_hub_link_init(link, NULL);
        rc = connect_to_hub(link, name);
        if (rc < 0)
            continue;
        fl_hub_unix_peer(link->fd, hub);
        rc = wait_for_welcome(link);
    }
    return rc;
}

int fl_stats_list(const char *hub_path, uint16_t udp_port, struct fl_stats_listed **list,
                  struct fl_error *err)
{
    struct fl_hub_peer hub = {0};
    struct fl_hub_link link;
    char name[FL_HUB_NAME_LEN];
    if (fl_hub_default_name(hub_path, udp_port, name) < 0)
        return fl_error_set(err, -EINVAL, "name of the hub is too long: %s", hub_path);
    fl_hub_link_init(&link, NULL);
    int rc = ask_hub(&link, name, &hub);
    if (rc == -ENOENT)
        fl_error_set(err, rc, "no process here uses the software RNIC (UDP port %u)", udp_port);
    else if (rc == -ETIMEDOUT)
        fl_error_set(err, rc, "process %d, the hub of UDP port %u, does not answer: is it stopped?", hub.pid,
                     udp_port);
    else if (rc < 0)
        fl_error_set(err, rc, "the hub of UDP port %u cannot be asked: %s", udp_port, strerror(-rc));
    else
        rc = read_table(&link, hub.pid, list);
    fl_hub_link_fini(&link);
    return rc;
}

/* ---- one process ---- */

static void end_text(char *text, size_t size)
{
    text[size - 1] = 0;
}

/* What comes may be a process of any user's, whose word root does not take for it. */
static bool is_sound(const struct fl_stats_answer *a, const struct fl_stats_ask *ask)
{
    const uint32_t max = ask->what == FL_STATS_QPS       ? FL_STATS_QPS_MAX
                         : ask->what == FL_STATS_DEVICES ? FL_STATS_DEVICES_MAX
                                                         : 1;
    return a->magic == FL_STATS_MAGIC && a->what == ask->what && a->nr <= max &&
           (!a->next || a->next > ask->from);
}

static void end_texts(struct fl_stats_answer *a)
{
    for (uint32_t i = 0; a->what == FL_STATS_DEVICES && i < a->nr; i++) {
        end_text(a->devices[i].name, sizeof(a->devices[i].name));
        end_text(a->devices[i].ifname, sizeof(a->devices[i].ifname));
    }
    for (uint32_t i = 0; a->what == FL_STATS_QPS && i < a->nr; i++) {
        end_text(a->qps[i].device, sizeof(a->qps[i].device));
        end_text(a->qps[i].path, sizeof(a->qps[i].path));
        end_text(a->qps[i].how, sizeof(a->qps[i].how));
        end_text(a->qps[i].reason, sizeof(a->qps[i].reason));
    }
}

static int ask_one(int fd, const struct fl_stats_ask *ask, struct fl_stats_answer *answer, uint64_t end_ns)
{
    uint64_t end = FL_MIN(end_ns, fl_now_ns() + ANSWER_MS * FL_NS_PER_MS);
    /* A refusal is there before the question, and its sender gone. */
    if (send(fd, ask, sizeof(*ask), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EPIPE)
        return -errno;
    if (!wait_readable(fd, end))
        return -ETIMEDOUT;
    ssize_t len = recv(fd, answer, sizeof(*answer), MSG_DONTWAIT | MSG_TRUNC);
    if (len < 0 && errno == ECONNRESET) /* the question was not read; the refusal may lie behind that error */
        len = recv(fd, answer, sizeof(*answer), MSG_DONTWAIT | MSG_TRUNC);
    if (len < 0)
        return -errno;
    if (len != sizeof(*answer))
        return len ? -EPROTO : -ECONNRESET;
    if (answer->magic == FL_STATS_MAGIC && answer->status < 0)
        return answer->status > -4096 ? answer->status : -EPROTO;
    if (!is_sound(answer, ask))
        return -EPROTO;
    end_texts(answer);
    return 0;
}

static int append(void **list, uint32_t *nr, const void *entries, uint32_t nr_more, size_t size)
{
    if (!nr_more)
        return 0;
    void *more = realloc(*list, (*nr + nr_more) * size);
    if (!more)
        return -ENOMEM;
    memcpy((char *)more + *nr * size, entries, nr_more * size);
    *list = more;
    *nr += nr_more;
    return 0;
}

static int take(struct fl_stats_view *view, const struct fl_stats_answer *a)
{
    switch ((enum fl_stats_what)a->what) {
    case FL_STATS_PROCESS:
        view->process = a->process;
        return 0;
    case FL_STATS_DEVICES:
        if (view->nr_devices > DEVICES)
            return -EPROTO;
        return append((void **)&view->devices, &view->nr_devices, a->devices, a->nr, sizeof(a->devices[0]));
    case FL_STATS_QPS:
        return append((void **)&view->qps, &view->nr_qps, a->qps, a->nr, sizeof(a->qps[0]));
    }
    return -EPROTO;
}

/* *nr_gone: as the first answer has it; -EAGAIN: changed since. */
static int ask_all(int fd, struct fl_stats_view *view, struct fl_stats_answer *answer, uint64_t end_ns)
{
    uint32_t nr_gone = 0;
    for (uint32_t what = FL_STATS_PROCESS; what <= FL_STATS_QPS; what++) {
        struct fl_stats_ask ask = {.magic = FL_STATS_MAGIC, .what = what};
        do {
            int rc = ask_one(fd, &ask, answer, end_ns);
            if (rc == 0)
                rc = take(view, answer);
            if (rc < 0)
                return rc;
            if (what == FL_STATS_PROCESS)
                nr_gone = answer->nr_gone;
            ask.from = answer->next;
        } while (ask.from);
    }
    return nr_gone == answer->nr_gone ? 0 : -EAGAIN;
}

int fl_stats_view_get(const char *address, struct fl_stats_view *view)
{
    uint64_t end = fl_now_ns() + VIEW_MS * FL_NS_PER_MS;
    struct fl_stats_answer *answer = malloc(sizeof(*answer));
    struct fl_hub_peer peer;
    int fd = answer ? fl_hub_unix_connect(address) : -ENOMEM, rc = fd;
    *view = (struct fl_stats_view){0};
    if (fd >= 0) {
        if (fl_hub_unix_peer(fd, &peer) == 0)
            view->pid = peer.pid;
        for (int i = 0; i < TRIES; i++) {
            fl_stats_view_free(view);
            rc = ask_all(fd, view, answer, end);
            if (rc != -EAGAIN)
                break;
        }
        /* Queue pairs come and go all the time: nearly right then. */
        if (rc == -EAGAIN)
            rc = 0;
        close(fd);
    }
    free(answer);
    if (rc < 0)
        fl_stats_view_free(view);
    return rc;
}

void fl_stats_view_free(struct fl_stats_view *view)
{
    free(view->devices);
    free(view->qps);
    *view = (struct fl_stats_view){.pid = view->pid};
}

void fl_stats_sum(const struct fl_stats_view *view, const struct fl_stats_device *device,
                  uint64_t counters[FL_NR_QP_COUNTERS])
{
    memcpy(counters, device->gone, sizeof(device->gone));
    for (uint32_t i = 0; i < view->nr_qps; i++) {
        for (int c = 0; c < FL_NR_QP_COUNTERS && !strcmp(view->qps[i].device, device->name); c++)
            counters[c] += view->qps[i].counters[c];
    }
}
