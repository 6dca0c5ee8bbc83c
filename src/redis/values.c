#include "redis/values.h"

#include "base/err.h"
#include "base/mem.h"
#include "redis/values_inside.h"

#include <stdio.h>
#include <string.h>

#if LARDER_HAVE_HIREDIS

char *larder__redis_digits(char *to, uint64_t n, unsigned base) {
    char digits[24];
    size_t k = sizeof digits;
    do
        digits[--k] = "0123456789abcdef"[n % base];
    while (n /= base);
    memcpy(to, digits + k, sizeof digits - k);
    return to + (sizeof digits - k);
}

/* space:form:id:mark, the last in hex. Not by snprintf: there is one for every value asked for. */
size_t larder__redis_values_key(const larder__redis_values *f, const larder__value *v,
                                char out[LARDER__KEY]) {
    size_t n = strlen(f->space);
    memcpy(out, f->space, n);
    char *at = out + n;
    *at++ = ':';
    at = larder__redis_digits(at, v->form, 10);
    *at++ = ':';
    at = larder__redis_digits(at, v->id, 10);
    *at++ = ':';
    at = larder__redis_digits(at, v->mark, 16);
    *at = '\0';
    return (size_t)(at - out);
}

void larder__redis_values_say(larder__redis_values *f, const char *why) {
    pthread_mutex_lock(&f->lock);
    snprintf(f->note, sizeof f->note, "%s", why);
    pthread_mutex_unlock(&f->lock);
}

void larder__redis_values_note(larder__redis_values *f, char *out, size_t cap) {
    pthread_mutex_lock(&f->lock);
    snprintf(out, cap, "%s", f->note);
    pthread_mutex_unlock(&f->lock);
}

bool larder__redis_values_away(const larder__redis_values *f) {
    bool away = false;
    for (uint32_t i = 0; i < atomic_load(&f->node_count); i++) {
        const larder__node *n = atomic_load(&f->nodes[i]);
        away |= atomic_load(&n->wanted) && !atomic_load(&n->up);
    }
    return away;
}

static double probe_attached(const void *f) { return larder__redis_values_away(f) ? 0 : 1; }

static int show(larder__redis_values *f) {
    const struct {
        larder__stat *stat;
        const char *name, *unit, *help;
    } of[] = {
        {&f->stat.asked, "redis_asked", "samples", "values asked for"},
        {&f->stat.bytes, "redis_bytes", "bytes", "of values that came"},
        {&f->stat.gone, "redis_gone", "samples", "no longer in Redis, read from storage"},
        {&f->stat.damaged, "redis_damaged", "samples",
         "cut, changed or somebody else's: read from storage"},
        {&f->stat.unanswered, "redis_unanswered", "samples",
         "Redis was away or late: read from storage"},
        {&f->stat.written, "redis_written", "samples", "values written"},
        {&f->stat.written_bytes, "redis_written_bytes", "bytes", "of values written"},
        {&f->stat.refused, "redis_refused", "samples", "values that could not be written"},
        {&f->stat.lost, "redis_lost", "times", "a server went away"},
        {&f->stat.found, "redis_found", "times", "a server came back"},
    };
    int rc = 0;
    for (size_t i = 0; f->stats && rc == 0 && i < sizeof of / sizeof *of; i++)
        rc = larder__stat_counter(f->stats, of[i].stat, of[i].name, of[i].unit, of[i].help);
    if (f->stats && rc == 0)
        rc = larder__stat_probe(f->stats, "redis_attached", "", "1 while every server answers",
                                probe_attached, f);
    return rc;
}

static void init_locks(larder__redis_values *f) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&f->grow, NULL);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, &monotonic);
    pthread_cond_init(&f->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static int attempt(void *far) { return larder__redis_nodes_open(far); }

int larder__redis_values_open(larder__redis_values **out, const larder__redis_values_conf *conf) {
    *out = NULL;
    larder__redis_values *f = larder__calloc(1, sizeof *f);
    if (!f)
        return LARDER_E_NOMEM;
    init_locks(f);
    f->conf = *conf->redis;
    f->lease = conf->lease;
    f->many = conf->many;
    snprintf(f->space, sizeof f->space, "larder:%u:%016llx:%.48s", larder__speaks.value,
             (unsigned long long)conf->identity, conf->owner);
    /* Figures last, when it stands: whoever fails leaves none behind. */
    int rc = larder__await_there(&f->conf.await, attempt, f);
    if (rc == LARDER__ABSENT) {
        larder__redis_values_say(f, larder_errmsg());
        larder__redis_nodes_absent(f);
        rc = 0;
    }
    f->stats = conf->stats;
    for (uint32_t i = 0; f->lease && larder__redis_nodes_at(f, i); i++)
        memcpy(larder__redis_nodes_at(f, i)->scan, "0", 2);
    if (rc == 0)
        rc = show(f);
    if (rc == 0)
        rc = larder__redis_writer_start(f);
    if (rc < 0)
        larder__redis_values_close(&f);
    *out = f;
    return rc;
}

void larder__redis_values_close(larder__redis_values **pf) {
    larder__redis_values *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    for (uint32_t i = 0; larder__redis_nodes_at(f, i);
         i++) /* who holds what nobody waits for any more */
        for (uint32_t k = 0; k < f->conf.lanes; k++)
            larder__lane_drain(&larder__redis_nodes_at(f, i)->lanes[k]);
    larder__redis_writer_stop(f);
    larder__redis_nodes_close(f);
    pthread_mutex_destroy(&f->grow);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->settled);
    memset(f->conf.password, 0, sizeof f->conf.password);
    larder__free(f);
}

#else

int larder__redis_values_open(larder__redis_values **out, const larder__redis_values_conf *conf) {
    (void)conf;
    *out = NULL;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "a cache in Redis needs hiredis (package libhiredis-dev), which this build "
                        "was made without");
}
void larder__redis_values_close(larder__redis_values **f) { *f = NULL; }
larder__redis_fetch *larder__redis_fetch_new(const larder__value *v) {
    (void)v;
    return NULL;
}
void larder__redis_fetch_hold(larder__redis_fetch *e, larder_buf *token) { (void)e, (void)token; }
larder_buf *larder__redis_fetch_token(const larder__redis_fetch *e) {
    (void)e;
    return NULL;
}
const larder__value *larder__redis_fetch_value(const larder__redis_fetch *e) {
    (void)e;
    return NULL;
}
uint8_t larder__redis_fetch_held(const larder__redis_fetch *e) {
    (void)e;
    return LARDER_ENCODED;
}
void larder__redis_fetch_unref(larder__redis_fetch **e) { *e = NULL; }
void larder__redis_values_send(larder__redis_values *f, larder__redis_fetch *const *e, size_t n) {
    (void)f, (void)e, (void)n;
}
larder_buf *larder__redis_values_receive(larder__redis_values *f, larder__redis_fetch *e) {
    (void)f, (void)e;
    return NULL;
}
larder_buf *larder__redis_values_look(larder__redis_values *f, larder__redis_fetch *e) {
    (void)f, (void)e;
    return NULL;
}
bool larder__redis_fetch_over(const larder__redis_fetch *e) {
    (void)e;
    return true;
}
bool larder__redis_fetch_came(const larder__redis_fetch *e) {
    (void)e;
    return false;
}
void larder__redis_values_put(larder__redis_values *f, const larder__value *v, larder_buf *b,
                              uint32_t ttl, larder__redis_values_done_fn done, void *arg) {
    (void)f, (void)v, (void)b, (void)ttl;
    done(arg, false);
}
void larder__redis_values_drop(larder__redis_values *f, const larder__value *v) {
    (void)f, (void)v;
}
void larder__redis_values_sweep(larder__redis_values *f, uint64_t bits, uint64_t mark) {
    (void)f, (void)bits, (void)mark;
}
bool larder__redis_values_settle(larder__redis_values *f, double seconds) {
    (void)f, (void)seconds;
    return true;
}
bool larder__redis_values_away(const larder__redis_values *f) {
    (void)f;
    return true;
}
void larder__redis_values_note(larder__redis_values *f, char *out, size_t cap) {
    (void)f;
    snprintf(out, cap, "%s", "");
}
#endif
