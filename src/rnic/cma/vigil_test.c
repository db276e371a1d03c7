/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of other hosts that live, die, are stopped or started again, in scripted time. */
#include <string.h>

#include "base/clock.h"
#include "base/unit.h"
#include "rnic/cma/vigil.h"

#define PEERS 3
#define STEP  (50 * FL_NS_PER_MS)

enum fate { LIVES, STOPPED, DEAD, STARTED_AGAIN };

static struct peer {
    struct fl_vigil_peer vigil;
    uint64_t nr_came;
    enum fate fate;
    uint32_t host;
    bool busy; /* data waits for an answer */
    int nr_asked, nr_place;
    uint64_t ended_at; /* 0: it is connected */
} peers[PEERS];

static struct fl_vigil vigil;
static uint64_t now;
static uint64_t refuses_till[4], refused_at[4]; /* by host: nobody has the port */
static bool loses_answers;

static struct in6_addr address(uint32_t host)
{
    return (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, [15] = (uint8_t)host}};
}

static uint64_t nr_came(const struct fl_vigil_peer *p)
{
    return ((const struct peer *)p)->nr_came;
}

static bool ask(struct fl_vigil_peer *p)
{
    struct peer *peer = (struct peer *)p;
    if (peer->busy)
        return false;
    peer->nr_asked++;
    if (now < refuses_till[peer->host])
        refused_at[peer->host] = now;
    else
        peer->nr_came += peer->fate == LIVES && !loses_answers;
    return true;
}

static void end(struct peer *peer)
{
    assert_int_equal(peer->ended_at, 0);
    peer->ended_at = now;
    fl_vigil_del(&peer->vigil);
}

static void ask_place(struct fl_vigil_peer *p)
{
    ((struct peer *)p)->nr_place++;
}

static void gone(struct fl_vigil_peer *p)
{
    end((struct peer *)p);
}

static const struct fl_vigil_ops ops = {.nr_came = nr_came, .ask = ask, .ask_place = ask_place, .gone = gone};

static int set_up(void **state)
{
    memset(peers, 0, sizeof(peers));
    memset(refuses_till, 0, sizeof(refuses_till));
    memset(refused_at, 0, sizeof(refused_at));
    loses_answers = false;
    now = FL_NS_PER_S;
    fl_vigil_init(&vigil, &ops);
    assert_true(fl_vigil_deadline(&vigil) == FL_VIGIL_NEVER);
    return 0;
}

/* All end, and nothing is left. */
static int tear_down(void **state)
{
    for (int i = 0; i < PEERS; i++)
        fl_vigil_del(&peers[i].vigil);
    for (int i = 0; i < 4 && fl_vigil_deadline(&vigil) != FL_VIGIL_NEVER; i++) {
        now = fl_vigil_deadline(&vigil);
        fl_vigil_tick(&vigil, now);
    }
    return fl_vigil_deadline(&vigil) != FL_VIGIL_NEVER;
}

static void add(int i, uint32_t host, uint32_t place)
{
    const struct in6_addr gid = address(host);
    peers[i].host = host;
    assert_int_equal(fl_vigil_add(&vigil, &peers[i].vigil, &gid, place, now), 0);
}

/* What hosts and places say comes one step later. */
static void run(uint64_t ns)
{
    for (uint64_t till = now + ns; now < till;) {
        now += STEP;
        for (uint32_t host = 0; host < FL_ARRAY_LEN(refused_at); host++) {
            const struct in6_addr gid = address(host);
            if (refused_at[host])
                assert_true(fl_vigil_refused(&vigil, &gid, now));
            refused_at[host] = 0;
        }
        for (int i = 0; i < PEERS; i++) {
            if (peers[i].nr_place && peers[i].fate == STARTED_AGAIN && !peers[i].ended_at)
                end(&peers[i]);
        }
        if (now >= fl_vigil_deadline(&vigil))
            fl_vigil_tick(&vigil, now);
    }
}

static void one_that_lives_is_asked_now_and_then(void **state)
{
    add(0, 1, 1);
    add(1, 1, 1);
    add(2, 2, 1);
    run(60 * FL_NS_PER_S);
    for (int i = 0; i < PEERS; i++)
        assert_true(!peers[i].ended_at && !peers[i].nr_place);
    assert_in_range(peers[0].nr_asked + peers[1].nr_asked, 10, 12); /* one of a process */
    assert_in_range(peers[2].nr_asked, 10, 12);
}

static void dies_alone(void **state)
{
    add(0, 1, 1);
    add(1, 1, 1);
    add(2, 2, 1);
    run(7 * FL_NS_PER_S);
    peers[0].fate = peers[1].fate = DEAD;
    refuses_till[1] = UINT64_MAX;
    uint64_t since = now;
    run(8 * FL_NS_PER_S);
    for (int i = 0; i < 2; i++)
        assert_in_range(peers[i].ended_at - since, 1, 8 * FL_NS_PER_S);
    assert_int_equal(peers[2].ended_at, 0);
}

/* For a moment nobody has the port: the hub died, the peer did not. */
static void another_hub_comes(void **state)
{
    add(0, 1, 1);
    run(4 * FL_NS_PER_S);
    refuses_till[1] = now + 1500 * FL_NS_PER_MS;
    run(30 * FL_NS_PER_S);
    assert_true(peers[0].nr_asked > 6); /* it was in doubt */
    assert_int_equal(peers[0].ended_at, 0);
}

/* Two of the three processes of a host died, and the third is the hub from a moment later on. */
static void a_hub_that_comes_soon_is_no_proof(void **state)
{
    add(0, 1, 1);
    add(1, 1, 2);
    run(4 * FL_NS_PER_S);
    peers[0].fate = STOPPED;
    refuses_till[1] = now + 1100 * FL_NS_PER_MS;
    run(30 * FL_NS_PER_S);
    assert_true(!peers[0].ended_at && !peers[1].ended_at);
}

/* A message that anybody can send ends nothing that answers. */
static void forged_refusals(void **state)
{
    const struct in6_addr host = address(1), other = address(3);
    add(0, 1, 1);
    for (int i = 0; i < 200; i++) {
        assert_true(fl_vigil_refused(&vigil, &host, now));
        assert_false(fl_vigil_refused(&vigil, &other, now));
        run(100 * FL_NS_PER_MS);
    }
    assert_int_equal(peers[0].ended_at, 0);
}

static void stopped(void **state)
{
    add(0, 1, 1);
    peers[0].fate = STOPPED;
    run(60 * FL_NS_PER_S);
    assert_true(peers[0].nr_place > 5);
    assert_int_equal(peers[0].ended_at, 0);
    peers[0].fate = LIVES;
    run(11 * FL_NS_PER_S);
    int before = peers[0].nr_place;
    run(30 * FL_NS_PER_S);
    assert_int_equal(peers[0].nr_place, before);
}

static void started_again(void **state)
{
    add(0, 1, 1);
    add(1, 1, 1);
    add(2, 1, 2);
    run(6 * FL_NS_PER_S);
    peers[0].fate = peers[1].fate = STARTED_AGAIN;
    uint64_t since = now;
    run(16 * FL_NS_PER_S);
    for (int i = 0; i < 2; i++)
        assert_in_range(peers[i].ended_at - since, 1, 16 * FL_NS_PER_S);
    assert_true(!peers[2].ended_at && !peers[2].nr_place);
}

/* One answer is lost: its place is asked, which does no harm. */
static void lost_answers(void **state)
{
    add(0, 1, 1);
    loses_answers = true;
    run(11 * FL_NS_PER_S);
    loses_answers = false;
    run(20 * FL_NS_PER_S);
    assert_in_range(peers[0].nr_place, 1, 2);
    assert_int_equal(peers[0].ended_at, 0);
}

/* Its own retries tell. */
static void data_on_its_way(void **state)
{
    const struct in6_addr host = address(1);
    add(0, 1, 1);
    peers[0].busy = true;
    peers[0].fate = DEAD;
    for (int i = 0; i < 100; i++) {
        fl_vigil_refused(&vigil, &host, now);
        run(100 * FL_NS_PER_MS);
    }
    assert_true(!peers[0].ended_at && !peers[0].nr_asked && !peers[0].nr_place);
}

static void ends_while_in_doubt(void **state)
{
    add(0, 1, 1);
    add(1, 1, 1);
    peers[0].fate = peers[1].fate = DEAD;
    refuses_till[1] = UINT64_MAX;
    run(6 * FL_NS_PER_S);
    end(&peers[0]);
    run(3 * FL_NS_PER_S);
    assert_true(peers[1].ended_at);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    return FL_UNIT_RUN(TEST(one_that_lives_is_asked_now_and_then), TEST(dies_alone), TEST(another_hub_comes),
                       TEST(a_hub_that_comes_soon_is_no_proof), TEST(forged_refusals), TEST(stopped),
                       TEST(started_again), TEST(lost_answers), TEST(data_on_its_way),
                       TEST(ends_while_in_doubt));
}
