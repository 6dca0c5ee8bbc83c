/* Ranks that decide together share a batch out evenly: of the rows that a sampler fills with
 * residents no rank has more than one more than another, so no rank reads much more than others. */
#include "check.h"

#include "base/mem.h"
#include "loader/draw/draw.h"
#include "loader/draw/rank_talk.h"

#include <stdio.h>
#include <string.h>

/* ---- slices ---------------------------------------------------------------------------------- */

enum { EACH = 12, MOST = 9 }; /* rows of a rank in a full batch; ranks */

static larder__slice slice_of(uint32_t rank, uint32_t world, uint64_t number, size_t rows) {
    larder__ranks r = {.rank = rank, .world = world, .batch = (uint64_t)EACH * world};
    return larder__ranks_slice(&r, number, rows);
}

static void each_row_has_one_rank(void **unused) {
    (void)unused;
    for (uint32_t world = 1; world <= MOST; world++)
        for (size_t rows = 0; rows <= EACH * world; rows++)
            for (size_t row = 0; row <= rows; row++) {
                uint64_t number = 7 * rows + 3; /* any */
                uint32_t owners = 0;
                for (uint32_t rank = 0; rank < world; rank++) {
                    larder__slice s = slice_of(rank, world, number, rows);
                    bool has = larder__slice_has(&s, row);
                    size_t listed = 0;
                    for (size_t i = 0; i < s.n; i++)
                        listed += larder__slice_row(&s, i) == row && !s.again;
                    assert_int_equal(listed, has);
                    uint64_t first = rows == EACH * world ? number : 0;
                    assert_int_equal(has, row < rows && (row + first) % world == rank);
                    owners += has;
                }
                assert_int_equal(owners, row < rows);
            }
}

static void slices_are_as_equal_as_can_be(void **unused) {
    (void)unused;
    for (uint32_t world = 1; world <= MOST; world++)
        for (size_t rows = 1; rows <= EACH * world; rows++)
            for (uint32_t rank = 0; rank < world; rank++) {
                larder__ranks r = {.rank = rank, .world = world, .batch = EACH * world};
                larder__slice s = larder__ranks_slice(&r, rows, rows);
                size_t share = rows / world + (rank < rows % world);
                assert_int_equal(s.again, share == 0);
                assert_int_equal(s.n, s.again ? 1 : share);
                assert_true(larder__slice_row(&s, s.n - 1) < rows);
                assert_int_equal(larder__ranks_length(&r, 3 * EACH * world + rows), 3 * EACH + s.n);
            }
}

/* Where a rank has one row, it is always the same one: whoever joins the parts of a batch cannot
 * tell a full one from one that is shorter than there are ranks. */
static void single_rows_stay(void **unused) {
    (void)unused;
    for (uint32_t world = 1; world <= MOST; world++)
        for (uint64_t number = 0; number < 20; number++)
            for (uint32_t rank = 0; rank < world; rank++) {
                larder__ranks r = {.rank = rank, .world = world, .batch = world};
                larder__slice s = larder__ranks_slice(&r, number, world);
                assert_true(s.n == 1 && s.from == rank && !s.again);
            }
}

/* A run is what a sampler puts in front, what follows it, or any other part of the batch: ranks
 * differ by one row of it at most, and not at all over as many batches as there are ranks. */
static void every_run_is_even(void **unused) {
    (void)unused;
    for (uint32_t world = 1; world <= MOST; world++)
        for (size_t from = 0; from < EACH * world; from += 1 + from / 8)
            for (size_t to = from; to <= EACH * world; to++) {
                size_t sums[MOST] = {0};
                for (uint64_t number = 5; number < 5 + world; number++)
                    for (uint32_t rank = 0; rank < world; rank++) {
                        larder__slice s = slice_of(rank, world, number, EACH * world);
                        size_t n = 0;
                        for (size_t i = 0; i < s.n; i++)
                            n += larder__slice_row(&s, i) >= from && larder__slice_row(&s, i) < to;
                        assert_true(n == (to - from) / world || n == (to - from) / world + 1);
                        sums[rank] += n;
                    }
                for (uint32_t rank = 0; rank < world; rank++)
                    assert_int_equal(sums[rank], to - from);
            }
}

/* ---- joined again ---------------------------------------------------------------------------- */

enum { CLASSES = 3, DIM = 2, ROWS = EACH * MOST };

typedef struct said { /* about rows, each by its place in the batch */
    uint64_t ids[ROWS];
    int64_t labels[ROWS];
    float loss[ROWS], logits[ROWS * CLASSES], emb[ROWS * DIM];
} said;

static larder_report report_of(said *about, const larder__slice *s) {
    for (size_t i = 0; i < s->n; i++) {
        size_t row = larder__slice_row(s, i);
        about->ids[i] = row;
        about->labels[i] = (int64_t)row + 1;
        about->loss[i] = (float)row / 2;
        for (size_t k = 0; k < CLASSES; k++)
            about->logits[i * CLASSES + k] = (float)(row * 10 + k);
        for (size_t k = 0; k < DIM; k++)
            about->emb[i * DIM + k] = (float)(row * 100 + k);
    }
    return (larder_report){.epoch = 4,
                           .n = s->n,
                           .classes = CLASSES,
                           .dim = DIM,
                           .ids = about->ids,
                           .labels = about->labels,
                           .loss = about->loss,
                           .logits = about->logits,
                           .embeddings = about->emb};
}

/* What one process would have reported, without the rows of the rank that said nothing. */
static void join_all_but(uint32_t silent, uint32_t world, uint64_t number, size_t rows) {
    static said about[MOST], one;
    larder_report parts[MOST] = {{0}}, whole;
    larder__ranks of = {.world = world, .batch = (uint64_t)EACH * world};
    void *memory = NULL;
    size_t at = 0;
    for (uint32_t r = 0; r < world; r++) {
        larder__slice s = slice_of(r, world, number, rows);
        if (r != silent)
            parts[r] = report_of(&about[r], &s);
    }
    larder__slice all = {.step = 1, .n = rows};
    report_of(&one, &all);
    check_ok(larder__rank_rows_join(&whole, &memory, parts, world,
                                    larder__ranks_first(&of, number, rows), rows));
    for (size_t row = 0; row < rows; row++) {
        larder__slice theirs = slice_of(silent < world ? silent : 0, world, number, rows);
        if (silent < world && larder__slice_has(&theirs, row))
            continue;
        assert_int_equal(whole.ids[at], row);
        assert_int_equal(whole.labels[at], one.labels[row]);
        assert_true(whole.loss[at] == one.loss[row]);
        assert_memory_equal(whole.logits + at * CLASSES, one.logits + row * CLASSES,
                            CLASSES * sizeof(float));
        assert_memory_equal(whole.embeddings + at * DIM, one.emb + row * DIM, DIM * sizeof(float));
        at++;
    }
    assert_int_equal(whole.n, at);
    assert_int_equal(whole.epoch, 4);
    larder__free(memory);
}

static void parts_make_the_whole_again(void **unused) {
    (void)unused;
    for (uint32_t world = 2; world <= MOST; world++)
        for (size_t rows = 1; rows <= EACH * world; rows++)
            for (uint32_t silent = 1; silent <= world; silent++)
                join_all_but(silent, world, rows * 5 + silent, rows);
}

/* ---- batches as decided ---------------------------------------------------------------------- */

enum { N = 1201, BATCHES = 240 };

static larder__draw *open_draw(const char *recipe, const char *cache, uint32_t rank, uint32_t world,
                               uint64_t batch) {
    larder__cache_text text;
    check_ok(larder__cache_text_parse(&text, cache, ""));
    larder__draw_conf c = {.recipe = recipe,
                           .cache = &text,
                           .store = &larder__store_null,
                           .n = N,
                           .payload = N * 8,
                           .size = 8,
                           .batch = batch,
                           .seed = 11,
                           .rank = rank,
                           .world = world,
                           .lag = 4};
    larder__draw *d = NULL;
    check_ok(larder__draw_open(&d, &c));
    return d;
}

typedef struct tally {
    uint64_t exact,
        reads[MOST]; /* exact: batches in which all that follows the residents is read */
} tally;

static void look_at_batch(const larder__planned *one, const larder__planned *part, uint32_t world,
                          tally *t) {
    size_t front = 0, found = 0, least = SIZE_MAX, most = 0;
    while (front < one->n && one->tickets[front].kind != LARDER_MISS)
        front++;
    for (size_t i = front; i < one->n; i++)
        found += one->tickets[i].kind != LARDER_MISS; /* residents that the stream met */
    for (uint32_t r = 0; r < world; r++) {
        size_t reads = 0;
        for (size_t i = 0; i < part[r].n; i++) {
            uint64_t first = one->n == EACH * world ? one->number : 0;
            size_t row = (r + world - first % world) % world + i * world;
            if (part[r].again)
                continue;
            assert_true(row < one->n);
            assert_int_equal(part[r].ids[i], one->ids[row]);
            assert_int_equal(part[r].tickets[i].key, one->tickets[row].key);
            assert_int_equal(part[r].tickets[i].kind, one->tickets[row].kind);
            assert_int_equal(larder__planned_place(&part[r], i), row);
            reads += part[r].tickets[i].kind == LARDER_MISS;
        }
        least = reads < least ? reads : least;
        most = reads > most ? reads : most;
        t->reads[r] += reads;
    }
    if (most - least > 1 + found)
        fail_msg("%u ranks, batch %llu: %zu to %zu reads of %zu rows behind %zu residents", world,
                 (unsigned long long)one->number, least, most, one->n - front, front);
    t->exact += found == 0 && front > 0;
}

static void run_ranks(const char *recipe, uint32_t world) {
    larder__draw *one = open_draw(recipe, "30%", 0, 1, EACH * world), *d[MOST];
    larder__planned whole, part[MOST];
    tally t = {0};
    check_ok(larder__planned_open(&whole, one));
    for (uint32_t r = 0; r < world; r++) {
        d[r] = open_draw(recipe, "redis://127.0.0.1:1?budget=30%&job=even", r, world, EACH);
        check_ok(larder__planned_open(&part[r], d[r]));
    }
    for (int k = 0; k < BATCHES; k++) {
        check_ok(larder__draw_next(one, &whole));
        for (uint32_t r = 0; r < world; r++)
            check_ok(larder__draw_next(d[r], &part[r]));
        look_at_batch(&whole, part, world, &t);
    }
    assert_true(t.exact > BATCHES / 8); /* so that the bound above was one */
    uint64_t least = t.reads[0], most = t.reads[0];
    for (uint32_t r = 1; r < world; r++) {
        least = t.reads[r] < least ? t.reads[r] : least;
        most = t.reads[r] > most ? t.reads[r] : most;
    }
    assert_true(most - least <= least / 20); /* chance alone: residents that the stream met */
    for (uint32_t r = 0; r < world; r++) {
        larder__planned_close(&part[r]);
        larder__draw_close(&d[r]);
    }
    larder__planned_close(&whole);
    larder__draw_close(&one);
}

static void reads_are_even(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"rotate:h=0.5", "rotate:h=0.8", "echo"};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        for (uint32_t world = 2; world <= 8; world += world < 4 ? 1 : 4)
            run_ranks(recipes[i], world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_one_rank),
        cmocka_unit_test(slices_are_as_equal_as_can_be),
        cmocka_unit_test(single_rows_stay),
        cmocka_unit_test(every_run_is_even),
        cmocka_unit_test(parts_make_the_whole_again),
        cmocka_unit_test(reads_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
