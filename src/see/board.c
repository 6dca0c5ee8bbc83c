#include "see/board.h"

#include "base/grow.h"
#include "base/mem.h"
#include "see/discover.h"
#include "see/job_rates.h"
#include "see/prometheus.h"

#include <math.h>
#include <string.h>

/* What is drawn over time, in the order in which points list it. */
enum { RATE, HITS, SUBSTITUTES, MISSES, READ, DEMAND, STALL, SHOWN, SERIES };

typedef struct point {
    double when;
    float v[SERIES];
} point;

typedef struct track { /* of one job */
    uint64_t pid, number;
    point points[LARDER__BOARD_POINTS];
    size_t count;
    uint32_t span; /* looks a point stands for */
    point sum;     /* of those that are not a point yet */
    uint32_t summed;
    bool there; /* in the last look */
} track;

struct larder__board {
    larder__jobs now, before;
    double when; /* of the last look, 0: none */
    larder__rates *rates;
    size_t rates_cap;
    track *tracks[LARDER__BOARD_TRACKS];
    size_t track_count;
    larder__jobs ended; /* the newest last */
    double ended_when[LARDER__BOARD_ENDED];
};

int larder__board_open(larder__board **out) {
    *out = larder__calloc(1, sizeof **out);
    return *out ? 0 : LARDER_E_NOMEM;
}

void larder__board_close(larder__board **board) {
    larder__board *p = *board;
    *board = NULL;
    if (!p)
        return;
    for (size_t i = 0; i < p->track_count; i++)
        larder__free(p->tracks[i]);
    larder__jobs_free(&p->now);
    larder__jobs_free(&p->before);
    larder__jobs_free(&p->ended);
    larder__free(p->rates);
    larder__free(p);
}

/* ---- curves ---------------------------------------------------------------------------------- */

static void halve(track *t) {
    for (size_t i = 0; i + 1 < t->count; i += 2) {
        const point *a = &t->points[i], *b = &t->points[i + 1];
        point both = {.when = b->when};
        for (int k = 0; k < SERIES; k++)
            both.v[k] = isnan(a->v[k])   ? b->v[k]
                        : isnan(b->v[k]) ? a->v[k]
                                         : (a->v[k] + b->v[k]) / 2;
        t->points[i / 2] = both;
    }
    t->count /= 2;
    t->span *= 2;
}

static void add_point(track *t, const point *p) {
    for (int k = 0; k < SERIES; k++)
        t->sum.v[k] = t->summed ? t->sum.v[k] + p->v[k] : p->v[k];
    t->sum.when = p->when;
    if (++t->summed < t->span)
        return;
    for (int k = 0; k < SERIES; k++)
        t->sum.v[k] /= (float)t->summed;
    if (t->count == LARDER__BOARD_POINTS)
        halve(t);
    t->points[t->count++] = t->sum;
    t->summed = 0;
}

static track *find_track(larder__board *p, const larder__job *job) {
    for (size_t i = 0; i < p->track_count; i++)
        if (p->tracks[i]->pid == job->pid && p->tracks[i]->number == job->number)
            return p->tracks[i];
    return NULL;
}

static track *new_track(larder__board *p, const larder__job *job) {
    if (p->track_count == LARDER__BOARD_TRACKS)
        return NULL; /* it is shown without its past */
    track *t = larder__calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->pid = job->pid;
    t->number = job->number;
    t->span = 1;
    p->tracks[p->track_count++] = t;
    return t;
}

static void follow(larder__board *p, const larder__job *job, const larder__rates *r, double now) {
    track *t = find_track(p, job);
    if (!t && !(t = new_track(p, job)))
        return;
    point at = {.when = now,
                .v = {(float)r->samples, (float)r->hits, (float)r->substitutes, (float)r->misses,
                      (float)r->read_bytes, (float)r->demand_bytes, (float)r->stall,
                      (float)larder__job_value(job, job->shown)}};
    t->there = true;
    add_point(t, &at);
}

/* ---- jobs that ended ------------------------------------------------------------------------- */

static void drop_ended(larder__board *p, size_t i) {
    p->ended.count--;
    memmove(&p->ended.at[i], &p->ended.at[i + 1], (p->ended.count - i) * sizeof *p->ended.at);
    memmove(&p->ended_when[i], &p->ended_when[i + 1], (p->ended.count - i) * sizeof *p->ended_when);
}

static void remember(larder__board *p, const larder__job *job, double now) {
    if (p->ended.cap < LARDER__BOARD_ENDED) {
        larder__job *all = larder__realloc(p->ended.at, LARDER__BOARD_ENDED * sizeof *p->ended.at);
        if (!all)
            return;
        p->ended.at = all;
        p->ended.cap = LARDER__BOARD_ENDED;
    }
    if (p->ended.count == LARDER__BOARD_ENDED)
        drop_ended(p, 0);
    p->ended.at[p->ended.count] = *job;
    p->ended_when[p->ended.count++] = now;
}

static bool is_remembered(const larder__board *p, const track *t) {
    for (size_t i = 0; i < p->ended.count; i++)
        if (p->ended.at[i].pid == t->pid && p->ended.at[i].number == t->number)
            return true;
    return false;
}

static void forget(larder__board *p) {
    for (size_t i = 0; i < p->track_count;)
        if (!p->tracks[i]->there && !is_remembered(p, p->tracks[i])) {
            larder__free(p->tracks[i]);
            p->tracks[i] = p->tracks[--p->track_count];
        } else
            i++;
}

/* ---- looking --------------------------------------------------------------------------------- */

static void compare(larder__board *p, double now) {
    for (size_t i = 0; i < p->track_count; i++)
        p->tracks[i]->there = false;
    for (size_t i = 0; i < p->now.count; i++) {
        const larder__job *job = &p->now.at[i], *before = larder__job_same(&p->before, job);
        p->rates[i] = larder__rates_of(job, before, now - p->when);
        follow(p, job, &p->rates[i], now);
        for (size_t k = 0; k < p->ended.count; k++) /* it had only not answered */
            if (p->ended.at[k].pid == job->pid && p->ended.at[k].number == job->number)
                drop_ended(p, k--);
    }
    for (size_t i = 0; i < p->before.count; i++)
        if (!larder__job_same(&p->now, &p->before.at[i]))
            remember(p, &p->before.at[i], now);
    forget(p);
    p->when = now;
}

int larder__board_look(larder__board *p, double now) {
    larder__jobs old = p->before;
    p->before = p->now;
    p->now = old;
    larder__jobs_clear(&p->now);
    int rc = larder__discover(&p->now, 0.5);
    if (rc < 0 ||
        (rc = larder__room(&p->rates, &p->rates_cap, p->now.count, sizeof *p->rates)) < 0) {
        larder__jobs_clear(&p->now);
        return rc;
    }
    compare(p, now);
    return 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void write_rates(larder__json *j, const larder__board *p, size_t i) {
    const larder__rates *r = &p->rates[i];
    const double all[SERIES] = {
        r->samples,     r->hits,
        r->substitutes, r->misses,
        r->read_bytes,  r->demand_bytes,
        r->stall,       larder__job_value(&p->now.at[i], p->now.at[i].shown)};
    larder__json_open(j, NULL, '[');
    for (int k = 0; k < SERIES; k++)
        larder__json_f64(j, NULL, all[k]);
    larder__json_close(j, ']');
}

void larder__board_state(FILE *to, const larder__board *p) {
    larder__json j = {.to = to};
    larder__json_begin(&j);
    larder__json_text(&j, "version", LARDER_VERSION);
    larder__json_open(&j, "jobs", '[');
    for (size_t i = 0; i < p->now.count; i++)
        larder__job_json(&j, &p->now.at[i]);
    larder__json_close(&j, ']');
    larder__json_open(&j, "rates", '[');
    for (size_t i = 0; i < p->now.count; i++)
        write_rates(&j, p, i);
    larder__json_close(&j, ']');
    larder__json_open(&j, "ended", '[');
    for (size_t i = 0; i < p->ended.count; i++)
        larder__job_json(&j, &p->ended.at[i]);
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
}

static void write_track(larder__json *j, const track *t, double now) {
    larder__json_open(j, NULL, '{');
    larder__json_u64(j, "pid", t->pid);
    larder__json_u64(j, "number", t->number);
    larder__json_open(j, "points", '[');
    for (size_t i = 0; i < t->count; i++) {
        larder__json_open(j, NULL, '[');
        larder__json_f64(j, NULL, now - t->points[i].when);
        for (int k = 0; k < SERIES; k++)
            larder__json_f64(j, NULL, (double)t->points[i].v[k]);
        larder__json_close(j, ']');
    }
    larder__json_close(j, ']');
    larder__json_close(j, '}');
}

void larder__board_history(FILE *to, const larder__board *p) {
    larder__json j = {.to = to};
    larder__json_begin(&j);
    larder__json_open(&j, "curves", '[');
    for (size_t i = 0; i < p->track_count; i++)
        write_track(&j, p->tracks[i], p->when);
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
}

void larder__board_metrics(FILE *to, const larder__board *p) {
    larder__prometheus_write(to, p->now.at, p->now.count);
}
