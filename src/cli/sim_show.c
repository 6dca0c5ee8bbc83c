#include "cli/sim_show.h"

#include <math.h>
#include <stdio.h>

void larder__sim_json_figures(larder__json *j, const larder_figures *f, bool forms, bool tiers) {
    larder__json_u64(j, "served", f->served);
    larder__json_u64(j, "hits", f->hits);
    larder__json_u64(j, "substitutes", f->substitutes);
    larder__json_u64(j, "repeats", f->repeats);
    larder__json_u64(j, "misses", f->misses);
    larder__json_u64(j, "background_reads", f->background_reads);
    larder__json_f64(j, "touched", f->touched);
    larder__json_u64(j, "storage_bytes", f->storage_bytes);
    larder__json_u64(j, "requests", f->requests);
    larder__json_u64(j, "evaluated", f->evaluated);
    larder__json_u64(j, "evaluation_reads", f->evaluation_reads);
    larder__json_u64(j, "scratch_reads", f->scratch_reads);
    larder__json_u64(j, "scratch_bytes", f->scratch_bytes);
    larder__json_u64(j, "scratch_written", f->scratch_written);
    if (f->fresh_reported) {
        larder__json_u64(j, "fresh_reported", f->fresh_reported);
        larder__json_u64(j, "reused_reported", f->reused_reported);
        larder__json_f64(j, "fresh_loss", f->fresh_loss);
        larder__json_f64(j, "reused_loss", f->reused_loss);
        larder__json_f64(j, "gap", f->fresh_loss - f->reused_loss);
    }
    if (tiers) {
        larder__json_u64(j, "front_hits", f->front_hits);
        larder__json_u64(j, "far_hits", f->hits + f->substitutes - f->front_hits);
    }
    if (!forms)
        return;
    larder__json_open(j, "hits_by_form", '{');
    larder__json_u64(j, "encoded", f->form_hits[LARDER_ENCODED]);
    larder__json_u64(j, "decoded", f->form_hits[LARDER_DECODED]);
    larder__json_u64(j, "augmented", f->form_hits[LARDER_AUGMENTED]);
    larder__json_close(j, '}');
}

/* What the policy shows of its own; what it does not know yet is null. */
static void json_shown(larder__json *j, const larder__sim_result *r, uint64_t epoch) {
    for (size_t i = 0; r->figures && r->figures[i].name; i++)
        larder__json_f64(j, r->figures[i].name, r->shown[epoch][i]);
}

void larder__sim_json(const char *recipe, const char *cache, uint64_t seed,
                      const larder__sim_result *r) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, "recipe", recipe);
    larder__json_u64(&j, "n", r->n);
    larder__json_text(&j, "cache", cache);
    larder__json_u64(&j, "seed", seed);
    larder__json_open(&j, "epochs", '[');
    for (uint64_t e = 0; e < r->count; e++) {
        larder__json_open(&j, NULL, '{');
        larder__json_u64(&j, "epoch", r->epochs[e].epoch);
        larder__sim_json_figures(&j, &r->epochs[e], r->forms, r->tiers);
        json_shown(&j, r, e);
        if (!isnan(r->precision[e]))
            larder__json_f64(&j, "precision", r->precision[e]);
        larder__json_close(&j, '}');
    }
    larder__json_close(&j, ']');
    larder__json_open(&j, "total", '{');
    larder__sim_json_figures(&j, &r->total, r->forms, r->tiers);
    larder__json_f64(&j, "hit_ratio", r->hit_ratio);
    if (!isnan(r->precision_mean))
        larder__json_f64(&j, "precision", r->precision_mean);
    larder__json_close(&j, '}');
    larder__json_close(&j, '}');
    fflush(stdout);
}

void larder__sim_table_head(void) {
    printf("%-26s %10s %8s %8s %8s %8s %8s %10s %10s\n", "recipe", "cache", "hits", "subst.",
           "repeats", "misses", "touched", "bytes/smp", "requests");
}

void larder__sim_table_row(const char *recipe, const char *cache, const larder__sim_result *r) {
    const larder_figures *t = &r->total;
    double n = t->served ? (double)t->served : 1;
    printf("%-26s %10s %7.2f%% %7.2f%% %7.2f%% %7.2f%% %7.2f%% %10.1f %10llu\n", recipe, cache,
           100 * (double)t->hits / n, 100 * (double)t->substitutes / n,
           100 * (double)t->repeats / n, 100 * (double)t->misses / n, 100 * t->touched,
           (double)t->storage_bytes / n, (unsigned long long)t->requests);
    if (r->forms)
        printf("%-26s %10s %7.2f%% encoded, %.2f%% decoded, %.2f%% augmented\n", "", "of which",
               100 * (double)t->form_hits[LARDER_ENCODED] / n,
               100 * (double)t->form_hits[LARDER_DECODED] / n,
               100 * (double)t->form_hits[LARDER_AUGMENTED] / n);
    if (r->tiers)
        printf("%-26s %10s %7.2f%% in front, %.2f%% behind\n", "", "of which",
               100 * (double)t->front_hits / n,
               100 * (double)(t->hits + t->substitutes - t->front_hits) / n);
    fflush(stdout);
}
