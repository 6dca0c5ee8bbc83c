#include "cli/top_table.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/grow.h"
#include "base/mem.h"
#include "see/discover.h"
#include "see/job_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static larder__top_row row_of(const larder__job *job, const larder__job *before, double seconds) {
    larder__rates r = larder__rates_of(job, before, seconds);
    bool any = r.samples > 0;
    return (larder__top_row){.job = job,
                             .rate = r.samples,
                             .read = r.read_bytes,
                             .requests = r.requests,
                             .hit = any ? r.hits / r.samples : (double)NAN,
                             .subst = any ? r.substitutes / r.samples : (double)NAN,
                             .miss = any ? r.misses / r.samples : (double)NAN,
                             .stall = r.stall};
}

int larder__top_look(larder__top *t, double now) {
    static const double patience = 0.5; /* seconds for jobs that do not answer */
    larder__jobs old = t->before;
    t->before = t->now;
    t->now = old;
    int rc = larder__discover(&t->now, patience);
    if (rc < 0)
        return rc;
    t->seconds = t->looked > 0 ? now - t->looked : 0;
    t->looked = now;
    if ((rc = larder__room(&t->rows, &t->cap, t->now.count, sizeof *t->rows)) < 0)
        return rc;
    for (size_t i = 0; i < t->now.count; i++)
        t->rows[i] = row_of(&t->now.at[i], larder__job_same(&t->before, &t->now.at[i]), t->seconds);
    larder__top_sort(t);
    return 0;
}

void larder__top_close(larder__top *t) {
    larder__jobs_free(&t->now);
    larder__jobs_free(&t->before);
    larder__free(t->rows);
    *t = (larder__top){0};
}

/* ---- columns --------------------------------------------------------------------------------- */

typedef void (*show_fn)(char *out, size_t cap, const larder__top_row *);
typedef double (*order_fn)(const larder__top_row *); /* the largest first */

static void show_count(char *out, size_t cap, double n) {
    const char *unit = n >= 1e9 ? "G" : n >= 1e6 ? "M" : n >= 1e4 ? "k" : "";
    double by = n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : n >= 1e4 ? 1e3 : 1;
    snprintf(out, cap, isfinite(n) ? "%.*f%s" : "-", by > 1 && n / by < 100 ? 1 : 0, n / by, unit);
}

static void show_share(char *out, size_t cap, double share) {
    snprintf(out, cap, isfinite(share) ? "%.0f" : "-", 100 * share);
}

static void show_time(char *out, size_t cap, double seconds) {
    uint64_t s = seconds > 0 ? (uint64_t)seconds : 0;
    if (s >= 3600)
        snprintf(out, cap, "%llu:%02llu:%02llu", (unsigned long long)(s / 3600),
                 (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
    else
        snprintf(out, cap, "%llu:%02llu", (unsigned long long)(s / 60),
                 (unsigned long long)(s % 60));
}

static void show_pid(char *o, size_t n, const larder__top_row *r) {
    snprintf(o, n, "%llu", (unsigned long long)r->job->pid);
}
static void show_job(char *o, size_t n, const larder__top_row *r) {
    bool daemon = strcmp(r->job->kind, "loader") != 0;
    snprintf(o, n, "%s", daemon ? r->job->kind : r->job->name);
}
static void show_recipe(char *o, size_t n, const larder__top_row *r) {
    snprintf(o, n, "%s", r->job->recipe[0] ? r->job->recipe : "-");
}
static void show_state(char *o, size_t n, const larder__top_row *r) {
    snprintf(o, n, "%s", r->job->state);
}
static void show_epoch(char *o, size_t n, const larder__top_row *r) {
    const larder__job *j = r->job;
    char of[24] = "";
    if (j->epochs)
        snprintf(of, sizeof of, "/%llu", (unsigned long long)j->epochs);
    if (!j->epoch)
        snprintf(o, n, "-");
    else
        snprintf(o, n, "%llu%s %3.0f%%", (unsigned long long)j->epoch, of,
                 j->steps ? 100 * fmin(1, (double)j->step / (double)j->steps) : 0);
}
static void show_rate(char *o, size_t n, const larder__top_row *r) { show_count(o, n, r->rate); }
static void show_hit(char *o, size_t n, const larder__top_row *r) { show_share(o, n, r->hit); }
static void show_subst(char *o, size_t n, const larder__top_row *r) { show_share(o, n, r->subst); }
static void show_miss(char *o, size_t n, const larder__top_row *r) { show_share(o, n, r->miss); }
static void show_read(char *o, size_t n, const larder__top_row *r) {
    snprintf(o, n, isfinite(r->read) ? "%.1f" : "-", r->read / 1e6);
}
static void show_requests(char *o, size_t n, const larder__top_row *r) {
    show_count(o, n, r->requests);
}
static void show_stall(char *o, size_t n, const larder__top_row *r) { show_share(o, n, r->stall); }
static void show_cache(char *o, size_t n, const larder__top_row *r) {
    double bytes = larder__job_value(r->job, "cache_resident_bytes");
    show_count(o, n, bytes);
}
static void show_held(char *o, size_t n, const larder__top_row *r) {
    snprintf(o, n, "%s", r->job->bottleneck[0] ? r->job->bottleneck : "-");
}
static void show_uptime(char *o, size_t n, const larder__top_row *r) {
    show_time(o, n, r->job->uptime);
}

static double by_pid(const larder__top_row *r) { return -(double)r->job->pid; }
static double by_rate(const larder__top_row *r) { return r->rate; }
static double by_hit(const larder__top_row *r) { return r->hit; }
static double by_subst(const larder__top_row *r) { return r->subst; }
static double by_miss(const larder__top_row *r) { return r->miss; }
static double by_read(const larder__top_row *r) { return r->read; }
static double by_requests(const larder__top_row *r) { return r->requests; }
static double by_stall(const larder__top_row *r) { return r->stall; }
static double by_uptime(const larder__top_row *r) { return r->job->uptime; }
static double by_cache(const larder__top_row *r) {
    return larder__job_value(r->job, "cache_resident_bytes");
}

static const struct {
    const char *title;
    int width; /* negative: from the left */
    show_fn show;
    order_fn order; /* NULL: rows are not sorted by it */
    int rank;       /* 1 stays longest where there is no room for all */
} columns[] = {{"PID", 8, show_pid, by_pid, 9},
               {"JOB", -10, show_job, NULL, 1},
               {"RECIPE", -12, show_recipe, NULL, 8},
               {"STATE", -8, show_state, NULL, 10},
               {"EPOCH", -11, show_epoch, NULL, 6},
               {"SAMPLES/S", 10, show_rate, by_rate, 2},
               {"HIT%", 5, show_hit, by_hit, 4},
               {"SUB%", 5, show_subst, by_subst, 12},
               {"MISS%", 6, show_miss, by_miss, 11},
               {"READ MB/S", 10, show_read, by_read, 7},
               {"REQ/S", 6, show_requests, by_requests, 13},
               {"STALL%", 7, show_stall, by_stall, 3},
               {"HELD UP BY", -10, show_held, NULL, 5},
               {"CACHE B", 8, show_cache, by_cache, 14},
               {"UPTIME", 9, show_uptime, by_uptime, 15}};
enum { COLUMNS = sizeof columns / sizeof *columns };

size_t larder__top_columns(void) { return COLUMNS; }

/* Does this column fit, with all that matter more? A width of 0 has room for all. */
static bool is_shown(const larder__top *t, size_t column) {
    size_t taken = 0;
    for (size_t i = 0; i < COLUMNS; i++)
        if (columns[i].rank <= columns[column].rank)
            taken += 1 + (size_t)abs(columns[i].width);
    return t->width == 0 || taken <= t->width || columns[column].rank == 1;
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool before(const larder__top *t, const larder__top_row *a, const larder__top_row *b) {
    order_fn order = columns[t->column % COLUMNS].order;
    double x = order ? order(a) : by_pid(a), y = order ? order(b) : by_pid(b);
    x = isnan(x) ? -INFINITY : x;
    y = isnan(y) ? -INFINITY : y;
    if (x != y)
        return t->reverse ? x < y : x > y;
    return a->job->pid != b->job->pid ? a->job->pid < b->job->pid : a->job->number < b->job->number;
}

/* By insertion: there are a few dozen at most, nearly in order already. */
void larder__top_sort(larder__top *t) {
    for (size_t i = 0; i < COLUMNS; i++, t->column++)
        if (columns[t->column % COLUMNS].order && is_shown(t, t->column % COLUMNS))
            break;
    t->column %= COLUMNS;
    for (size_t i = 1; i < t->now.count; i++)
        for (size_t k = i; k > 0 && before(t, &t->rows[k], &t->rows[k - 1]); k--) {
            larder__top_row r = t->rows[k];
            t->rows[k] = t->rows[k - 1];
            t->rows[k - 1] = r;
        }
}

static size_t chosen(const larder__top *t) {
    for (size_t i = 0; i < t->now.count; i++)
        if (t->rows[i].job->pid == t->pid && t->rows[i].job->number == t->number)
            return i;
    return 0;
}

void larder__top_choose(larder__top *t, int step) {
    if (t->now.count == 0)
        return;
    size_t at = chosen(t);
    if (step > 0 && at + 1 < t->now.count)
        at++;
    else if (step < 0 && at > 0)
        at--;
    t->pid = t->rows[at].job->pid;
    t->number = t->rows[at].job->number;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void print_row(FILE *to, const larder__top_row *r, const larder__top *t) {
    for (size_t i = 0; i < COLUMNS; i++) {
        if (!is_shown(t, i))
            continue;
        char cell[300], shown[300] = "", title[32];
        int width = abs(columns[i].width);
        if (r) {
            columns[i].show(cell, sizeof cell, r);
            larder__shown(shown, (size_t)width + 1, cell);
        }
        snprintf(title, sizeof title, "%s%s", columns[i].title,
                 t->column == i ? (t->reverse ? "^" : "v") : "");
        fprintf(to, columns[i].width < 0 ? " %-*.*s" : " %*.*s", width, width, r ? shown : title);
    }
    fputc('\n', to);
}

/* Cells of the map as characters, from empty to full. */
static void print_map(FILE *to, const char *name, const char *map) {
    static const char levels[] = " .:-=+*%#@";
    if (strspn(map, "0") == strlen(map))
        return;
    fprintf(to, " %-10s [", name);
    for (const char *c = map; *c; c += 2)
        fputc(levels[*c >= '0' && *c <= '9' ? *c - '0' : 0], to);
    fputs("]\n", to);
}

/* Texts come from jobs. */
static void print_words(FILE *to, const char *before, const char *text) {
    fputs(before, to);
    larder__shown_print(to, text);
}
static void print_line(FILE *to, const char *before, const char *text) {
    print_words(to, before, text);
    fputc('\n', to);
}

static void print_detail(FILE *to, const larder__top_row *r) {
    const larder__job *j = r->job;
    print_words(to, "\n ", j->recipe);
    print_words(to, " ", j->source);
    print_words(to, "  cache ", j->cache);
    fputc('\n', to);
    if (j->verdict[0])
        print_line(to, " ", j->verdict);
    if (j->audit[0])
        print_line(to, " ledger: ", j->audit);
    for (size_t i = j->bad_count > 2 ? j->bad_count - 2 : 0; i < j->bad_count; i++)
        print_line(to, " bad: ", j->bad[i].why);
    print_map(to, "encoded", j->map_encoded);
    print_map(to, "decoded", j->map_decoded);
    print_map(to, "augmented", j->map_augmented);
    print_map(to, "shrunk", j->map_shrunk);
    for (size_t i = 0; i < j->stat_count; i++) {
        const larder__job_stat *s = &j->stats[i];
        char value[32];
        if (s->type == 'h' && s->count == 0)
            continue;
        snprintf(value, sizeof value, fabs(s->value) >= 1e5 ? "%.4g" : "%.6g", s->value);
        char name[sizeof s->name], unit[sizeof s->unit];
        larder__shown(name, sizeof name, s->name);
        larder__shown(unit, sizeof unit, s->unit);
        fprintf(to, " %-24s %12s %-10s", name, value, unit);
        if (s->type == 'h')
            fprintf(to, " sd %.3g  99%% below %.3g  max %.3g", s->sd, s->p99, s->max);
        print_line(to, "  ", s->help);
    }
}

/* The lines of a text that fit. */
static void copy_lines(FILE *to, const char *text, size_t lines) {
    while (*text && lines-- > 0) {
        size_t n = strcspn(text, "\n");
        fwrite(text, 1, n, to);
        fputc('\n', to);
        text += n + (text[n] == '\n');
    }
}

static void print_body(FILE *to, larder__top *t, bool marks) {
    double rate = 0, read = 0;
    for (size_t i = 0; i < t->now.count; i++)
        rate += fmax(t->rows[i].rate, 0), read += fmax(t->rows[i].read, 0);
    fprintf(to, " larder top: %zu job%s, %.0f samples/s, %.1f MB/s from storage\n", t->now.count,
            t->now.count == 1 ? "" : "s", rate, read / 1e6);
    if (t->now.count == 0) {
        fputs("\n no job of this user is running; larder train, a Python loader or larder serve\n"
              " would be shown here\n",
              to);
        return;
    }
    if (marks)
        fputc(1, to);
    print_row(to, NULL, t);
    for (size_t i = 0; i < t->now.count; i++) {
        bool mark = marks && i == chosen(t) && (t->detail || t->pid);
        if (mark)
            fputc(1, to);
        print_row(to, &t->rows[i], t);
    }
    if (t->detail)
        print_detail(to, &t->rows[chosen(t)]);
}

void larder__top_print(FILE *to, larder__top *t, size_t width, size_t lines, bool marks) {
    static const char keys[] = " q quit   < > sort by   r reverse   up down choose   enter details";
    static const char few[] = " q quit  < > sort  r reverse  up down  enter details";
    if (t->width != width) {
        t->width = width;
        larder__top_sort(t);
    }
    char *body = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&body, &size);
    if (!f)
        return;
    print_body(f, t, marks);
    if (fclose(f) == 0) {
        copy_lines(to, body, lines > 1 ? lines - 1 : 1);
        size_t used = 0;
        for (const char *c = body; *c; c++)
            used += *c == '\n';
        for (; marks && used + 1 < lines; used++)
            fputc('\n', to);
        if (marks && lines > 2)
            fputs(width < sizeof keys ? few : keys, to);
    }
    free(body);
}
