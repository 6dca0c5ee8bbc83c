#include "report/record.h"

#include "base/err.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/object.h"
#include "report/tape_run.h"
#include "tape/tape.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 16384, EPOCHS_MAX = 1000000, PATH_BYTES = 4096 };

/* ---- fields ---------------------------------------------------------------------------------- */

typedef enum { kind_u64, kind_f64, kind_opt, kind_text, kind_word } field_kind;
typedef struct field {
    const char *name;
    field_kind kind;
    size_t at;
} field;

#define XX(kind, name) {#name, kind_##kind, offsetof(larder__epoch, name)},
static const field epoch_fields[] = {LARDER__EPOCH_FIELDS(XX){NULL, 0, 0}};
#undef XX
#define XX(kind, name) {#name, kind_##kind, offsetof(larder__meta, name)},
static const field meta_fields[] = {LARDER__META_FIELDS(XX){NULL, 0, 0}};
#undef XX

static void print(FILE *to, const field *f, const void *object) {
    larder__json j = {.to = to};
    larder__json_begin(&j);
    for (; f->name; f++) {
        const char *at = (const char *)object + f->at;
        if (f->kind == kind_text || (f->kind == kind_word && at[0])) {
            larder__json_text(&j, f->name, at);
        } else if (f->kind == kind_word) {
            continue;
        } else if (f->kind == kind_u64) {
            uint64_t v;
            memcpy(&v, at, sizeof v);
            larder__json_u64(&j, f->name, v);
        } else {
            double v;
            memcpy(&v, at, sizeof v);
            if (f->kind == kind_f64 || !isnan(v))
                larder__json_f64(&j, f->name, v);
        }
    }
    larder__json_close(&j, '}');
}

void larder__epoch_print(FILE *to, const larder__epoch *e) { print(to, epoch_fields, e); }
void larder__meta_print(FILE *to, const larder__meta *m) { print(to, meta_fields, m); }

/* ---- reading one flat object ----------------------------------------------------------------- */

typedef struct target {
    const field *fields;
    void *object;
    const char *where;
} target;

static int put(void *arg, const char *key, const larder__object_value *v) {
    const target *t = arg;
    const field *f = t->fields;
    while (f->name && strcmp(f->name, key) != 0)
        f++;
    if (!f->name)
        return 0; /* a field of another version */
    char *at = (char *)t->object + f->at;
    if (f->kind == kind_text && v->is_text)
        memcpy(at, v->text, sizeof v->text);
    else if (f->kind == kind_word && v->is_text && strlen(v->text) < sizeof(larder__field_word))
        memcpy(at, v->text, strlen(v->text) + 1);
    else if (f->kind == kind_u64 && v->is_integer)
        memcpy(at, &v->whole, sizeof v->whole);
    else if ((f->kind == kind_f64 || f->kind == kind_opt) && !v->is_text)
        memcpy(at, &v->number, sizeof v->number);
    else
        return larder__fail(LARDER_E_FORMAT, "%s: a wrong value for \"%s\"", t->where, f->name);
    return 0;
}

static void blank(const field *fields, void *object) {
    for (const field *f = fields; f->name; f++)
        if (f->kind == kind_f64 || f->kind == kind_opt)
            memcpy((char *)object + f->at, &(double){NAN}, sizeof(double));
}

static int parse(const field *fields, void *object, const char *line, const char *where) {
    blank(fields, object);
    return larder__object_parse(line, where, put, &(target){fields, object, where});
}

larder__epoch larder__epoch_blank(void) {
    larder__epoch e = {.accuracy = NAN, .top5 = NAN, .loss = NAN};
    for (const field *f = epoch_fields; f->name; f++)
        if (f->kind == kind_opt)
            memcpy((char *)&e + f->at, &(double){NAN}, sizeof(double));
    return e;
}

int larder__epoch_parse(larder__epoch *out, const char *line, const char *where) {
    memset(out, 0, sizeof *out);
    return parse(epoch_fields, out, line, where);
}

int larder__meta_parse(larder__meta *out, const char *line, const char *where) {
    memset(out, 0, sizeof *out);
    return parse(meta_fields, out, line, where);
}

/* ---- folders --------------------------------------------------------------------------------- */

static int path_in(char out[PATH_BYTES], const char *folder, const char *name) {
    int n = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return n > 0 && n < PATH_BYTES
               ? 0
               : larder__fail(LARDER_E_ARGS, "the name of folder '%.60s…' is too long", folder);
}

/* 1: a line, 0: the end, negative: refused. A last line without its end is one that was being
 * written when the machine stopped: it is left out. */
static int next_line(FILE *f, char *line, const char *where) {
    if (!fgets(line, LINE_MAX_BYTES, f))
        return ferror(f) ? larder__fail(LARDER_E_IO, "%s: reading failed", where) : 0;
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == '\n')
        return 1;
    return feof(f) ? 0 : larder__fail(LARDER_E_FORMAT, "%s: a line that is too long", where);
}

static int append(larder__run *run, size_t *cap, const larder__epoch *e) {
    if (larder__grow(&run->epochs, cap, run->count + 1, sizeof *run->epochs) < 0)
        return larder__fail(LARDER_E_NOMEM, "report: no memory for %zu epochs", run->count + 1);
    run->epochs[run->count++] = *e;
    return 0;
}

static int read_epochs(larder__run *run, FILE *f, const char *path) {
    char line[LINE_MAX_BYTES], where[PATH_BYTES + 32];
    size_t cap = 0;
    for (size_t number = 1;; number++) {
        larder__epoch e;
        snprintf(where, sizeof where, "%s:%zu", path, number);
        int rc = next_line(f, line, where);
        if (rc <= 0)
            return rc;
        if (run->count >= EPOCHS_MAX)
            return larder__fail(LARDER_E_FORMAT, "%s: more than %d epochs", path, EPOCHS_MAX);
        if ((rc = larder__epoch_parse(&e, line, where)) < 0 || (rc = append(run, &cap, &e)) < 0)
            return rc;
    }
}

static int read_meta(larder__run *run, FILE *f, const char *path) {
    char line[LINE_MAX_BYTES];
    int rc = next_line(f, line, path);
    if (rc == 0)
        return larder__fail(LARDER_E_FORMAT, "%s: empty or cut off", path);
    return rc < 0 ? rc : larder__meta_parse(&run->meta, line, path);
}

bool larder__run_there(const char *folder) {
    char path[PATH_BYTES];
    return path_in(path, folder, "meta.json") == 0 && access(path, F_OK) == 0;
}

static bool holds_runs(const char *folder) {
    char path[PATH_BYTES];
    bool found = false;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found =
            e->d_name[0] != '.' && path_in(path, folder, e->d_name) == 0 && larder__run_there(path);
    if (d)
        closedir(d);
    return found;
}

static int read_file(larder__run *run, const char *folder, const char *name,
                     int (*reader)(larder__run *, FILE *, const char *)) {
    char path[PATH_BYTES];
    int rc = path_in(path, folder, name);
    if (rc < 0)
        return rc;
    FILE *f = fopen(path, "re");
    if (!f) {
        int error = errno;
        if (error == ENOENT && holds_runs(folder))
            return larder__fail(LARDER_E_NOTFOUND,
                                "'%s' is no run, but holds some: name them, as %s/*", folder,
                                folder);
        return larder__fail(larder__code_of_errno(error),
                            "%s: %s; is '%s' a folder written by "
                            "larder train --out?",
                            path, strerror(error), folder);
    }
    rc = reader(run, f, path);
    fclose(f);
    return rc;
}

static int read_folder(larder__run *out, const char *folder) {
    int rc = read_file(out, folder, "meta.json", read_meta);
    if (rc == 0)
        rc = read_file(out, folder, "epochs.jsonl", read_epochs);
    if (rc < 0)
        larder__run_free(out);
    return rc;
}

int larder__run_read(larder__run *out, const char *path) {
    struct stat st;
    *out = (larder__run){0};
    if (!path[0])
        return larder__fail(LARDER_E_ARGS, "a run has no name: is there a comma too many?");
    int rc = larder__tape_probe(path) ? larder__run_of_tape(out, path) : read_folder(out, path);
    if (rc == 0 && stat(path, &st) == 0) {
        out->device = (uint64_t)st.st_dev;
        out->inode = (uint64_t)st.st_ino;
    }
    return rc;
}

int larder__runs_check(const larder__run *runs, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (runs[i].inode && runs[i].inode == runs[k].inode && runs[i].device == runs[k].device)
                return larder__fail(LARDER_E_ARGS,
                                    "the same run is named twice, as number %zu and %zu", k + 1,
                                    i + 1);
    return 0;
}

void larder__run_free(larder__run *run) {
    larder__free(run->epochs);
    *run = (larder__run){0};
}

int larder__meta_write(const char *folder, const larder__meta *meta) {
    char path[PATH_BYTES];
    larder__fresh f;
    int rc = path_in(path, folder, "meta.json");
    if (rc < 0 || (rc = larder__fresh_open(&f, path)) < 0)
        return rc;
    larder__meta_print(f.to, meta);
    return larder__fresh_close(&f, 0);
}

/* ---- sums ------------------------------------------------------------------------------------ */

larder__epoch larder__epoch_mean(const larder__run *const *runs, size_t count, size_t e) {
    larder__epoch out = runs[0]->epochs[e];
    for (const field *f = epoch_fields; f->name; f++) {
        double sum = 0, known = 0;
        for (size_t i = 0; i < count; i++) {
            const char *at = (const char *)&runs[i]->epochs[e] + f->at;
            uint64_t whole = 0;
            double v = NAN;
            memcpy(f->kind == kind_u64 ? (void *)&whole : (void *)&v, at, sizeof v);
            v = f->kind == kind_u64 ? (double)whole : v;
            if (f->kind != kind_text && f->kind != kind_word && !isnan(v))
                sum += v, known++;
        }
        double mean = known > 0 ? sum / known : (double)NAN;
        uint64_t whole = known > 0 && mean < 1.8e19 ? (uint64_t)(mean + 0.5) : 0;
        char *at = (char *)&out + f->at;
        if (f->kind == kind_u64)
            memcpy(at, &whole, sizeof whole);
        else if (f->kind == kind_f64 || f->kind == kind_opt)
            memcpy(at, &mean, sizeof mean);
    }
    return out;
}

/* Batch times over the whole run, from the means and deviations of its epochs. */
typedef struct pooled {
    double weight, sum, squares;
} pooled;

static void pool(pooled *p, double mean, double sd, double weight) {
    if (!isfinite(mean) || !isfinite(sd))
        return; /* an epoch in which nothing was timed */
    p->weight += weight;
    p->sum += mean * weight;
    p->squares += (mean * mean + sd * sd) * weight;
}

static void unpool(const pooled *p, double *mean, double *sd) {
    *mean = *sd = NAN;
    if (p->weight <= 0)
        return;
    *mean = p->sum / p->weight;
    *sd = sqrt(fmax(p->squares / p->weight - *mean * *mean, 0));
}

larder__epoch larder__run_total(const larder__run *run) {
    larder__epoch t = larder__epoch_blank();
    t.training_seconds = t.wait_storage = t.wait_decode = 0;
    t.wait_augment = t.wait_cache = t.wait_assembly = 0;
    t.hits_encoded = t.hits_decoded = t.hits_augmented = t.hits_front = 0;
    t.hits_shrunk = t.requests = 0;
    t.forward_seconds = t.backward_seconds = 0;
    double served = 0, reused = 0; /* h as the mean over what was served */
    pooled wait = {0}, fill = {0};
    for (size_t i = 0; i < run->count; i++) {
        const larder__epoch *e = &run->epochs[i];
        t.seconds += e->seconds, t.stall_seconds += e->stall_seconds;
        t.served += e->served, t.hits += e->hits, t.substitutes += e->substitutes;
        t.repeats += e->repeats, t.misses += e->misses;
        t.background_reads += e->background_reads, t.storage_bytes += e->storage_bytes;
        t.requests += e->requests; /* NAN stays */
        t.evaluated += e->evaluated, t.evaluation_reads += e->evaluation_reads;
        t.evaluation_seconds += e->evaluation_seconds;
        t.scratch_reads += e->scratch_reads, t.scratch_bytes += e->scratch_bytes;
        t.scratch_written += e->scratch_written;
        pool(&wait, e->wait_mean, e->wait_sd, (double)e->served);
        pool(&fill, e->fill_mean, e->fill_sd, (double)e->served);
        t.wait_p50 = e->wait_p50, t.wait_p90 = e->wait_p90;
        t.fill_p50 = e->fill_p50, t.fill_p90 = e->fill_p90;
        if (e->plan_bottleneck[0])
            memcpy(t.plan_bottleneck, e->plan_bottleneck, sizeof t.plan_bottleneck);
        t.wait_p99 = e->wait_p99, t.fill_p99 = e->fill_p99;
        t.training_seconds += e->training_seconds, t.wait_storage += e->wait_storage;
        t.wait_decode += e->wait_decode, t.wait_augment += e->wait_augment;
        t.wait_cache += e->wait_cache, t.wait_assembly += e->wait_assembly; /* NAN stays */
        t.forward_seconds += e->forward_seconds, t.backward_seconds += e->backward_seconds;
        t.hits_encoded += e->hits_encoded, t.hits_decoded += e->hits_decoded;
        t.hits_augmented += e->hits_augmented, t.hits_front += e->hits_front; /* NAN stays */
        t.hits_shrunk += isnan(e->hits_shrunk) ? 0 : e->hits_shrunk; /* older runs do not say */
        t.touched += e->touched / (double)run->count;
        served += (double)e->served, reused += e->h * (double)e->served;
        if (isfinite(e->accuracy))
            t.accuracy = e->accuracy, t.top5 = e->top5;
        if (isfinite(e->loss))
            t.loss = e->loss;
        if (isfinite(e->gap))
            t.fresh_loss = e->fresh_loss, t.reused_loss = e->reused_loss, t.gap = e->gap;
    }
    t.epoch = run->count;
    t.h = reused / served; /* NAN without either */
    unpool(&wait, &t.wait_mean, &t.wait_sd);
    unpool(&fill, &t.fill_mean, &t.fill_sd);
    return t;
}

bool larder__run_whole(const larder__run *run) {
    return run->count >= run->meta.epochs_asked && strcmp(run->meta.status, "done") == 0;
}

double larder__run_best(const larder__run *run) {
    double best = NAN;
    for (size_t i = 0; i < run->count; i++)
        best = fmax(best, run->epochs[i].accuracy); /* fmax leaves NANs out */
    return best;
}
