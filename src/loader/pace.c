#include "loader/pace.h"

#include <math.h>

static const double memory = 2.0; /* seconds after which a measurement has faded to 1/e */

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

void larder__pace_read_begin(larder__pace *p, double now) {
    pthread_mutex_lock(&p->lock);
    if (p->reading++ == 0)
        p->busy_since = now;
    pthread_mutex_unlock(&p->lock);
}

/* Busy time is booked at each end of a call, up to now. */
void larder__pace_read_end(larder__pace *p, double now, size_t samples) {
    pthread_mutex_lock(&p->lock);
    p->reading--;
    add(&p->read_time, &p->read_count, now - p->busy_since, (double)samples);
    p->busy_since = now;
    pthread_mutex_unlock(&p->lock);
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

larder_pace larder__pace_now(larder__pace *p) {
    pthread_mutex_lock(&p->lock);
    larder_pace out = {.read_seconds = p->read_count > 0 ? p->read_time / p->read_count : 0,
                       .step_seconds = p->step_count > 0 ? p->step_time / p->step_count : 0,
                       .trained = p->trained,
                       .waited = p->waited};
    pthread_mutex_unlock(&p->lock);
    return out;
}
