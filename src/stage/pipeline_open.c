/* Opening a pipeline: its text, the order of its stages, and what they make of a picture's size. */
#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "stage/pipeline_inside.h"

#include <ctype.h>

static int add_stage(larder__pipeline *p, const char *text) {
    char name[32];
    const char *rest;
    int rc = larder__spec_name(text, name, sizeof name, &rest);
    if (rc < 0)
        return rc;
    const larder_stage *stage = larder__stage_find(name);
    if (!stage)
        return LARDER_E_ARGS;
    larder_args args;
    rc = larder__args_parse(&args, "stage", &stage->plugin, rest, ',', NULL);
    if (rc < 0)
        return rc;
    larder__step *s = &p->steps[p->count];
    s->state = larder__calloc(1, stage->plugin.state_size);
    rc = s->state ? stage->init(s->state, &args) : LARDER_E_NOMEM;
    larder__args_free(&args);
    s->stage = stage;
    p->count++; /* also when it failed: close frees it */
    return rc;
}

static int parse_spec(larder__pipeline *p, const char *spec) {
    while (*spec) {
        char text[256];
        size_t len = strcspn(spec, "|"), skip = 0, n = len;
        while (skip < len && isspace((unsigned char)spec[skip]))
            skip++;
        while (n > skip && isspace((unsigned char)spec[n - 1]))
            n--;
        n -= skip;
        if (n == 0 || (spec[len] == '|' && !spec[len + 1]))
            return larder__fail(LARDER_E_ARGS,
                                "stages are joined by one |, nothing stands before "
                                "or after \"%.60s\"",
                                spec);
        if (n >= sizeof text || p->count == LARDER__STAGES_MOST)
            return larder__fail(LARDER_E_ARGS, "more than %d stages or %zu letters in one",
                                LARDER__STAGES_MOST, sizeof text - 1);
        memcpy(text, spec + skip, n);
        text[n] = 0;
        int rc = add_stage(p, text);
        if (rc < 0)
            return rc;
        spec += len + (spec[len] == '|');
    }
    return 0;
}

/* What a stage does, in the order in which these stand in a pipeline: pixels, then what they are
 * worth, then batches of them. */
static int turn_of(const larder_stage *s) { return s->mix ? 2 : s->tone || s->late ? 1 : 0; }

static int check_order(larder__pipeline *p) {
    const larder_stage *before = NULL;
    for (size_t i = 0; i < p->count; i++) {
        const larder_stage *s = p->steps[i].stage;
        if (s->tone && p->dtype == LARDER_U8 && !p->levels)
            return larder__fail(LARDER_E_ARGS, "stage %s needs f32 output, not u8", s->plugin.name);
        if (before && turn_of(s) < turn_of(before))
            return larder__fail(LARDER_E_ARGS, "stage %s stands before %s, not after",
                                s->plugin.name, before->plugin.name);
        p->worth += turn_of(s) == 0;
        p->placed = s->place ? i + 1 : p->placed;
        p->paints |= s->canvas || s->pixels;
        p->mixes += turn_of(s) < 2;
        p->late |= s->late != NULL;
        before = s;
    }
    return 0;
}

/* Tries the stages on a made-up size: what do they make of it? */
static int try_size(larder__pipeline *p, uint32_t w, uint32_t h, larder__canvas *k) {
    int rc = 0;
    bool differ = false;
    uint32_t was_w = 0, was_h = 0;
    for (uint64_t seed = 0; rc == 0 && seed < 16; seed++) {
        larder__canvas_start(k, NULL, 3, false);
        k->is.w = w;
        k->is.h = h;
        rc = larder__pipeline_walk(p, seed, k);
        differ |= seed > 0 && (k->is.w != was_w || k->is.h != was_h);
        was_w = k->is.w;
        was_h = k->is.h;
    }
    k->is.w = differ ? 0 : k->is.w; /* a size that chance decides is as bad as none */
    return rc;
}

/* Encoded pictures come in any size, a batch has one: tried on two, the results must agree. They
 * are large, so that a crop that needs a large enough picture is not refused for their sake. */
static int find_shape(larder__pipeline *p) {
    larder__canvas a, b;
    int rc = try_size(p, p->raw.h ? p->raw.w : 40009, p->raw.h ? p->raw.h : 33013, &a);
    if (rc == 0)
        rc = try_size(p, p->raw.h ? p->raw.w : 34019, p->raw.h ? p->raw.h : 41017, &b);
    if (rc != 0)
        return rc;
    if (a.is.w != b.is.w || a.is.h != b.is.h || a.is.w == 0)
        return larder__fail(LARDER_E_ARGS,
                            "pictures differ in size, samples of a batch do not: add "
                            "a stage that fixes it, such as rrc:size=224, "
                            "resize:h=224,w=224 or resize:size=256|centercrop:"
                            "size=224");
    p->shape = (larder_shape){a.is.h, a.is.w, p->raw.h ? p->raw.c : 3};
    if ((uint64_t)a.is.w * a.is.h > LARDER__MAX_PIXELS)
        return larder__fail(LARDER_E_RANGE, "samples of %u x %u pixels; the limit is %u in all",
                            a.is.h, a.is.w, LARDER__MAX_PIXELS);
    return 0;
}

static int check_raw(const larder_shape *raw) {
    if (raw->h == 0)
        return 0;
    if (raw->c < 1 || raw->c > LARDER_CHANNELS_MAX)
        return larder__fail(LARDER_E_UNSUPPORTED, "raw samples of %u channels; 1 to %d are known",
                            raw->c, LARDER_CHANNELS_MAX);
    return larder__codec_limit("raw", raw->w, raw->h);
}

int larder__pipeline_open(larder__pipeline **out, const larder__pipeline_conf *conf) {
    *out = NULL;
    larder__pipeline *p = larder__calloc(1, sizeof *p);
    if (!p)
        return LARDER_E_NOMEM;
    p->raw = conf->raw;
    p->raw_layout = conf->raw_layout;
    p->layout = conf->layout;
    p->levels = conf->levels && conf->dtype != LARDER_U8;
    p->dtype = p->levels ? LARDER_U8 : conf->dtype;
    p->whole = conf->whole;
    int rc = check_raw(&p->raw);
    if (rc == 0)
        rc = parse_spec(p, conf->spec ? conf->spec : "");
    if (rc == 0)
        rc = check_order(p);
    if (rc == 0)
        rc = find_shape(p);
    if (rc == 0)
        rc = larder__pipeline_tone(p, p->worth, 1.0 / 255, 0, &p->tone);
    if (rc < 0) {
        larder__pipeline_close(&p);
        return larder__fail_in(rc, "augment \"%.100s\"", conf->spec ? conf->spec : "");
    }
    p->fixed_tone = true;
    for (size_t i = 0; i < p->count; i++)
        p->fixed_tone &= !(p->steps[i].stage->tone && p->steps[i].stage->random);
    *out = p;
    return 0;
}

void larder__pipeline_close(larder__pipeline **pipeline) {
    larder__pipeline *p = *pipeline;
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        larder__free(p->steps[i].state);
    larder__free(p);
    *pipeline = NULL;
}

larder_shape larder__pipeline_shape(const larder__pipeline *p) { return p->shape; }

const larder_tone *larder__pipeline_worth(const larder__pipeline *p) { return &p->tone; }

const char *larder__pipeline_levelless(const larder__pipeline *p) {
    for (size_t i = 0; i < p->count; i++) {
        const larder_stage *s = p->steps[i].stage;
        if (s->late || (s->tone && s->random))
            return s->plugin.name;
    }
    return NULL;
}

larder_dtype larder__pipeline_dtype(const larder__pipeline *p) { return p->dtype; }
larder_layout larder__pipeline_layout(const larder__pipeline *p) { return p->layout; }

size_t larder__pipeline_bytes(const larder__pipeline *p) {
    return (size_t)p->shape.h * p->shape.w * p->shape.c * larder__dtype_bytes(p->dtype);
}
