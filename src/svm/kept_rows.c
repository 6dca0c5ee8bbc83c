#include "svm/kept_rows.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

int larder__kept_rows_open(larder__kept_rows **out, const larder__row_cache_conf *conf,
                           const larder__panel *panel, size_t cells) {
    larder__kept_rows *k = *out = larder__calloc(1, sizeof *k);
    if (!k)
        return larder__fail(LARDER_E_NOMEM, "no memory to keep rows");
    k->panel = panel, k->cells = cells, k->words = (cells + 63) / 64;
    k->filled = larder__calloc(conf->rows * k->words + 1, sizeof *k->filled);
    int rc = k->filled ? larder__row_cache_open(&k->cache, conf) : LARDER_E_NOMEM;
    if (rc == 0 && larder__row_cache_listens(k->cache) &&
        !(k->dist = larder__malloc((conf->rows + 1) * sizeof *k->dist)))
        rc = LARDER_E_NOMEM;
    for (size_t i = 0; rc == 0 && k->dist && i < conf->rows; i++)
        k->dist[i] = 3e38f;
    if (rc == LARDER_E_NOMEM)
        larder__fail(rc, "no memory to keep %zu rows", conf->rows);
    if (rc < 0)
        larder__kept_rows_close(out);
    return rc;
}

void larder__kept_rows_close(larder__kept_rows **rows) {
    larder__kept_rows *k = *rows;
    *rows = NULL;
    if (!k)
        return;
    larder__row_cache_close(&k->cache);
    larder__free(k->filled);
    larder__free(k->dist);
    larder__free(k);
}

void larder__kept_rows_score(larder__kept_rows *k, const float *dist, const larder__row_part *parts,
                             size_t n) {
    if (!k->dist)
        return;
    for (size_t i = 0; i < n; i++)
        memcpy(k->dist + parts[i].at, dist + parts[i].local, parts[i].n * sizeof *dist);
    larder__row_cache_scores(k->cache, k->dist);
}
