/* Slips of the finger: how far words lie apart, and which of them was meant. */
#include "base/near.h"
#include "check.h"

#include <string.h>

/* The textbook's recursion: nothing is kept, nothing is bounded. */
static size_t twin(const char *a, size_t na, const char *b, size_t nb) {
    if (na == 0 || nb == 0)
        return na + nb;
    size_t best = twin(a, na - 1, b, nb - 1) + (a[na - 1] != b[nb - 1]);
    size_t drop = twin(a, na - 1, b, nb) + 1, add = twin(a, na, b, nb - 1) + 1;
    best = drop < best ? drop : best;
    best = add < best ? add : best;
    if (na > 1 && nb > 1 && a[na - 1] == b[nb - 2] && a[na - 2] == b[nb - 1]) {
        size_t swap = twin(a, na - 2, b, nb - 2) + 1;
        best = swap < best ? swap : best;
    }
    return best;
}

static void test_edits(void **st) {
    (void)st;
    const struct {
        const char *a, *b;
        size_t edits;
    } known[] = {{"", "", 0},       {"lru", "lru", 0},        {"lru", "lur", 1},
                 {"lru", "lr", 1},  {"lru", "lruu", 1},       {"lru", "lfu", 1},
                 {"ca", "abc", 3},  {"", "abc", 3},           {"LRU", "lru", 0},
                 {"a_b", "a-b", 0}, {"kitten", "sitting", 3}, {"epcohs", "epochs", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(larder__edits(known[i].a, known[i].b, 9), known[i].edits);
        assert_int_equal(larder__edits(known[i].b, known[i].a, 9), known[i].edits);
    }
    assert_int_equal(larder__edits("kitten", "sitting", 2), 3); /* more than asked for */
    assert_int_equal(larder__edits("a", "abcdefgh", 2), 3);
}

static void test_edits_of_all_short_words(void **st) {
    (void)st;
    char a[6] = "", b[6] = "";
    for (unsigned x = 0; x < 363; x++) /* 3 letters, up to 5 of them; 1 in 7 of the pairs */
        for (unsigned y = x % 7; y < 363; y += 7) {
            size_t na = 0, nb = 0;
            for (unsigned v = x; v > 0 && na < 5; v = (v - 1) / 3)
                a[na++] = (char)('a' + (v - 1) % 3);
            for (unsigned v = y; v > 0 && nb < 5; v = (v - 1) / 3)
                b[nb++] = (char)('a' + (v - 1) % 3);
            a[na] = b[nb] = 0;
            if (larder__edits(a, b, 9) != twin(a, na, b, nb))
                fail_msg("from \"%s\" to \"%s\"", a, b);
        }
}

static const char *meant(const char *word, const char *const *names) {
    static larder__near n;
    larder__near_begin(&n, word, strlen(word));
    for (; *names; names++)
        larder__near_try(&n, *names, strlen(*names));
    return larder__near_found(&n) ? larder__near_found(&n) : "";
}

static void test_meant(void **st) {
    (void)st;
    static const char *const names[] = {"lru",    "lfu",    "minio", "rotate", "epochs",
                                        "epoch2", "shards", "s",     NULL};
    const struct {
        const char *typed, *meant;
    } known[] = {{"lur", "lru"},
                 {"LRU", "lru"},
                 {"min", "minio"},
                 {"rotat", "rotate"},
                 {"epoch", "epochs"},
                 {"epohcs", "epochs"},
                 {"shrads", "shards"},
                 {"zebra", ""},
                 {"", ""},
                 {"x", ""},
                 {"lxx", ""},
                 {"rotatorrrrr", ""}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(meant(known[i].typed, names), known[i].meant);
    char longest[400];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const self[] = {longest, NULL};
    assert_string_equal(meant(longest, self), ""); /* nobody types that */
    char hint[LARDER__NEAR_CHARS + 32];
    larder__near n;
    larder__near_begin(&n, "rotat=3", 5); /* a key inside a text */
    larder__near_try(&n, "rotate:h", 6);
    assert_string_equal(larder__near_hint(&n, hint), "; did you mean rotate?");
    larder__near_begin(&n, "zebra", 5);
    assert_string_equal(larder__near_hint(&n, hint), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edits),
        cmocka_unit_test(test_edits_of_all_short_words),
        cmocka_unit_test(test_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
