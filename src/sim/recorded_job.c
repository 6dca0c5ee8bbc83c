/* Replaying a recorded job: its samples, its losses, its clock. */
#include "base/err.h"
#include "sim/sim_inside.h"

#include <math.h>

/* Training as a recorded job went, for the samples that were served. */
int larder__sim_train_again(larder__sim_state *r) {
    const larder__planned *p = &r->plan;
    larder__feedback *to = larder__draw_feedback(r->draw);
    larder__feed_place place = {p->number, p->epoch, r->drawn, p->length};
    int rc = 0;
    if ((larder__draw_listens(r->draw) || larder__draw_compares(r->draw)) &&
        larder__feed_losses(r->feed, &place, r->served, p->n, r->losses)) {
        for (size_t i = 0; i < p->n; i++)
            r->labels[i] = r->conf->tape->label_of[r->served[i]];
        larder_feedback fb = {.loss = r->losses};
        rc = larder__sim_report(r, &fb);
    }
    double accuracy = larder__feed_accuracy(r->feed, p->epoch);
    return rc < 0 || !to || !p->last || isnan(accuracy)
               ? rc
               : larder__feedback_note_accuracy(to, p->number, accuracy);
}

/* How fast storage and training are, for those who steer by it. */
void larder__sim_tell_pace(larder__sim_state *r) {
    if (!r->feed)
        return;
    larder__feed_rates rates = r->rates;
    larder_pace pace = {.read_seconds = rates.read_seconds > 0 ? rates.read_seconds : 0,
                        .step_seconds = rates.step_seconds > 0 ? rates.step_seconds : 0,
                        .trained = r->clock.trained,
                        .waited = r->clock.waited};
    if (r->same)
        pace = larder__feed_pace(r->feed, larder__draw_number(r->draw));
    larder__draw_pace(r->draw, &pace);
}

void larder__sim_keep_time(larder__sim_result *out, larder__feed_clock *c, uint64_t bytes,
                           size_t samples) {
    double waited = c->waited, trained = c->trained;
    larder__feed_clock_batch(c, bytes, samples);
    out->seconds = c->trained_until;
    out->waited = c->waited;
    if (out->count) {
        out->later_waited += c->waited - waited;
        out->later_seconds += c->waited - waited + c->trained - trained;
    }
}

static uint32_t recorded_bytes(void *feed, uint64_t id) { return larder__feed_size(feed, id); }
static uint32_t recorded_class(void *feed, uint64_t id) { return larder__feed_class(feed, id); }

/* A recorded job: what it was stays, but for recipe and cache. */
int larder__sim_open_tape(larder__sim_state *r, larder__draw_conf *conf) {
    const larder__sim_conf *c = r->conf;
    const larder__tape_job *j = &c->tape->job;
    int rc = larder__feed_open(&r->feed, c->tape);
    if (rc < 0)
        return rc;
    if (r->out->forms && !j->decoded_bytes && j->decoded_ratio <= 0)
        return larder__fail(LARDER_E_ARGS,
                            "a split cache: the record does not say how large decoded samples are; "
                            "record a job with a split cache, or use larder sim --decoded");
    r->rates = larder__feed_measure(c->tape);
    larder__feed_clock_open(&r->clock, &r->rates, j->lag);
    r->same = strcmp(c->recipe, j->recipe) == 0 && strcmp(c->cache, j->cache) == 0;
    r->out->n = conf->n = j->samples;
    conf->payload = j->payload;
    conf->size = 0;
    conf->size_of = recorded_bytes;
    conf->size_arg = r->feed;
    conf->decoded_ratio = j->decoded_ratio;
    conf->decoded_bytes = (uint32_t)(j->decoded_bytes < UINT32_MAX ? j->decoded_bytes : 0);
    conf->row_bytes = (uint32_t)(j->row_bytes < UINT32_MAX ? j->row_bytes : 0);
    conf->group_of = recorded_class;
    conf->group_arg = r->feed;
    conf->epochs = j->epochs;
    conf->rank = (uint32_t)j->rank;
    conf->world = (uint32_t)j->world;
    conf->drop_last = j->drop_last;
    conf->lag = j->lag ? (uint32_t)j->lag : 6;
    return 0;
}

/* What a recipe listens to must be there. */
int larder__sim_check_feed(const larder__sim_state *r) {
    const larder_signal *signal = larder__draw_signal(r->draw);
    bool losses = r->trace || (r->feed && r->conf->tape->losses);
    if (signal && signal->without_logits && losses)
        return larder__fail(LARDER_E_ARGS,
                            "recipe \"%s\" listens to logits, and a record has losses alone; "
                            "rotate takes these with learned=, as in rotate:gate=0.3,learned=0.05",
                            r->conf->recipe);
    if (!r->feed || !signal || !larder__draw_relies(r->draw))
        return 0;
    if (signal->prepare)
        return larder__fail(
            LARDER_E_ARGS,
            "recipe \"%s\" listens to embeddings, and a record has none; larder sim "
            "--trace takes them",
            r->conf->recipe);
    return r->conf->tape->losses ? 0
                                 : larder__fail(LARDER_E_ARGS,
                                                "recipe \"%s\" listens to losses, and the recorded "
                                                "job reported none",
                                                r->conf->recipe);
}
