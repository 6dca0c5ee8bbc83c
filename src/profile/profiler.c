/* The profiler's beginning, end and order of work, and what follows from its figures. */
#include "base/err.h"
#include "base/json.h"
#include "base/limit.h"
#include "base/mem.h"
#include "profile/profile_inside.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

int larder__profiler_open(larder__profiler **out, const larder__profiler_conf *conf) {
    *out = NULL;
    larder__profiler *p = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->conf = *conf;
    pthread_mutex_init(&p->lock, NULL);
    int rc = larder__data_open(&p->data, conf->source);
    if (rc == 0 && larder__data_about(p->data)->count == 0)
        rc = larder__fail(LARDER_E_ARGS, "%s: the data set is empty", conf->source);
    if (rc == 0 && larder__data_about(p->data)->count >= UINT32_MAX)
        rc = larder__fail(LARDER_E_RANGE, "%s: at most 4 billion samples", conf->source);
    if (rc == 0) {
        const larder_dataset *about = larder__data_about(p->data);
        larder__pipeline_conf pipe = {.spec = conf->augment,
                                      .raw = about->raw,
                                      .raw_layout = about->layout,
                                      .dtype = conf->dtype,
                                      .layout = conf->layout};
        rc = larder__pipeline_open(&p->pipeline, &pipe);
    }
    if (rc == 0)
        rc = larder__measure_shrink_open(p);
    if (rc == 0 && !(p->pool = larder__calloc(LARDER__POOL_SAMPLES, sizeof *p->pool)))
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        larder__profiler_close(&p);
    *out = p;
    return rc;
}

void larder__profiler_close(larder__profiler **pp) {
    larder__profiler *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    for (size_t i = 0; p->pool && i < LARDER__POOL_SAMPLES; i++) {
        larder_buf_unref(&p->pool[i].encoded);
        larder_buf_unref(&p->pool[i].decoded);
    }
    larder__free(p->pool);
    larder__pipeline_close(&p->pipeline);
    larder__data_close(&p->data);
    pthread_mutex_destroy(&p->lock);
    larder__free(p);
}

void larder__profiler_cancel(larder__profiler *p) {
    atomic_store(&p->stop, true);
    larder__data_interrupt(p->data);
}

void larder__profiler_tell(larder__profiler *p, const char *format, ...) {
    char line[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (p->conf.tell)
        p->conf.tell(p->conf.tell_arg, line);
}

void larder__profiler_bad(larder__profiler *p, uint64_t id, const char *why) {
    char name[160] = "?";
    larder__data_name(p->data, id, name, sizeof name);
    pthread_mutex_lock(&p->lock);
    if (p->bad++ == 0)
        snprintf(p->why, sizeof p->why, "sample %llu (%s): %.300s", (unsigned long long)id, name,
                 why);
    pthread_mutex_unlock(&p->lock);
}

/* Storage gets half of the time, since it is the noisiest; the processors three tenths. */
int larder__profiler_run(larder__profiler *p, larder__profile *out) {
    const larder_dataset *about = larder__data_about(p->data);
    *out = (larder__profile){.samples = about->count,
                             .bytes = about->bytes,
                             .threads = p->conf.threads ? p->conf.threads : larder__cpu_count()};
    int rc = larder__measure_storage(p, p->conf.seconds * 0.5, out);
    if (rc == 0)
        rc = larder__measure_stages(p, p->conf.seconds * 0.3, out);
    if (rc == 0)
        rc = larder__measure_shrink(p, out);
    if (rc == 0)
        rc = larder__measure_memory(p, p->conf.seconds * 0.2, out);
    out->bad = p->bad;
    if (p->bad)
        larder__profiler_tell(p, "%llu bad samples were passed over, the first: %.180s",
                              (unsigned long long)p->bad, p->why);
    return rc;
}

/* ---- what follows ---------------------------------------------------------------------------- */

static bool tells(const larder__depth *d) {
    return d->reads >= 4 * (uint64_t)d->inflight && (!d->whole || d->seconds >= 0.05);
}

double larder__depth_rate(const larder__depth *d) {
    return d->reads ? (double)d->bytes / fmax(d->seconds, 1e-9) : 0;
}

const larder__depth *larder__profile_storage(const larder__profile *p, bool *small) {
    const larder__depth *best = &p->depths[0];
    for (int k = 1; k < LARDER__DEPTHS; k++) {
        const larder__depth *d = &p->depths[k];
        bool faster = larder__depth_rate(d) > larder__depth_rate(best);
        best = tells(d) == tells(best) ? (faster ? d : best) : tells(d) ? d : best;
    }
    *small = !tells(best);
    return best;
}

void larder__profile_rates(const larder__profile *p, larder_rates *r) {
    bool small;
    r->n_total = (double)p->samples;
    r->s_data = (double)p->bytes / (double)p->samples;
    r->m = p->row_bytes / r->s_data;
    r->m_decoded = p->decoded_bytes / r->s_data;
    r->t_da = p->decode.all;
    r->t_a = p->augment.all;
    r->t_d = p->whole.all;
    r->b_storage = larder__depth_rate(larder__profile_storage(p, &small));
    r->b_cache = !isnan(p->disk)    ? p->disk
                 : !isnan(p->redis) ? p->redis
                 : isnan(p->daemon) ? p->cache
                                    : p->daemon;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static void write_rates(larder__json *j, const larder_rates *r) {
    const struct {
        const char *key;
        double value;
    } known[] = {{"n_total", r->n_total},     {"s_data", r->s_data},   {"m", r->m},
                 {"m_decoded", r->m_decoded}, {"t_da", r->t_da},       {"t_a", r->t_a},
                 {"b_storage", r->b_storage}, {"b_cache", r->b_cache}, {"s_cache", r->s_cache},
                 {"t_gpu", r->t_gpu},         {"batch", r->batch},     {"jobs", r->jobs}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        larder__json_f64(j, known[i].key, known[i].value);
}

static void write_depth(larder__json *j, const larder__depth *d) {
    char key[64];
    double seconds = fmax(d->seconds, 1e-9);
    const struct {
        const char *what;
        double value;
    } of[] = {{"bytes_s", (double)d->bytes / seconds},
              {"iops", (double)d->reads / seconds},
              {"latency_ms", 1e3 * d->latency},
              {"reads", (double)d->reads},
              {"seconds", d->seconds}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(key, sizeof key, "storage_%u_%s", d->inflight, of[i].what);
        larder__json_f64(j, key, of[i].value);
    }
}

static void write_shrunk(larder__json *j, const larder__shrunk *s, const larder__shrinking *how) {
    larder__json_u64(j, "shrunk_side", s->side);
    larder__json_u64(j, "shrunk_quality", how->to.quality);
    larder__json_f64(j, "shrunk_bytes", s->bytes);
    larder__json_f64(j, "shrunk_ratio", s->ratio);
    larder__json_f64(j, "shrunk_share", s->share);
    larder__json_f64(j, "shrunk_seconds", s->seconds);
    larder__json_f64(j, "shrunk_row_seconds", s->row_seconds);
    larder__json_f64(j, "file_row_seconds", s->file_row_seconds);
    larder__json_f64(j, "shrunk_error", s->error);
    larder__json_f64(j, "shrunk_psnr", s->psnr);
}

int larder__profile_write(FILE *to, const larder__profile *p, const larder_rates *r,
                          const larder__profiler_conf *conf) {
    larder__json j = {.to = to};
    bool small;
    larder__profile_storage(p, &small);
    larder__json_begin(&j);
    write_rates(&j, r);
    larder__json_text(&j, "source", conf->source);
    larder__json_text(&j, "augment", conf->augment ? conf->augment : "");
    larder__json_text(&j, "dtype", conf->dtype == LARDER_F32 ? "f32" : "u8");
    larder__json_text(&j, "version", larder_version());
    larder__json_u64(&j, "threads", p->threads);
    larder__json_u64(&j, "bad_samples", p->bad);
    larder__json_bool(&j, "storage_small", small);
    larder__json_f64(&j, "storage_from_device", p->from_device);
    for (int k = 0; k < LARDER__DEPTHS; k++)
        write_depth(&j, &p->depths[k]);
    larder__json_f64(&j, "t_da_core", p->decode.core);
    larder__json_f64(&j, "t_a_core", p->augment.core);
    larder__json_f64(&j, "t_d_core", p->whole.core);
    larder__json_f64(&j, "row_bytes", p->row_bytes);
    larder__json_f64(&j, "decoded_bytes", p->decoded_bytes);
    larder__json_f64(&j, "embedded_cache_bytes_s", p->cache);
    larder__json_f64(&j, "daemon_bytes_s", p->daemon);
    larder__json_f64(&j, "redis_bytes_s", p->redis);
    larder__json_f64(&j, "disk_bytes_s", p->disk);
    larder__json_f64(&j, "memory_read_bytes_s", p->memory_read);
    larder__json_f64(&j, "memory_copy_bytes_s", p->memory_copy);
    if (!isnan(p->shrunk.bytes))
        write_shrunk(&j, &p->shrunk, &conf->shrink);
    larder__json_close(&j, '}');
    putc('\n', to);
    return fflush(to) == 0 && !ferror(to)
               ? 0
               : larder__fail(larder__code_of_errno(errno), "the profile: %s", strerror(errno));
}
