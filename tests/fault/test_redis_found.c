/* A server that was lost is found again, whenever it happened and whoever noticed: nobody goes on
 * without Redis while Redis is there. Where its keys lie by then is for test_redis_moves. */
#include "base/world.h"
#include "check.h"
#include "redis/values_inside.h"
#include "redis_kit.h"
#include "shared/cache_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For minutes, if need be: on a busy machine a second may be nothing. */
enum { NAPS = 60000 };
static const double NAP = 0.01;

/* ---- the thread that looks for servers ------------------------------------------------------- */

/* Whoever asks for the time may lose the node just then: so each such moment of the writing thread
 * is one at which somebody else was quicker. */
static struct {
    const larder__world *real;
    larder__redis_values *_Atomic far;
    pthread_t test;
    _Atomic int left; /* questions until then; 0: not now */
    _Atomic int lost; /* times */
} moment;

static double now_and_lost(void) {
    larder__redis_values *f = atomic_load(&moment.far);
    if (f && !pthread_equal(pthread_self(), moment.test) && atomic_load(&moment.left) > 0 &&
        pthread_mutex_trylock(&f->lock) == 0) { /* else it has the lock: nobody can tell it now */
        pthread_mutex_unlock(&f->lock);
        if (atomic_fetch_sub(&moment.left, 1) == 1) {
            larder__node_lose(f, larder__redis_nodes_at(f, 0), "lost by a test");
            atomic_fetch_add(&moment.lost, 1);
        }
    }
    return moment.real->now();
}

static bool whole(larder__redis_values *f) {
    larder__node *n = larder__redis_nodes_at(f, 0);
    bool up = atomic_load(&n->up);
    for (uint32_t i = 0; i < f->conf.lanes; i++)
        up &= atomic_load(&n->lanes[i].up);
    return up;
}

static void until_whole(larder__redis_values *f) {
    for (int i = 0; i < NAPS && !whole(f); i++)
        kit_nap(NAP);
    if (!whole(f))
        fail_msg("its connections were never made again");
}

static larder__redis_values *open_values(const char *text) {
    static larder__cache_text parsed;
    larder__redis_values *f;
    check_ok(larder__cache_text_parse(&parsed, text, ""));
    larder__redis_values_conf conf = {.redis = &parsed.redis, .identity = 3, .owner = "g-l"};
    check_ok(larder__redis_values_open(&f, &conf));
    return f;
}

static void test_lost_at_any_moment(void **unused) {
    (void)unused;
    enum { MOMENTS = 24 }; /* it asks 13 times to connect once; then a thread at rest */
    kit_redis r;
    char text[100];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(text, sizeof text, "redis://127.0.0.1:%u?timeout=20s", r.port);
    moment.test = pthread_self();
    moment.real = larder__world_use(NULL);
    static larder__world bad;
    bad = *moment.real;
    bad.now = now_and_lost;
    larder__world_use(&bad);
    for (int at = 1; at <= MOMENTS; at++) {
        larder__redis_values *f = open_values(text);
        int before = atomic_load(&moment.lost);
        atomic_store(&moment.far, f);
        atomic_store(&moment.left, at);
        larder__node_lose(f, larder__redis_nodes_at(f, 0), "lost at first");
        for (int i = 0; i < NAPS && atomic_load(&moment.lost) == before; i++) {
            kit_nap(NAP);
            if (whole(f)) /* it sleeps: as if there were something to do */
                larder__redis_writer_wake(f);
        }
        assert_int_equal(atomic_load(&moment.lost), before + 1);
        until_whole(f);
        larder__redis_values_close(&f);
        atomic_store(&moment.far, NULL);
    }
    larder__world_use(moment.real);
    kit_redis_stop(&r);
}

/* A reader hears only now that the connection it waited on is gone, when some have been made anew
 * already. */
static void test_late_to_notice(void **unused) {
    (void)unused;
    kit_redis r;
    char text[100];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(text, sizeof text, "redis://127.0.0.1:%u?timeout=20s", r.port);
    larder__redis_values *f = open_values(text);
    larder__node *n = larder__redis_nodes_at(f, 0);
    pthread_mutex_lock(&n->lanes[1].recv); /* as whoever waits for an answer */
    larder__node_lose(f, n, "lost");
    for (int i = 0; i < NAPS && !atomic_load(&n->lanes[0].up); i++)
        kit_nap(NAP);
    assert_true(atomic_load(&n->lanes[0].up));
    larder__node_lose(f, n, "the same loss");
    pthread_mutex_unlock(&n->lanes[1].recv);
    until_whole(f);
    larder__redis_values_close(&f);
    kit_redis_stop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_at_any_moment),
        cmocka_unit_test(test_late_to_notice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
