/* Sounds: the change of rates against closed forms and a slow twin; windows of recordings against
 * the whole of them; and files that are damaged. */
#include "check.h"
#include "stage/sound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if LARDER_HAVE_SNDFILE
#include <sndfile.h>
#endif

#define PI 3.14159265358979323846

/* libsndfile 1.2 loses what libvorbis made for an OGG file that it refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libvorbis"; }

static const uint32_t pairs[][2] = {{44100, 16000}, {48000, 16000}, {16000, 44100}, {8000, 16000},
                                    {22050, 16000}, {44100, 48000}, {96000, 8000},  {11025, 16000}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* ---- rates ----------------------------------------------------------------------------------- */

/* n samples of the output, of an input that is f(t in seconds) for all times. */
static void resampled(const larder__resampler *r, double hz, float *out, size_t n) {
    size_t all = (size_t)ceil((double)n * r->from / r->to) + 2 * r->half + 2;
    float *in = malloc(all * sizeof *in);
    assert_non_null(in);
    for (size_t i = 0; i < all; i++)
        in[i] = (float)sin(2 * PI * hz * ((double)i - r->half) / r->from + 0.3);
    larder__resampler_run(r, in, r->half, out, n);
    free(in);
}

static void sines_stay_sines(void **state) {
    (void)state;
    enum { N = 700 };
    static float out[N];
    for (size_t p = 0; p < PAIRS; p++) {
        uint32_t from = pairs[p][0], to = pairs[p][1], low = from < to ? from : to;
        larder__resampler r;
        check_ok(larder__resampler_open(&r, from, to));
        for (int k = 0; k <= 9; k++) {
            double hz = 0.1 * k * 0.8 * low / 2 + 3, worst = 0;
            hz = hz < 0.8 * low / 2 ? hz : 0.8 * low / 2;
            resampled(&r, hz, out, N);
            for (size_t i = 0; i < N; i++)
                worst = fmax(worst, fabs(out[i] - sin(2 * PI * hz * (double)i / to + 0.3)));
            if (worst > 1e-3)
                fail_msg("%u to %u: %g Hz is off by %g", from, to, hz, worst);
        }
        for (double hz = 1.0 * to / 2; from > to && hz < from / 2.0; hz *= 1.1) {
            double worst = 0;
            resampled(&r, hz, out, N);
            for (size_t i = 0; i < N; i++)
                worst = fmax(worst, fabs(out[i]));
            if (worst > 1e-3)
                fail_msg("%u to %u: of %g Hz there is %g left", from, to, hz, worst);
        }
        larder__resampler_close(&r);
    }
}

/* The sum as it is written down, in doubles, with a window and a sinc of its own. */
static double slow_bessel(double x) {
    double sum = 0, factorial = 1;
    for (int k = 0; k < 50; k++) {
        factorial *= k ? k : 1;
        sum += pow(pow(x / 2, k) / factorial, 2);
    }
    return sum;
}

static double slow_sample(const float *in, size_t n, double at, uint32_t from, uint32_t to) {
    double shrink = from > to ? (double)from / to : 1, cut = 0.91 / shrink;
    double half = ceil(32 * shrink / 0.91) + 1, sum = 0, weights = 0;
    for (size_t i = 0; i < n; i++) {
        double t = (double)i - at, r = t / half;
        if (fabs(r) >= 1)
            continue;
        double w =
            (t == 0 ? 1 : sin(PI * cut * t) / (PI * cut * t)) * slow_bessel(9 * sqrt(1 - r * r));
        sum += w * (double)in[i];
        weights += w;
    }
    return sum / weights;
}

static void as_the_slow_twin(void **state) {
    (void)state;
    enum { N = 60, IN = 2000 };
    static float in[IN], out[N];
    larder_rng rng;
    larder_rng_seed(&rng, 11, 0);
    for (size_t i = 0; i < IN; i++)
        in[i] = (float)larder_rng_unit(&rng) * 2 - 1;
    for (size_t p = 0; p < PAIRS; p++) {
        larder__resampler r;
        check_ok(larder__resampler_open(&r, pairs[p][0], pairs[p][1]));
        larder__resampler_run(&r, in, r.half, out, N);
        for (size_t i = 0; i < N; i++) {
            double at = r.half + (double)i * pairs[p][0] / pairs[p][1];
            double want = slow_sample(in, IN, at, pairs[p][0], pairs[p][1]);
            if (fabs(out[i] - want) > 2e-5)
                fail_msg("%u to %u: sample %zu is %g, not %g", pairs[p][0], pairs[p][1], i,
                         (double)out[i], want);
        }
        larder__resampler_close(&r);
    }
    larder__resampler odd;
    assert_int_equal(larder__resampler_open(&odd, 999983, 999979), LARDER_E_UNSUPPORTED);
    larder__resampler_close(&odd);
}

/* ---- recordings ------------------------------------------------------------------------------ */

#if LARDER_HAVE_SNDFILE

typedef struct file {
    unsigned char *bytes;
    size_t size, at, cap;
} file;

static sf_count_t f_len(void *a) { return (sf_count_t)((file *)a)->size; }
static sf_count_t f_tell(void *a) { return (sf_count_t)((file *)a)->at; }
static sf_count_t f_seek(sf_count_t to, int how, void *a) {
    file *f = a;
    f->at = (size_t)(how == SEEK_SET   ? to
                     : how == SEEK_CUR ? (sf_count_t)f->at + to
                                       : (sf_count_t)f->size + to);
    return (sf_count_t)f->at;
}
static sf_count_t f_read(void *to, sf_count_t n, void *a) {
    file *f = a;
    size_t k = (size_t)n < f->size - f->at ? (size_t)n : f->size - f->at;
    memcpy(to, f->bytes + f->at, k);
    f->at += k;
    return (sf_count_t)k;
}
static sf_count_t f_write(const void *from, sf_count_t n, void *a) {
    file *f = a;
    while (f->at + (size_t)n > f->cap)
        f->bytes = realloc(f->bytes, f->cap = f->cap * 2 + 65536);
    memcpy(f->bytes + f->at, from, (size_t)n);
    f->at += (size_t)n;
    f->size = f->at > f->size ? f->at : f->size;
    return n;
}

/* Channel c at frame i. */
static float level(size_t i, int c) {
    return (float)(0.5 * sin(0.02 * (double)i * (c + 1)) + 0.2 * sin(0.3 * (double)i));
}

static file made(int format, int rate, int channels, size_t frames) {
    SF_VIRTUAL_IO io = {f_len, f_seek, f_read, f_write, f_tell};
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    file f = {0};
    SNDFILE *s = sf_open_virtual(&io, SFM_WRITE, &info, &f);
    if (!s)
        fail_msg("%s", sf_strerror(NULL));
    float *all = malloc(frames * (size_t)channels * sizeof *all);
    for (size_t i = 0; i < frames; i++)
        for (int c = 0; c < channels; c++)
            all[i * (size_t)channels + (size_t)c] = level(i, c);
    assert_int_equal(sf_writef_float(s, all, (sf_count_t)frames), frames);
    sf_close(s);
    free(all);
    return f;
}

static int windowed(const file *f, larder__sound want, double where, float *out) {
    larder__scratch *s = NULL;
    check_ok(larder__scratch_open(&s));
    int rc = larder__sound_window(&want, s, f->bytes, f->size, where, out);
    larder__scratch_close(&s);
    return rc;
}

static void as_recorded(void **state) {
    (void)state;
    enum { N = 3000 };
    static float out[2 * N];
    static const struct {
        int format;
        double off;
    } kinds[] = {{SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1e-4},
                 {SF_FORMAT_WAV | SF_FORMAT_FLOAT, 0},
                 {SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 1e-6},
                 {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0.1}};
    for (size_t k = 0; k < 4; k++)
        for (int channels = 1; channels <= 2; channels++) {
            file f = made(kinds[k].format, 16000, channels, 10000);
            for (uint32_t want = 1; want <= 2; want++) {
                check_ok(windowed(&f, (larder__sound){16000, want, N}, 0.25, out));
                for (size_t i = 0; i < N; i++)
                    for (uint32_t c = 0; c < want; c++) {
                        size_t at = 1750 + i; /* a quarter of the 7000 that are to spare */
                        float a = level(at, 0), b = level(at, 1);
                        float right = channels == 1 ? a : want == 1 ? (a + b) / 2 : c ? b : a;
                        if (fabs(out[c * N + i] - right) > kinds[k].off)
                            fail_msg("format %zu, %d channels as %u: frame %zu is %g, not %g", k,
                                     channels, want, i, (double)out[c * N + i], (double)right);
                    }
            }
            free(f.bytes);
        }
}

/* A window, resampled, is a part of the whole, resampled; what is not there is silence. */
static void windows_are_parts(void **state) {
    (void)state;
    enum { FRAMES = 6000 };
    static float whole[FRAMES * 2], part[FRAMES];
    for (size_t p = 0; p < PAIRS; p++) {
        uint32_t from = pairs[p][0], to = pairs[p][1];
        file f = made(SF_FORMAT_WAV | SF_FORMAT_FLOAT, (int)from, 1, FRAMES);
        uint32_t all = (uint32_t)((uint64_t)FRAMES * to / from), n = all / 4;
        if (all > FRAMES * 2)
            all = FRAMES * 2;
        check_ok(windowed(&f, (larder__sound){to, 1, all}, 0, whole));
        double spare = FRAMES - (double)n * from / to;
        for (int k = 0; k <= 4; k++) {
            /* Only starts that lie on a sample of the output can be compared. */
            uint64_t start = (uint64_t)floor(k * spare / 4), at = start * to / from;
            check_ok(windowed(&f, (larder__sound){to, 1, n}, k / 4.0, part));
            if (start * to % from)
                continue;
            for (size_t i = 0; i < n && at + i < all; i++)
                if (fabs(part[i] - whole[at + i]) > 1e-6)
                    fail_msg("%u to %u, %d/4: sample %zu differs", from, to, k, i);
        }
        free(f.bytes);
    }
    file f = made(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 8000, 1, 100);
    check_ok(windowed(&f, (larder__sound){16000, 1, 1000}, 0.7, part));
    for (size_t i = 200 + 80; i < 1000; i++)
        assert_true(part[i] == 0);
    assert_true(fabs(part[100] - level(50, 0)) < 0.01);
    free(f.bytes);
}

/* As ffmpeg writes a FLAC into a pipe: 36 bits of its head, how many samples there are, stay 0. */
static void streamed(void **state) {
    (void)state;
    enum { N = 3000, COUNT = 21 };
    static float out[2 * N], right[2 * N];
    for (int channels = 1; channels <= 2; channels++) {
        file f = made(SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 16000, channels, 50000);
        file unsaid = {malloc(f.size), f.size, 0, f.size};
        memcpy(unsaid.bytes, f.bytes, f.size);
        unsaid.bytes[COUNT] &= 0xf0;
        memset(unsaid.bytes + COUNT + 1, 0, 4);
        for (uint32_t rate = 8000; rate <= 16000; rate += 8000)
            for (int k = 0; k <= 4; k++) {
                larder__sound want = {rate, (uint32_t)channels, N};
                check_ok(windowed(&f, want, k / 4.0, right));
                check_ok(windowed(&unsaid, want, k / 4.0, out));
                assert_memory_equal(out, right, (size_t)channels * N * sizeof *out);
            }
        free(f.bytes);
        free(unsaid.bytes);
    }
    static const unsigned char head[] = {'f', 'L',  'a', 'C',  0, 0, 0,    0x22, 0x10, 0, 0x10,
                                         0,   0xbd, 2,   0x2b, 0, 2, 0x2b, 3,    0,    0, 0xf0,
                                         0,   0,    0,   0,    0, 0, 0,    0,    0,    0, 0,
                                         0,   0,    0,   0,    0, 0, 8,    0xd9, 0x5b};
    unsigned char copy[sizeof head];
    memcpy(copy, head, sizeof head);
    assert_int_equal(
        windowed(&(file){copy, sizeof copy, 0, 0}, (larder__sound){16000, 2, N}, 1, out),
        LARDER_E_FORMAT); /* nothing but a head */
    assert_non_null(strstr(larder_errmsg(), "nothing is in it"));
}

static void damaged_files(void **state) {
    (void)state;
    static float out[8000];
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                  SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_OGG | SF_FORMAT_VORBIS};
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (size_t k = 0; k < 3; k++) {
        file f = made(formats[k], 16000, 1, 8000);
        size_t size = f.size;
        for (f.size = 0; f.size < size; f.size += size / 40 + 1) {
            int rc = windowed(&f, (larder__sound){16000, 1, 8000}, 0, out);
            if (f.size < 44)
                assert_int_equal(rc, LARDER_E_FORMAT);
            if (rc < 0)
                assert_non_null(strstr(larder_errmsg(), "sound: "));
        }
        f.size = size;
        for (int i = 0; i < 60; i++) {
            size_t at = larder_rng_below(&rng, (uint32_t)(i % 2 ? size : 64));
            unsigned char bit = (unsigned char)(1u << larder_rng_below(&rng, 8));
            f.bytes[at] ^= bit;
            windowed(&f, (larder__sound){8000, 1, 4000}, 0.5, out);
            f.bytes[at] ^= bit;
        }
        free(f.bytes);
    }
    file three = made(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 3, 100);
    assert_int_equal(windowed(&three, (larder__sound){16000, 2, 50}, 0, out), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "3 channels, where 2 are wanted"));
    free(three.bytes);
}

#else

static void as_recorded(void **state) {
    (void)state;
    float out[4];
    larder__scratch *s = NULL;
    check_ok(larder__scratch_open(&s));
    assert_int_equal(larder__sound_window(&(larder__sound){8000, 1, 4}, s, "", 0, 0, out),
                     LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "apt install libsndfile1-dev"));
    larder__scratch_close(&s);
}
static void windows_are_parts(void **state) { (void)state; }
static void streamed(void **state) { (void)state; }
static void damaged_files(void **state) { (void)state; }

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sines_stay_sines), cmocka_unit_test(as_the_slow_twin),
        cmocka_unit_test(as_recorded),      cmocka_unit_test(windows_are_parts),
        cmocka_unit_test(streamed),         cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
