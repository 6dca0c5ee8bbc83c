#include "pack/transcode.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "pack/compare.h"
#include "pack/reencode.h"

#include <stdio.h>

#if LARDER_HAVE_JPEG

#include "stage/codec.h"
#include "stage/jpeg_late.h"

#include <setjmp.h>

#include <jerror.h>

#include "stage/jpeg_words.h"

/* A restart costs some 7 bytes: the marker, padding, and coding the mean colours afresh. */
enum { SEGMENT_BYTES = 180, FIRST_ROOM = 1 << 18 };

typedef struct sink { /* where libjpeg writes: memory that grows */
    struct jpeg_destination_mgr base;
    unsigned char *bytes;
    size_t cap, size;
} sink;

struct larder__transcoder {
    larder__transcode_conf conf;
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    struct jpeg_error_mgr err;
    struct jpeg_progress_mgr progress;
    JHUFF_TBL usual[4]; /* codes for everything, as the standard suggests: DC and AC, twice */
    bool in_ready, out_ready;
    sink sink;
    unsigned char *whole; /* the sink's bytes with metadata put in */
    size_t whole_cap;
    uint16_t *lengths;
    size_t lengths_cap;
    larder__comparer *comparer;
    larder__reencoder *reencoder;
    jmp_buf leave;
    uint8_t kind; /* why it was left, when it was */
    int code;
};

/* ---- libjpeg's ways out ---------------------------------------------------------------------- */

static void leave_as(j_common_ptr c, uint8_t kind) {
    larder__transcoder *t = c->client_data;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    t->kind = kind;
    t->code = c->err->msg_code == JERR_OUT_OF_MEMORY
                  ? larder__fail(LARDER_E_NOMEM, "jpeg: out of memory")
                  : larder__fail(LARDER_E_FORMAT, "%s", text);
    longjmp(t->leave, 1);
}

static void on_error(j_common_ptr c) { leave_as(c, LARDER__PACK_UNUSUAL); }
static void on_output(j_common_ptr c) { (void)c; }

static void on_message(j_common_ptr c, int level) {
    if (level < 0 && !larder__jpeg_harmless(c->err->msg_code))
        leave_as(c, LARDER__PACK_DAMAGED);
}

static void on_progress(j_common_ptr c) {
    larder__transcoder *t = c->client_data;
    if (c->is_decompressor && t->in.input_scan_number > LARDER__JPEG_SCANS_MAX) {
        t->kind = LARDER__PACK_UNUSUAL;
        t->code = larder__fail(LARDER_E_FORMAT, "more than %d scans", LARDER__JPEG_SCANS_MAX);
        longjmp(t->leave, 1);
    }
}

/* ---- the sink -------------------------------------------------------------------------------- */

static void sink_rest(sink *s) {
    s->base.next_output_byte = s->bytes + s->size;
    s->base.free_in_buffer = s->cap - s->size;
}

static void sink_begin(j_compress_ptr c) {
    sink *s = (sink *)(void *)c->dest;
    s->size = 0;
    sink_rest(s);
}

/* libjpeg calls it when the buffer is full to the last byte. */
static boolean sink_full(j_compress_ptr c) {
    sink *s = (sink *)(void *)c->dest;
    unsigned char *grown = larder__realloc(s->bytes, s->cap * 2);
    if (!grown) {
        larder__transcoder *t = c->client_data;
        t->code = LARDER_E_NOMEM;
        longjmp(t->leave, 1);
    }
    s->bytes = grown;
    s->size = s->cap;
    s->cap *= 2;
    sink_rest(s);
    return TRUE;
}

static void sink_end(j_compress_ptr c) {
    sink *s = (sink *)(void *)c->dest;
    s->size = s->cap - s->base.free_in_buffer;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int create(larder__transcoder *t) {
    t->in.err = t->out.err = jpeg_std_error(&t->err);
    t->in.client_data = t->out.client_data = t;
    t->err.error_exit = on_error;
    t->err.output_message = on_output;
    t->err.emit_message = on_message;
    t->progress.progress_monitor = on_progress;
    if (setjmp(t->leave))
        return LARDER_E_NOMEM;
    jpeg_create_decompress(&t->in);
    t->in_ready = true;
    jpeg_create_compress(&t->out);
    t->out_ready = true;
    t->in.client_data = t->out.client_data = t; /* create clears what it does not know */
    t->in.progress = &t->progress;
    t->sink.base.init_destination = sink_begin;
    t->sink.base.empty_output_buffer = sink_full;
    t->sink.base.term_destination = sink_end;
    t->out.dest = &t->sink.base;
    t->out.input_components = 3;
    t->out.in_color_space = JCS_YCbCr;
    jpeg_set_defaults(&t->out);
    for (int i = 0; i < 2; i++) {
        t->usual[2 * i] = *t->out.dc_huff_tbl_ptrs[i];
        t->usual[2 * i + 1] = *t->out.ac_huff_tbl_ptrs[i];
    }
    for (int i = 0; i < 16; i++)
        jpeg_save_markers(&t->in, JPEG_APP0 + i, t->conf.strip ? 0 : 0xffff);
    jpeg_save_markers(&t->in, JPEG_COM, t->conf.strip ? 0 : 0xffff);
    return 0;
}

int larder__transcoder_open(larder__transcoder **out, const larder__transcode_conf *conf) {
    larder__transcoder *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return LARDER_E_NOMEM;
    t->conf = *conf;
    t->sink.bytes = larder__malloc(FIRST_ROOM);
    t->sink.cap = FIRST_ROOM;
    int rc = larder__jpeg_library();
    if (rc == 0)
        rc = t->sink.bytes ? create(t) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__comparer_open(&t->comparer);
    if (rc == 0 && (conf->quality || conf->max_side))
        rc = larder__reencoder_open(&t->reencoder, conf->quality, conf->max_side);
    if (rc < 0)
        larder__transcoder_close(out);
    return rc;
}

void larder__transcoder_close(larder__transcoder **pt) {
    larder__transcoder *t = *pt;
    *pt = NULL;
    if (!t)
        return;
    if (t->in_ready)
        jpeg_destroy_decompress(&t->in);
    if (t->out_ready)
        jpeg_destroy_compress(&t->out);
    larder__comparer_close(&t->comparer);
    larder__reencoder_close(&t->reencoder);
    larder__free(t->sink.bytes);
    larder__free(t->whole);
    larder__free(t->lengths);
    larder__free(t);
}

/* ---- how to cut ------------------------------------------------------------------------------ */

/* MCUs a segment: near `wanted`, but where some number that divides a row is not far from it, that
 * one, since then a crop of columns is made of whole segments. */
static uint32_t choose_step(uint32_t across, double wanted) {
    uint32_t best = 0;
    double limit = across < 65535 ? across : 65535;
    wanted = wanted < 1 ? 1 : wanted > limit ? limit : wanted;
    for (uint32_t k = 1; k <= across && k <= 65535; k++)
        if (across % k == 0 && k >= wanted * 0.7 && k <= wanted * 1.7 &&
            (best == 0 || (k > wanted ? k / wanted : wanted / k) <
                              (best > wanted ? best / wanted : wanted / best)))
            best = k;
    return best ? best : (uint32_t)(wanted + 0.5);
}

static void choose_grid(larder__transcoder *t, size_t bytes, larder__grid *g) {
    const struct jpeg_decompress_struct *in = &t->in;
    /* One component alone is coded block by block, whatever its sampling says. */
    bool one = in->num_components == 1;
    *g = (larder__grid){.w = (uint16_t)in->image_width,
                        .h = (uint16_t)in->image_height,
                        .step = 1,
                        .mcu_w = (uint8_t)(one ? 8 : in->max_h_samp_factor * 8),
                        .mcu_h = (uint8_t)(one ? 8 : in->max_v_samp_factor * 8)};
    uint32_t across = larder__grid_across(g);
    double mcus = (double)across * larder__grid_down(g);
    double wanted = t->conf.restart ? t->conf.restart : mcus * SEGMENT_BYTES / (double)bytes;
    g->step = (uint16_t)choose_step(across, wanted);
}

/* Every table that a scan uses must have codes for "no change" and "nothing more": with them a
 * reader fills in for segments that it did not read. */
static bool has_code(const JHUFF_TBL *table) {
    int n = 0;
    for (int i = 1; table && i <= 16; i++)
        n += table->bits[i];
    for (int i = 0; i < n; i++)
        if (table->huffval[i] == 0)
            return true;
    return false;
}

static bool has_fillers(const struct jpeg_compress_struct *out) {
    for (int c = 0; c < out->num_components; c++) {
        const jpeg_component_info *i = &out->comp_info[c];
        if (!has_code(out->dc_huff_tbl_ptrs[i->dc_tbl_no]) ||
            !has_code(out->ac_huff_tbl_ptrs[i->ac_tbl_no]))
            return false;
    }
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void write_again(larder__transcoder *t, jvirt_barray_ptr *coefs, const larder__grid *g,
                        bool best_codes) {
    jpeg_copy_critical_parameters(&t->in, &t->out);
    t->out.restart_interval = g->step;
    t->out.optimize_coding = best_codes;
    for (int i = 0; i < 2 && !best_codes; i++) { /* libjpeg keeps those it made before */
        *t->out.dc_huff_tbl_ptrs[i] = t->usual[2 * i];
        *t->out.ac_huff_tbl_ptrs[i] = t->usual[2 * i + 1];
    }
    jpeg_write_coefficients(&t->out, coefs);
    jpeg_finish_compress(&t->out);
}

static int recode(larder__transcoder *t, const void *bytes, size_t size, larder__transcoded *o) {
    t->code = 0;
    jpeg_abort_compress(&t->out); /* whatever the last sample left */
    jpeg_abort_decompress(&t->in);
    if (setjmp(t->leave)) {
        o->kind = t->kind;
        return t->code;
    }
    t->kind = LARDER__PACK_DAMAGED; /* a bad header is an error, not a warning */
    jpeg_mem_src(&t->in, bytes, (unsigned long)size);
    jpeg_read_header(&t->in, TRUE);
    t->code = larder__codec_limit("jpeg", t->in.image_width, t->in.image_height);
    if (t->code < 0) {
        t->kind = LARDER__PACK_UNUSUAL;
        longjmp(t->leave, 1);
    }
    o->kind = t->in.progressive_mode ? LARDER__PACK_PROGRESSIVE
              : t->in.arith_code     ? LARDER__PACK_ARITHMETIC
                                     : LARDER__PACK_BASELINE;
    jvirt_barray_ptr *coefs = jpeg_read_coefficients(&t->in);
    choose_grid(t, size, &o->grid);
    write_again(t, coefs, &o->grid, true);
    if (!has_fillers(&t->out))
        write_again(t, coefs, &o->grid, false);
    return 0;
}

/* ---- where everything lies in the new file --------------------------------------------------- */

/* Bytes of the marker segment at `at`, its two marker bytes included; 0: there is none. */
static size_t marker_size(const unsigned char *at, size_t left) {
    size_t n = left >= 4 && at[0] == 0xff ? (size_t)(at[2] << 8 | at[3]) + 2 : 0;
    return n <= left ? n : 0;
}

static bool is_metadata(const jpeg_saved_marker_ptr m) {
    /* JFIF's and Adobe's markers are written by libjpeg itself. */
    if (m->marker == JPEG_APP0 && m->data_length >= 5 && memcmp(m->data, "JFIF", 5) == 0)
        return false;
    return !(m->marker == JPEG_APP0 + 14 && m->data_length >= 5 &&
             memcmp(m->data, "Adobe", 5) == 0);
}

static size_t metadata_size(const larder__transcoder *t) {
    size_t n = 0;
    for (jpeg_saved_marker_ptr m = t->in.marker_list; m; m = m->next)
        n += is_metadata(m) ? m->data_length + 4 : 0;
    return n;
}

static unsigned char *put_metadata(const larder__transcoder *t, unsigned char *to) {
    for (jpeg_saved_marker_ptr m = t->in.marker_list; m; m = m->next) {
        if (!is_metadata(m))
            continue;
        unsigned n = m->data_length + 2;
        const unsigned char head[4] = {0xff, m->marker, (unsigned char)(n >> 8),
                                       (unsigned char)(n & 255)};
        memcpy(to, head, 4);
        memcpy(to + 4, m->data, m->data_length);
        to += 4 + m->data_length;
    }
    return to;
}

/* start of image, JFIF | metadata | Adobe, tables, frame, scan | segments: what a reader of parts
 * needs lies in one piece, however large the metadata. */
static int assemble(larder__transcoder *t, larder__transcoded *o) {
    const unsigned char *from = t->sink.bytes;
    size_t size = t->sink.size, split = 2, extra = metadata_size(t);
    o->jfif = size > 4 && from[2] == 0xff && from[3] == 0xe0;
    if (o->jfif)
        split += marker_size(from + 2, size - 2);
    if (larder__room(&t->whole, &t->whole_cap, size + extra, 1) < 0)
        return LARDER_E_NOMEM;
    memcpy(t->whole, from, split);
    unsigned char *to = put_metadata(t, t->whole + split);
    memcpy(to, from + split, size - split);
    o->bytes = t->whole;
    o->size = size + extra;
    o->head_at = (uint32_t)(to - t->whole);
    return 0;
}

/* The first byte after the scan's header. */
static size_t find_data(const unsigned char *bytes, size_t at, size_t size) {
    for (size_t n; (n = marker_size(bytes + at, size - at)) > 0; at += n)
        if (bytes[at + 1] == 0xda)
            return at + n;
    return 0;
}

/* The length of each segment up to and with the marker that ends it. */
static int measure(larder__transcoder *t, larder__transcoded *o) {
    uint32_t segments = larder__grid_segments(&o->grid), n = 0;
    size_t begun = find_data(o->bytes, o->head_at, o->size), at = begun;
    if (larder__room(&t->lengths, &t->lengths_cap, segments, sizeof *t->lengths) < 0)
        return LARDER_E_NOMEM;
    o->data_at = (uint32_t)begun;
    o->lengths = t->lengths;
    while (begun && n < segments) {
        const unsigned char *ff = memchr(o->bytes + at, 0xff, o->size - at);
        if (!ff || ff + 1 >= o->bytes + o->size)
            break;
        at = (size_t)(ff - o->bytes) + 2;
        if (ff[1] == 0)
            continue;
        if (at - begun > LARDER__SEGMENT_BYTES_MAX)
            return larder__fail(LARDER_E_FORMAT, "a segment of more than 64 KiB");
        t->lengths[n++] = (uint16_t)(at - begun);
        begun = at;
    }
    return n == segments && at == o->size
               ? 0
               : larder__fail(LARDER_E_FORMAT, "%u segments where %u should be", n, segments);
}

/* Cut, or a code and o->kind says why not. */
static int cut(larder__transcoder *t, const void *bytes, size_t size, larder__transcoded *o) {
    int rc = recode(t, bytes, size, o);
    if (rc < 0)
        return rc;
    uint8_t became = o->kind;
    o->kind = LARDER__PACK_UNUSUAL;
    if ((rc = assemble(t, o)) < 0 || (rc = measure(t, o)) < 0)
        return rc;
    /* A progressive file that lacks scans is smoothed over by decoders, a sequential one never. */
    if (t->conf.verify || became == LARDER__PACK_PROGRESSIVE) {
        o->kind = LARDER__PACK_DIFFERS;
        if ((rc = larder__compare_pixels(t->comparer, bytes, size, o->bytes, o->size)) < 0)
            return rc;
    }
    o->kind = became;
    return 0;
}

int larder__transcode(larder__transcoder *t, const void *bytes, size_t size,
                      larder__transcoded *out) {
    *out = (larder__transcoded){.bytes = bytes, .size = size, .kind = LARDER__PACK_NOT_JPEG};
    const void *from = bytes;
    size_t from_size = size;
    bool again = false;
    int rc =
        t->reencoder ? larder__reencode(t->reencoder, bytes, size, &from, &from_size, &again) : 0;
    if (rc == LARDER_E_NOMEM)
        return rc;
    if (rc == 0 && !larder__codec_jpeg.mine(from, from_size))
        return 0;
    larder__transcoded made = *out;
    if (rc == 0)
        rc = cut(t, from, from_size, &made);
    else
        made.kind =
            larder__codec_jpeg.mine(bytes, size) ? LARDER__PACK_DAMAGED : LARDER__PACK_NOT_JPEG;
    if (rc == LARDER_E_NOMEM)
        return rc;
    if (rc == 0) {
        *out = made;
        out->kind = again ? LARDER__PACK_REENCODED : made.kind;
        return 0;
    }
    out->kind = made.kind;
    snprintf(out->why, sizeof out->why, "%s", larder_errmsg());
    return 0;
}

#else

int larder__transcoder_open(larder__transcoder **out, const larder__transcode_conf *conf) {
    (void)conf;
    *out = NULL;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "this build packs no JPEG: libjpeg-turbo was missing (apt install "
                        "libjpeg62-turbo-dev, then build again)");
}
void larder__transcoder_close(larder__transcoder **pt) { *pt = NULL; }
int larder__transcode(larder__transcoder *t, const void *bytes, size_t size,
                      larder__transcoded *out) {
    (void)t, (void)bytes, (void)size, (void)out;
    return LARDER_E_UNSUPPORTED;
}

#endif
