/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers of one process are asked one at a time, one a round: if it is gone, so are all. Two things are signs
 * of that:
 *
 * - The host's kernel says that nobody has the port. It may be that the next hub is about to take it, and
 * anybody could have made that message: so all are asked, again and again, and who has said nothing when it
 * is still so is gone.
 * - No answer comes. The process, or its hub, may be stopped, or the network broken, which is nobody's end.
 * But it may also have been started again: then whoever has its place knows nothing of the connection, and
 * says so.
 */
#include "rnic/cma/vigil.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

#define LOOK_NS    (250 * FL_NS_PER_MS)
#define VERDICT_NS (2500 * FL_NS_PER_MS)
/* Since it was first refused: a hub is replaced sooner. The kernel may tell once a second only. */
#define STILL_NS (1000 * FL_NS_PER_MS)

uint64_t fl_vigil_round_ns = 5 * FL_NS_PER_S;

struct fl_vigil_home {
    struct fl_list link, peers;
    struct in6_addr host;
    uint32_t place;
    bool doubtful;
    uint64_t refused_at, refused_again_at;
};

void fl_vigil_init(struct fl_vigil *vigil, const struct fl_vigil_ops *ops)
{
    *vigil = (struct fl_vigil){.ops = ops, .next_round = FL_VIGIL_NEVER, .next_look = FL_VIGIL_NEVER};
    fl_list_init(&vigil->homes);
}

static struct fl_vigil_home *find(struct fl_vigil *vigil, const struct in6_addr *host, uint32_t place)
{
    struct fl_vigil_home *home;
    fl_list_for_each (home, &vigil->homes, link) {
        if (home->place == place && IN6_ARE_ADDR_EQUAL(&home->host, host))
            return home;
    }
    home = calloc(1, sizeof(*home));
    if (!home)
        return NULL;
    home->host = *host;
    home->place = place;
    fl_list_init(&home->peers);
    fl_list_add_tail(&vigil->homes, &home->link);
    return home;
}

int fl_vigil_add(struct fl_vigil *vigil, struct fl_vigil_peer *peer, const struct in6_addr *host,
                 uint32_t place, uint64_t now)
{
    if (peer->home)
        return 0;
    if (fl_list_empty(&vigil->homes))
        vigil->next_round = now + fl_vigil_round_ns;
    struct fl_vigil_home *home = find(vigil, host, place);
    if (!home)
        return -ENOMEM;
    peer->home = home;
    peer->asked = false;
    peer->nr_came = vigil->ops->nr_came(peer);
    fl_list_add_tail(&home->peers, &peer->link);
    return 0;
}

void fl_vigil_del(struct fl_vigil_peer *peer)
{
    struct fl_vigil_home *home = peer->home;
    if (!home)
        return;
    peer->home = NULL;
    fl_list_del(&peer->link); /* a home that is empty goes with the next round */
}

/* What has been asked and has not answered */
static bool is_silent(const struct fl_vigil *vigil, const struct fl_vigil_peer *peer)
{
    return peer->asked && vigil->ops->nr_came(peer) == peer->nr_came;
}

static void ask(const struct fl_vigil *vigil, struct fl_vigil_peer *peer)
{
    peer->nr_came = vigil->ops->nr_came(peer);
    peer->asked = vigil->ops->ask(peer);
}

static void doubt(struct fl_vigil *vigil, struct fl_vigil_home *home, uint64_t now)
{
    struct fl_vigil_peer *peer;
    home->doubtful = true;
    home->refused_at = now;
    fl_list_for_each (peer, &home->peers, link)
        ask(vigil, peer);
    vigil->next_look = FL_MIN(vigil->next_look, now + LOOK_NS);
}

bool fl_vigil_refused(struct fl_vigil *vigil, const struct in6_addr *host, uint64_t now)
{
    struct fl_vigil_home *home;
    bool any = false;
    fl_list_for_each (home, &vigil->homes, link) {
        if (!IN6_ARE_ADDR_EQUAL(&home->host, host) || fl_list_empty(&home->peers))
            continue;
        if (!home->doubtful)
            doubt(vigil, home, now);
        home->refused_again_at = now;
        any = true;
    }
    return any;
}

/* Once more, who was asked and said nothing: a packet may be lost. */
static void look(struct fl_vigil *vigil, struct fl_vigil_home *home, uint64_t now)
{
    struct fl_vigil_peer *peer, *tmp;
    const bool over = now - home->refused_at >= VERDICT_NS;
    const bool still = home->refused_again_at - home->refused_at >= STILL_NS;
    home->doubtful = !over;
    fl_list_for_each_safe (peer, tmp, &home->peers, link) {
        if (!is_silent(vigil, peer))
            continue;
        if (!over)
            peer->asked = vigil->ops->ask(peer);
        else if (still)
            vigil->ops->gone(peer);
    }
}

static void look_at_doubtful(struct fl_vigil *vigil, uint64_t now)
{
    struct fl_vigil_home *home;
    vigil->next_look = FL_VIGIL_NEVER;
    fl_list_for_each (home, &vigil->homes, link) {
        if (home->doubtful)
            look(vigil, home, now);
        if (home->doubtful)
            vigil->next_look = now + LOOK_NS;
    }
}

static void ask_one(struct fl_vigil *vigil, struct fl_vigil_home *home)
{
    struct fl_vigil_peer *peer = FL_LIST_FIRST(&home->peers, struct fl_vigil_peer, link);
    if (!is_silent(vigil, peer)) {
        fl_list_del(&peer->link);
        fl_list_add_tail(&home->peers, &peer->link);
        ask(vigil, FL_LIST_FIRST(&home->peers, struct fl_vigil_peer, link));
        return;
    }
    fl_list_for_each (peer, &home->peers, link) {
        if (is_silent(vigil, peer))
            vigil->ops->ask_place(peer);
        ask(vigil, peer);
    }
}

static void go_round(struct fl_vigil *vigil)
{
    struct fl_vigil_home *home, *tmp;
    fl_list_for_each_safe (home, tmp, &vigil->homes, link) {
        if (fl_list_empty(&home->peers)) {
            fl_list_del(&home->link);
            free(home);
        } else if (!home->doubtful) {
            ask_one(vigil, home);
        }
    }
}

void fl_vigil_tick(struct fl_vigil *vigil, uint64_t now)
{
    if (now >= vigil->next_look)
        look_at_doubtful(vigil, now);
    if (now >= vigil->next_round) {
        go_round(vigil);
        vigil->next_round = fl_list_empty(&vigil->homes) ? FL_VIGIL_NEVER : now + fl_vigil_round_ns;
    }
}

uint64_t fl_vigil_deadline(const struct fl_vigil *vigil)
{
    return FL_MIN(vigil->next_round, vigil->next_look);
}
