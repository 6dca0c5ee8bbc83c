#include "gpu/gpu_jpeg.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* What nvJPEG 12 and later declare. */
typedef struct planes {
    unsigned char *channel[4];
    size_t pitch[4];
} planes;

enum { SUCCESS = 0, NO_MEMORY = 5, OTHER_CARD = 7, NOT_HERE = 9 };
enum { GPU_HYBRID = 2, HARDWARE = 3 };
enum { AS_PLANES, AS_RGB, FORMATS };                             /* what comes out, */
static const int nvjpegs[FORMATS] = {1 /* YUV */, 5 /* RGBI */}; /* and nvJPEG's number for it */

typedef struct calls {
    int (*create)(int backend, void *, void *, unsigned flags, void **out);
    int (*destroy)(void *);
    int (*state)(void *handle, void **out);
    int (*state_end)(void *);
    int (*stream)(void *handle, void **out);
    int (*stream_end)(void *);
    int (*parse)(void *handle, const unsigned char *, size_t, void *stream);
    int (*sides)(void *stream, unsigned component, unsigned *w, unsigned *h);
    int (*supported)(void *handle, void *stream, int *out);
    int (*begin)(void *handle, void *state, int n, int threads, int format);
    int (*decode)(void *handle, void *state, const unsigned char *const *, const size_t *, planes *,
                  larder__gpu_stream);
} calls;

struct larder__jpegs {
    larder__gpu *gpu;
    calls call;
    void *handle, *stream;
    void *state[FORMATS]; /* opened when it is first wanted */
    int begun[FORMATS];   /* pictures that it is set up for */
    bool engine, exact;
    int refused; /* nvJPEG's last answer but SUCCESS */
    const unsigned char **bytes;
    size_t *sizes, most;
    planes *to;
};

int larder__jpegs_library(void **out) {
    const char *names[] = {getenv("LARDER_NVJPEG"), "libnvjpeg.so.13", "libnvjpeg.so.12", NULL};
    return larder__gpu_library(out, names[0] && names[0][0] ? names : names + 1,
                               "CUDA's decoder of JPEGs, nvJPEG,",
                               "the CUDA toolkit, torchvision or the package nvidia-nvjpeg");
}

static int find_calls(calls *c) {
    static const char what[] = "nvJPEG";
    const struct {
        const char *name;
        void *to;
    } want[] = {{"nvjpegCreateEx", &c->create},
                {"nvjpegDestroy", &c->destroy},
                {"nvjpegJpegStateCreate", &c->state},
                {"nvjpegJpegStateDestroy", &c->state_end},
                {"nvjpegJpegStreamCreate", &c->stream},
                {"nvjpegJpegStreamDestroy", &c->stream_end},
                {"nvjpegJpegStreamParseHeader", &c->parse},
                {"nvjpegJpegStreamGetComponentDimensions", &c->sides},
                {"nvjpegDecodeBatchedSupported", &c->supported},
                {"nvjpegDecodeBatchedInitialize", &c->begin},
                {"nvjpegDecodeBatched", &c->decode}};
    void *lib;
    int rc = larder__jpegs_library(&lib);
    for (size_t i = 0; rc == 0 && i < sizeof want / sizeof *want; i++)
        rc = larder__gpu_symbol(lib, want[i].name, want[i].to, what);
    return rc;
}

static int say(const larder__jpegs *j, int answer, const char *what) {
    if (answer == SUCCESS)
        return 0;
    return larder__fail(
        answer == NO_MEMORY ? LARDER_E_NOMEM : LARDER_E_IO,
        "nvJPEG on %s cannot %s: %s (its code %d)", larder__gpu_about_it(j->gpu)->name, what,
        answer == NO_MEMORY ? "the GPU has too little memory" : "it says no more", answer);
}

/* In the device's context. */
static int open_handle(larder__jpegs *j) {
    const char *kernels = getenv("LARDER_NVJPEG_KERNELS");
    int answer = OTHER_CARD;
    if (!kernels || !kernels[0])
        answer = j->call.create(HARDWARE, NULL, NULL, 0, &j->handle);
    j->engine = answer == SUCCESS;
    return j->engine ? answer : j->call.create(GPU_HYBRID, NULL, NULL, 0, &j->handle);
}

static int open_inside(larder__jpegs *j) {
    int answer = open_handle(j);
    int rc = say(j, answer, "be opened");
    return rc < 0 ? rc : say(j, j->call.stream(j->handle, &j->stream), "be opened");
}

int larder__jpegs_open(larder__jpegs **out, larder__gpu *gpu, bool exact) {
    larder__jpegs *j = *out = larder__calloc(1, sizeof *j);
    if (!j)
        return LARDER_E_NOMEM;
    j->gpu = gpu;
    j->exact = exact;
    int rc = find_calls(&j->call);
    rc = rc < 0 ? rc : larder__gpu_enter(gpu);
    if (rc == 0) {
        rc = open_inside(j);
        larder__gpu_leave(gpu);
    }
    if (rc < 0)
        larder__jpegs_close(out);
    return rc;
}

void larder__jpegs_close(larder__jpegs **pj) {
    larder__jpegs *j = *pj;
    *pj = NULL;
    if (!j)
        return;
    if (j->handle && larder__gpu_enter(j->gpu) == 0) {
        if (j->stream)
            j->call.stream_end(j->stream);
        for (int f = 0; f < FORMATS; f++)
            if (j->state[f])
                j->call.state_end(j->state[f]);
        j->call.destroy(j->handle);
        larder__gpu_leave(j->gpu);
    }
    larder__free(j->bytes);
    larder__free(j->sizes);
    larder__free(j->to);
    larder__free(j);
}

bool larder__jpegs_engine(const larder__jpegs *j) { return j->engine; }
int larder__jpegs_refused(const larder__jpegs *j) { return j->refused; }

/* ---- decoding -------------------------------------------------------------------------------- */

enum { GREY, WHOLE, HALF_WIDTH, HALF_BOTH, HALF_HEIGHT }; /* larder__colour of stage/blueprint.h */

/* Colours that are whole the engine turns into the very RGB that libjpeg-turbo has; halved ones it
 * repeats. */
void larder__jpegs_choose(const larder__jpegs *j, larder__levels_picture *p) {
    if (!j->exact || (j->engine && p->colour == WHOLE))
        p->colour = LARDER__LEVELS_RGB;
}

static int format_of(const larder__levels_picture *p) {
    return p->colour == LARDER__LEVELS_RGB ? AS_RGB : AS_PLANES;
}

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Planes reach to whole blocks, so that a decoder that writes those has room for them. */
size_t larder__jpeg_planes(larder__levels_picture *p, larder__gpu_ptr at) {
    enum { BLOCK = 32, LINE = 64 };
    bool wide = p->colour == HALF_WIDTH || p->colour == HALF_BOTH;
    bool high = p->colour == HALF_HEIGHT || p->colour == HALF_BOTH;
    bool alone = p->colour == GREY || p->colour == LARDER__LEVELS_RGB;
    size_t bytes = 0, pixel = p->colour == LARDER__LEVELS_RGB ? 3 : 1;
    p->cw = alone ? 0 : wide ? (p->w + 1) / 2 : p->w;
    p->ch = alone ? 0 : high ? (p->h + 1) / 2 : p->h;
    for (int i = 0; i < (alone ? 1 : 3); i++) {
        size_t pitch = round_up((size_t)(i ? p->cw : p->w) * pixel, LINE);
        p->pitch[i] = (int32_t)pitch;
        p->plane[i] = at ? at + bytes : 0;
        bytes += pitch * round_up((size_t)(i ? p->ch : p->h), BLOCK);
    }
    return round_up(bytes, 256);
}

static int grow(larder__jpegs *j, size_t n) {
    if (n <= j->most)
        return 0;
    larder__free(j->bytes);
    larder__free(j->sizes);
    larder__free(j->to);
    j->bytes = larder__calloc(n, sizeof *j->bytes);
    j->sizes = larder__calloc(n, sizeof *j->sizes);
    j->to = larder__calloc(n, sizeof *j->to);
    j->most = j->bytes && j->sizes && j->to ? n : 0;
    return j->most ? 0 : LARDER_E_NOMEM;
}

/* Does nvJPEG see the planes that there is room for? */
static bool agrees(larder__jpegs *j, const larder__levels_picture *p) {
    for (unsigned c = 0; c < (p->cw ? 3 : 1); c++) {
        unsigned w = 0, h = 0;
        if (j->call.sides(j->stream, c, &w, &h) != SUCCESS || w != (unsigned)(c ? p->cw : p->w) ||
            h != (unsigned)(c ? p->ch : p->h))
            return false;
    }
    return true;
}

/* Would the engine take it? Kernels take all that is plain. */
static bool takes(larder__jpegs *j, const larder__jpeg_order *o) {
    int not_supported = -1;
    if (j->call.parse(j->handle, o->bytes, o->size, j->stream) != SUCCESS || !agrees(j, o->to))
        return false;
    if (!j->engine)
        return true;
    return j->call.supported(j->handle, j->stream, &not_supported) == SUCCESS && not_supported == 0;
}

static void put_planes(planes *to, const larder__levels_picture *p) {
    *to = (planes){{0}, {0}};
    for (int c = 0; c < 3; c++) {
        memcpy(&to->channel[c], &p->plane[c], sizeof to->channel[c]);
        to->pitch[c] = (size_t)p->pitch[c];
    }
}

/* nvJPEG's answer. */
static int begin(larder__jpegs *j, int format, int count) {
    int answer = j->state[format] ? SUCCESS : j->call.state(j->handle, &j->state[format]);
    if (answer != SUCCESS || j->begun[format] == count)
        return answer;
    return j->call.begin(j->handle, j->state[format], count, 1, nvjpegs[format]);
}

/* Those of one format among some orders in a row, the failed ones left out; nvJPEG's answer. */
static int decode_some(larder__jpegs *j, int format, larder__jpeg_order *o, size_t n,
                       larder__gpu_stream s) {
    int count = 0;
    for (size_t i = 0; i < n; i++) {
        if (o[i].failed || format_of(o[i].to) != format)
            continue;
        j->bytes[count] = o[i].bytes;
        j->sizes[count] = o[i].size;
        put_planes(&j->to[count++], o[i].to);
    }
    if (count == 0)
        return SUCCESS;
    int answer = begin(j, format, count);
    if (answer == SUCCESS)
        answer = j->call.decode(j->handle, j->state[format], j->bytes, j->sizes, j->to, s);
    j->begun[format] = answer == SUCCESS ? count : 0;
    j->refused = answer == SUCCESS ? j->refused : answer;
    return answer;
}

/* One that nvJPEG refuses spoils all it came with: they are tried again, by halves. */
static int decode_halves(larder__jpegs *j, int format, larder__jpeg_order *o, size_t n,
                         larder__gpu_stream s) {
    int answer = decode_some(j, format, o, n, s);
    if (answer == SUCCESS)
        return 0;
    if (answer == NO_MEMORY)
        return say(j, answer, "decode pictures");
    if (n == 1) {
        o->failed = true;
        return 0;
    }
    int rc = larder__gpu_wait(j->gpu, s); /* its state is not used twice at once */
    rc = rc < 0 ? rc : decode_halves(j, format, o, n / 2, s);
    rc = rc < 0 ? rc : larder__gpu_wait(j->gpu, s);
    return rc < 0 ? rc : decode_halves(j, format, o + n / 2, n - n / 2, s);
}

int larder__jpegs_decode(larder__jpegs *j, larder__jpeg_order *o, size_t n,
                         larder__gpu_stream stream) {
    int rc = grow(j, n);
    rc = rc < 0 ? rc : larder__gpu_enter(j->gpu);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        o[i].failed = !takes(j, &o[i]);
    for (int format = 0; rc == 0 && format < FORMATS; format++)
        rc = decode_halves(j, format, o, n, stream);
    larder__gpu_leave(j->gpu);
    return rc;
}
