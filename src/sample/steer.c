#include "sample/steer.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double spare = 0.95; /* storage is asked for so much of what it can give */
static const double near = 0.004; /* h this close to its aim takes it */
/* Waiting: the share of time that is let pass; the share storage must be busy for to be to blame;
 * what the excess of a second adds to the load, the most of it that counts, how far it goes. */
static const double wait_let = 0.02, wait_busy = 0.5, wait_gain = 0.5, wait_most = 0.2;
static const double load_most = 4;
enum { AN_EPOCH = 64, FILE_MAX = 64 << 20, LINE = 48 };

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

static int reserve(larder__steer *s, size_t more) {
    if (s->cap - s->count >= more)
        return 0;
    larder__turn *grown = larder__realloc(s->turns, (s->count + more) * sizeof *grown);
    if (!grown)
        return LARDER_E_NOMEM;
    s->turns = grown;
    s->cap = s->count + more;
    return 0;
}

/* Lines of "batch h", batches rising. */
static int read_turns(larder__steer *s, const char *path) {
    unsigned char *bytes = NULL;
    size_t size;
    int rc = larder__file_read(path, FILE_MAX, &bytes, &size);
    if (rc == 0)
        rc = reserve(s, size / 4 + 1);
    char *at = (char *)bytes;
    while (rc == 0 && *at) {
        char *end;
        larder__turn t = {.batch = strtoull(at, &end, 10)};
        bool good = end != at && *end == ' ' && read_share(end, &end, &t.h) && *end == '\n' &&
                    (s->count == 0 || t.batch > s->turns[s->count - 1].batch);
        if (good && s->count < s->cap)
            s->turns[s->count++] = t;
        else
            rc = larder__fail(LARDER_E_FORMAT, "%s:%zu: not a batch number and its h", path,
                              s->count + 1);
        at = end + 1;
    }
    larder__free(bytes);
    return rc;
}

static int write_turns(const larder__steer *s) {
    size_t size = 0, cap = s->count * LINE + 1;
    char *text = larder__malloc(cap);
    if (!text)
        return LARDER_E_NOMEM;
    for (size_t i = 0; i < s->count; i++)
        size += (size_t)snprintf(text + size, cap - size, "%llu %.17g\n",
                                 (unsigned long long)s->turns[i].batch, s->turns[i].h);
    int rc = larder__file_write(s->record, text, size);
    larder__free(text);
    return rc;
}

static int copy_text(char **out, const char *text) {
    if (!text[0])
        return 0;
    size_t n = strlen(text) + 1;
    *out = larder__malloc(n);
    if (!*out)
        return LARDER_E_NOMEM;
    memcpy(*out, text, n);
    return 0;
}

int larder__steer_init(larder__steer *s, const larder_args *args, uint64_t batches) {
    const char *replay = larder_args_text(args, "replay");
    *s = (larder__steer){.epochs = larder_args_number(args, "epochs"),
                         .most = larder_args_number(args, "h_max"),
                         .pace = {.read_seconds = larder_args_number(args, "read_us") * 1e-6,
                                  .step_seconds = larder_args_number(args, "step_us") * 1e-6},
                         .load = 1,
                         .batches = batches};
    int rc = parse_h(s, larder_args_text(args, "h"));
    if (rc == 0 && s->how == LARDER__STEER_AUTO)
        rc = copy_text(&s->record, larder_args_text(args, "record"));
    if (rc == 0 && s->record)
        rc = write_turns(s); /* better no file now than none in the end */
    if (rc < 0 || !replay[0])
        return rc;
    s->how = LARDER__STEER_REPLAY;
    return read_turns(s, replay);
}

void larder__steer_fini(larder__steer *s) {
    if (s->record && s->count)
        write_turns(s); /* nobody is there to hear of a failure; the saved state has it all */
    larder__free(s->record);
    larder__free(s->turns);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static uint64_t every(const larder__steer *s) {
    return s->batches > AN_EPOCH ? s->batches / AN_EPOCH : 1;
}

int larder__steer_epoch(larder__steer *s) {
    if (s->how != LARDER__STEER_AUTO)
        return 0;
    int rc = reserve(s, 2 + s->batches / every(s));
    return rc == 0 && s->record ? write_turns(s) : rc;
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
    double over = fmin(wait / whole - wait_let, wait_most);
    double busy = (1 - s->h) * fresh * s->pace.read_seconds / s->pace.step_seconds;
    if (over < 0)
        over *= 2;
    else if (busy * (1 - wait / whole) < wait_busy || s->h >= s->most)
        return; /* not storage's fault, or nothing left to do about it */
    s->load = fmin(fmax(s->load * (1 + wait_gain * over * fmin(whole, 1)), 1), load_most);
}

/* Where h should be by what is known now. */
static double aim(const larder__steer *s, double fresh) {
    double cost = s->load * fresh * s->pace.read_seconds, given = spare * s->pace.step_seconds;
    if (cost <= given || s->pace.step_seconds <= 0)
        return 0;
    return fmin(1 - given / cost, s->most);
}

static void decide(larder__steer *s, double fresh, bool acts) {
    weigh_waiting(s, fresh, acts);
    double to = aim(s, fresh), h = fabs(to - s->h) < near ? to : (s->h + to) / 2;
    if (h == s->h || s->count == s->cap)
        return;
    s->h = h;
    s->turns[s->count++] = (larder__turn){s->batch, h};
}

static void replay(larder__steer *s) {
    for (; s->next < s->count && s->turns[s->next].batch <= s->batch; s->next++)
        s->h = s->turns[s->next].h;
}

double larder__steer_next(larder__steer *s, double done, double fresh, bool acts) {
    if (s->how == LARDER__STEER_LINE)
        s->h = s->epochs > 0 ? s->from + (s->to - s->from) * fmin(done / s->epochs, 1) : s->from;
    else if (s->how == LARDER__STEER_REPLAY)
        replay(s);
    else if (s->batch % every(s) == 0)
        decide(s, fresh, acts);
    s->batch++;
    return s->h;
}

/* ---- saved state ----------------------------------------------------------------------------- */

/* The turns of a replay come from its file again. */
void larder__steer_save(const larder__steer *s, larder_writer *w) {
    size_t own = s->how == LARDER__STEER_AUTO ? s->count : 0;
    larder_write_u64(w, s->batch);
    larder_write_f64(w, s->h);
    larder_write_f64(w, s->pace.read_seconds);
    larder_write_f64(w, s->pace.step_seconds);
    larder_write_f64(w, s->load);
    larder_write_u64(w, own);
    for (size_t i = 0; i < own; i++) {
        larder_write_u64(w, s->turns[i].batch);
        larder_write_f64(w, s->turns[i].h);
    }
}

static int load_turns(larder__steer *s, uint64_t count, larder_reader *r) {
    if (count > larder__read_left(r) / 16 || (count && s->how != LARDER__STEER_AUTO))
        return larder_read_reject(r, "its list of h does not fit");
    s->count = 0;
    int rc = reserve(s, (size_t)count + 2 + s->batches / every(s));
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; i < count; i++) {
        s->turns[i].batch = larder_read_u64(r);
        s->turns[i].h = larder_read_f64(r);
        if (!(s->turns[i].h >= 0 && s->turns[i].h <= 0.99))
            return larder_read_reject(r, "its list of h has one that is no share");
    }
    s->count = (size_t)count;
    return larder_read_status(r);
}

int larder__steer_load(larder__steer *s, larder_reader *r) {
    s->batch = larder_read_u64(r);
    s->h = larder_read_f64(r);
    s->pace.read_seconds = larder_read_f64(r);
    s->pace.step_seconds = larder_read_f64(r);
    s->load = larder_read_f64(r);
    uint64_t count = larder_read_u64(r);
    if (!(s->h >= 0 && s->h <= 0.99 && s->pace.read_seconds >= 0 && s->pace.read_seconds < 1e9 &&
          s->pace.step_seconds >= 0 && s->pace.step_seconds < 1e9 && s->load >= 1 &&
          s->load <= load_most)) {
        s->h = 0;
        return larder_read_reject(r, "its h is no share of a batch");
    }
    return s->how == LARDER__STEER_REPLAY && !count ? larder_read_status(r)
                                                    : load_turns(s, count, r);
}
