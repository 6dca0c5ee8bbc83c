#include "stage/jpeg_encode.h"

#include "base/err.h"
#include "base/mem.h"
#include "stage/scratch.h"

#if LARDER_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>

#include "stage/jpeg_late.h"

#include <jerror.h>

typedef struct jpeg_writer {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    struct jpeg_destination_mgr to;
    jmp_buf leave;
    int code;
} jpeg_writer;

enum { TOO_LARGE = 1 };

static void on_error(j_common_ptr c) {
    jpeg_writer *j = c->client_data;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    j->code = c->err->msg_code == JERR_OUT_OF_MEMORY
                  ? larder__fail(LARDER_E_NOMEM, "jpeg: out of memory")
                  : larder__fail(LARDER_E_FORMAT, "jpeg: %s", text);
    longjmp(j->leave, 1);
}
static void on_output(j_common_ptr c) { (void)c; }
static void begin_output(j_compress_ptr c) { (void)c; }
static void end_output(j_compress_ptr c) { (void)c; }

static boolean on_full(j_compress_ptr c) {
    jpeg_writer *j = c->client_data;
    j->code = TOO_LARGE;
    longjmp(j->leave, 1);
}

static jpeg_writer *writer_open(larder__scratch *s) {
    if (s->jpeg_writer)
        return s->jpeg_writer;
    jpeg_writer *j = larder__calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->c.err = jpeg_std_error(&j->err);
    j->c.client_data = j;
    j->err.error_exit = on_error;
    j->err.output_message = on_output;
    j->to.init_destination = begin_output;
    j->to.empty_output_buffer = on_full;
    j->to.term_destination = end_output;
    if (setjmp(j->leave)) {
        jpeg_destroy_compress(&j->c);
        larder__free(j);
        return NULL;
    }
    jpeg_create_compress(&j->c);
    j->c.client_data = j; /* create clears what it does not know */
    j->c.dest = &j->to;
    return s->jpeg_writer = j;
}

void larder__jpeg_writer_close(larder__scratch *s) {
    jpeg_writer *j = s->jpeg_writer;
    if (!j)
        return;
    jpeg_destroy_compress(&j->c);
    larder__free(j);
    s->jpeg_writer = NULL;
}

/* Decoders that are shown no code tables take the standard's own, as for single frames of film. */
static void leave_out_tables(struct jpeg_compress_struct *c) {
    for (int i = 0; i < 2; i++)
        c->dc_huff_tbl_ptrs[i]->sent_table = c->ac_huff_tbl_ptrs[i]->sent_table = TRUE;
}

static void set_up(struct jpeg_compress_struct *c, const larder__jpeg_conf *conf) {
    c->input_components = conf->grey ? 1 : 4;
    c->in_color_space = conf->grey ? JCS_GRAYSCALE : JCS_EXT_RGBX;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, (int)conf->quality, TRUE);
    jpeg_suppress_tables(c, FALSE);
    if (conf->bare) {
        c->write_JFIF_header = FALSE;
        leave_out_tables(c);
    }
}

/* Called under the setjmp of larder__jpeg_encode. */
static void write_rows(struct jpeg_compress_struct *c, const larder__picture *p, uint8_t *grey) {
    while (c->next_scanline < c->image_height) {
        const uint8_t *from = p->at + (ptrdiff_t)c->next_scanline * p->row;
        JSAMPROW row = (JSAMPROW)(uintptr_t)from; /* the library only reads it */
        for (uint32_t x = 0; grey && x < c->image_width; x++)
            grey[x] = from[(ptrdiff_t)x * 4];
        jpeg_write_scanlines(c, grey ? &grey : &row, 1);
    }
}

bool larder__jpeg_can_encode(void) { return true; }

int larder__jpeg_encode(larder__scratch *s, const larder__picture *pixels, uint32_t w, uint32_t h,
                        const larder__jpeg_conf *conf, const uint8_t **out, size_t *size) {
    *out = NULL;
    *size = 0;
    int rc = larder__jpeg_library();
    if (rc < 0)
        return rc;
    jpeg_writer *j = writer_open(s);
    uint8_t *to = larder__scratch_take(s, LARDER__BLOCK_ENCODED, conf->limit + w + 1);
    if (!j || !to)
        return LARDER_E_NOMEM;
    if (w > JPEG_MAX_DIMENSION || h > JPEG_MAX_DIMENSION || conf->limit == 0)
        return 0;
    if (setjmp(j->leave)) {
        jpeg_abort_compress(&j->c);
        return j->code == TOO_LARGE ? 0 : j->code;
    }
    j->c.image_width = w;
    j->c.image_height = h;
    set_up(&j->c, conf);
    j->to.next_output_byte = to;
    j->to.free_in_buffer = conf->limit;
    jpeg_start_compress(&j->c, FALSE);
    write_rows(&j->c, pixels, conf->grey ? to + conf->limit : NULL);
    jpeg_finish_compress(&j->c);
    *out = to;
    *size = conf->limit - j->to.free_in_buffer;
    return 0;
}

#else

void larder__jpeg_writer_close(larder__scratch *s) { (void)s; }
bool larder__jpeg_can_encode(void) { return false; }

int larder__jpeg_encode(larder__scratch *s, const larder__picture *pixels, uint32_t w, uint32_t h,
                        const larder__jpeg_conf *conf, const uint8_t **out, size_t *size) {
    (void)s, (void)pixels, (void)w, (void)h, (void)conf;
    *out = NULL;
    *size = 0;
    return larder__fail(LARDER_E_UNSUPPORTED, "this build encodes no JPEG");
}

#endif
