#include "stage/splice.h"

#include "base/err.h"

enum { FILLER_MAX = 1 << 18, FILLERS_MAX = 64 << 20, SOI_JFIF = 20, COMPONENTS = 4 };

/* ---- the JPEG's own head --------------------------------------------------------------------- */

typedef struct code { /* of one Huffman symbol */
    uint32_t bits;
    int length; /* 0: there is none */
} code;

typedef struct frame { /* what the head says, as far as it matters here */
    size_t sof;        /* where the frame header's sides stand; 0: no frame yet */
    uint32_t restart;
    int components, in_scan;
    uint8_t id[COMPONENTS], blocks[COMPONENTS]; /* of each component: blocks of an MCU */
    code dc[4], ac[4];                          /* "no change" and "nothing more", by table */
    int dc_of[COMPONENTS], ac_of[COMPONENTS];   /* tables of the scan's components */
    uint8_t scan_blocks[COMPONENTS];
} frame;

static int wrong(const char *what) {
    return larder__fail(LARDER_E_FORMAT, "part: the JPEG's head %s", what);
}

static int read_frame(frame *f, const unsigned char *at, size_t n, size_t where) {
    if (f->sof || n < 6 || at[0] != 8)
        return wrong("has no frame of 8 bits");
    f->components = at[5];
    if (f->components < 1 || f->components > COMPONENTS || n != 6 + (size_t)f->components * 3)
        return wrong("has a malformed frame");
    for (int i = 0; i < f->components; i++) {
        const unsigned char *c = at + 6 + i * 3;
        int h = c[1] >> 4, v = c[1] & 15;
        if (h < 1 || h > 4 || v < 1 || v > 4)
            return wrong("has a malformed frame");
        f->id[i] = c[0];
        f->blocks[i] = (uint8_t)(h * v);
    }
    f->sof = where + 1;
    return 0;
}

/* Codes are counted up in order of their length; symbol 0 is the one that is wanted. */
static int read_codes(frame *f, const unsigned char *at, size_t n) {
    while (n > 0) {
        size_t values = 0;
        if (n < 17 || at[0] & 0xec)
            return wrong("has a malformed Huffman table");
        code *to = at[0] & 16 ? &f->ac[at[0] & 3] : &f->dc[at[0] & 3];
        *to = (code){0};
        for (int i = 1; i <= 16; i++)
            values += at[i];
        if (values > 256 || n < 17 + values)
            return wrong("has a malformed Huffman table");
        const unsigned char *symbol = at + 17;
        uint32_t bits = 0;
        for (int length = 1; length <= 16; length++, bits <<= 1)
            for (int k = 0; k < at[length]; k++, bits++)
                if (*symbol++ == 0 && to->length == 0 && bits < 1u << length)
                    *to = (code){bits, length};
        at += 17 + values;
        n -= 17 + values;
    }
    return 0;
}

static int read_scan(frame *f, const unsigned char *at, size_t n) {
    f->in_scan = n ? at[0] : 0;
    if (!f->sof || f->in_scan != f->components || n != 4 + (size_t)f->in_scan * 2)
        return wrong("has no scan of all components");
    for (int i = 0; i < f->in_scan; i++) {
        const unsigned char *c = at + 1 + i * 2;
        if (c[0] != f->id[i] || c[1] >> 4 > 3 || (c[1] & 15) > 3)
            return wrong("has a malformed scan");
        f->dc_of[i] = c[1] >> 4;
        f->ac_of[i] = c[1] & 15;
        f->scan_blocks[i] = f->in_scan == 1 ? 1 : f->blocks[i];
    }
    return 0;
}

/* Tables, frame, restart interval, scan; nothing behind the scan's header. */
static int read_head(frame *f, const unsigned char *head, size_t size) {
    *f = (frame){0};
    for (size_t at = 0; at + 4 <= size;) {
        size_t n = (size_t)(head[at + 2] << 8 | head[at + 3]);
        int marker = head[at] == 0xff ? head[at + 1] : 0, rc = 0;
        if (n < 2 || n > size - at - 2)
            break;
        const unsigned char *data = head + at + 4;
        if (marker == 0xc0 || marker == 0xc1)
            rc = read_frame(f, data, n - 2, at + 4);
        else if (marker == 0xc4)
            rc = read_codes(f, data, n - 2);
        else if (marker == 0xdd && n == 4)
            f->restart = (uint32_t)(data[0] << 8 | data[1]);
        else if (marker == 0xda)
            return at + 2 + n == size ? read_scan(f, data, n - 2) : wrong("goes on after its scan");
        else if (marker != 0xdb && (marker < 0xe0 || marker > 0xef) && marker != 0xfe)
            return wrong("has a marker that does not belong there");
        if (rc < 0)
            return rc;
        at += n + 2;
    }
    return wrong("is cut short");
}

/* ---- a segment of flat colour ---------------------------------------------------------------- */

typedef struct bits {
    unsigned char *to; /* NULL: only counted */
    size_t size;
    uint32_t held;
    int count;
} bits;

static void put_byte(bits *b, unsigned char byte) {
    if (b->to)
        b->to[b->size] = byte;
    b->size++;
    if (byte != 0xff)
        return;
    if (b->to)
        b->to[b->size] = 0; /* so that it does not look like a marker */
    b->size++;
}

static void put(bits *b, code c) {
    b->held = b->held << c.length | c.bits;
    for (b->count += c.length; b->count >= 8; b->count -= 8)
        put_byte(b, (unsigned char)(b->held >> (b->count - 8)));
}

/* `step` MCUs without any change of colour, filled up with ones; the marker's two bytes follow. */
static size_t make_filler(const frame *f, uint32_t step, unsigned char *to) {
    bits b = {.to = to};
    for (uint32_t m = 0; m < step && b.size < FILLER_MAX; m++)
        for (int c = 0; c < f->in_scan; c++)
            for (int k = 0; k < f->scan_blocks[c]; k++) {
                put(&b, f->dc[f->dc_of[c]]);
                put(&b, f->ac[f->ac_of[c]]);
            }
    if (b.count)
        put(&b, (code){(1u << (8 - b.count)) - 1, 8 - b.count});
    return b.size + 2;
}

static bool has_fillers(const frame *f) {
    for (int c = 0; c < f->in_scan; c++)
        if (!f->dc[f->dc_of[c]].length || !f->ac[f->ac_of[c]].length)
            return false;
    return true;
}

/* ---- which segments -------------------------------------------------------------------------- */

static uint32_t divided_up(uint32_t n, uint32_t by) { return (n + by - 1) / by; }
static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t common(uint32_t a, uint32_t b) { return b ? common(b, a % b) : a; }

/* Segments that end with a row make lines of whole segments, and columns to the left and right are
 * left out. Otherwise all columns are kept, from a row on that begins with a segment. */
static void choose(larder__splice *s, const larder_rect *r) {
    const larder__grid *g = &s->part.about.grid;
    const uint32_t across = larder__grid_across(g), step = g->step;
    const uint32_t y1 = divided_up(r->y1, g->mcu_h);
    uint32_t y0 = r->y0 / g->mcu_h;
    if (across % step == 0) {
        uint32_t x0 = r->x0 / g->mcu_w / step;
        uint32_t x1 = divided_up(divided_up(r->x1, g->mcu_w), step);
        s->stride = across / step;
        s->first = y0 * s->stride + x0;
        s->per_line = x1 - x0;
        s->lines = y1 - y0;
        s->x = x0 * step * g->mcu_w;
        s->w = smaller(x1 * step * g->mcu_w, g->w) - s->x;
    } else {
        uint32_t every = step / common(step, across); /* rows that begin with a segment */
        y0 -= y0 % every;
        s->first = y0 * across / step;
        s->per_line = divided_up(y1 * across, step) - s->first;
        s->lines = 1;
        s->stride = 0;
        s->x = 0;
        s->w = g->w;
    }
    s->y = y0 * g->mcu_h;
    s->h = smaller(y1 * g->mcu_h, g->h) - s->y;
}

/* Is every segment under the rectangle there? */
static bool is_covered(const larder__splice *s, const larder_rect *r) {
    const larder__grid *g = &s->part.about.grid;
    const uint32_t across = larder__grid_across(g), x0 = r->x0 / g->mcu_w;
    const uint32_t x1 = divided_up(r->x1, g->mcu_w), y1 = divided_up(r->y1, g->mcu_h);
    uint32_t k = 0;
    for (uint32_t y = r->y0 / g->mcu_h; y < y1; y++) {
        uint32_t from = (y * across + x0) / g->step, last = (y * across + x1 - 1) / g->step;
        larder__segment_run run = {0};
        for (; k < s->part.about.runs; k++) {
            run = larder__part_run(&s->part, k);
            if (run.first + run.count > from)
                break;
        }
        if (k == s->part.about.runs || run.first > from || run.first + run.count <= last)
            return false;
    }
    return true;
}

int larder__splice_plan(larder__splice *s, const void *bytes, size_t size, larder_rect want,
                        uint32_t margin) {
    frame f = {0};
    int rc = larder__part_parse(&s->part, bytes, size);
    if (rc == 0)
        rc = read_head(&f, s->part.head, s->part.about.head);
    if (rc != 0)
        return rc;
    const larder__grid *g = &s->part.about.grid;
    if (f.restart != g->step)
        return wrong("has another restart interval than its index says");
    if (!has_fillers(&f))
        return wrong("lacks the codes of a flat block");
    if (want.x0 >= want.x1 || want.y0 >= want.y1 || want.x1 > g->w || want.y1 > g->h)
        return larder__fail(LARDER_E_RANGE, "part: pixels outside the picture are wanted");
    if (!is_covered(s, &want))
        return larder__fail(LARDER_E_FORMAT, "part: does not hold what is wanted of it");
    larder_rect wide = larder__grid_widen(g, want, margin);
    choose(s, &wide);
    s->filler = (uint32_t)make_filler(&f, g->step, NULL);
    if (s->filler > FILLER_MAX)
        return larder__fail(LARDER_E_FORMAT, "part: segments of %u blocks", g->step);
    uint64_t fillers = (uint64_t)s->lines * s->per_line * s->filler;
    /* All that is there, and at worst as many fillers as segments. */
    if (fillers > FILLERS_MAX)
        return larder__fail(LARDER_E_RANGE, "part: a picture of too many segments");
    s->size = SOI_JFIF + s->part.about.head + s->part.data_size + (size_t)fillers + s->filler;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const unsigned char start_jfif[SOI_JFIF] = {
    0xff, 0xd8, 0xff, 0xe0, 0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};

static unsigned char *write_head(const larder__splice *s, const frame *f, unsigned char *to) {
    size_t start = s->part.about.jfif ? SOI_JFIF : 2;
    memcpy(to, start_jfif, start);
    to += start;
    memcpy(to, s->part.head, s->part.about.head);
    to[f->sof] = (unsigned char)(s->h >> 8);
    to[f->sof + 1] = (unsigned char)(s->h & 255);
    to[f->sof + 2] = (unsigned char)(s->w >> 8);
    to[f->sof + 3] = (unsigned char)(s->w & 255);
    return to + s->part.about.head;
}

typedef struct cursor { /* on the segments that are there */
    uint32_t run, segment;
    larder__segment_run now;
    const unsigned char *at; /* the bytes of `segment` */
} cursor;

/* Moves on to segment n (never back): its bytes, or NULL when it is not there. */
static const unsigned char *seek(const larder__splice *s, cursor *c, uint32_t n) {
    for (;; c->segment++) {
        while (c->segment == c->now.first + c->now.count) {
            if (++c->run >= s->part.about.runs)
                return NULL;
            c->now = larder__part_run(&s->part, c->run);
            c->segment = c->now.first;
        }
        if (n < c->segment)
            return NULL;
        if (n == c->segment)
            return c->at;
        c->at += larder__part_length(&s->part, c->segment);
    }
}

int64_t larder__splice_write(const larder__splice *s, unsigned char *out) {
    frame f;
    int rc = read_head(&f, s->part.head, s->part.about.head);
    if (rc < 0)
        return rc;
    unsigned char *to = write_head(s, &f, out);
    /* One filler is made behind the end of what can be written, and copied from there. */
    unsigned char *filler = out + s->size - s->filler;
    make_filler(&f, s->part.about.grid.step, filler);
    cursor c = {.at = s->part.data};
    if (s->part.about.runs)
        c.now = larder__part_run(&s->part, 0);
    c.segment = c.now.first;
    uint32_t done = 0;
    for (uint32_t line = 0; line < s->lines; line++)
        for (uint32_t i = 0; i < s->per_line; i++, done++) {
            uint32_t n = s->first + line * s->stride + i;
            const unsigned char *from = seek(s, &c, n);
            size_t size = from ? larder__part_length(&s->part, n) : s->filler;
            bool ends = from && size >= 2 && from[size - 2] == 0xff &&
                        (n + 1 == s->part.segments ? from[size - 1] == 0xd9
                                                   : (from[size - 1] & 0xf8) == 0xd0);
            if (from && !ends)
                return larder__fail(LARDER_E_FORMAT,
                                    "part: segment %u does not end where its index says", n);
            memcpy(to, from ? from : filler, size);
            to += size;
            to[-2] = 0xff;
            to[-1] = (unsigned char)(0xd0 + done % 8);
        }
    to[-1] = 0xd9; /* the last marker is the end of the picture */
    return to - out;
}
