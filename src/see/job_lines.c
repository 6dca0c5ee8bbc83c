/* Jobs as lines of JSON: written in the job's process, read by whoever looks. A line is one flat
 * object whose member "line" says what it is:
 *
 *     {"line": "larder", "version": 1, "jobs": 2}
 *     {"line": "job", "pid": 4711, …}
 *     {"line": "stat", "name": "samples", …}     of the job above it, as are
 *     {"line": "epoch", …}   {"line": "bad", …}
 *     {"line": "end"} */
#include "base/err.h"
#include "base/mem.h"
#include "base/object.h"
#include "see/job_fields.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, BINS_TEXT = LARDER__JOB_BINS * 5 + 1 };

/* ---- writing --------------------------------------------------------------------------------- */

static larder__json open_line(FILE *to, const char *what) {
    larder__json j = {.to = to};
    larder__json_open(&j, NULL, '{');
    larder__json_text(&j, "line", what);
    return j;
}

void larder__jobs_head(FILE *to, size_t count) {
    larder__json j = open_line(to, "larder");
    larder__json_u64(&j, "version", VERSION);
    larder__json_u64(&j, "jobs", count);
    larder__json_close(&j, '}');
}

void larder__jobs_tail(FILE *to) {
    larder__json j = open_line(to, "end");
    larder__json_close(&j, '}');
}

static void write_fields(FILE *to, const char *what, const larder__field *f, const void *object) {
    larder__json j = open_line(to, what);
    larder__fields_json(&j, f, object);
    larder__json_close(&j, '}');
}

static void write_stat(FILE *to, const larder__job_stat *s) {
    larder__json j = open_line(to, "stat");
    larder__json_text(&j, "type", (char[]){s->type, 0});
    larder__fields_json(&j, larder__fields_stat, s);
    larder__json_close(&j, '}');
}

static void write_epoch(FILE *to, const larder__job_epoch *e) {
    char bins[BINS_TEXT];
    size_t n = 0;
    larder__json j = open_line(to, "epoch");
    larder__fields_json(&j, larder__fields_epoch, e);
    for (int i = 0; i < LARDER__JOB_BINS; i++)
        n += (size_t)snprintf(bins + n, sizeof bins - n, "%s%u", i ? "," : "",
                              e->scores[i] < 1000 ? (unsigned)e->scores[i] : 1000u);
    if (isfinite(e->score_low))
        larder__json_text(&j, "scores", bins);
    larder__json_close(&j, '}');
}

void larder__job_write(FILE *to, const larder__job *job) {
    write_fields(to, "job", larder__fields_job, job);
    for (size_t i = 0; i < job->stat_count; i++)
        write_stat(to, &job->stats[i]);
    for (size_t i = 0; i < job->past_count; i++)
        write_epoch(to, &job->past[i]);
    for (size_t i = 0; i < job->bad_count; i++)
        write_fields(to, "bad", larder__fields_bad, &job->bad[i]);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef union object {
    larder__job job;
    larder__job_stat stat;
    larder__job_epoch epoch;
    larder__job_bad bad;
} object;

typedef struct line {
    char what[16];
    bool known; /* `fields` is of what the line is */
    const larder__field *fields;
    object *of;
    uint64_t version, jobs;
    char type;
} line;

static int wrong(const char *what) {
    return larder__fail(LARDER_E_FORMAT, "a job's answer: a wrong value for \"%s\"", what);
}

static int put_field(const larder__field *f, void *base, const larder__object_value *v) {
    char *at = (char *)base + f->at;
    if (f->is == LARDER__IS_TEXT) {
        if (!v->is_text || strlen(v->text) >= f->size)
            return wrong(f->name);
        snprintf(at, f->size, "%s", v->text);
    } else if (v->is_text || (f->is == LARDER__IS_U64 && !v->is_integer)) {
        return wrong(f->name);
    } else if (f->is == LARDER__IS_U64) {
        memcpy(at, &v->whole, sizeof v->whole);
    } else {
        memcpy(at, &v->number, sizeof v->number);
    }
    return 0;
}

static int put_scores(larder__job_epoch *e, const char *text) {
    const char *at = text;
    for (int i = 0; i < LARDER__JOB_BINS; i++) {
        unsigned n = 0;
        if (!isdigit((unsigned char)*at))
            return wrong("scores");
        for (; isdigit((unsigned char)*at) && n <= 1000; at++)
            n = n * 10 + (unsigned)(*at - '0');
        if (n > 1000 || *at != (i + 1 < LARDER__JOB_BINS ? ',' : '\0'))
            return wrong("scores");
        at++;
        e->scores[i] = (uint16_t)n;
    }
    return 0;
}

/* What the line is, is its first member. */
static int begin(line *l, const char *key, const larder__object_value *v) {
    static const struct {
        const char *what;
        const larder__field *fields;
        size_t size;
    } kinds[] = {{"job", larder__fields_job, sizeof(larder__job)},
                 {"stat", larder__fields_stat, sizeof(larder__job_stat)},
                 {"epoch", larder__fields_epoch, sizeof(larder__job_epoch)},
                 {"bad", larder__fields_bad, sizeof(larder__job_bad)}};
    if (strcmp(key, "line") != 0 || !v->is_text || strlen(v->text) >= sizeof l->what)
        return larder__fail(LARDER_E_FORMAT, "a job's answer: a line that does not say what it is");
    memcpy(l->what, v->text, strlen(v->text) + 1);
    l->known = true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(l->what, kinds[i].what) == 0) {
            l->fields = kinds[i].fields;
            memset(l->of, 0, kinds[i].size); /* what a line leaves out is 0 or "" */
        }
    return 0;
}

static int member(void *arg, const char *key, const larder__object_value *v) {
    line *l = arg;
    if (!l->known)
        return begin(l, key, v);
    if (strcmp(key, "version") == 0 && v->is_integer)
        l->version = v->whole;
    else if (strcmp(key, "jobs") == 0 && v->is_integer)
        l->jobs = v->whole;
    else if (l->fields == larder__fields_stat && strcmp(key, "type") == 0 && v->is_text)
        l->type = v->text[0];
    else if (l->fields == larder__fields_epoch && strcmp(key, "scores") == 0 && v->is_text)
        return put_scores(&l->of->epoch, v->text);
    for (const larder__field *f = l->fields; f && f->name; f++)
        if (strcmp(f->name, key) == 0)
            return put_field(f, l->of, v);
    return 0; /* a member of a later version */
}

/* Names become names of metrics elsewhere. */
static bool is_name(const char *s) {
    if (!islower((unsigned char)*s))
        return false;
    for (; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

static bool is_map(const char *s) {
    return *s == 0 || (strspn(s, "0123456789") == LARDER__JOB_CELLS && !s[LARDER__JOB_CELLS]);
}

static int add_job(larder__jobs *to, size_t max, const larder__job *job) {
    if (!is_map(job->map_encoded) || !is_map(job->map_decoded) || !is_map(job->map_augmented) ||
        !is_map(job->map_shrunk))
        return wrong("map");
    if (to->count >= max)
        return larder__fail(LARDER_E_RANGE, "more than %zu jobs", max);
    if (to->count == to->cap) {
        size_t cap = to->cap ? to->cap * 2 : 4;
        larder__job *grown = larder__realloc(to->at, cap * sizeof *grown);
        if (!grown)
            return LARDER_E_NOMEM;
        to->at = grown;
        to->cap = cap;
    }
    larder__job *at = &to->at[to->count++];
    *at = *job;
    at->stat_count = at->past_count = at->bad_count = 0;
    return 0;
}

static int add_part(larder__job *job, const line *l) {
    if (l->fields == larder__fields_stat) {
        larder__job_stat *s = &job->stats[job->stat_count];
        if (job->stat_count == LARDER__JOB_STATS || !is_name(l->of->stat.name) ||
            !(l->type == 'c' || l->type == 'g' || l->type == 'h'))
            return wrong("stat");
        *s = l->of->stat;
        s->type = l->type;
        job->stat_count++;
    } else if (l->fields == larder__fields_epoch) {
        if (job->past_count == LARDER__JOB_EPOCHS)
            return wrong("epoch");
        job->past[job->past_count++] = l->of->epoch;
    } else if (l->fields == larder__fields_bad) {
        if (job->bad_count == LARDER__JOB_BAD)
            return wrong("bad");
        job->bad[job->bad_count++] = l->of->bad;
    }
    return 0;
}

static int read_line(line *l, object *of, const char *text) {
    *l = (line){.of = of};
    int rc = larder__object_parse(text, "a job's answer", member, l);
    if (rc == 0 && !l->known)
        return larder__fail(LARDER_E_FORMAT, "a job's answer: an empty line");
    return rc;
}

typedef struct answer {
    larder__jobs *to;
    size_t before, max;
    uint64_t promised;
    bool begun, over;
} answer;

static int take_line(answer *a, const line *l) {
    if (!a->begun) {
        if (strcmp(l->what, "larder") != 0 || l->version != VERSION)
            return larder__fail(LARDER_E_FORMAT, "a job's answer that is not of version %d",
                                VERSION);
        a->begun = true;
        a->promised = l->jobs;
        return 0;
    }
    a->over = strcmp(l->what, "end") == 0;
    if (l->fields == larder__fields_job)
        return add_job(a->to, a->max, &l->of->job);
    if (l->fields && a->to->count == a->before)
        return larder__fail(LARDER_E_FORMAT, "a job's answer: a figure of no job");
    return l->fields ? add_part(&a->to->at[a->to->count - 1], l) : 0;
}

static int read_lines(answer *a, object *of, char *text, size_t size) {
    char *end = text + size;
    if (strlen(text) != size)
        return larder__fail(LARDER_E_FORMAT, "a job's answer: a NUL byte");
    for (char *at = text; at < end && !a->over;) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        line l;
        if (!stop)
            break;
        *stop = 0;
        int rc = read_line(&l, of, at);
        if (rc < 0 || (rc = take_line(a, &l)) < 0)
            return rc;
        at = stop + 1;
    }
    if (!a->over || a->to->count - a->before != a->promised)
        return larder__fail(LARDER_E_FORMAT, "a job's answer that was cut off");
    return 0;
}

int larder__jobs_read(larder__jobs *to, char *text, size_t size, size_t max) {
    answer a = {.to = to, .before = to->count, .max = max};
    object *of = larder__malloc(sizeof *of);
    if (!of)
        return LARDER_E_NOMEM;
    int rc = read_lines(&a, of, text, size);
    if (rc < 0)
        to->count = a.before;
    larder__free(of);
    return rc;
}

static int by_number(const void *a, const void *b) {
    const larder__job *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

void larder__jobs_order(larder__jobs *jobs) {
    size_t kept = 0;
    if (jobs->count > 1)
        qsort(jobs->at, jobs->count, sizeof *jobs->at, by_number);
    for (size_t i = 0; i < jobs->count; i++)
        if (kept == 0 || by_number(&jobs->at[kept - 1], &jobs->at[i]) != 0) {
            if (kept != i)
                jobs->at[kept] = jobs->at[i];
            kept++;
        }
    jobs->count = kept;
}

void larder__jobs_clear(larder__jobs *jobs) { jobs->count = 0; }

void larder__jobs_free(larder__jobs *jobs) {
    larder__free(jobs->at);
    *jobs = (larder__jobs){0};
}
