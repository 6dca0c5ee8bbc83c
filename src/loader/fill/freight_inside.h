/* What the files of the device's part of the loader share. */
#ifndef LARDER_LOADER_FILL_FREIGHT_INSIDE_H
#define LARDER_LOADER_FILL_FREIGHT_INSIDE_H

#include "gpu/gpu_jpeg.h"
#include "loader/fill/freight.h"
#include "loader/inside.h"

enum {
    LARDER__FREIGHT_PICTURES = LARDER__JPEGS_AT_ONCE, /* decoded at once, at most, */
    LARDER__FREIGHT_BYTES = 256 << 20                 /* in so much of the device's memory */
};

typedef enum { LARDER__DECODE_HERE, LARDER__DECODE_AUTO, LARDER__DECODE_THERE } larder__decoding;

typedef struct larder__decoder { /* the device's thread */
    larder_loader *loader;
    pthread_t thread;
    larder__scratch *scratch; /* for rows that the device does not take */
    larder__jpegs *jpegs;
    larder__gpu_stream stream;
    larder__gpu_event over;
    larder__gpu_piece pictures, work;
    unsigned char *staging; /* for files that do not fit into their row, pinned */
    size_t staged;          /* bytes of it */
    larder__jpeg_order orders[LARDER__FREIGHT_PICTURES];
    larder__levels_picture to[LARDER__FREIGHT_PICTURES];
    size_t rows[LARDER__FREIGHT_PICTURES]; /* of the batch, of each order */
    larder__levels_job *jobs;
} larder__decoder;

struct larder__freight {
    larder__gpu *gpu;
    larder__levels *code;
    larder__decoding decode;
    bool fast;        /* colours as nvJPEG makes them, not as the host does */
    size_t row_bytes; /* of levels, all views */
    size_t rows;      /* of a batch, at most */
    bool could;       /* decode, if it were asked to */
    /* What follows is under the loader's lock. */
    larder__decoder decoder;
    bool running;
    pthread_cond_t sent;
    larder__place *first, *last; /* sent and not all begun, linked by `behind` */
    bool refusal_told;
    bool lost;    /* the device failed: it gets no more */
    double share; /* of the rows that are offered to it, */
    double seen;  /* and that it made, smoothed */
    double processors;
    double looked; /* when threads were looked at; */
    double spent,
        spent_there;    /* seconds that cores and the device's thread had been at it by then, */
    double busy, there; /* and how many are, smoothed */
    bool handed;        /* `seen` is of something */
};

struct larder__twin {
    larder__gpu_ptr levels, map; /* map: slots, then partners */
    int32_t *slots, *partners;   /* of each row, in memory that the device reaches */
    uint8_t *made;               /* of each slot: its levels are on the device already */
    size_t rows;
    bool mixed;
    larder_mixing mixing;
};

typedef struct larder__order { /* a row that the device makes */
    larder_buf *bytes;         /* NULL: it is made here */
    larder_buf *spliced;
    const uint8_t
        *jpeg; /* in one of the two, or in the row itself, where there is room for it: that
                  memory is pinned, and copies from other memory wait for each other */
    size_t size;
    larder__levels_picture picture;
    larder__levels_reach reach; /* of all views, in that JPEG */
} larder__order;

struct larder__orders {
    size_t rows, views;
    larder__levels_job *jobs; /* of each view of each row */
    larder__order each[];
};

void larder__order_drop(larder__order *);

/* How many rows are offered to the device, with auto. It takes a few hundredths from training, so
 * it gets no more than that training waits for no decoding and two processors are left alone: one
 * for the thread that trains, one for the device's. Cores that are all busy cost training more.
 * Where training waits and the device is at it all the time, it gets less. */
typedef struct larder__freight_case {
    double share;
    double waited; /* share of its time that training waited before this batch, not for storage */
    double device_busy; /* share of its time that the device's thread has it decode */
    bool ready;         /* batches lie there that training has not come to */
    double busy;        /* threads that prepare rows, on average */
    double processors;  /* that this process may use */
} larder__freight_case;
double larder__freight_next_share(const larder__freight_case *);

/* freight_threads.c: a decoder's own, E_… and why there is none; what is over is given back. */
int larder__decoder_open(larder_loader *, larder__decoder *);
void larder__decoder_close(larder__gpu *, larder__decoder *);

#endif
