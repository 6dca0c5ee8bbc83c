/* Pictures, and what lies on them: masks and boxes. All of a sample go through the same stages with
 * the same chance, so that they stay on top of each other. */
#include "base/convert.h"
#include "base/err.h"
#include "base/mem.h"
#include "stage/column.h"

/* ---- pictures -------------------------------------------------------------------------------- */

static int need_pipeline(const larder__sight *sight) {
    return sight->pipeline ? 0 : larder__fail(LARDER_E_STATE, "there are no stages for pictures");
}

static int open_picture(larder__column *c, const larder_args *args, const larder__sight *sight,
                        const larder__field *first) {
    (void)args, (void)first;
    int rc = need_pipeline(sight);
    if (rc < 0)
        return rc;
    larder_shape s = larder__pipeline_shape(sight->pipeline);
    bool planes = larder__pipeline_layout(sight->pipeline) == LARDER_NCHW;
    uint64_t shape[3] = {planes ? s.c : s.h, planes ? s.h : s.w, planes ? s.w : s.c};
    larder__column_fix(c, larder__pipeline_dtype(sight->pipeline), shape, 3);
    return c->bytes == larder__pipeline_bytes(sight->pipeline)
               ? 0
               : larder__fail(LARDER_E_STATE, "stages make pictures of another size");
}

static int run_picture(const larder__column *c, const larder__sight *sight, const larder__field *f,
                       larder__cell *out) {
    (void)c;
    return larder__pipeline_run(sight->pipeline, sight->scratch, f->data, f->bytes, sight->seed,
                                out->row);
}

const larder__column_kind larder__column_picture = {
    .plugin = {.name = "picture", .summary = "decoded, and through the stages of augment"},
    .endings = " jpg jpeg png webp bmp tif tiff ppm pgm gif ",
    .plain = true,
    .pictures = true,
    .open = open_picture,
    .run = run_picture,
};

/* ---- masks ----------------------------------------------------------------------------------- */

static int open_mask(larder__column *c, const larder_args *args, const larder__sight *sight,
                     const larder__field *first) {
    (void)args, (void)first;
    int rc = need_pipeline(sight);
    if (rc < 0)
        return rc;
    larder_shape s = larder__pipeline_shape(sight->pipeline);
    uint64_t shape[2] = {s.h, s.w};
    larder__column_fix(c, LARDER_U8, shape, 2);
    return 0;
}

static int picture_size(const larder__sight *sight, uint32_t *w, uint32_t *h) {
    const larder__field *p = sight->picture;
    if (!p || !p->data)
        return larder__fail(LARDER_E_NOTFOUND, "there is no picture that it lies on");
    return larder__pipeline_extent(sight->pipeline, sight->scratch, p->data, p->bytes, w, h);
}

static int run_mask(const larder__column *c, const larder__sight *sight, const larder__field *f,
                    larder__cell *out) {
    (void)c;
    uint32_t w = 0, h = 0;
    int rc = sight->picture ? picture_size(sight, &w, &h) : 0;
    return rc < 0 ? rc
                  : larder__pipeline_run_mask(sight->pipeline, sight->scratch, f->data, f->bytes, w,
                                              h, sight->seed, out->row);
}

const larder__column_kind larder__column_mask = {
    .plugin = {.name = "mask",
               .summary = "class numbers of pixels, on top of x: geometry alone, nearest pixel"},
    .plain = true,
    .pictures = true,
    .open = open_mask,
    .run = run_mask,
};

/* ---- boxes ----------------------------------------------------------------------------------- */

typedef struct boxes {
    bool sides; /* given as x y w h */
} boxes;

static int check_boxes(const larder__field *f) {
    bool none = f->bytes == 0; /* [] has one dimension */
    if ((f->kind == LARDER__FIELD_ARRAY || f->kind == LARDER__FIELD_TENSOR) &&
        (none || (f->ndim == 2 && f->shape[1] == 4)))
        return 0;
    return larder__fail(LARDER_E_FORMAT, "boxes are an array of n x 4 numbers");
}

static int open_boxes(larder__column *c, const larder_args *args, const larder__sight *sight,
                      const larder__field *first) {
    uint64_t shape[2] = {0, 4};
    int rc = need_pipeline(sight);
    if (rc == 0)
        rc = check_boxes(first);
    ((boxes *)c->state)->sides = strcmp(larder_args_text(args, "format"), "xywh") == 0;
    larder__column_fix(c, LARDER_F32, shape, 2);
    c->ragged = true;
    return rc;
}

static int run_boxes(const larder__column *c, const larder__sight *sight, const larder__field *f,
                     larder__cell *out) {
    uint32_t w, h;
    int rc = check_boxes(f);
    if (rc == 0)
        rc = picture_size(sight, &w, &h);
    size_t n = f->bytes ? (size_t)f->shape[0] : 0;
    if (rc == 0 && !(out->own = larder_buf_new(n * 16)))
        rc = LARDER_E_NOMEM;
    if (rc < 0)
        return rc;
    float *b = larder_buf_data(out->own);
    if (n)
        rc = larder__convert(b, LARDER_F32, f->data, f->dtype, n * 4);
    for (size_t i = 0; ((const boxes *)c->state)->sides && i < n; i++) {
        b[i * 4 + 2] += b[i * 4];
        b[i * 4 + 3] += b[i * 4 + 1];
    }
    if (rc == 0)
        rc = larder__pipeline_boxes(sight->pipeline, w, h, sight->seed, b, n);
    if (rc < 0) {
        larder_buf_unref(&out->own);
        return rc;
    }
    out->piece =
        (larder_piece){.data = b, .bytes = n * 16, .dtype = LARDER_F32, .ndim = 2, .shape = {n, 4}};
    return 0;
}

static const larder_param boxes_params[] = {
    {"format", "xyxy|xywh", "xyxy", "corners, or a corner and sides; corners come out", 0, 0}, {0}};

const larder__column_kind larder__column_boxes = {
    .plugin = {.name = "boxes",
               .summary = "n x 4 corners in pixels of x, moved and clipped with it; what was cut "
                          "away has no area",
               .params = boxes_params,
               .state_size = sizeof(boxes)},
    .pictures = true,
    .open = open_boxes,
    .run = run_boxes,
};
