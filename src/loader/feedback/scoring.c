#include "loader/feedback/scoring.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/feedback/thinning.h"

#include <pthread.h>

typedef enum { WAITING, RUNNING, READY } phase;

typedef struct job { /* one report on its way to its effect */
    larder_report report;
    void *memory; /* of its arrays; once it is ready, of its ids alone */
    void *result;
    uint32_t stride;
    phase phase;
} job;

struct larder__scoring {
    larder__scoring_conf conf;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t thread;
    bool running, stop; /* there is a thread; it shall end */
    job *jobs;          /* a ring, oldest first */
    uint32_t size, first, count, waiting;
    uint64_t next;  /* the next batch whose report is taken over */
    uint64_t drawn; /* effects so far were for batches below this one */
    larder__effects past, plan;
    larder__thinning thinning;
    bool follows; /* `plan` says what happens when */
    larder__stat prepare_time, apply_time, wait_time, late, thinned, dropped, rows_lost, rows_new,
        depth;
    larder__stat figures[LARDER_FIGURES];
};

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_stats(larder__scoring *s) {
    larder__stats *to = s->conf.stats;
    int rc = 0;
    if (!to)
        return 0;
    if ((rc = larder__stat_histogram(to, &s->prepare_time, "score_seconds", "seconds",
                                     "scoring one batch, beside training")) < 0 ||
        (rc = larder__stat_histogram(to, &s->apply_time, "score_apply_seconds", "seconds",
                                     "letting the scores of one batch take effect")) < 0 ||
        (rc = larder__stat_clock(to, &s->wait_time, "score_wait",
                                 "drawing a batch waited for scores that were due")) < 0 ||
        (rc = larder__stat_gauge(to, &s->depth, "score_waiting", "batches",
                                 "reports that wait to be scored")) < 0 ||
        (rc = larder__stat_counter(to, &s->late, "score_late", "batches",
                                   "scored too late for their turn, so they acted later")) < 0 ||
        (rc = larder__stat_counter(to, &s->thinned, "score_thinned", "batches",
                                   "of which some rows were left out of scoring")) < 0 ||
        (rc = larder__stat_counter(to, &s->dropped, "score_dropped", "batches",
                                   "not scored at all, because too many were waiting")) < 0 ||
        (rc = larder__stat_counter(to, &s->rows_lost, "score_rows_lost", "samples",
                                   "left out of scoring in both ways")) < 0 ||
        (rc = larder__stat_counter(to, &s->rows_new, "score_rows_new", "samples",
                                   "of these, such as had never been scored")) < 0)
        return rc;
    const larder_figure *f = s->conf.signal->figures;
    for (size_t i = 0; rc == 0 && f && f[i].name && i < LARDER_FIGURES; i++)
        rc = larder__stat_gauge(to, &s->figures[i], f[i].name, f[i].unit, f[i].help);
    return rc;
}

int larder__scoring_open(larder__scoring **out, const larder__scoring_conf *conf) {
    larder__scoring *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->done, NULL);
    /* Those not due yet, those that wait, one being scored, and one to spare for each end. */
    s->size = conf->lag + LARDER__SCORE_QUEUE + 4;
    s->jobs = larder__calloc(s->size, sizeof *s->jobs);
    s->thinning.n = conf->n;
    int rc = s->jobs ? open_stats(s) : LARDER_E_NOMEM;
    if (rc == 0 && conf->mode == LARDER__SCORE_BESIDE)
        rc = larder__thinning_open(&s->thinning, conf->n);
    if (rc < 0)
        larder__scoring_close(out);
    return rc;
}

static void free_job(job *j) {
    larder__free(j->memory);
    larder__free(j->result);
    *j = (job){0};
}

void larder__scoring_close(larder__scoring **ps) {
    larder__scoring *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (s->running)
        pthread_join(s->thread, NULL);
    for (uint32_t i = 0; s->jobs && i < s->size; i++)
        free_job(&s->jobs[i]);
    larder__free(s->jobs);
    larder__effects_free(&s->past);
    larder__effects_free(&s->plan);
    larder__thinning_close(&s->thinning);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

/* ---- scoring --------------------------------------------------------------------------------- */

static job *job_at(const larder__scoring *s, uint32_t i) {
    return &s->jobs[(s->first + i) % s->size];
}

/* The oldest that waits; NULL: none. */
static job *find_waiting(const larder__scoring *s) {
    for (uint32_t i = 0; s->waiting && i < s->count; i++)
        if (job_at(s, i)->phase == WAITING)
            return job_at(s, i);
    return NULL;
}

/* With the lock held; gives it up meanwhile. The job stays where it is: the ring only moves when
 * its oldest is ready. */
static void score(larder__scoring *s, job *j) {
    j->phase = RUNNING;
    s->waiting--;
    pthread_mutex_unlock(&s->lock);
    double begun = larder__now();
    s->conf.signal->prepare(s->conf.state, &j->report, j->result);
    double took = larder__now() - begun;
    const larder_figure *f = s->conf.signal->figures;
    if (s->conf.stats) {
        larder__stat_observe(s->conf.stats, s->prepare_time, took > 0 ? took : 0);
        for (size_t i = 0; f && f[i].name && i < LARDER_FIGURES; i++)
            larder__stat_set(s->conf.stats, s->figures[i],
                             s->conf.signal->figure(s->conf.state, i));
    }
    pthread_mutex_lock(&s->lock);
    /* Embeddings are much larger than ids; where memory cannot shrink it stays as it is. */
    void *ids = larder__realloc(j->memory, j->report.n * sizeof *j->report.ids);
    if (ids)
        j->memory = ids;
    j->report.ids = j->memory;
    j->phase = READY;
    pthread_cond_broadcast(&s->done);
}

static void *run(void *arg) {
    larder__scoring *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        job *j = find_waiting(s);
        if (j)
            score(s, j);
        else
            pthread_cond_wait(&s->work, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Without a thread, scoring is done when it is due. */
static void start_thread(larder__scoring *s) {
    if (!s->running && s->conf.mode != LARDER__SCORE_INLINE)
        s->running = pthread_create(&s->thread, NULL, run, s) == 0;
    if (!s->running)
        s->conf.mode = LARDER__SCORE_INLINE;
    else
        pthread_cond_broadcast(&s->work);
}

/* ---- reports in ------------------------------------------------------------------------------ */

static uint32_t stride_now(const larder__scoring *s, uint64_t batch) {
    if (s->follows)
        return larder__effects_find(&s->plan, batch).stride;
    if (s->conf.mode != LARDER__SCORE_BESIDE)
        return 1;
    return s->count == s->size ? 0 : larder__thinning_stride(s->waiting);
}

static void count_lost(larder__scoring *s, uint32_t stride, size_t rows, uint64_t fresh) {
    if (!s->conf.stats || stride == 1)
        return;
    larder__stat_add(s->conf.stats, s->rows_new, fresh);
    larder__stat_add(s->conf.stats, stride ? s->thinned : s->dropped, 1);
    larder__stat_add(s->conf.stats, s->rows_lost, rows);
}

/* Takes over one report that is there. */
static int enter(larder__scoring *s, larder__feedback *f) {
    job fresh = {.stride = stride_now(s, s->next)};
    if (!larder__feedback_lift(f, s->next, &fresh.report, &fresh.memory))
        return LARDER_END;
    size_t rows = fresh.report.n;
    s->next++;
    if (fresh.stride == 0) {
        larder__effects_add(&s->past, fresh.report.batch, 0, 0);
        count_lost(s, 0, rows, larder__thinning_fresh(&s->thinning, &fresh.report));
        free_job(&fresh);
        return 0;
    }
    uint64_t new_rows = 0;
    int kept = larder__thinning_keep(&s->thinning, &fresh.report, fresh.stride, &new_rows);
    if (kept == 0)
        fresh.result =
            larder__calloc(1, s->conf.signal->result_size(s->conf.state, fresh.report.n) + 1);
    if (!fresh.result || s->count == s->size) {
        int rc = fresh.result
                     ? larder__fail(LARDER_E_STATE, "feedback of %u batches is under way", s->count)
                     : LARDER_E_NOMEM;
        free_job(&fresh);
        return rc;
    }
    count_lost(s, fresh.stride, rows - fresh.report.n, new_rows);
    *job_at(s, s->count++) = fresh;
    s->waiting++;
    start_thread(s);
    return 0;
}

int larder__scoring_collect(larder__scoring *s, larder__feedback *f) {
    pthread_mutex_lock(&s->lock);
    uint64_t open = larder__feedback_next(f);
    int rc = 0;
    if (s->next < open) /* nothing was said about these, and now it is too late */
        s->next = open;
    while (rc == 0)
        rc = enter(s, f);
    if (s->conf.stats)
        larder__stat_set(s->conf.stats, s->depth, s->waiting);
    pthread_mutex_unlock(&s->lock);
    return rc == LARDER_END ? 0 : rc;
}

/* ---- effects out ----------------------------------------------------------------------------- */

static bool due(const larder__scoring *s, const job *j, uint64_t number) {
    uint64_t delay = s->follows ? larder__effects_find(&s->plan, j->report.batch).delay : 0;
    return j->report.batch + s->conf.lag + delay <= number;
}

/* With the lock held: true when the result is there, sooner or later as the mode says. */
static bool is_ready(larder__scoring *s, job *j) {
    if (j->phase == WAITING && s->conf.mode == LARDER__SCORE_INLINE && !s->running)
        score(s, j);
    bool wait = s->follows || s->conf.mode != LARDER__SCORE_BESIDE;
    if (!wait || j->phase == READY)
        return j->phase == READY;
    double begun = larder__now();
    while (j->phase != READY)
        pthread_cond_wait(&s->done, &s->lock);
    if (s->conf.stats)
        larder__stat_spend(s->conf.stats, s->wait_time, larder__now() - begun);
    return true;
}

/* Without the lock: the job is out of the ring. */
static void take_effect(larder__scoring *s, job *j, const larder__scored *to) {
    double begun = larder__now();
    s->conf.signal->apply(s->conf.state, j->result, s->conf.scores, to->relate, to->arg);
    to->told(to->arg, j->report.ids, j->report.n);
    double took = larder__now() - begun;
    if (s->conf.stats)
        larder__stat_observe(s->conf.stats, s->apply_time, took > 0 ? took : 0);
    free_job(j);
}

int larder__scoring_apply(larder__scoring *s, uint64_t number, const larder__scored *to) {
    pthread_mutex_lock(&s->lock);
    s->drawn = number + 1;
    while (s->count && due(s, job_at(s, 0), number) && is_ready(s, job_at(s, 0))) {
        job j = *job_at(s, 0);
        *job_at(s, 0) = (job){0};
        s->first = (s->first + 1) % s->size;
        s->count--;
        uint64_t delay = number - j.report.batch - s->conf.lag;
        larder__effects_add(&s->past, j.report.batch, delay, j.stride);
        if (delay && s->conf.stats)
            larder__stat_add(s->conf.stats, s->late, 1);
        pthread_mutex_unlock(&s->lock);
        take_effect(s, &j, to);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* ---- saved state ----------------------------------------------------------------------------- */

/* With the lock held: until nobody touches the signal's state. */
static void await_rest(larder__scoring *s) {
    for (uint32_t i = 0; i < s->count;)
        if (job_at(s, i)->phase == RUNNING) {
            pthread_cond_wait(&s->done, &s->lock);
            i = 0;
        } else
            i++;
}

void larder__scoring_save(larder__scoring *s, larder_writer *w) {
    pthread_mutex_lock(&s->lock);
    await_rest(s);
    if (s->conf.signal->save)
        s->conf.signal->save(s->conf.state, w);
    larder_write_u64(w, s->next);
    larder_write_u64(w, s->drawn);
    larder__thinning_save(&s->thinning, w);
    larder_write_u32(w, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        const job *j = job_at(s, i);
        bool ready = j->phase == READY;
        larder_write_u64(w, j->report.batch);
        larder_write_u64(w, j->report.epoch);
        larder_write_u32(w, j->stride);
        larder_write_u32(w, ready);
        if (ready) {
            larder_write_u64(w, j->report.n);
            larder_write_bytes(w, j->report.ids, j->report.n * sizeof *j->report.ids);
            larder_write_bytes(w, j->result,
                               s->conf.signal->result_size(s->conf.state, j->report.n));
        } else
            larder__report_write(&j->report, w);
    }
    pthread_mutex_unlock(&s->lock);
}

static int load_result(larder__scoring *s, job *j, larder_reader *r) {
    uint64_t n = larder_read_u64(r);
    if (n > larder__read_left(r) / sizeof *j->report.ids)
        return larder_read_reject(r, "a result has more rows than it");
    uint64_t *ids = j->memory = larder__malloc((n + 1) * sizeof *ids);
    if (!ids)
        return LARDER_E_NOMEM;
    larder_read_bytes(r, ids, n * sizeof *ids);
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] >= s->conf.n)
            return larder_read_reject(r, "a result is about a sample that does not exist");
    j->report.ids = ids;
    j->report.n = n;
    size_t size = s->conf.signal->result_size(s->conf.state, n);
    if (size > larder__read_left(r))
        return larder_read_reject(r, "a result is larger than it");
    if (!(j->result = larder__calloc(1, size + 1)))
        return LARDER_E_NOMEM;
    larder_read_bytes(r, j->result, size);
    if (!s->conf.signal->check || !s->conf.signal->check(s->conf.state, j->result, n))
        return larder_read_reject(r, "a result is none of this signal's");
    j->phase = READY;
    return larder_read_status(r);
}

static int load_job(larder__scoring *s, job *j, larder_reader *r) {
    j->report.batch = larder_read_u64(r);
    j->report.epoch = larder_read_u64(r);
    j->report.accuracy = 0.0 / 0.0;
    j->stride = larder_read_u32(r);
    if (j->report.batch >= s->next || j->stride < 1 || j->stride > LARDER__STRIDE_MOST ||
        (s->count > 1 && job_at(s, s->count - 2)->report.batch >= j->report.batch))
        return larder_read_reject(r, "feedback under way is out of place");
    if (larder_read_u32(r) == 1)
        return load_result(s, j, r);
    int rc = larder__report_read(&j->report, &j->memory, s->conf.n, r);
    if (rc < 0)
        return rc;
    s->waiting++;
    j->result = larder__calloc(1, s->conf.signal->result_size(s->conf.state, j->report.n) + 1);
    return j->result ? 0 : LARDER_E_NOMEM;
}

/* Scoring goes on with the next report that comes in, or when one of these is due. */
int larder__scoring_load(larder__scoring *s, larder_reader *r) {
    pthread_mutex_lock(&s->lock);
    int rc = s->conf.signal->load ? s->conf.signal->load(s->conf.state, r) : 0;
    s->next = larder_read_u64(r);
    s->drawn = larder_read_u64(r);
    if (rc == 0)
        rc = larder__thinning_load(&s->thinning, r);
    uint32_t count = larder_read_u32(r);
    if (rc == 0)
        rc = count > s->size ? larder_read_reject(r, "more feedback under way than can be") : 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        s->count++;
        rc = load_job(s, job_at(s, i), r);
    }
    if (rc == 0 && s->waiting)
        start_thread(s);
    if (rc == 0 && s->conf.mode == LARDER__SCORE_BESIDE && !s->follows)
        larder__note(s->conf.stats,
                     "scoring=beside: what comes after this state depends on how fast scores are "
                     "made, so it need not be what the saved run went on to; runs with "
                     "scoring=wait go on to the bit");
    pthread_mutex_unlock(&s->lock);
    return rc < 0 ? rc : larder_read_status(r);
}

/* Those under way come apart: they had no effect up to here, and a run that goes on notes them when
 * they have. */
void larder__scoring_effects(larder__scoring *s, larder_writer *w) {
    larder__effects open = {0};
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->count; i++) {
        const job *j = job_at(s, i);
        uint64_t usual = j->report.batch + s->conf.lag;
        larder__effects_add(&open, j->report.batch, s->drawn > usual ? s->drawn - usual : 0,
                            j->stride);
    }
    larder__effects_save(&s->past, w);
    larder__effects_save(&open, w);
    pthread_mutex_unlock(&s->lock);
    larder__effects_free(&open);
}

int larder__scoring_past(larder__scoring *s, larder_reader *r) {
    larder__effects open = {0};
    int rc = larder__effects_load(&s->past, r);
    if (rc == 0)
        rc = larder__effects_load(&open, r);
    larder__effects_free(&open);
    return rc;
}

int larder__scoring_follow(larder__scoring *s, larder_reader *r) {
    larder__effects open = {0};
    int rc = larder__effects_load(&s->plan, r);
    if (rc == 0 && (rc = larder__effects_load(&open, r)) == 0)
        larder__effects_join(&s->plan, &open);
    larder__effects_free(&open);
    if (rc == 0 && s->plan.lost)
        rc = larder__fail(LARDER_E_STATE, "memory was short in that run: its list of late feedback "
                                          "is not whole");
    if (rc == 0) /* from the first report on, as that run */
        rc = larder__thinning_open(&s->thinning, s->conf.n);
    s->follows = rc == 0;
    return rc;
}
