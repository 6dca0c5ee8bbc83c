/* A crew whose workers are C: requests and answers, several threads, workers that lie, end or are
 * given up. */
#include "check.h"

#include "base/mem.h"
#include "crew/answer_of_worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 3, ENDS = 666, LIES = 667, WAITS = 668, REFUSES = 669, SHORT = 670, LEAVES = 671 };
/* Ids of samples whose answer is wrong in one way each. */
enum { NO_MAGIC = 700, OF_MORE, USED_MORE, USED_LESS, LARGER, OUTSIDE, TOO_LONG };

typedef struct hands { /* workers, as whoever starts them sees them */
    larder_crew_worker ends[MOST];
    int theirs[MOST]; /* the other ends of the sockets, in the child */
    pid_t pids[MOST];
    uint32_t count;
} hands;

/* ---- the worker ------------------------------------------------------------------------------ */

static int waits[2], goes_on[2]; /* pipes */

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
        if (q.id == WAITS) { /* says so, and goes on when it is told to */
            char byte = 0;
            must(write(waits[1], &byte, 1) == 1 && read(goes_on[0], &byte, 1) == 1);
        }
        if (q.id == LIES)
            a.number++;
        if (q.id == LEAVES)
            _exit(3);
        if (q.id == SHORT && send(s->socket, "?", 1, 0) == 1)
            return;
        if (q.id == NO_MAGIC)
            a.magic++;
        if (q.id == OF_MORE)
            a.n++;
        if (q.id == USED_MORE)
            a.used = a.size + 1;
        if (q.id == USED_LESS)
            a.used = 1;
        if (q.id == LARGER) /* than the memory it shares */
            a.size = a.used = (uint64_t)1 << 40;
        size_t n = (size_t)snprintf(text, sizeof text, "%llu:%llu:%.*s", (unsigned long long)q.id,
                                    (unsigned long long)q.chance, (int)q.bytes,
                                    (char *)s->asked + q.offset);
        if (q.id == REFUSES)
            at = put(s->answers, k, at, "no\0because", 10, LARDER_E_NOTFOUND);
        else if (k < many)
            at = put(s->answers, k, at, text, n + 1, 0);
        larder__crew_record odd = {.offset = q.id == OUTSIDE ? a.used + 1 : a.used - 1,
                                   .bytes = (uint64_t)1 << 33};
        if (q.id == OUTSIDE || q.id == TOO_LONG)
            memcpy(s->answers + LARDER__CREW_PROGRESS + k * sizeof odd, &odd, sizeof odd);
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

static void test_every_lie_is_refused(void **state) {
    (void)state;
    static const uint64_t lies[] = {SHORT,     NO_MAGIC, OF_MORE, USED_MORE,
                                    USED_LESS, LARGER,   OUTSIDE, TOO_LONG};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        hands h;
        larder_crew *c = start(&h, 1, 0);
        larder_read r[1] = {0};
        int rc = larder_crew_read(c, &lies[i], 1, r);
        if (lies[i] >= OUTSIDE && rc == 0) /* of one sample alone */
            rc = r[0].code;
        if (rc != LARDER_E_FORMAT)
            fail_msg("lie %llu: %d, %s", (unsigned long long)lies[i], rc, larder_errmsg());
        const uint64_t fine = 5; /* after what is no answer the next one is heard */
        if (lies[i] == OUTSIDE) {
            assert_int_equal(larder_crew_read(c, &fine, 1, r), 0);
            larder_buf_unref(&r[0].buf);
        }
        end(&c, &h);
    }
}

/* Those that leave by themselves say so; a sample that there is not has no chance, and is asked. */
static void test_a_worker_leaves(void **state) {
    (void)state;
    hands h;
    larder_crew *c = start(&h, 1, 0);
    const uint64_t beyond = 100000, leaves = LEAVES;
    larder_read r[1] = {0};
    assert_int_equal(larder_crew_read(c, &beyond, 1, r), 0);
    assert_string_equal(text_of(&r[0]), "100000:0:");
    assert_int_equal(larder_crew_read(c, &leaves, 1, r), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "sample 671:"));
    end(&c, &h);
    /* One that is gone before it is asked; nobody knows which process it was. */
    c = start(&h, 1, 0);
    kill(h.pids[0], SIGTERM);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)h.pids[0], &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(larder_crew_read(c, &beyond, 1, r), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "signal 15"));
    assert_null(strstr(larder_errmsg(), "memory"));
    end(&c, &h);
}

static void test_nobody(void **state) {
    (void)state;
    larder_crew *c = NULL;
    larder_crew_close(&c);
    assert_int_equal(larder_crew_open(&c, NULL, 0, 10, 0), LARDER_E_ARGS);
    assert_null(c);
    assert_non_null(strstr(larder_errmsg(), "a crew of nobody"));
    /* What was given is closed when there is no memory for it. */
    for (uint64_t at = 1; at <= 3; at++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        larder_crew_worker w = {.socket = pair[0], .in = -1, .out = -1};
        larder__mem_fail_at(at, 0);
        int rc = larder_crew_open(&c, &w, 1, 10, 0);
        larder__mem_fail_at(0, 0);
        assert_int_equal(rc, LARDER_E_NOMEM);
        assert_null(c);
        assert_int_equal(fcntl(pair[0], F_GETFD), -1);
        close(pair[1]);
    }
    hands h;
    c = start(&h, 1, 0);
    const uint64_t id = 1;
    larder_read r[1] = {0};
    larder__mem_fail_at(1, 0);
    assert_int_equal(larder_crew_read(c, &id, 1, r), LARDER_E_NOMEM);
    larder__mem_fail_at(0, 0);
    pid_t child = fork(); /* which has the crew, but not its workers */
    if (child == 0) {
        int rc = larder_crew_read(c, &id, 1, r);
        _exit(rc == LARDER_E_STATE && strstr(larder_errmsg(), "forked child") ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char text[8] = "x";
    assert_int_equal(larder_crew_traced(c, 1, text, 0), 0);
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
    char byte = 0;
    assert_int_equal(pipe(waits), 0);
    assert_int_equal(pipe(goes_on), 0);
    larder_crew *c = start(&h, 1, 0);
    pthread_t thread;
    void *rc;
    assert_int_equal(pthread_create(&thread, NULL, read_slow, c), 0);
    assert_int_equal(read(waits[0], &byte, 1), 1);
    larder_crew_interrupt(c, true);
    larder_crew_interrupt(c, true);
    pthread_join(thread, &rc);
    assert_int_equal(write(goes_on[1], &byte, 1), 1);
    assert_int_equal((intptr_t)rc, LARDER_E_CANCELLED);
    assert_int_equal((intptr_t)read_slow(c), LARDER_E_CANCELLED);
    larder_crew_interrupt(c, false);
    const uint64_t ids[1] = {12};
    larder_read r[1] = {0};
    assert_int_equal(larder_crew_read(c, ids, 1, r), 0);
    assert_memory_equal(text_of(&r[0]), "12:", 3);
    end(&c, &h);
    for (int i = 0; i < 2; i++) {
        close(waits[i]);
        close(goes_on[i]);
    }
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
        cmocka_unit_test(test_every_lie_is_refused),
        cmocka_unit_test(test_a_worker_ends),
        cmocka_unit_test(test_a_worker_leaves),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
