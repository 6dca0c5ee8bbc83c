#include "stage/sound.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/scratch.h"

#include <math.h>
#include <string.h>

#if LARDER_HAVE_SNDFILE

#include "base/late.h"

#include <sndfile.h>

#define CALLS(X) X(sf_close) X(sf_open_virtual) X(sf_readf_float) X(sf_seek) X(sf_strerror)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(sndfile, LARDER_LATE_SNDFILE, CALLS)

typedef struct memory {
    const char *bytes;
    sf_count_t size, at;
} memory;

static sf_count_t length(void *arg) { return ((memory *)arg)->size; }
static sf_count_t tell(void *arg) { return ((memory *)arg)->at; }

static sf_count_t seek(sf_count_t to, int from, void *arg) {
    memory *m = arg;
    sf_count_t at = from == SEEK_SET ? to : from == SEEK_CUR ? m->at + to : m->size + to;
    m->at = at < 0 ? 0 : at > m->size ? m->size : at;
    return m->at;
}

static sf_count_t give(void *to, sf_count_t n, void *arg) {
    memory *m = arg;
    n = n < m->size - m->at ? n : m->size - m->at;
    if (n <= 0)
        return 0;
    memcpy(to, m->bytes + m->at, (size_t)n);
    m->at += n;
    return n;
}

static sf_count_t take_none(const void *from, sf_count_t n, void *arg) {
    (void)from, (void)n, (void)arg;
    return 0;
}

/* ---- a recording ----------------------------------------------------------------------------- */

typedef struct recording {
    SNDFILE *file;
    SF_INFO info;
    memory memory;
} recording;

static int open_recording(recording *r, const void *bytes, size_t size) {
    static SF_VIRTUAL_IO io = {length, seek, give, take_none, tell};
    *r = (recording){.memory = {bytes, (sf_count_t)size, 0}};
    int rc = larder__late_open(&sndfile_late);
    if (rc < 0)
        return rc;
    r->file = sf_open_virtual(&io, SFM_READ, &r->info, &r->memory);
    if (!r->file)
        return larder__fail(LARDER_E_FORMAT, "sound: %.120s", sf_strerror(NULL));
    if (r->info.channels < 1 || r->info.channels > LARDER__SOUND_CHANNELS ||
        r->info.samplerate < 1 || r->info.samplerate > 10000000 || r->info.frames < 0)
        return larder__fail(LARDER_E_RANGE, "sound: %d channels of %d samples a second",
                            r->info.channels, r->info.samplerate);
    return 0;
}

static void close_recording(recording *r) {
    if (r->file)
        sf_close(r->file);
}

/* Some codecs cannot be entered anywhere: then what lies before is decoded and dropped. */
static int go_to(recording *r, sf_count_t frame, float *space, sf_count_t room) {
    if (frame == 0 || (r->info.seekable && sf_seek(r->file, frame, SEEK_SET) == frame))
        return 0;
    if (sf_seek(r->file, 0, SEEK_SET) != 0 && r->info.seekable)
        return larder__fail(LARDER_E_FORMAT, "sound: damaged: %.120s", sf_strerror(r->file));
    while (frame > 0) {
        sf_count_t n = sf_readf_float(r->file, space, frame < room ? frame : room);
        if (n <= 0)
            return larder__fail(LARDER_E_FORMAT, "sound: ends before its end");
        frame -= n;
    }
    return 0;
}

/* A recording that was streamed does not say how long it is, and a damaged one says anything: then
 * it is decoded to its end, and opened again, since not every codec finds back from there. */
static int measure(recording *r, larder__scratch *s) {
    enum { AT_ONCE = 1 << 14 };
    const sf_count_t said = (sf_count_t)1 << 52, longest = (sf_count_t)1 << 32;
    if (r->info.frames < said)
        return 0;
    float *space = larder__scratch_take(s, LARDER__BLOCK_DECODED,
                                        AT_ONCE * sizeof(float) * (size_t)r->info.channels);
    if (!space)
        return LARDER_E_NOMEM;
    sf_count_t all = 0, n = 1;
    for (; n > 0 && all <= longest; all += n > 0 ? n : 0)
        n = sf_readf_float(r->file, space, AT_ONCE);
    if (all > longest)
        return larder__fail(LARDER_E_RANGE, "sound: does not say how long it is, and has no end");
    if (all == 0)
        return larder__fail(LARDER_E_FORMAT, "sound: nothing is in it: %.120s",
                            sf_strerror(r->file));
    memory m = r->memory;
    sf_close(r->file);
    int rc = open_recording(r, m.bytes, (size_t)m.size);
    r->info.frames = all;
    return rc;
}

/* ---- a window of it -------------------------------------------------------------------------- */

typedef struct window {
    int64_t start;    /* in frames of the recording */
    size_t before, n; /* frames wanted in front of it, and in all; some are not there */
    const larder__resampler *rates;
} window;

static int rates_for(larder__scratch *s, uint32_t from, uint32_t to,
                     const larder__resampler **out) {
    larder__resampler *r = s->sound;
    if (!r && !(r = s->sound = larder__calloc(1, sizeof *r)))
        return LARDER_E_NOMEM;
    *out = r;
    if (r->from == from && r->to == to)
        return 0;
    larder__resampler_close(r);
    int rc = larder__resampler_open(r, from, to);
    if (rc < 0)
        larder__resampler_close(r);
    return rc;
}

void larder__sound_close(larder__scratch *s) {
    if (s->sound)
        larder__resampler_close(s->sound);
    larder__free(s->sound);
    s->sound = NULL;
}

static int place_window(const larder__sound *want, larder__scratch *s, const recording *r,
                        double where, window *out) {
    uint32_t rate = (uint32_t)r->info.samplerate;
    double covers = (double)want->frames * rate / want->rate;
    double spare = (double)r->info.frames - covers;
    *out =
        (window){.start = spare > 0 ? (int64_t)floor(where * spare) : 0, .n = (size_t)ceil(covers)};
    if (rate == want->rate)
        return 0;
    int rc = rates_for(s, rate, want->rate, &out->rates);
    if (rc < 0)
        return rc;
    out->before = out->rates->half;
    out->n += 2 * (size_t)out->rates->half + 1;
    return 0;
}

/* Channel c of what is wanted, out of the frames that were read; silence where there are none. */
static void put_channel(const recording *r, const larder__sound *want, const float *frames,
                        size_t first, size_t n, uint32_t c, float *to, size_t all) {
    size_t channels = (size_t)r->info.channels;
    memset(to, 0, all * sizeof *to);
    to += first;
    for (size_t i = 0; i < n; i++, frames += channels) {
        if (channels == 1 || want->channels > 1) {
            to[i] = frames[channels == 1 ? 0 : c];
            continue;
        }
        float sum = 0;
        for (size_t k = 0; k < channels; k++)
            sum += frames[k];
        to[i] = sum / (float)channels;
    }
}

static int read_window(const larder__sound *want, larder__scratch *s, recording *r, const window *w,
                       float *out) {
    size_t channels = (size_t)r->info.channels;
    int64_t from = w->start - (int64_t)w->before, end = from + (int64_t)w->n;
    size_t silent = from < 0 ? (size_t)-from : 0;
    from = from < 0 ? 0 : from;
    end = end < r->info.frames ? end : r->info.frames;
    sf_count_t there = end > from ? end - from : 0;
    float *frames = larder__scratch_take(s, LARDER__BLOCK_DECODED, (w->n + 1) * channels * 4);
    float *line = larder__scratch_take(s, LARDER__BLOCK_REPACKED, (w->n + 1) * 4);
    if (!frames || !line)
        return LARDER_E_NOMEM;
    int rc = there ? go_to(r, from, frames, (sf_count_t)w->n) : 0;
    if (rc < 0)
        return rc;
    if (there && sf_readf_float(r->file, frames, there) != there)
        return larder__fail(LARDER_E_FORMAT, "sound: ends before its end, in frame %lld of %lld",
                            (long long)from, (long long)r->info.frames);
    for (uint32_t c = 0; c < want->channels; c++, out += want->frames) {
        put_channel(r, want, frames, silent, (size_t)there, c, line, w->n);
        if (w->rates)
            larder__resampler_run(w->rates, line, w->before, out, want->frames);
        else
            memcpy(out, line, want->frames * sizeof *out);
    }
    return 0;
}

static int decode_window(const larder__sound *want, larder__scratch *s, const void *bytes,
                         size_t size, double where, float *out) {
    recording r;
    window w;
    int rc = open_recording(&r, bytes, size);
    if (rc == 0 && r.info.channels > 1 && want->channels > 1 &&
        (uint32_t)r.info.channels != want->channels)
        rc = larder__fail(LARDER_E_FORMAT, "sound: %d channels, where %u are wanted",
                          r.info.channels, want->channels);
    if (rc == 0)
        rc = measure(&r, s);
    if (rc == 0)
        rc = place_window(want, s, &r, where, &w);
    if (rc == 0 && w.n * (size_t)r.info.channels > 4 * (size_t)LARDER__SOUND_FRAMES)
        rc = larder__fail(LARDER_E_RANGE, "sound: a window of %zu frames of %d channels", w.n,
                          r.info.channels);
    if (rc == 0)
        rc = read_window(want, s, &r, &w, out);
    close_recording(&r);
    return rc;
}

#else

void larder__sound_close(larder__scratch *s) { (void)s; }

static int decode_window(const larder__sound *want, larder__scratch *s, const void *bytes,
                         size_t size, double where, float *out) {
    (void)want, (void)s, (void)bytes, (void)size, (void)where, (void)out;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build decodes no sound: libsndfile was missing (apt install "
                        "libsndfile1-dev, then build again)");
}

#endif

int larder__sound_window(const larder__sound *want, larder__scratch *s, const void *bytes,
                         size_t size, double where, float *out) {
    larder__elsewhere *e = s->elsewhere;
    return e ? e->sound(e, want, bytes, size, where, out)
             : decode_window(want, s, bytes, size, where, out);
}
