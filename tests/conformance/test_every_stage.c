/* What every registered stage must keep (tests/support/stage_suite.c): by itself, and in pipelines
 * where another one makes pictures of a size. A stage that is not in `stages` is tried with its
 * parameters as they are unless said. */
#include "plugins.h"
#include "stage_suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *stage, *args;
} stages[] = {
    {"resize", "h=6,w=5"},
    {"resize", "size=7"},
    {"centercrop", "size=6"},
    {"rrc", "size=6"},
    {"rrc", "h=3,w=9,gap=0"},
    {"crop", "size=3,pad=2"},
    {"flip", ""},
    {"flip", "p=0.9"},
    {"crop", "size=5,pad=2,mode=edge"},
    {"crop", "size=5,enough=yes,fill=3/4/5"},
    {"pad", "by=2/1"},
    {"pad", "by=1/0/2/3,fill=9/8/7"},
    {"pad", "by=1,mode=symmetric"},
    {"resize", "h=6,w=5,interpolation=bicubic"},
    {"resize", "h=9,w=5,interpolation=bicubic,antialias=no"},
    {"resize", "size=7,max=9,antialias=no"},
    {"rrc", "size=6,interpolation=nearest"},
    {"normalize", "mean=0.5,std=0.25"},
    {"normalize", "preset=imagenet"},
};

static void run_one(const larder_stage *s, const char *args) {
    char alone[200], fixed[240];
    const char *name = s->plugin.name;
    if (!stage_suite(s, args))
        fail_msg("stage %s:%s: %s. If it needs parameters, add a line to `stages` in "
                 "tests/conformance/test_every_stage.c",
                 name, args, wrong_said());
    snprintf(alone, sizeof alone, "%s:%s", name, args);
    snprintf(fixed, sizeof fixed,
             s->tone || s->late || s->mix ? "centercrop:size=6|%s" : "%s|centercrop:size=6", alone);
    if (!row_suite(alone, larder__pipeline_run))
        fail_msg("stage %s: %s", alone, wrong_said());
    if (!row_suite(fixed, larder__pipeline_run))
        fail_msg("%s: %s", fixed, wrong_said());
}

static void every_stage(void **state) {
    (void)state;
    for (size_t k = 0; larder__stages[k]; k++) {
        const larder_stage *s = larder__stages[k];
        size_t found = 0;
        for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
            if (strcmp(stages[i].stage, s->plugin.name) == 0) {
                run_one(s, stages[i].args);
                found++;
            }
        if (!found)
            run_one(s, "");
    }
}

/* ---- stages that are wrong on purpose -------------------------------------------------------- */

typedef enum {
    NOTHING,
    BY_ITSELF,
    A_SIZE,
    NO_CHANCE_SIZE,
    BY_LUCK,
    OUTSIDE,
    NO_SIZE,
    ITS_STATE,
    PAST_STATE,
    IN_SILENCE,
    NOT_RANDOM,
    ALWAYS_THE_SAME,
    NOT_OPEN,
    BOTH,
    NO_NUMBER,
    ANOTHER_TONE,
    A_SILENT_TONE,
    OTHER_PIXELS, /* from here on of a stage of pixels */
    PAST_PIXELS,
    SILENT_PIXELS,
    WRONGS
} wrongness;
static wrongness what;

typedef struct sound { /* a window of the picture with a line of padding around it */
    int64_t side, times;
} sound;

static int init(void *st, const larder_args *args) {
    (void)args;
    ((sound *)st)->side = 3;
    if (what == PAST_STATE)
        ((char *)st)[sizeof(sound)] = 1;
    return what == NOT_OPEN ? LARDER_E_ARGS : 0;
}

static int place(const void *st, larder_view *v, larder_rng *rng) {
    static uint32_t ever;
    const sound *s = st;
    int64_t x = rng ? larder_rng_below(rng, 3) - 1 : 0, side = s->side;
    if (what == IN_SILENCE && v->w == 1)
        return LARDER_E_RANGE;
    if (what == BY_LUCK && x > 0)
        return larder_view_crop(v, 0, 0, 0, 0);
    if (what == BY_ITSELF)
        x = ever++ % 2;
    if (what == ALWAYS_THE_SAME)
        x = 0;
    if (what == A_SIZE)
        side += x;
    if (what == NO_CHANCE_SIZE && !rng)
        side++;
    if (what == ITS_STATE)
        ((sound *)(uintptr_t)st)->times++;
    int rc = larder_view_crop(v, x, 0, side, side);
    if (what == OUTSIDE)
        v->box_x--;
    if (what == NO_SIZE)
        v->h = 0;
    return rc;
}

static int tone(const void *st, larder_tone *t, larder_rng *rng) {
    static uint32_t ever;
    (void)st;
    if (what == A_SILENT_TONE && t->channels == 2)
        return LARDER_E_RANGE;
    for (uint32_t c = 0; c < t->channels; c++) {
        t->bias[c] += rng ? larder_rng_unit(rng) : 0.5;
        if (what == NO_NUMBER && c == 3)
            t->scale[c] = NAN;
        if (what == ANOTHER_TONE)
            t->bias[c] += ever++;
    }
    return 0;
}

static int pixels(const void *st, const larder_pixels *p, larder_rng *rng) {
    static uint8_t ever;
    (void)st;
    p->at[0] = (uint8_t)(what == OTHER_PIXELS ? ever++ : rng ? larder_rng_below(rng, 200) : 7);
    if (what == PAST_PIXELS)
        p->at[p->w * p->h * p->c] = 1;
    return what == SILENT_PIXELS && p->c == 2 ? LARDER_E_RANGE : 0;
}

static const char *try_wrong(unsigned w) {
    bool changes = w >= OTHER_PIXELS, tones = w >= NO_NUMBER && !changes;
    larder_stage s = {.plugin = {"sound", "a stage that is right", NULL, sizeof(sound)},
                      .random = w != NOT_RANDOM,
                      .init = init,
                      .place = tones || changes ? NULL : place,
                      .pixels = changes ? pixels : NULL,
                      .tone = tones || w == BOTH ? tone : NULL};
    what = w;
    return stage_suite(&s, "") ? NULL : wrong_said();
}

static void broken_stages(void **state) {
    (void)state;
    static const char *const says[WRONGS] = {
        [BY_ITSELF] = "elsewhere with the same seed",
        [A_SIZE] = "a size that chance decides",
        [NO_CHANCE_SIZE] = "a size that chance decides",
        [BY_LUCK] = "fails or not by chance",
        [OUTSIDE] = "looks at pixels",
        [NO_SIZE] = "looks at pixels",
        [ITS_STATE] = "changes its state",
        [PAST_STATE] = "past its state",
        [IN_SILENCE] = "without a sentence",
        [NOT_RANDOM] = "takes chance and says it does not",
        [ALWAYS_THE_SAME] = "says that it takes chance and does not",
        [NOT_OPEN] = "cannot be opened",
        [BOTH] = "exactly one of place",
        [NO_NUMBER] = "a tone that is no number",
        [ANOTHER_TONE] = "another tone with the same seed",
        [A_SILENT_TONE] = "without a sentence",
        [OTHER_PIXELS] = "other pixels with the same seed",
        [PAST_PIXELS] = "past its pixels",
        [SILENT_PIXELS] = "without a sentence",
    };
    check_wrongs("stage", try_wrong, says, WRONGS);
}

/* ---- rows that are wrong on purpose ---------------------------------------------------------- */

static _Thread_local uint32_t rows_made;

static int past_row(const larder__pipeline *p, larder__scratch *s, const void *bytes, size_t size,
                    uint64_t seed, void *out) {
    ((unsigned char *)out)[larder__pipeline_bytes(p)] = 1;
    return larder__pipeline_run(p, s, bytes, size, seed, out);
}

static int forgotten_byte(const larder__pipeline *p, larder__scratch *s, const void *bytes,
                          size_t size, uint64_t seed, void *out) {
    unsigned char was = *(unsigned char *)out;
    int rc = larder__pipeline_run(p, s, bytes, size, seed, out);
    *(unsigned char *)out = was;
    return rc;
}

static int by_thread(const larder__pipeline *p, larder__scratch *s, const void *bytes, size_t size,
                     uint64_t seed, void *out) {
    int rc = larder__pipeline_run(p, s, bytes, size, seed, out);
    if (rows_made++ < 10)
        *(unsigned char *)out ^= 0x40;
    return rc;
}

static int into_sample(const larder__pipeline *p, larder__scratch *s, const void *bytes,
                       size_t size, uint64_t seed, void *out) {
    int rc = larder__pipeline_run(p, s, bytes, size, seed, out);
    if (seed == LARDER__NO_CHANCE && ++rows_made % 2 == 0) /* the last one of a sample */
        *(unsigned char *)(uintptr_t)bytes ^= 1;
    return rc;
}

static int first_byte(const larder__pipeline *p, larder__scratch *s, const void *bytes, size_t size,
                      uint64_t seed, void *out) {
    int rc = larder__pipeline_run(p, s, bytes, size, seed, out);
    const larder_shape shape = larder__pipeline_shape(p);
    if (larder__pipeline_bytes(p) == (size_t)shape.h * shape.w * shape.c)
        *(unsigned char *)out ^= 0x40;
    return rc;
}

static int no_row(const larder__pipeline *p, larder__scratch *s, const void *bytes, size_t size,
                  uint64_t seed, void *out) {
    (void)p, (void)s, (void)bytes, (void)size, (void)seed, (void)out;
    return LARDER_E_FORMAT;
}

static int silent(const larder__pipeline *p, larder__scratch *s, const void *bytes, size_t size,
                  uint64_t seed, void *out) {
    int rc = larder__pipeline_run(p, s, bytes, size, seed, out);
    if (rc < 0)
        forget();
    return rc;
}

static void broken_rows(void **state) {
    (void)state;
    static const struct {
        row_fn *run;
        const char *says;
    } cases[] = {{past_row, "past its row"},
                 {forgotten_byte, "as they were"},
                 {by_thread, "on another thread"},
                 {into_sample, "into the sample"},
                 {first_byte, "in another layout or type"},
                 {no_row, "cannot be made"},
                 {silent, "when memory runs out"}};
    static const char spec[] = "crop:size=3,pad=2|flip";
    if (!row_suite(spec, larder__pipeline_run))
        fail_msg("%s: %s", spec, wrong_said());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows_made = 0;
        if (row_suite(i == 6 ? "resize:h=6,w=5" : spec, cases[i].run) ||
            !strstr(wrong_said(), cases[i].says))
            fail_msg("row %zu: \"%s\", not \"%s\"", i, wrong_said(), cases[i].says);
    }
    assert_false(row_suite("crop:size=100", larder__pipeline_run));
    assert_non_null(strstr(wrong_said(), "no shape at all"));
}

/* ---- descriptions that are wrong on purpose -------------------------------------------------- */

static void broken_descriptions(void **state) {
    (void)state;
    static const larder_param good[] = {{"a", "int", "1", "help", 0, 5},
                                        {"b", "x|y", "x", "help", 0, 0},
                                        {"c", "text", "", "help", 0, 0},
                                        {0}};
    static const larder_param no_help[] = {{"a", "int", "1", "", 0, 5}, {0}};
    static const larder_param odd_type[] = {{"a", "integer", "1", "help", 0, 5}, {0}};
    static const larder_param outside[] = {{"a", "int", "7", "help", 0, 5}, {0}};
    static const struct {
        larder_plugin is;
        const char *says;
    } cases[] = {{{"x", "says enough of it", no_help, 0}, "lacks its type"},
                 {{"x", "says enough of it", odd_type, 0}, "the type \"integer\""},
                 {{"x", "says enough of it", outside, 0}, "initial values"},
                 {{"x", "short", good, 0}, "says nothing"},
                 {{"X y", "says enough of it", good, 0}, "small letters"}};
    larder_plugin right = {"x", "says enough of it", good, 0};
    if (!check_plugin("stage", &right, ','))
        fail_msg("%s", wrong_said());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (check_plugin("stage", &cases[i].is, ',') || !strstr(wrong_said(), cases[i].says))
            fail_msg("\"%s\", not \"%s\"", wrong_said(), cases[i].says);
    larder_figure many[LARDER_FIGURES + 2] = {{0}};
    size_t count;
    for (size_t i = 0; i <= LARDER_FIGURES; i++)
        many[i] = (larder_figure){"a", "", "help"};
    assert_false(check_figures(many, &count));
    many[0].help = "";
    assert_false(check_figures(many, &count));
    assert_non_null(strstr(wrong_said(), "no help"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage),
        cmocka_unit_test(broken_stages),
        cmocka_unit_test(broken_rows),
        cmocka_unit_test(broken_descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
