/* What every registered signal must keep (tests/support/signal_suite.c): with its parameters as
 * they are unless said, and with those of `further`. */
#include "base/mem.h"
#include "plugins.h"
#include "signal_suite.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *signal, *args;
} further[] = {
    {"rank", "batch=16,b0=2"},
    {"graph", "engine=exact,degree=5,hubs=3,list=6"},
    {"graph", "engine=strata,degree=5,tune=budget=1024/project=8/learn=10,hubs=2,list=9"},
    {"graph", "radius=0.8,normalise=0,threads=3,hubs=0"},
    {"given", "hubs=2,list=3"},
};

static void every_signal(void **state) {
    (void)state;
    for (size_t k = 0; larder__signals[k]; k++) {
        const larder_signal *s = larder__signals[k];
        const char *name = s->plugin.name;
        if (!signal_suite(s, ""))
            fail_msg("signal %s: %s", name, wrong_said());
        for (size_t i = 0; i < sizeof further / sizeof *further; i++)
            if (strcmp(further[i].signal, name) == 0 && !signal_suite(s, further[i].args))
                fail_msg("signal %s:%s: %s", name, further[i].args, wrong_said());
    }
}

/* ---- signals that are wrong on purpose ------------------------------------------------------- */

typedef enum {
    NOTHING,
    ANOTHER_ID,
    FORGETS,
    PAST_SCORES,
    PAST_RESULT,
    PAST_STATE,
    CHANCE,
    ITS_STATE,
    SAVES_LITTLE,
    LOADS_LITTLE,
    LOADS_OTHER,
    TAKES_CUTS,
    SILENT_LOAD,
    TAKES_ANY_STATE,
    REFUSES_ITSELF,
    REFUSES_ZEROS,
    TAKES_ANY_RESULT,
    ITSELF,
    A_STRANGER,
    A_FIGURE,
    A_LEAK,
    SHORT_MEMORY,
    NO_CHECK,
    NO_LOAD,
    WITH_OBSERVE,
    WRONGS
} wrongness;
static wrongness what;

typedef struct sound { /* the mean of a sample's last two losses */
    uint64_t n, told;
    float *last;
    uint64_t hub; /* named with each batch; n: none yet */
} sound;

typedef struct sound_result {
    uint64_t rows, hub, made;
    struct {
        uint64_t id;
        double score;
    } row[];
} sound_result;

static int init(void *st, uint64_t n, const larder_args *args) {
    sound *s = st;
    (void)args;
    s->n = s->hub = n;
    s->last = larder__calloc(n + 1, sizeof *s->last);
    if (what == PAST_STATE)
        ((char *)st)[sizeof *s] = 1;
    if (what == SHORT_MEMORY && !s->last) {
        s->n = 0;
        forget();
    }
    return s->last ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) {
    if (what == A_LEAK)
        lose(((sound *)st)->last);
    else
        larder__free(((sound *)st)->last);
}

static size_t result_size(const void *st, size_t rows) {
    (void)st;
    return sizeof(sound_result) + rows * sizeof(((sound_result *)0)->row[0]);
}

static void prepare(void *st, const larder_report *rep, void *result) {
    static uint64_t ever;
    sound *s = st;
    sound_result *out = result;
    ever++;
    s->told++;
    out->hub = s->hub;
    out->made = 1;
    for (size_t i = 0; rep->loss && i < rep->n; i++) {
        float loss = rep->loss[i];
        if (!isfinite(loss))
            continue;
        uint64_t id = rep->ids[i];
        double score = (s->last[id] + loss) / 2;
        s->last[id] = loss;
        s->hub = id;
        if (what == ANOTHER_ID && i == 3)
            id = (id + 1) % s->n;
        if (what == CHANCE)
            score += (double)ever;
        if (what == FORGETS && s->told == 9)
            score = NAN;
        out->row[out->rows].id = id;
        out->row[out->rows++].score = score;
    }
    if (what == PAST_RESULT)
        ((char *)result)[result_size(st, rep->n)] = 1;
}

static void apply(const void *st, const void *result, float *scores, larder_relation_fn name,
                  void *arg) {
    const sound *s = st;
    const sound_result *r = result;
    for (uint64_t i = 0; i < r->rows && i < 64; i++) {
        uint64_t id = r->row[i].id % s->n;
        scores[id] = (float)(r->row[i].score + (what == ITS_STATE ? (double)s->told : 0));
    }
    if (what == PAST_SCORES)
        scores[s->n] = 1;
    if (r->rows && r->hub != s->n) {
        uint64_t other = what == ITSELF ? r->hub : (r->hub + 1) % s->n;
        name(arg, what == A_STRANGER ? s->n + 5 : r->hub, &other, s->n > 1);
    }
}

static bool check(const void *st, const void *result, size_t rows) {
    const sound *s = st;
    const sound_result *r = result;
    if (what == TAKES_ANY_RESULT)
        return true;
    if (what == REFUSES_ITSELF && r->rows)
        return false;
    if (r->rows == 0)
        return what != REFUSES_ZEROS || r->made;
    bool right = r->rows <= rows && r->hub <= s->n;
    for (uint64_t i = 0; right && i < r->rows; i++)
        right = r->row[i].id < s->n && (!isnan(r->row[i].score) || what == FORGETS);
    return right;
}

static void save(const void *st, larder_writer *w) {
    const sound *s = st;
    larder_write_u64(w, s->hub);
    larder_write_u64(w, s->told);
    larder_write_bytes(w, s->last, what == SAVES_LITTLE ? 0 : s->n * sizeof *s->last);
}

static int load(void *st, larder_reader *r) {
    sound *s = st;
    s->hub = larder_read_u64(r);
    s->told = larder_read_u64(r) + (what == LOADS_OTHER);
    if (what == LOADS_LITTLE)
        return 0;
    if (what != SAVES_LITTLE)
        larder_read_bytes(r, s->last, s->n * sizeof *s->last);
    if (s->hub > s->n && what == SILENT_LOAD)
        return LARDER_E_FORMAT;
    if (s->hub > s->n && what != TAKES_ANY_STATE)
        return larder_read_reject(r, "it names an id that is none");
    for (uint64_t i = 0; i < s->n; i++)
        if (!isfinite(s->last[i]))
            return larder_read_reject(r, "a loss is not finite");
    return what == TAKES_CUTS ? 0 : larder_read_status(r);
}

static void observe(void *st, const larder_report *rep, float *scores) {
    (void)st, (void)rep, (void)scores;
}

static const larder_figure figures[] = {{"sound_told", "", "reports"}, {0}};
static double figure(const void *st, size_t i) {
    (void)i;
    return what == A_FIGURE ? INFINITY : (double)((const sound *)st)->told;
}

static const char *try_wrong(unsigned w) {
    larder_signal s = {
        .plugin = {"sound", "a signal that is right", NULL, sizeof(sound)},
        .init = init,
        .fini = fini,
        .result_size = result_size,
        .prepare = prepare,
        .apply = apply,
        .check = check,
        .save = save,
        .load = load,
        .figures = figures,
        .figure = figure,
    };
    what = w;
    if (w == NO_CHECK)
        s.check = NULL;
    if (w == NO_LOAD)
        s.load = NULL;
    if (w == WITH_OBSERVE)
        s.observe = observe;
    bool right = signal_suite(&s, "");
    find_lost();
    return right ? NULL : wrong_said();
}

/* Of each the suite says what is wrong, and of the sound one nothing. */
static void broken_signals(void **state) {
    (void)state;
    static const char *const says[WRONGS] = {
        [ANOTHER_ID] = "an id that was not reported",
        [FORGETS] = "forgets a score",
        [PAST_SCORES] = "scores of ids that there are none of",
        [PAST_RESULT] = "past the size of its result",
        [PAST_STATE] = "past its state",
        [CHANCE] = "other scores of the same reports",
        [ITS_STATE] = "more than what its result says",
        [SAVES_LITTLE] = "to other scores",
        [LOADS_LITTLE] = "bytes of what it has saved",
        [LOADS_OTHER] = "saves something else",
        [TAKES_CUTS] = "cut short",
        [SILENT_LOAD] = "a saved state without a sentence",
        [TAKES_ANY_STATE] = "refuses its own result",
        [REFUSES_ITSELF] = "refuses its own result",
        [REFUSES_ZEROS] = "was not prepared",
        [TAKES_ANY_RESULT] = "names a stand-in",
        [ITSELF] = "stand in for itself",
        [A_STRANGER] = "names a stand-in",
        [A_FIGURE] = "is not finite",
        [A_LEAK] = "after its end",
        [SHORT_MEMORY] = "when memory runs out",
        [NO_CHECK] = "not all",
        [NO_LOAD] = "save or load, not both",
        [WITH_OBSERVE] = "observe and prepare",
    };
    check_wrongs("signal", try_wrong, says, WRONGS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_signal),
        cmocka_unit_test(broken_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
