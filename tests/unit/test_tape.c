/* Records of jobs: what was written is read back; what was cut off, damaged or foreign is said; a
 * full disk ends the record and not the job; and a replay of the recorded recipe does the same. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/mem.h"
#include "sim/feed.h"
#include "sim/sim.h"
#include "tape/tape.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAMPLES = 100, ROWS = 16 };

static uint32_t about(void *arg, uint64_t id, int64_t *label) {
    (void)arg;
    *label = (int64_t)(id % 10);
    return (uint32_t)(1000 + id);
}

static const larder__tape_job job = {.source = "somewhere",
                                     .recipe = "lru",
                                     .cache = "20%",
                                     .samples = SAMPLES,
                                     .payload = 12345,
                                     .batch = ROWS,
                                     .seed = 7,
                                     .epochs = 2,
                                     .lag = 6,
                                     .world = 1};

static float loss_of(uint64_t batch, uint64_t row) { return (float)batch + (float)row / 100; }

static void fill(uint64_t number, uint64_t *ids, uint64_t *served, uint8_t *kinds) {
    for (uint64_t i = 0; i < ROWS; i++) {
        ids[i] = (number * 31 + i * 7) % SAMPLES;
        kinds[i] = (uint8_t)((number + i) % 4);
        served[i] = kinds[i] >= LARDER_SUBSTITUTE ? (ids[i] + 1) % SAMPLES : ids[i];
    }
}

static void write_batches(larder__tape_writer *w, uint64_t from, uint64_t to) {
    for (uint64_t k = from; k < to; k++) {
        uint64_t ids[ROWS], served[ROWS];
        uint8_t kinds[ROWS];
        float loss[ROWS];
        fill(k, ids, served, kinds);
        larder__tape_batch b = {.number = k,
                                .epoch = k / 5,
                                .length = 80,
                                .n = ROWS,
                                .first = k % 5 == 0,
                                .last = k % 5 == 4,
                                .waited = 0.25,
                                .starved = 0.125,
                                .stepped = 0.5,
                                .read_bytes = 100 * k};
        larder__tape_rows rows = {.ids = ids, .served = served, .kinds = kinds, .about = about};
        larder__tape_add_batch(w, &b, &rows);
        for (int i = 0; i < ROWS; i++)
            loss[i] = loss_of(k, (uint64_t)i);
        if (k % 3 == 0)
            larder__tape_add_losses(w, k, loss, ROWS);
        if (k % 3 == 1) /* the same, by ids and in two pieces */
            for (int half = 8; half >= 0; half -= 8)
                larder__tape_add_rows(w, k, served + half, loss + half, ROWS / 2);
        if (b.last) {
            larder_figures f = {.epoch = b.epoch, .served = 80, .touched = 0.5};
            larder__tape_add_epoch(w, &f, 1.5 * (double)k);
            larder__tape_add_accuracy(w, k, 0.75);
            larder__tape_add_looked(w, b.epoch + 1, ids, loss, ROWS);
        }
    }
}

static void check_batches(const larder__tape *t, uint64_t count) {
    assert_int_equal(t->count, count);
    assert_int_equal(t->requests, count * ROWS);
    for (uint64_t k = 0; k < count; k++) {
        uint64_t ids[ROWS], served[ROWS];
        uint8_t kinds[ROWS];
        const larder__tape_batch *b = &t->batches[k];
        fill(k, ids, served, kinds);
        assert_int_equal(b->number, k);
        assert_int_equal(b->epoch, k / 5);
        assert_int_equal(b->read_bytes, 100 * k);
        assert_true(b->waited == 0.25 && b->starved == 0.125);
        for (uint64_t i = 0; i < ROWS; i++) {
            uint64_t at = b->begin + i;
            assert_int_equal(t->ids[at], ids[i]);
            assert_int_equal(t->served[at], served[i]);
            assert_int_equal(t->kinds[at], kinds[i]);
            assert_int_equal(t->size_of[ids[i]], 1000 + ids[i]);
            assert_int_equal(t->label_of[served[i]], served[i] % 10);
        }
    }
}

static void make_tape(const char *path, uint64_t batches) {
    larder__tape_writer *w = NULL;
    check_ok(larder__tape_create(&w, path, &job));
    write_batches(w, 0, batches);
    larder__tape_finish(&w);
    assert_null(w);
}

typedef struct bytes {
    unsigned char at[1 << 16];
    size_t size;
} bytes;

static void slurp(const char *path, bytes *b) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    b->size = fread(b->at, 1, sizeof b->at, f);
    fclose(f);
    assert_true(b->size < sizeof b->at);
}

static char folder[256];
static char *in(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    check_folder(folder);
    return 0;
}
static int drop_folder(void **state) {
    (void)state;
    check_folder_remove(folder);
    return 0;
}

static void reads_back(void **state) {
    (void)state;
    larder__tape t;
    make_tape(in("a"), 10);
    check_ok(larder__tape_read(&t, in("a")));
    check_batches(&t, 10);
    assert_true(t.ended);
    assert_string_equal(t.torn, "");
    assert_string_equal(t.job.source, "somewhere");
    assert_int_equal(t.job.payload, 12345);
    assert_int_equal(t.epoch_count, 2);
    assert_int_equal(t.epochs[1].begin, 5);
    assert_int_equal(t.epochs[1].end, 10);
    assert_int_equal(t.looked_count, 2);
    assert_int_equal(t.looked_rows, 2 * ROWS);
    assert_true(t.batches[4].accuracy == 0.75 && isnan(t.batches[3].accuracy));
    for (uint64_t i = 0; i < ROWS; i++) {
        assert_true(t.loss[3 * ROWS + i] == loss_of(3, i));
        uint64_t row = i; /* the last one that served this id */
        for (uint64_t k = i; k < ROWS; k++)
            row = t.served[4 * ROWS + k] == t.served[4 * ROWS + i] ? k : row;
        if (row == i)
            assert_true(isfinite(t.loss[4 * ROWS + i]));
        assert_true(isnan(t.loss[2 * ROWS + i]));
    }
    assert_true(larder__tape_probe(in("a")));
    larder__tape_free(&t);
}

/* At every length there is either a sentence or a beginning of the truth. */
static void cut_off_anywhere(void **state) {
    (void)state;
    static bytes b;
    larder__tape t;
    make_tape(in("a"), 10);
    slurp(in("a"), &b);
    uint64_t most = 0;
    for (size_t n = 0; n < b.size; n++) {
        int rc = larder__tape_parse(&t, b.at, n, "it");
        if (rc < 0) {
            assert_int_equal(rc, LARDER_E_FORMAT);
            assert_int_equal(most, 0); /* once there is something, more bytes never lose it */
            continue;
        }
        assert_false(t.ended);
        assert_non_null(strstr(t.torn, "it "));
        assert_true(t.count >= most);
        most = t.count;
        check_batches(&t, t.count);
        larder__tape_free(&t);
    }
    assert_int_equal(most, 10);
}

static void damaged_anywhere(void **state) {
    (void)state;
    static bytes b;
    larder__tape t;
    make_tape(in("a"), 10);
    slurp(in("a"), &b);
    for (size_t i = 0; i < b.size; i++) {
        b.at[i] ^= 0x20;
        int rc = larder__tape_parse(&t, b.at, b.size, "it");
        b.at[i] ^= 0x20;
        if (rc == 0) { /* it was the tail */
            assert_true(t.torn[0]);
            check_batches(&t, t.count);
            larder__tape_free(&t);
        } else {
            bool version = i >= 8 && i < 12;
            assert_int_equal(rc, version ? LARDER_E_UNSUPPORTED : LARDER_E_FORMAT);
            assert_non_null(strstr(larder_errmsg(), "it: "));
        }
    }
    check_ok(larder__tape_parse(&t, b.at, b.size, "it"));
    larder__tape_free(&t);
    assert_int_equal(larder__tape_parse(&t, (const unsigned char *)"P5 8 8 255", 10, "x.pgm"),
                     LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "x.pgm: is no record"));
}

/* A process that is gone without a word leaves what it had put out. */
static void killed(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", in("killed"));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        larder__tape_writer *w = NULL;
        if (larder__tape_create(&w, path, &job) < 0)
            _exit(1);
        write_batches(w, 0, 7); /* five of them end an epoch, which is put out */
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    larder__tape t;
    check_ok(larder__tape_read(&t, path));
    check_batches(&t, 5);
    assert_false(t.ended);
    assert_non_null(strstr(t.torn, "was not closed"));
    larder__tape_free(&t);
    make_tape(path, 10); /* nobody holds it any more */
}

static void full_disk(void **state) {
    (void)state;
    larder__tape_writer *w = NULL;
    char why[512] = "";
    if (access("/dev/full", W_OK) != 0)
        skip();
    check_ok(larder__tape_create(&w, "/dev/full", &job));
    write_batches(w, 0, 10);
    larder__tape_flush(w);
    larder__tape_written(w, why, sizeof why);
    assert_non_null(strstr(why, "/dev/full: recording ended after 0 batches: No space left"));
    larder__tape_finish(&w);
}

static void other_peoples_files(void **state) {
    (void)state;
    larder__tape_writer *w = NULL, *second = NULL;
    check_write(in("poem"), "roses", 5);
    assert_int_equal(larder__tape_create(&w, in("poem"), &job), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "is no record of larder"));
    static bytes b;
    slurp(in("poem"), &b);
    assert_memory_equal(b.at, "roses", 5);
    check_write(in("empty"), "", 0);
    check_ok(larder__tape_create(&w, in("empty"), &job));
    assert_int_equal(larder__tape_create(&second, in("empty"), &job), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "another loader records there"));
    larder__tape_finish(&w);
    assert_int_equal(larder__tape_create(&w, in("no/such/folder"), &job), LARDER_E_NOTFOUND);
    assert_int_equal(larder__tape_create(&w, folder, &job), LARDER_E_IO);
    char want[512];
    check_ok(larder__tape_create(&w, in("of-%p-%r"), &job));
    larder__tape_finish(&w);
    snprintf(want, sizeof want, "%s/of-%ld-0", folder, (long)getpid());
    assert_int_equal(access(want, R_OK), 0);
}

/* ---- what nobody would write ----------------------------------------------------------------- */

/* Appends what a text says: a number is a count, 'x a tag, f1.5 and d1.5 floats, x7f a byte. */
static void put(bytes *b, const char *text) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        double wide = strtod(word + 1, NULL);
        float narrow = (float)wide;
        uint64_t count = strtoull(word, NULL, 10);
        if (word[0] == '\'')
            b->at[b->size++] = (unsigned char)word[1];
        else if (word[0] == 'x')
            b->at[b->size++] = (unsigned char)strtoul(word + 1, NULL, 16);
        else if (word[0] == 'f')
            memcpy(b->at + b->size, &narrow, 4), b->size += 4;
        else if (word[0] == 'd')
            memcpy(b->at + b->size, &wide, 8), b->size += 8;
        else
            for (bool more = true; more; count >>= 7, b->size++) {
                more = count >= 128;
                b->at[b->size] = (unsigned char)((count & 127) | (more ? 128 : 0));
            }
    }
}

/* A record of this job with one more block, its hash right. */
static void make_block(bytes *out, const larder__tape_job *j, const char *text) {
    larder__tape_writer *w = NULL;
    check_ok(larder__tape_create(&w, in("odd"), j));
    larder__tape_finish(&w);
    slurp(in("odd"), out);
    size_t first = out->at[LARDER__TAPE_HEAD] | (size_t)out->at[LARDER__TAPE_HEAD + 1] << 8;
    size_t frame = LARDER__TAPE_HEAD + LARDER__TAPE_FRAME + first;
    assert_true(frame <= out->size);
    out->size = frame + LARDER__TAPE_FRAME;
    put(out, text);
    size_t n = out->size - frame - LARDER__TAPE_FRAME;
    uint64_t hash = larder__tape_hash(1, out->at + frame + LARDER__TAPE_FRAME, n);
    for (size_t i = 0; i < 4; i++)
        out->at[frame + i] = (unsigned char)(n >> (8 * i));
    for (size_t i = 0; i < 8; i++)
        out->at[frame + 4 + i] = (unsigned char)(hash >> (8 * i));
}

#define TIMES " f0 f0 f0 d0 d0 d0 d0 "
#define GOOD "'b 3 0 80 1 0" TIMES "0 0 0 x05 x00 1000 3 "
#define LEDGER "'f 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "
#define FAR "72057594037927936" /* 2^56 */

static void odd_records_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *why; /* NULL: it is taken */
    } cases[] = {
        {GOOD "'z 1", NULL},
        {GOOD "'z 2", "batches are missing"},
        {"'q", "something unknown"},
        {"'b 3 0", "a batch ends too early"},
        {GOOD GOOD, "out of order"},
        {"'b 3 99999999 80 1 0" TIMES "0 0 0 x05 x00 1000 3", "a batch makes no sense"},
        {"'b 3 0 999999 1 0" TIMES "0 0 0 x05 x00 1000 3", "a batch makes no sense"},
        {"'b 3 0 80 1 0" TIMES FAR " 0 0 x05 x00 1000 3", "a batch makes no sense"},
        {"'b 3 0 80 1 0" TIMES "0 1099511627776 0 x05 x00 1000 3", "a batch makes no sense"},
        {"'b 3 0 80 1 0" TIMES "0 0 " FAR " x05 x00 1000 3", "a batch makes no sense"},
        {"'b 3 0 80 99 0" TIMES "0 0 0 x05 x00 1000 3", "more rows than fit"},
        {"'b 3 0 80 16 0" TIMES "0 0 0 x05", "more rows than fit"},
        {"'b 3 0 80 1 0" TIMES "0 0 0 x7f x00 1000 3", "malformed"}, /* sample 127 of 100 */
        {"'b 3 0 80 1 0" TIMES "0 0 0 x05 x00 4294967296 3", "malformed"},
        {"'b 3 0 80 1 0" TIMES "0 0 0 x05 x00 1000 4294967296", "malformed"},
        {"'b 3 0 80 1 0" TIMES "0 0 0 x05 x00", "malformed"},
        {"'b 3 0 80 1 0" TIMES "0 0 0 x05 x00 0 3 'z 1", NULL}, /* an empty sample */
        {"'b xff xff xff xff xff xff xff xff xff x7f", "ends too early"},
        {"'b xff xff xff xff xff xff xff xff xff x01 0 80 1 0" TIMES "0 0 0 x05 x00 9 3", NULL},
        {"'b 3 0 80 1 0 f-1 f1e20 fnan d-1 d1e20 dnan dinf 0 0 0 x05 x00 9 3", NULL},
        {"'c 101 0", "classes of samples there are not"},
        {"'c 90 11 1 1 1 1 1 1 1 1 1 1 1", "classes of samples there are not"},
        {"'c 0 50 1", "classes of samples there are not"},
        {"'c 0 1 4294967296", "class is too large"},
        {"'c 0 2 5 6", NULL},
        {"'t 1 dnan", "what was measured makes no sense"},
        {"'t 1 d5 't 1 d6", "what was measured makes no sense"},
        {"'t 1 d5 't 2 d6", NULL},
        {GOOD "'l 4 1 f1", "losses belong to no batch"},
        {GOOD "'l 2 1 f1", "losses belong to no batch"},
        {GOOD "'l 3 2 f1 f1", "losses belong to no batch"},
        {GOOD "'l 3 1 f1", NULL},
        {GOOD "'r 4 1 x05 f1", "losses belong to no batch"},
        {GOOD "'r 3 9 x05 f1", "losses belong to no batch"},
        {GOOD "'r 3 1 x7f f1", "an id is beyond"},
        {GOOD "'r 3 1 x06 f1", NULL}, /* another rank's */
        {GOOD "'r 3 1 x05 fnan", NULL},
        {GOOD "'a 4 d0.5", "an accuracy belongs to no batch"},
        {GOOD "'a 3 d-1", "an accuracy belongs to no batch"},
        {GOOD "'a 3 d1.5", "an accuracy belongs to no batch"},
        {GOOD "'a 3 d1", NULL},
        {"'e 0 9 x05 f1", "looked at again make no sense"},
        {"'e 99999999 1 x05 f1", "looked at again make no sense"},
        {"'e 0 1 x7f f1", "malformed"},
        {"'e 0 1 x05 f1", NULL},
        {LEDGER "d-1 d1", "an epoch's figures make no sense"},
        {LEDGER "d2 d1", "an epoch's figures make no sense"},
        {LEDGER "dnan d1", "an epoch's figures make no sense"},
        {"'f 99999999 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 d1 d1", "figures make no sense"},
        {LEDGER "d1 d-1", NULL},
    };
    static bytes b;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        larder__tape t;
        make_block(&b, &job, cases[i].text);
        int rc = larder__tape_parse(&t, b.at, b.size, "it");
        if (cases[i].why ? rc != LARDER_E_FORMAT || !strstr(larder_errmsg(), cases[i].why)
                         : rc != 0)
            fail_msg("%s: %d, %s", cases[i].text, rc, rc < 0 ? larder_errmsg() : "");
        if (rc == 0)
            for (uint64_t k = 0; k < t.count; k++)
                assert_true(t.batches[k].waited >= 0 && t.batches[k].pace.waited >= 0 &&
                            isfinite(t.batches[k].pace.step_seconds));
        larder__tape_free(&t);
    }
}

/* An epoch that says it has no batches, and one: it found its way to a division. */
static void an_epoch_of_nothing(void **state) {
    (void)state;
    static bytes b;
    larder__tape t;
    larder__feed *f = NULL;
    make_block(&b, &job, "'b 3 0 0 1 0" TIMES "0 0 0 x05 x00 1000 3 'l 3 1 f1 'z 1");
    check_ok(larder__tape_parse(&t, b.at, b.size, "it"));
    check_ok(larder__feed_open(&f, &t));
    uint64_t id = 5;
    float loss = 0;
    larder__feed_losses(f, &(larder__feed_place){0, 0, 0, 0}, &id, 1, &loss);
    assert_true(loss == 1);
    larder__feed_close(&f);
    larder__tape_free(&t);
}

static void odd_jobs_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t field; /* where in the job */
        uint64_t value;
    } cases[] = {
        {offsetof(larder__tape_job, samples), 0},
        {offsetof(larder__tape_job, samples), UINT32_MAX},
        {offsetof(larder__tape_job, samples), UINT32_MAX - 1}, /* of a file of some hundred bytes */
        {offsetof(larder__tape_job, batch), 0},
        {offsetof(larder__tape_job, batch), (1u << 24) + 1},
        {offsetof(larder__tape_job, world), 0},
        {offsetof(larder__tape_job, world), (1u << 20) + 1},
        {offsetof(larder__tape_job, rank), 1},
        {offsetof(larder__tape_job, lag), (1u << 20) + 1},
    };
    static bytes b;
    larder__tape t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        larder__tape_job j = job;
        memcpy((char *)&j + cases[i].field, &cases[i].value, sizeof cases[i].value);
        make_block(&b, &j, "");
        assert_int_equal(larder__tape_parse(&t, b.at, b.size, "it"), LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "block 0"));
    }
    static const double ratios[] = {-1, 1e10, NAN};
    for (size_t i = 0; i < 3; i++) {
        larder__tape_job j = job;
        j.decoded_ratio = ratios[i];
        make_block(&b, &j, "");
        check_ok(larder__tape_parse(&t, b.at, b.size, "it"));
        assert_true(t.job.decoded_ratio == 0);
        larder__tape_free(&t);
    }
}

static void without_memory(void **state) {
    (void)state;
    static bytes b;
    larder__tape t;
    for (uint64_t n = 1;; n++) {
        larder__tape_writer *w = NULL;
        char why[512] = "";
        larder__mem_fail_at(n, 1);
        int rc = larder__tape_create(&w, in("a"), &job);
        write_batches(w, 0, 10);
        larder__tape_flush(w);
        larder__tape_written(w, why, sizeof why);
        larder__tape_finish(&w);
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(rc == 0 || rc == LARDER_E_NOMEM);
        if (!failed)
            break;
        assert_true(rc < 0 || strstr(why, "no memory"));
    }
    slurp(in("a"), &b);
    for (uint64_t n = 1;; n++) {
        larder__mem_fail_at(n, 0);
        int rc = larder__tape_parse(&t, b.at, b.size, "it");
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (rc == 0)
            larder__tape_free(&t);
        assert_int_equal(rc, failed ? LARDER_E_NOMEM : 0);
        if (!failed)
            break;
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static int look(void *arg, const larder_batch *b, float *loss) {
    (void)arg;
    for (size_t i = 0; i < b->n; i++)
        loss[i] = kit_loss(b->served[i], b->epoch + 100);
    return 0;
}

enum { EPOCHS = 6 };

/* Trains, and validates after each epoch. */
static void run_job(larder_loader_conf *conf, larder_figures figures[EPOCHS]) {
    larder_loader *l = NULL;
    const larder_batch *b;
    int rc;
    conf->epochs = EPOCHS;
    check_ok(larder_loader_open(&l, conf));
    check_ok(larder_loader_evaluator(l, look, NULL));
    uint64_t epoch = 0;
    while ((rc = larder_loader_next(l, &b)) != LARDER_END) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH) {
            check_ok(look_figures(l, epoch, &figures[epoch]));
            check_ok(larder_loader_validate(l, 0.5 + 0.05 * (double)epoch));
            epoch++;
            continue;
        }
        float loss[256];
        for (size_t i = 0; i < b->n; i++)
            loss[i] = kit_loss(b->served[i], b->epoch);
        check_ok(larder_loader_report(
            l, b, &(larder_feedback){.size = sizeof(larder_feedback), .loss = loss}));
        check_ok(larder_loader_done(l, b));
    }
    assert_int_equal(epoch, EPOCHS);
    uint64_t size;
    char why[256];
    size = look_about(l).recorded;
    check_ok(larder_loader_says(l, LARDER_SAYS_RECORD, 0, why, sizeof why));
    assert_true(size > 0);
    assert_string_equal(why, "");
    larder_loader_close(&l);
}

static void same_figures(const larder_figures *a, const larder_figures *b, const char *what) {
    if (a->served != b->served || a->hits != b->hits || a->misses != b->misses ||
        a->substitutes != b->substitutes || a->repeats != b->repeats ||
        a->background_reads != b->background_reads || a->storage_bytes != b->storage_bytes ||
        a->evaluated != b->evaluated || a->evaluation_reads != b->evaluation_reads)
        fail_msg("%s, epoch %llu: hits %llu and %llu, bytes %llu and %llu", what,
                 (unsigned long long)a->epoch, (unsigned long long)a->hits,
                 (unsigned long long)b->hits, (unsigned long long)a->storage_bytes,
                 (unsigned long long)b->storage_bytes);
}

static void replays_exactly(void **state) {
    (void)state;
    static const char *const recipes[] = {"lru",    "minio", "quiver", "rotate:h=0.5", "rotate",
                                          "icache", "shade", "impact", "echo:factor=2"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        larder_figures were[EPOCHS];
        larder__tape t;
        larder__sim_result again;
        larder_loader_conf conf = kit_conf("mem:?n=500&h=8&w=8&c=3", recipes[i]);
        conf.record = in("job");
        run_job(&conf, were);
        check_ok(larder__tape_read(&t, in("job")));
        assert_true(t.ended && t.epoch_count == EPOCHS);
        larder__sim_conf sim = {.recipe = recipes[i],
                                .cache = conf.cache,
                                .tape = &t,
                                .epochs = EPOCHS,
                                .batch = conf.batch,
                                .seed = conf.seed,
                                .size = 1};
        check_ok(larder__sim_run(&sim, &again));
        assert_int_equal(again.count, EPOCHS);
        for (uint64_t e = 0; e < EPOCHS; e++) {
            same_figures(&were[e], &t.epochs[e].figures, recipes[i]);
            same_figures(&were[e], &again.epochs[e], recipes[i]);
            assert_true(t.batches[t.epochs[e].end - 1].accuracy == 0.5 + 0.05 * (double)e);
        }
        larder__sim_free(&again);
        larder__tape_free(&t);
    }
}

/* The same requests: a slow twin of lru agrees, belady is never beaten, minio hits what it holds.
 */
static void requests_through_policies(void **state) {
    (void)state;
    larder_figures were[EPOCHS];
    larder__tape t;
    larder_loader_conf conf = kit_conf("mem:?n=500&h=8&w=8&c=3", "shade");
    conf.record = in("job");
    run_job(&conf, were);
    check_ok(larder__tape_read(&t, in("job")));
    double hits[3];
    static const char *const policies[] = {"lru", "minio", "belady"};
    for (size_t i = 0; i < 3; i++) {
        larder__sim_result r;
        check_ok(larder__sim_requests(&t, policies[i], "20%", NULL, &r));
        assert_int_equal(r.total.served, t.requests);
        assert_int_equal(r.total.storage_bytes, r.total.misses * t.size_of[0]);
        hits[i] = (double)r.total.hits;
        larder__sim_free(&r);
    }
    assert_true(hits[2] >= hits[0] && hits[2] >= hits[1]);
    uint64_t stack[100], held = 0, want = 0, room = 100; /* 20 % of 500, most recent first */
    for (uint64_t i = 0; i < t.requests; i++) {
        uint64_t at = 0;
        while (at < held && stack[at] != t.ids[i])
            at++;
        want += at < held;
        if (at == held)
            held += held < room;
        at = at < held ? at : held - 1;
        memmove(stack + 1, stack, at * sizeof *stack);
        stack[0] = t.ids[i];
    }
    assert_int_equal((uint64_t)hits[0], want);
    larder__sim_result r; /* wherever it lies, a cache of that size decides alike */
    check_ok(larder__sim_requests(&t, "lru", "redis://h?budget=20%", NULL, &r));
    assert_int_equal(r.total.hits, want);
    larder__sim_free(&r);
    assert_int_equal(larder__sim_requests(&t, "nonsense", "20%", NULL, &r), LARDER_E_ARGS);
    larder__tape_free(&t);
}

static void by_environment(void **state) {
    (void)state;
    larder_loader *l[3] = {0};
    larder_loader_conf conf = kit_conf("mem:?n=500&h=8&w=8&c=3", "lru");
    setenv("LARDER_RECORD", in("env-%n"), 1);
    conf.record = ""; /* not this one */
    check_ok(larder_loader_open(&l[0], &conf));
    conf.record = NULL;
    for (int i = 1; i < 3; i++)
        check_ok(larder_loader_open(&l[i], &conf));
    setenv("LARDER_RECORD", in("poem2"), 1); /* without %n: the first loader, which this is not */
    check_write(in("poem2"), "violets", 7);
    larder_loader *other = NULL;
    check_ok(larder_loader_open(&other, &conf));
    larder_loader_close(&other);
    conf.record = in("poem2");
    assert_int_equal(larder_loader_open(&other, &conf), LARDER_E_ARGS);
    unsetenv("LARDER_RECORD");
    uint64_t size;
    char why[64];
    for (int i = 0; i < 3; i++) {
        size = look_about(l[i]).recorded;
        check_ok(larder_loader_says(l[i], LARDER_SAYS_RECORD, 0, why, sizeof why));
        assert_int_equal(size > 0, i > 0);
        larder_loader_close(&l[i]);
    }
}

/* The disk is full: the job goes on, and says so when asked. */
static void job_outlives_disk(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    larder_loader *l = NULL;
    uint64_t digests[256];
    char why[256];
    larder_loader_conf conf = kit_conf("mem:?n=500&h=8&w=8&c=3", "lru");
    conf.record = "/dev/full";
    conf.epochs = 2;
    check_ok(larder_loader_open(&l, &conf));
    assert_int_equal(kit_run(l, digests, 256), 2 * 32 + 2);
    check_ok(larder_loader_says(l, LARDER_SAYS_RECORD, 0, why, sizeof why));
    assert_non_null(strstr(why, "No space left"));
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(cut_off_anywhere),
        cmocka_unit_test(damaged_anywhere),
        cmocka_unit_test(killed),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(other_peoples_files),
        cmocka_unit_test(odd_records_are_refused),
        cmocka_unit_test(odd_jobs_are_refused),
        cmocka_unit_test(an_epoch_of_nothing),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(replays_exactly),
        cmocka_unit_test(requests_through_policies),
        cmocka_unit_test(by_environment),
        cmocka_unit_test(job_outlives_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
