#include "loader/figures/pace.h"

#include <math.h>

static const double memory = 2.0; /* seconds after which a measurement has faded to 1/e */
static const double enough = 16;  /* reads that a line is drawn through */
static const double trust = 0.05; /* no less of the busy time is a sample's own, whatever it says */

void larder__pace_open(larder__pace *p) {
    *p = (larder__pace){0};
    pthread_mutex_init(&p->lock, NULL);
}

void larder__pace_close(larder__pace *p) { pthread_mutex_destroy(&p->lock); }

static void add(double *time, double *count, double seconds, double samples) {
    double keep = exp(-seconds / memory);
    *time = *time * keep + seconds;
    *count = *count * keep + samples;
}

larder__pace_read larder__pace_read_begin(larder__pace *p, double now, size_t samples) {
    pthread_mutex_lock(&p->lock);
    if (p->reading++ == 0)
        p->busy_since = now;
    p->under_way += samples;
    larder__pace_read r = {now, samples, p->under_way};
    pthread_mutex_unlock(&p->lock);
    return r;
}

static void add_point(larder__pace *p, double faded, double q, double w) {
    p->reads = p->reads * faded + 1;
    p->q = p->q * faded + q;
    p->w = p->w * faded + w;
    p->qq = p->qq * faded + q * q;
    p->qw = p->qw * faded + q * w;
}

/* Busy time is booked at each end of a call, up to now. */
void larder__pace_read_end(larder__pace *p, double now, larder__pace_read r) {
    pthread_mutex_lock(&p->lock);
    p->reading--;
    p->under_way -= r.samples;
    double busy = now - p->busy_since;
    add(&p->read_time, &p->read_count, busy, (double)r.samples);
    add_point(p, exp(-busy / memory), (double)r.under_way, now - r.begun);
    p->busy_since = now;
    pthread_mutex_unlock(&p->lock);
}

/* Have reads been different enough for a line through them? With the lock held. */
static bool line_known(const larder__pace *p) {
    double q = p->q / p->reads;
    return p->reads >= enough && p->qq / p->reads - q * q >= q * q / 16;
}

/* Seconds storage needs for one sample; with the lock held. */
static double read_seconds(const larder__pace *p) {
    if (p->read_count <= 0)
        return 0;
    double busy = p->read_time / p->read_count; /* never less than it needs */
    if (!line_known(p))
        return busy;
    double q = p->q / p->reads, w = p->w / p->reads, spread = p->qq / p->reads - q * q;
    double slope = (p->qw / p->reads - q * w) / spread;
    return fmin(fmax(slope, busy * trust), busy);
}

bool larder__pace_known(larder__pace *p) {
    pthread_mutex_lock(&p->lock);
    bool known = p->reads > 0 && line_known(p);
    pthread_mutex_unlock(&p->lock);
    return known;
}

void larder__pace_step(larder__pace *p, double seconds, size_t samples) {
    pthread_mutex_lock(&p->lock);
    add(&p->step_time, &p->step_count, seconds, (double)samples);
    p->trained += seconds;
    pthread_mutex_unlock(&p->lock);
}

void larder__pace_wait(larder__pace *p, double seconds) {
    pthread_mutex_lock(&p->lock);
    p->waited += seconds;
    pthread_mutex_unlock(&p->lock);
}

void larder__pace_stage(larder__pace *p, bool decoded, double cpu_seconds) {
    pthread_mutex_lock(&p->lock);
    if (decoded)
        add(&p->augment_time, &p->augment_count, cpu_seconds, 1);
    else
        add(&p->decode_time, &p->decode_count, cpu_seconds, 1);
    pthread_mutex_unlock(&p->lock);
}

static double mean(double time, double count) { return count > 0 ? time / count : 0; }

larder_pace larder__pace_now(larder__pace *p) {
    pthread_mutex_lock(&p->lock);
    larder_pace out = {.read_seconds = read_seconds(p),
                       .step_seconds = mean(p->step_time, p->step_count),
                       .decode_seconds = mean(p->decode_time, p->decode_count),
                       .augment_seconds = mean(p->augment_time, p->augment_count),
                       .trained = p->trained,
                       .waited = p->waited};
    pthread_mutex_unlock(&p->lock);
    return out;
}
