/* Reads samples of a data set and says what came: for scripts that compare it with the truth.
 *
 *     tool_read URI [all | part | ID,ID,…] [COMMAND…]
 *     tool_read URI memory [K]  opens and reads with each, or each Kth, allocation failing in turn
 *
 * One line a sample: its id, code, bytes and SHA-256, or its id, code and sentence. `part` reads
 * the middle of each picture. Commands come after the first reading: `again` reads once more after
 * a line on standard input, `interrupt MS` reads once more and interrupts that, `figures` shows
 * what the source counts. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "source/source.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 64 };

typedef struct reading {
    larder__data *data;
    uint64_t *ids;
    size_t n;
    bool part;
} reading;

static void show(uint64_t id, const larder_read *r) {
    if (r->code < 0) {
        printf("%llu %d %s\n", (unsigned long long)id, r->code, r->why);
        return;
    }
    unsigned char sum[LARDER__SHA256];
    char hex[2 * LARDER__SHA256 + 1];
    larder__sha256 x;
    larder__sha256_begin(&x);
    larder__sha256_add(&x, larder_buf_data(r->buf), larder_buf_size(r->buf));
    larder__sha256_end(&x, sum);
    larder__sha256_hex(sum, hex);
    printf("%llu 0 %zu %s\n", (unsigned long long)id, larder_buf_size(r->buf), hex);
}

static larder_rect middle(larder__data *d, uint64_t id) {
    uint32_t w = 0, h = 0;
    if (larder__data_extent(d, id, &w, &h) < 0 || w < 4 || h < 4)
        return (larder_rect){0};
    return (larder_rect){w / 4, h / 4, w - w / 4, h - h / 4, 1};
}

static int read_all(const reading *r) {
    for (size_t at = 0; at < r->n; at += AT_ONCE) {
        larder_read out[AT_ONCE];
        larder_rect rects[AT_ONCE];
        size_t n = r->n - at < AT_ONCE ? r->n - at : AT_ONCE;
        for (size_t i = 0; r->part && i < n; i++)
            rects[i] = middle(r->data, r->ids[at + i]);
        int rc = r->part ? larder__data_read_parts(r->data, r->ids + at, rects, n, out)
                         : larder__data_read(r->data, r->ids + at, n, out);
        if (rc < 0) {
            printf("failed %d %s\n", rc, larder_errmsg());
            return rc;
        }
        for (size_t i = 0; i < n; i++) {
            show(r->ids[at + i], &out[i]);
            larder_buf_unref(&out[i].buf);
        }
    }
    fflush(stdout);
    return 0;
}

static void *read_thread(void *arg) {
    read_all(arg);
    return NULL;
}

static void interrupt_after(reading *r, double seconds) {
    pthread_t t;
    double begun = larder__now();
    if (pthread_create(&t, NULL, read_thread, r) != 0)
        return;
    larder__sleep_until(begun + seconds);
    larder__data_interrupt(r->data);
    double called = larder__now();
    pthread_join(t, NULL);
    printf("ended %.3f\n", larder__now() - called);
}

static void show_figures(larder__data *d) {
    const larder_figure *f = larder__data_figures(d);
    for (size_t i = 0; f && f[i].name; i++)
        printf("figure %s %g\n", f[i].name, larder__data_figure(d, i));
}

static bool choose(reading *r, const char *which) {
    uint64_t count = larder__data_about(r->data)->count;
    size_t cap = count;
    for (const char *c = which; *c; c++)
        cap += *c == ',';
    r->ids = malloc((cap + 1) * sizeof *r->ids);
    r->part = strcmp(which, "part") == 0;
    if (!r->ids)
        return false;
    if (r->part || strcmp(which, "all") == 0)
        for (; r->n < count; r->n++)
            r->ids[r->n] = r->n;
    else
        for (char *end; *which; which = *end ? end + 1 : end)
            r->ids[r->n++] = strtoull(which, &end, 10);
    return true;
}

/* Whatever allocation fails: no crash, no leak, and nothing but the right bytes or a code. */
static int lack_memory(const char *uri, uint64_t step) {
    for (uint64_t n = 1; n < 100000; n += step) {
        larder__data *d = NULL;
        larder_read out[AT_ONCE] = {{0}};
        uint64_t ids[AT_ONCE];
        larder__mem_fail_at(n, 0);
        int rc = larder__data_open(&d, uri);
        size_t some = rc == 0 && larder__data_about(d)->count < AT_ONCE
                          ? (size_t)larder__data_about(d)->count
                          : AT_ONCE;
        for (size_t i = 0; i < some; i++)
            ids[i] = i;
        if (rc == 0 && larder__data_read(d, ids, some, out) == 0)
            for (size_t i = 0; i < some; i++)
                larder_buf_unref(&out[i].buf);
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        larder__data_close(&d);
        if (!failed) {
            printf("memory %llu %d\n", (unsigned long long)n, rc);
            return rc < 0;
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    reading r = {0};
    char line[16];
    if (argc < 2)
        return 2;
    if (argc > 2 && strcmp(argv[2], "memory") == 0)
        return lack_memory(argv[1], argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    int rc = larder__data_open(&r.data, argv[1]);
    if (rc < 0) {
        printf("open %d %s\n", rc, larder_errmsg());
        return 1;
    }
    if (!choose(&r, argc > 2 ? argv[2] : "all"))
        return 2;
    rc = read_all(&r);
    for (int i = 3; i < argc && rc == 0; i++)
        if (strcmp(argv[i], "again") == 0 && fgets(line, sizeof line, stdin))
            rc = read_all(&r);
        else if (strcmp(argv[i], "interrupt") == 0 && i + 1 < argc)
            interrupt_after(&r, atof(argv[++i]) / 1000);
        else if (strcmp(argv[i], "figures") == 0)
            show_figures(r.data);
    free(r.ids);
    larder__data_close(&r.data);
    return 0;
}
