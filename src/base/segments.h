/* A JPEG cut into segments by restart markers, and a part of it: some of the segments, with what is
 * needed to decode them. Sources make parts, stages decode them; neither knows the other, so what a
 * part is stands here.
 *
 * MCUs (blocks of 8 x 8 to 32 x 32 pixels) are numbered row by row. A segment is `step` of them in
 * a row, going on in the next row where they do not end with one; each can be decoded alone. */
#ifndef LARDER_BASE_SEGMENTS_H
#define LARDER_BASE_SEGMENTS_H

#include <larder/plugin.h>

typedef struct larder__grid {
    uint16_t w, h; /* of the picture, in pixels */
    uint16_t step; /* MCUs a segment */
    uint8_t mcu_w, mcu_h;
} larder__grid;

enum { LARDER__SEGMENTS_MAX = 1 << 22, LARDER__SEGMENT_BYTES_MAX = 65535 };

bool larder__grid_valid(const larder__grid *);
uint32_t larder__grid_across(const larder__grid *);   /* MCUs in a row */
uint32_t larder__grid_down(const larder__grid *);     /* rows of MCUs */
uint32_t larder__grid_segments(const larder__grid *); /* in all */

/* Pixels that lie `margin` around a rectangle, as far as the picture goes, in directions in which
 * colour has fewer samples than brightness: decoders smooth it with what lies beside it. */
larder_rect larder__grid_widen(const larder__grid *, larder_rect, uint32_t margin);

typedef struct larder__segment_run { /* segments first .. first + count - 1 */
    uint32_t first, count;
} larder__segment_run;

/* The runs of segments under a rectangle that is not empty, in order. Two runs are made one where
 * at most `gap` bytes lie between them. `lengths` has the bytes of each segment; `out` room for as
 * many as there are rows of MCUs. Returns how many. */
uint32_t larder__grid_runs(const larder__grid *, const larder_rect *, const uint16_t *lengths,
                           uint32_t gap, larder__segment_run *out);

/* ---- a part as bytes ------------------------------------------------------------------------- */

/* What a source gives for a part, in this order: this head, the runs, the bytes of each segment of
 * the whole picture (u16), the JPEG's own head (tables, frame, scan), then the segments of the
 * runs, each with the marker that ends it. It lives in memory only, in the machine's byte order. */
typedef struct larder__segment {
    char magic[8];
    larder__grid grid;
    uint32_t runs;
    uint32_t head;  /* bytes of the JPEG's own head */
    uint32_t jfif;  /* 1: colours are as JFIF says, although its marker is not in the head */
    uint32_t spare; /* 0 */
} larder__segment;

#define LARDER__PART_MAGIC "\x93LPART1\n"

/* Views into such bytes; everything in them was checked against their size. */
typedef struct larder__part_view {
    larder__segment about;
    uint32_t segments;
    const unsigned char *runs, *lengths, *head, *data; /* unaligned */
    size_t data_size;
} larder__part_view;

bool larder__part_mine(const void *bytes, size_t size);
int larder__part_parse(larder__part_view *, const void *bytes, size_t size);
larder__segment_run larder__part_run(const larder__part_view *, uint32_t i);
uint16_t larder__part_length(const larder__part_view *, uint32_t segment);

/* Bytes of a part with these runs, and up to where its data begins; 0: 4 GiB or more. */
uint32_t larder__part_size(const larder__segment *, const larder__segment_run *,
                           const uint16_t *lengths, uint32_t *data_at);
/* Writes all that comes before the JPEG's head; returns its bytes. */
size_t larder__part_begin(void *out, const larder__segment *, const larder__segment_run *,
                          const uint16_t *lengths);

#endif
