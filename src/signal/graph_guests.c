#include "signal/graph_guests.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <math.h>

/* A row is outside of its class if so much more of it is than of the usual one. */
#define TIMES 1.5f
#define PLUS 0.05f

int larder__graph_guests_open(larder__graph_index *s) {
    s->waiting.x = larder__malloc(LARDER__PROJECT_ROWS * s->conf.dim * sizeof *s->waiting.x);
    if (!s->waiting.x)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for an engine");
    return larder__graph_store_open(&s->guests, s->conf.n, s->conf.project, LARDER__HEAD_SHORT,
                                    false);
}

void larder__graph_guests_close(larder__graph_index *s) {
    larder__graph_store_close(&s->guests);
    larder__free(s->waiting.x);
    larder__free(s->waiting.distances);
    s->waiting = (larder__graph_waiting){0};
}

size_t larder__graph_guests_bytes(const larder__graph_index *s) {
    return larder__graph_store_bytes(&s->guests) +
           LARDER__PROJECT_ROWS * s->conf.dim * sizeof *s->waiting.x +
           s->waiting.room * sizeof *s->waiting.distances;
}

/* The class with the nearest centre but its own; NO_CHUNK: there is none with a frame. */
static uint32_t find_host(const larder__graph_index *s, const float *distances, uint32_t own) {
    uint32_t host = LARDER__NO_CHUNK;
    for (uint32_t c = 0; c < s->centres.count; c++)
        if (c != own && larder__graph_framed(s, c) &&
            (host == LARDER__NO_CHUNK || distances[c] < distances[host]))
            host = c;
    return host;
}

static int seat(larder__graph_index *s, uint32_t id, uint32_t host, const float *x) {
    uint8_t codes[LARDER__DIM_MAX];
    int32_t row_const;
    larder__graph_frame_code(&s->parts[host].frame, &s->space, false, &x, 1, codes, &row_const,
                             NULL);
    int rc = larder__graph_store_put(&s->guests, id, host, codes, row_const);
    if (rc == 0)
        larder__graph_store_hide(&s->shorts, id);
    return rc;
}

int larder__graph_guests_flush(larder__graph_index *s) {
    larder__graph_waiting *w = &s->waiting;
    uint32_t count = w->count;
    size_t stride = larder__graph_centres_stride(&s->centres), room = LARDER__PROJECT_ROWS * stride;
    w->count = 0;
    if (count && larder__room(&w->distances, &w->room, room, sizeof *w->distances) < 0)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u centres", s->centres.count);
    const float *rows[LARDER__PROJECT_ROWS];
    for (uint32_t i = 0; i < LARDER__PROJECT_ROWS; i++)
        rows[i] = w->x + (size_t)(i < count ? i : 0) * s->conf.dim;
    if (count)
        larder__graph_centres_compare(&s->centres, rows, w->distances);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        uint32_t host = find_host(s, w->distances + i * stride, w->classes[i]);
        if (host != LARDER__NO_CHUNK)
            rc = seat(s, w->ids[i], host, rows[i]);
    }
    return rc;
}

int larder__graph_guests_consider(larder__graph_index *s, uint32_t id, uint32_t class,
                                  const float *x, float outside) {
    larder__graph_waiting *w = &s->waiting;
    if (outside <= TIMES * s->parts[class].frame.outside + PLUS ||
        s->centres.count < s->whole.class_count) /* too many classes to have centres */
        return 0;
    memcpy(w->x + (size_t)w->count * s->conf.dim, x, s->conf.dim * sizeof *x);
    w->ids[w->count] = id;
    w->classes[w->count++] = class;
    return w->count == LARDER__PROJECT_ROWS ? larder__graph_guests_flush(s) : 0;
}

int larder__graph_guests_load(larder__graph_index *s, larder_reader *r) {
    int rc = larder__graph_store_load(&s->guests, r);
    for (uint32_t id = 0; rc == 0 && id < s->conf.n; id++) {
        if (!larder__graph_store_holds(&s->guests, id))
            continue;
        uint32_t host = larder__graph_store_class(&s->guests, id);
        if (!larder__graph_framed(s, host) || !larder__graph_store_holds(&s->shorts, id) ||
            larder__graph_store_class(&s->shorts, id) == host)
            return larder_read_reject(r, "a guest of its index has no place there");
        larder__graph_store_hide(&s->shorts, id);
    }
    return rc;
}
