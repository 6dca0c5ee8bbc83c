/* A crew whose workers are C: requests and answers, several threads, workers that lie, end or are
 * given up. */
#include "check.h"

#include "crew/answer_of_worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 3, ENDS = 666, LIES = 667, WAITS = 668, REFUSES = 669 };

typedef struct hands { /* workers, as whoever starts them sees them */
    larder_crew_worker ends[MOST];
    int theirs[MOST]; /* the other ends of the sockets, in the child */
    pid_t pids[MOST];
    uint32_t count;
} hands;

/* ---- the worker ------------------------------------------------------------------------------ */

typedef struct seat {
    int socket, in, out;
    unsigned char *asked, *answers;
    size_t asked_size, answers_size;
} seat;

static void see(unsigned char **at, size_t *size, int fd, size_t want) {
    if (want <= *size)
        return;
    *at = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *size = want;
}

static size_t put(unsigned char *out, size_t k, size_t at, const void *bytes, size_t n, int code) {
    larder__crew_record r = {.offset = at, .bytes = n, .code = code};
    memcpy(out + LARDER__CREW_PROGRESS + k * sizeof r, &r, sizeof r);
    memcpy(out + at, bytes, n);
    return (at + n + 63) / 64 * 64;
}

/* Sample i is "i:chance:" and what was given; some are odd. */
static void answer(seat *s, const larder__crew_request *m) {
    size_t at = LARDER__CREW_PROGRESS + m->n * sizeof(larder__crew_record), need = at + m->used;
    need = need * 4 + (size_t)m->n * 256;
    if (need > s->answers_size && ftruncate(s->out, (off_t)need) == 0)
        see(&s->answers, &s->answers_size, s->out, need);
    see(&s->asked, &s->asked_size, s->in, m->size);
    uint32_t many = m->task == LARDER_CREW_JOIN ? 1 : m->n;
    larder__crew_answer a = {.magic = LARDER_CREW_TELLS,
                             .n = many,
                             .number = m->number,
                             .size = s->answers_size,
                             .used = s->answers_size};
    at = (at + 63) / 64 * 64;
    for (uint32_t k = 0; k < m->n; k++) {
        larder__crew_asked q;
        char text[200];
        memcpy(&q, s->asked + k * sizeof q, sizeof q);
        memcpy(s->answers, &k, sizeof k);
        if (q.id == ENDS)
            raise(SIGKILL);
        if (q.id == WAITS)
            usleep(300000); /* long enough to be given up; nothing depends on it */
        if (q.id == LIES)
            a.number++;
        size_t n = (size_t)snprintf(text, sizeof text, "%llu:%llu:%.*s", (unsigned long long)q.id,
                                    (unsigned long long)q.chance, (int)q.bytes,
                                    (char *)s->asked + q.offset);
        if (q.id == REFUSES)
            at = put(s->answers, k, at, "no\0because", 10, LARDER_E_NOTFOUND);
        else if (k < many)
            at = put(s->answers, k, at, text, n + 1, 0);
    }
    if (send(s->socket, &a, sizeof a, 0) < 0)
        _exit(1);
}

static void serve(int socket, int in, int out) {
    seat s = {.socket = socket, .in = in, .out = out};
    larder__crew_request m;
    while (recv(socket, &m, sizeof m, 0) == sizeof m)
        answer(&s, &m);
    _exit(0);
}

static larder_crew *start(hands *h, uint32_t count, uint64_t seed) {
    *h = (hands){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        h->ends[i] = (larder_crew_worker){.socket = pair[0],
                                          .in = memfd_create("in", MFD_ALLOW_SEALING),
                                          .out = memfd_create("out", MFD_ALLOW_SEALING)};
        h->pids[i] = fork();
        if (h->pids[i] == 0) {
            for (uint32_t k = 0; k <= i; k++)
                close(h->ends[k].socket);
            serve(pair[1], h->ends[i].in, h->ends[i].out);
        }
        close(pair[1]);
        h->ends[i].process = h->pids[i];
    }
    larder_crew *c = NULL;
    assert_int_equal(larder_crew_open(&c, h->ends, count, 1000, seed), 0);
    return c;
}

static void end(larder_crew **c, const hands *h) {
    larder_crew_close(c);
    for (uint32_t i = 0; i < h->count; i++)
        assert_int_equal(waitpid(h->pids[i], NULL, 0), h->pids[i]);
}

static const char *text_of(larder_read *r) {
    static char text[200];
    assert_int_equal(r->code, 0);
    snprintf(text, sizeof text, "%s", (char *)larder_buf_data(r->buf));
    larder_buf_unref(&r->buf);
    return text;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The k-th read of a sample has one chance in any crew, and another each time. */
static void test_reads(void **state) {
    (void)state;
    hands one, three;
    larder_crew *a = start(&one, 1, 5), *b = start(&three, 3, 5);
    const uint64_t ids[2] = {4, 9};
    char first[200], again[200];
    larder_read r[2] = {0};
    assert_int_equal(larder_crew_read(a, ids, 2, r), 0);
    snprintf(first, sizeof first, "%s", text_of(&r[0]));
    larder_buf_unref(&r[1].buf);
    assert_int_equal(larder_crew_read(a, ids, 1, r), 0);
    snprintf(again, sizeof again, "%s", text_of(&r[0]));
    assert_memory_equal(first, "4:", 2);
    assert_string_not_equal(first, again);
    assert_int_equal(larder_crew_read(b, ids, 1, r), 0);
    assert_string_equal(text_of(&r[0]), first);
    assert_int_equal(larder_crew_read(b, ids, 1, r), 0);
    assert_string_equal(text_of(&r[0]), again);
    end(&a, &one);
    end(&b, &three);
}

static void test_makes(void **state) {
    (void)state;
    hands h;
    larder_crew *c = start(&h, 2, 0);
    const uint64_t ids[3] = {1, REFUSES, 3}, chances[3] = {10, 20, 30};
    larder_buf *in[3];
    larder_read r[3] = {0};
    for (int i = 0; i < 3; i++) {
        in[i] = larder_buf_new(i == 2 ? 100000 : 4); /* more than there is room for at first */
        memset(larder_buf_data(in[i]), 'a' + i, larder_buf_size(in[i]));
        memcpy(larder_buf_data(in[i]), "in", 3);
    }
    assert_int_equal(larder_crew_make(c, ids, chances, in, 3, r), 0);
    assert_string_equal(text_of(&r[0]), "1:10:in");
    assert_int_equal(r[1].code, LARDER_E_NOTFOUND);
    assert_string_equal(r[1].why, "no");
    assert_string_equal(text_of(&r[2]), "3:30:in");
    char trace[20];
    larder_crew_traced(c, REFUSES, trace, sizeof trace);
    assert_string_equal(trace, "because");
    larder_crew_traced(c, 1, trace, sizeof trace);
    assert_string_equal(trace, "");
    assert_int_equal(larder_crew_join(c, ids, chances, in, 1, r), 0);
    assert_string_equal(text_of(&r[0]), "1:10:in");
    for (int i = 0; i < 3; i++)
        larder_buf_unref(&in[i]);
    end(&c, &h);
}

static void test_a_lie_is_refused(void **state) {
    (void)state;
    hands h;
    larder_crew *c = start(&h, 1, 0);
    const uint64_t ids[1] = {LIES};
    larder_read r[1] = {0};
    assert_int_equal(larder_crew_read(c, ids, 1, r), LARDER_E_FORMAT);
    end(&c, &h);
}

/* Which sample, and how it ended; and nobody works on with those that are left. */
static void test_a_worker_ends(void **state) {
    (void)state;
    hands h;
    larder_crew *c = start(&h, 2, 0);
    const uint64_t ids[3] = {1, ENDS, 2};
    larder_read r[3] = {0};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(larder_crew_read(c, k ? ids + 2 : ids, k ? 1 : 3, r), LARDER_E_STATE);
        assert_non_null(strstr(larder_errmsg(), "sample 666:"));
        assert_non_null(strstr(larder_errmsg(), "signal 9"));
    }
    end(&c, &h);
}

static void *read_slow(void *crew) {
    const uint64_t ids[1] = {WAITS};
    larder_read r[1] = {0};
    return (void *)(intptr_t)larder_crew_read(crew, ids, 1, r);
}

/* Given up, and gone on with: the answer that nobody waited for does not come to another. */
static void test_interrupted(void **state) {
    (void)state;
    hands h;
    larder_crew *c = start(&h, 1, 0);
    pthread_t thread;
    void *rc;
    assert_int_equal(pthread_create(&thread, NULL, read_slow, c), 0);
    usleep(20000);
    larder_crew_interrupt(c, true);
    larder_crew_interrupt(c, true);
    pthread_join(thread, &rc);
    assert_int_equal((intptr_t)rc, LARDER_E_CANCELLED);
    assert_int_equal((intptr_t)read_slow(c), LARDER_E_CANCELLED);
    larder_crew_interrupt(c, false);
    const uint64_t ids[1] = {12};
    larder_read r[1] = {0};
    assert_int_equal(larder_crew_read(c, ids, 1, r), 0);
    assert_memory_equal(text_of(&r[0]), "12:", 3);
    end(&c, &h);
}

typedef struct reader {
    larder_crew *crew;
    uint64_t from;
} reader;

static void *read_many(void *arg) {
    const reader *me = arg;
    for (uint64_t k = 0; k < 200; k++) {
        uint64_t ids[2] = {(me->from + k) % 600, (me->from + 7 * k) % 600};
        larder_read r[2] = {0};
        char want[20];
        if (larder_crew_read(me->crew, ids, 2, r) < 0)
            return arg;
        for (int i = 0; i < 2; i++) {
            snprintf(want, sizeof want, "%llu:", (unsigned long long)ids[i]);
            bool same = r[i].buf && strncmp(larder_buf_data(r[i].buf), want, strlen(want)) == 0;
            larder_buf_unref(&r[i].buf);
            if (!same)
                return arg;
        }
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    hands h;
    larder_crew *c = start(&h, 2, 0);
    pthread_t threads[5];
    reader readers[5];
    for (uint64_t i = 0; i < 5; i++) {
        readers[i] = (reader){c, i * 100};
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < 5; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    end(&c, &h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_makes),
        cmocka_unit_test(test_a_lie_is_refused),
        cmocka_unit_test(test_a_worker_ends),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
