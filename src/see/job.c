#include "see/job.h"

#include "see/job_fields.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- tables ---------------------------------------------------------------------------------- */

#define is_u64 LARDER__IS_U64
#define is_f64 LARDER__IS_F64
#define is_text LARDER__IS_TEXT
#define ROW(type, kind, name)                                                                      \
    { #name, is_##kind, offsetof(type, name), sizeof(((type *)0)->name) }

#define XX(kind, name) ROW(larder__job, kind, name),
const larder__field larder__fields_job[] = {LARDER__JOB_FIELDS(XX){NULL, 0, 0, 0}};
#undef XX
#define OF(kind, name) ROW(larder__job_stat, kind, name)
const larder__field larder__fields_stat[] = {OF(text, name), OF(text, unit),  OF(text, help),
                                             OF(f64, value), OF(u64, count),  OF(f64, sd),
                                             OF(f64, p50),   OF(f64, p90),    OF(f64, p99),
                                             OF(f64, max),   OF(text, below), {NULL, 0, 0, 0}};
#undef OF
#define OF(kind, name) ROW(larder__job_epoch, kind, name)
const larder__field larder__fields_epoch[] = {OF(u64, epoch),
                                              OF(u64, served),
                                              OF(u64, hits),
                                              OF(u64, substitutes),
                                              OF(u64, repeats),
                                              OF(u64, misses),
                                              OF(u64, background_reads),
                                              OF(u64, storage_bytes),
                                              OF(u64, bad),
                                              OF(u64, requests),
                                              OF(f64, touched),
                                              OF(f64, loss),
                                              OF(f64, accuracy),
                                              OF(f64, fresh_loss),
                                              OF(f64, reused_loss),
                                              OF(f64, score_low),
                                              OF(f64, score_high),
                                              {NULL, 0, 0, 0}};
#undef OF
#define OF(kind, name) ROW(larder__job_bad, kind, name)
const larder__field larder__fields_bad[] = {OF(u64, id), OF(text, why), {NULL, 0, 0, 0}};
#undef OF

void larder__fields_json(larder__json *j, const larder__field *f, const void *object) {
    for (; f->name; f++) {
        const char *at = (const char *)object + f->at;
        if (f->is == LARDER__IS_TEXT) {
            larder__json_text(j, f->name, at);
        } else if (f->is == LARDER__IS_U64) {
            uint64_t v;
            memcpy(&v, at, sizeof v);
            larder__json_u64(j, f->name, v);
        } else {
            double v;
            memcpy(&v, at, sizeof v);
            larder__json_f64(j, f->name, v);
        }
    }
}

/* ---- filling one in -------------------------------------------------------------------------- */

void larder__job_say(larder__job_text out, const char *text) {
    snprintf(out, sizeof(larder__job_text), "%s", text ? text : "");
}

void larder__job_show(larder__job *job, const larder_stat_value *v) {
    if (job->stat_count == LARDER__JOB_STATS)
        return;
    larder__job_stat *s = &job->stats[job->stat_count++];
    *s = (larder__job_stat){.type = v->type,
                            .value = v->value,
                            .count = v->count,
                            .sd = v->sd,
                            .p50 = v->p50,
                            .p90 = v->p90,
                            .p99 = v->p99,
                            .max = v->max};
    snprintf(s->name, sizeof s->name, "%s", v->name);
    snprintf(s->unit, sizeof s->unit, "%s", v->unit);
    snprintf(s->help, sizeof s->help, "%s", v->help);
}

void larder__job_show_below(larder__job *job, const char *name, const uint64_t *below, size_t n) {
    larder__job_stat *s = job->stat_count ? &job->stats[job->stat_count - 1] : NULL;
    if (!s || strncmp(s->name, name, sizeof s->name - 1) != 0)
        return;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int wrote = snprintf(s->below + at, sizeof s->below - at, "%s%llu", i ? "," : "",
                             (unsigned long long)below[i]);
        if (wrote < 0 || at + (size_t)wrote >= sizeof s->below) {
            s->below[0] = '\0'; /* half of it would be read as something else */
            return;
        }
        at += (size_t)wrote;
    }
}

const larder__job_stat *larder__job_find(const larder__job *job, const char *name) {
    for (size_t i = 0; i < job->stat_count; i++)
        if (strcmp(job->stats[i].name, name) == 0)
            return &job->stats[i];
    return NULL;
}

double larder__job_value(const larder__job *job, const char *name) {
    const larder__job_stat *s = larder__job_find(job, name);
    return s ? s->value : (double)NAN;
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void stat_json(larder__json *j, const larder__job_stat *s) {
    larder__json_open(j, NULL, '{');
    larder__json_text(j, "name", s->name);
    larder__json_text(j, "type",
                      s->type == 'c'   ? "counter"
                      : s->type == 'h' ? "histogram"
                                       : "gauge");
    larder__json_text(j, "unit", s->unit);
    larder__json_text(j, "help", s->help);
    larder__json_f64(j, "value", s->value);
    if (s->type == 'h') {
        larder__json_u64(j, "count", s->count);
        larder__json_f64(j, "sd", s->sd);
        larder__json_f64(j, "p50", s->p50);
        larder__json_f64(j, "p90", s->p90);
        larder__json_f64(j, "p99", s->p99);
        larder__json_f64(j, "max", s->max);
    }
    larder__json_close(j, '}');
}

static void epoch_json(larder__json *j, const larder__job_epoch *e) {
    larder__json_open(j, NULL, '{');
    larder__fields_json(j, larder__fields_epoch, e);
    if (isfinite(e->score_low)) {
        larder__json_open(j, "scores", '[');
        for (int i = 0; i < LARDER__JOB_BINS; i++)
            larder__json_u64(j, NULL, e->scores[i]);
        larder__json_close(j, ']');
    }
    larder__json_close(j, '}');
}

void larder__job_json(larder__json *j, const larder__job *job) {
    larder__json_begin(j);
    larder__fields_json(j, larder__fields_job, job);
    larder__json_open(j, "stats", '[');
    for (size_t i = 0; i < job->stat_count; i++)
        stat_json(j, &job->stats[i]);
    larder__json_close(j, ']');
    larder__json_open(j, "history", '[');
    for (size_t i = 0; i < job->past_count; i++)
        epoch_json(j, &job->past[i]);
    larder__json_close(j, ']');
    larder__json_open(j, "bad", '[');
    for (size_t i = 0; i < job->bad_count; i++) {
        larder__json_open(j, NULL, '{');
        larder__fields_json(j, larder__fields_bad, &job->bad[i]);
        larder__json_close(j, '}');
    }
    larder__json_close(j, ']');
    larder__json_close(j, '}');
}
