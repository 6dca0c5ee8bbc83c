#include "sample/steer.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/state.h"

#include <math.h>
#include <stdlib.h>

static const double spare = 0.9;  /* storage is asked for so much of what it can give */
static const double near = 0.004; /* h this close to its aim takes it */
/* Waiting: the share of time that is let pass; the share storage must be busy for to be to blame;
 * what the excess of a second adds to the load, the most of it that counts, how far it goes. */
static const double wait_let = 0.02, wait_busy = 0.4, wait_gain = 2, wait_most = 0.2;
static const double load_most = 4;
enum { AN_EPOCH = 64 };
/* The gap: losses of each sort it must rest on; how far reuse may move from what it was of, a time;
 * what keeps it from being held at none, where no gap could be seen any more. */
static const double gap_samples = 64, gap_most = 2, reuse_least = 0.25;
static const double held_back = 0.05; /* of h: worth a word */

/* ---- what the user asked for ----------------------------------------------------------------- */

static bool read_share(const char *text, char **end, double *out) {
    *out = strtod(text, end);
    return *end != text && *out >= 0 && *out <= 0.99;
}

static int parse_h(larder__steer *s, const char *text) {
    char *end;
    s->how = strcmp(text, "auto") == 0 ? LARDER__STEER_AUTO : LARDER__STEER_LINE;
    if (s->how == LARDER__STEER_AUTO)
        return 0;
    bool good = read_share(text, &end, &s->from);
    s->to = s->from;
    bool line = good && *end == '-';
    if (line)
        good = read_share(end + 1, &end, &s->to);
    if (!good || *end)
        return larder__fail(LARDER_E_ARGS,
                            "h=%s: auto, a number from 0 to 0.99, or two of them as in 0.9-0.7",
                            text);
    if (line && s->epochs <= 0)
        return larder__fail(LARDER_E_ARGS, "h=%s needs epochs=: over how many it goes", text);
    return 0;
}

int larder__steer_init(larder__steer *s, const larder_args *args, uint64_t batches) {
    *s = (larder__steer){.epochs = larder_args_number(args, "epochs"),
                         .most = larder_args_number(args, "h_max"),
                         .pace = {.read_seconds = larder_args_number(args, "read_us") * 1e-6,
                                  .step_seconds = larder_args_number(args, "step_us") * 1e-6},
                         .load = 1,
                         .stall = 1, /* nothing is storage's fault until it is known */
                         .bound = larder_args_number(args, "gap"),
                         .allowed = 1,
                         .batches = batches};
    return parse_h(s, larder_args_text(args, "h"));
}

void larder__steer_fini(larder__steer *s) {
    larder__free(s->turns);
    larder__free(s->ahead);
}

/* ---- decisions of another time --------------------------------------------------------------- */

static int check_turns(const larder__steer *s, const larder_turn *t, size_t n) {
    bool good = s->how != LARDER__STEER_LINE || n == 0;
    for (size_t i = 0; i < n && good; i++)
        good = t[i].value >= 0 && t[i].value <= 0.99 && (i == 0 || t[i].batch > t[i - 1].batch);
    return good ? 0
                : larder__fail(LARDER_E_FORMAT,
                               "a list of h that does not fit: batches rise, h is 0 to 0.99, and "
                               "the recipe has h=auto");
}

static int copy_turns(larder_turn **out, const larder_turn *t, size_t n, size_t room) {
    larder_turn *copy = larder__malloc((n + room + 1) * sizeof *copy);
    if (!copy)
        return LARDER_E_NOMEM;
    if (n)
        memcpy(copy, t, n * sizeof *copy);
    larder__free(*out);
    *out = copy;
    return 0;
}

static uint64_t every(const larder__steer *s) {
    return s->batches > AN_EPOCH ? s->batches / AN_EPOCH : 1;
}

/* What one epoch may decide: a batch of each may be looked at, or a turn of the list be due. */
static size_t an_epoch(const larder__steer *s) {
    return s->how == LARDER__STEER_FOLLOW ? s->ahead_count : 2 + (size_t)(s->batches / every(s));
}

int larder__steer_past(larder__steer *s, const larder_turn *t, size_t n) {
    int rc = check_turns(s, t, n);
    if (rc < 0 || s->how == LARDER__STEER_LINE ||
        (rc = copy_turns(&s->turns, t, n, an_epoch(s))) < 0)
        return rc;
    s->count = n;
    s->cap = n + an_epoch(s);
    return 0;
}

int larder__steer_follow(larder__steer *s, const larder_turn *t, size_t n) {
    int rc = check_turns(s, t, n);
    if (rc < 0 || s->how == LARDER__STEER_LINE || (rc = copy_turns(&s->ahead, t, n, 0)) < 0)
        return rc;
    s->how = LARDER__STEER_FOLLOW;
    s->ahead_count = n;
    return 0;
}

/* ---- deciding -------------------------------------------------------------------------------- */

int larder__steer_epoch(larder__steer *s) {
    size_t more = an_epoch(s);
    if (s->how == LARDER__STEER_LINE || s->cap - s->count >= more)
        return 0;
    larder_turn *grown = larder__realloc(s->turns, (s->count + more) * sizeof *grown);
    if (!grown)
        return LARDER_E_NOMEM;
    s->turns = grown;
    s->cap = s->count + more;
    return 0;
}

void larder__steer_pace(larder__steer *s, const larder_pace *p) {
    if (p->read_seconds > 0)
        s->pace.read_seconds = p->read_seconds;
    if (p->step_seconds > 0)
        s->pace.step_seconds = p->step_seconds;
    s->pace.trained = p->trained;
    s->pace.waited = p->waited;
}

/* An integral over the time since the last decision. */
static void weigh_waiting(larder__steer *s, double fresh, bool acts) {
    double wait = s->pace.waited - s->waited, whole = wait + s->pace.trained - s->trained;
    s->waited = s->pace.waited;
    s->trained = s->pace.trained;
    if (!acts || !(whole > 0 && wait >= 0)) /* also after a restart: the clocks began anew */
        return;
    double seconds = fmin(whole, 1), over = fmin(wait / whole - wait_let, wait_most);
    s->stall += (wait / whole - s->stall) * seconds;
    double busy = (1 - s->h) * fresh * s->pace.read_seconds / s->pace.step_seconds;
    if (over > 0 && s->h >= fmin(s->most, s->allowed))
        return; /* nothing left to do about it */
    if (over > 0 && busy * (1 - s->stall) < wait_busy)
        over = -wait_let; /* not storage's fault */
    s->load = fmin(fmax(s->load * (1 + wait_gain * over * seconds), 1), load_most);
}

bool larder__steer_watches(const larder_args *args) {
    return strcmp(larder_args_text(args, "h"), "auto") == 0 && larder_args_number(args, "gap") > 0;
}

void larder__steer_memorised(larder__steer *s, const larder_memorised *m) { s->known = *m; }

/* The reuse fades over an epoch, as what it led to. */
static void weigh_gap(larder__steer *s, bool acts) {
    const larder_memorised *m = &s->known;
    if (s->bound <= 0 || !acts)
        return;
    s->reuse += s->h / (1 - s->h) - s->reuse / AN_EPOCH;
    s->weight += 1 - s->weight / AN_EPOCH;
    if (!(m->fresh >= gap_samples && m->reused >= gap_samples && m->first_loss > 0))
        return;
    double gap = (m->fresh_loss - m->reused_loss) / m->first_loss;
    double by = gap > s->bound / gap_most ? fmax(s->bound / gap, 1 / gap_most) : gap_most;
    double reuse = fmax(s->reuse / s->weight * by, reuse_least);
    s->allowed = reuse / (1 + reuse);
}

double larder__steer_held(const larder__steer *s) {
    return s->how == LARDER__STEER_AUTO && s->needed > s->allowed + held_back ? s->needed
                                                                              : (double)NAN;
}

/* Where h should be by what is known now. */
static double aim(const larder__steer *s, double fresh) {
    double cost = s->load * fresh * s->pace.read_seconds, given = spare * s->pace.step_seconds;
    if (cost <= given || s->pace.step_seconds <= 0)
        return 0;
    return fmin(1 - given / cost, s->most);
}

static void turn(larder__steer *s, double h) {
    if (h == s->h || s->count == s->cap)
        return;
    s->h = h;
    s->turns[s->count++] = (larder_turn){s->batch, h};
}

static void decide(larder__steer *s, double fresh, bool acts) {
    weigh_waiting(s, fresh, acts);
    weigh_gap(s, acts);
    s->needed = aim(s, fresh);
    double to = fmin(s->needed, s->allowed);
    turn(s, fmin(fabs(to - s->h) < near ? to : (s->h + to) / 2, s->allowed));
}

static void follow(larder__steer *s) {
    double h = s->h;
    for (; s->next < s->ahead_count && s->ahead[s->next].batch <= s->batch; s->next++)
        h = s->ahead[s->next].value;
    turn(s, h);
}

double larder__steer_next(larder__steer *s, double done, double fresh, bool acts) {
    if (s->how == LARDER__STEER_LINE)
        s->h = s->epochs > 0 ? s->from + (s->to - s->from) * fmin(done / s->epochs, 1) : s->from;
    else if (s->how == LARDER__STEER_FOLLOW)
        follow(s);
    else if (s->batch % every(s) == 0)
        decide(s, fresh, acts);
    s->batch++;
    return s->h;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__steer_save(const larder__steer *s, larder_writer *w) {
    larder_write_u64(w, s->batch);
    larder_write_f64(w, s->h);
    larder_write_f64(w, s->pace.read_seconds);
    larder_write_f64(w, s->pace.step_seconds);
    larder_write_f64(w, s->load);
    larder_write_f64(w, s->reuse);
    larder_write_f64(w, s->weight);
    larder_write_f64(w, s->allowed);
    larder_write_f64(w, s->needed);
}

static bool is_share(double x) { return x >= 0 && x <= 1; }

int larder__steer_load(larder__steer *s, larder_reader *r) {
    s->batch = larder_read_u64(r);
    s->h = larder_read_f64(r);
    s->pace.read_seconds = larder_read_f64(r);
    s->pace.step_seconds = larder_read_f64(r);
    s->load = larder_read_f64(r);
    s->reuse = larder_read_f64(r);
    s->weight = larder_read_f64(r);
    s->allowed = larder_read_f64(r);
    s->needed = larder_read_f64(r);
    bool sane = s->reuse >= 0 && s->reuse <= 1e5 && s->weight >= 0 && s->weight <= 1e5 &&
                is_share(s->allowed) && is_share(s->needed);
    if (sane && s->h >= 0 && s->h <= 0.99 && s->pace.read_seconds >= 0 &&
        s->pace.read_seconds < 1e9 && s->pace.step_seconds >= 0 && s->pace.step_seconds < 1e9 &&
        s->load >= 1 && s->load <= load_most)
        return larder_read_status(r);
    s->h = s->reuse = s->weight = s->needed = 0;
    s->allowed = 1;
    return larder_read_reject(r, "its h is no share of a batch");
}
