/* Smooth chroma looks one sample beyond a pixel's own: without these pixels around it a crop's edge
 * would differ from a full decode. In pixels of the decoded picture, shrunk or not. */
#ifndef LARDER_STAGE_MARGIN_H
#define LARDER_STAGE_MARGIN_H

enum {
    LARDER__JPEG_MARGIN = 4, /* columns that libjpeg is told to decode */
    LARDER__PART_MARGIN = 1  /* pixels whose blocks have to be there: of two pixels that share a
                                sample, the outer one looks at the next */
};

#endif
