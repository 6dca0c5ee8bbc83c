#include "gpu/gpu_jpeg.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What nvJPEG 12 and later declare. */
typedef struct planes {
    unsigned char *channel[4];
    size_t pitch[4];
} planes;

enum { SUCCESS = 0, BAD_JPEG = 3, OTHER_JPEG = 4, NO_MEMORY = 5, OTHER_CARD = 7 };
enum { GPU_HYBRID = 2, HARDWARE = 3 };
enum { AS_PLANES, AS_RGB, A_PART, FORMATS };           /* what comes out: a part is RGB; */
enum { YUV = 1, RGBI = 5 };                            /* nvJPEG's numbers, */
static const int nvjpegs[FORMATS] = {YUV, RGBI, RGBI}; /* of each */

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
    /* Parts of pictures, by the engine alone; not in every nvJPEG. */
    int (*part)(void *handle, void **out);
    int (*part_end)(void *);
    int (*part_set)(void *part, int x, int y, int w, int h);
    int (*part_supported)(void *handle, void *stream, void *part, int *out);
    int (*decode_parts)(void *handle, void *state, const unsigned char *const *, const size_t *,
                        planes *, void **parts, larder__gpu_stream);
} calls;

struct larder__jpegs {
    larder__gpu *gpu;
    calls call;
    void *handle, *stream;
    void *state[FORMATS]; /* opened when it is first wanted */
    int begun[FORMATS];   /* pictures that it is set up for */
    bool engine, exact;
    bool parts;  /* of a picture only the part is made that is looked at, where it comes as RGB */
    int refused; /* nvJPEG's last answer but SUCCESS */
    /* Of each picture that is decoded at once: */
    const unsigned char *bytes[LARDER__JPEGS_AT_ONCE];
    size_t sizes[LARDER__JPEGS_AT_ONCE];
    planes to[LARDER__JPEGS_AT_ONCE];
    void *part[LARDER__JPEGS_AT_ONCE]; /* nvJPEG's, opened when it is first wanted */
};

int larder__jpegs_library(void **out) {
    const char *names[] = {getenv("LARDER_NVJPEG"), "libnvjpeg.so.13", "libnvjpeg.so.12", NULL};
    return larder__gpu_library(out, names[0] && names[0][0] ? names : names + 1,
                               "CUDA's decoder of JPEGs, nvJPEG,",
                               "the CUDA toolkit, torchvision or the package nvidia-nvjpeg");
}

typedef struct symbol {
    const char *name;
    void *to;
} symbol;

static int find_symbols(void *lib, const symbol *want, size_t n) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = larder__gpu_symbol(lib, want[i].name, want[i].to, "nvJPEG");
    return rc;
}

static int find_calls(calls *c, bool *parts) {
    const symbol all[] = {{"nvjpegCreateEx", &c->create},
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
    const symbol more[] = {{"nvjpegDecodeParamsCreate", &c->part},
                           {"nvjpegDecodeParamsDestroy", &c->part_end},
                           {"nvjpegDecodeParamsSetROI", &c->part_set},
                           {"nvjpegDecodeBatchedSupportedEx", &c->part_supported},
                           {"nvjpegDecodeBatchedEx", &c->decode_parts}};
    void *lib;
    int rc = larder__jpegs_library(&lib);
    rc = rc < 0 ? rc : find_symbols(lib, all, sizeof all / sizeof *all);
    *parts = rc == 0 && find_symbols(lib, more, sizeof more / sizeof *more) == 0;
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
    int rc = find_calls(&j->call, &j->parts);
    rc = rc < 0 ? rc : larder__gpu_enter(gpu);
    if (rc == 0) {
        rc = open_inside(j);
        j->parts &= j->engine;
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
        for (size_t i = 0; i < LARDER__JPEGS_AT_ONCE; i++)
            if (j->part[i])
                j->call.part_end(j->part[i]);
        for (int f = 0; f < FORMATS; f++)
            if (j->state[f])
                j->call.state_end(j->state[f]);
        j->call.destroy(j->handle);
        larder__gpu_leave(j->gpu);
    }
    larder__free(j);
}

bool larder__jpegs_engine(const larder__jpegs *j) { return j->engine; }
int larder__jpegs_refused(const larder__jpegs *j) { return j->refused; }

/* ---- decoding -------------------------------------------------------------------------------- */

enum { GREY, WHOLE, HALF_WIDTH, HALF_BOTH, HALF_HEIGHT }; /* larder__colour of stage/blueprint.h */

/* Parts are of whole blocks of any sampling. */
static int32_t block_at(int32_t x) { return x / 16 * 16; }
static int32_t block_end(int32_t x, int32_t most) {
    return x > most - 16 ? most : block_at(x + 15);
}

/* Colours that are whole the engine turns into the very RGB that libjpeg-turbo has; halved ones it
 * repeats. */
void larder__jpegs_choose(const larder__jpegs *j, larder__jpeg_order *o,
                          const larder__levels_reach *r) {
    larder__levels_picture *p = o->to;
    bool rgb = !j->exact || (j->engine && p->colour == WHOLE);
    o->format = rgb ? AS_RGB : AS_PLANES;
    p->colour = rgb ? LARDER__LEVELS_RGB : p->colour;
    o->w = p->w;
    o->h = p->h;
    if (!rgb || !j->parts || r->x0 >= r->x1 || r->y0 >= r->y1)
        return;
    o->format = A_PART;
    o->x = block_at(r->x0);
    o->y = block_at(r->y0);
    p->w = block_end(r->x1, o->w) - o->x;
    p->h = block_end(r->y1, o->h) - o->y;
    p->left += o->x;
    p->top += o->y;
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

/* Does nvJPEG see the planes that there is room for? */
static bool agrees(larder__jpegs *j, const larder__jpeg_order *o) {
    const larder__levels_picture *p = o->to;
    for (unsigned c = 0; c < (p->cw ? 3 : 1); c++) {
        unsigned w = 0, h = 0;
        if (j->call.sides(j->stream, c, &w, &h) != SUCCESS || w != (unsigned)(c ? p->cw : o->w) ||
            h != (unsigned)(c ? p->ch : o->h))
            return false;
    }
    return true;
}

static bool takes_part(larder__jpegs *j, const larder__jpeg_order *o, void **part) {
    int no = -1, answer = *part ? SUCCESS : j->call.part(j->handle, part);
    if (answer == SUCCESS)
        answer = j->call.part_set(*part, o->x, o->y, o->to->w, o->to->h);
    if (answer == SUCCESS)
        answer = j->call.part_supported(j->handle, j->stream, *part, &no);
    return answer == SUCCESS && no == 0;
}

/* Would the engine take it? Kernels take all that is plain. */
static bool takes(larder__jpegs *j, const larder__jpeg_order *o, void **part) {
    int no = -1;
    if (j->call.parse(j->handle, o->bytes, o->size, j->stream) != SUCCESS || !agrees(j, o))
        return false;
    if (!j->engine || (o->format == A_PART && takes_part(j, o, part)))
        return true;
    bool all = j->call.supported(j->handle, j->stream, &no) == SUCCESS && no == 0;
    j->parts &= !(all && o->format == A_PART); /* it is parts that it has a mind against */
    return all && o->format != A_PART;
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
    void *parts[LARDER__JPEGS_AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        if (o[i].failed || o[i].format != format)
            continue;
        j->bytes[count] = o[i].bytes;
        j->sizes[count] = o[i].size;
        parts[count] = o[i].part;
        put_planes(&j->to[count++], o[i].to);
    }
    if (count == 0)
        return SUCCESS;
    void *state;
    int answer = begin(j, format, count);
    state = j->state[format];
    if (answer == SUCCESS)
        answer = format == A_PART
                     ? j->call.decode_parts(j->handle, state, j->bytes, j->sizes, j->to, parts, s)
                     : j->call.decode(j->handle, state, j->bytes, j->sizes, j->to, s);
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
        j->parts &= answer == BAD_JPEG || answer == OTHER_JPEG || format != A_PART;
        return 0;
    }
    int rc = larder__gpu_wait(j->gpu, s); /* its state is not used twice at once */
    rc = rc < 0 ? rc : decode_halves(j, format, o, n / 2, s);
    rc = rc < 0 ? rc : larder__gpu_wait(j->gpu, s);
    return rc < 0 ? rc : decode_halves(j, format, o + n / 2, n - n / 2, s);
}

int larder__jpegs_decode(larder__jpegs *j, larder__jpeg_order *o, size_t n,
                         larder__gpu_stream stream) {
    assert(n <= LARDER__JPEGS_AT_ONCE);
    int rc = larder__gpu_enter(j->gpu);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        o[i].failed = !takes(j, &o[i], &j->part[i]);
        o[i].part = j->part[i];
    }
    for (int format = 0; rc == 0 && format < FORMATS; format++)
        rc = decode_halves(j, format, o, n, stream);
    larder__gpu_leave(j->gpu);
    return rc;
}
