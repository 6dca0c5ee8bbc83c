/* larder ls: what a data set is and what lies in it. */
#include "base/escape.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/data_notes.h"
#include "cli/options.h"
#include "source/source.h"
#include "train/parts.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST_COUNTED = 1 << 20 }; /* classes; more are not counted one by one */

typedef struct options {
    const char *uri;
    uint64_t limit;
    bool json;
} options;

typedef struct tally {
    uint64_t *counts; /* per class; NULL when there are none or too many */
    uint32_t classes;
    uint64_t unlabelled;
    uint32_t smallest, largest;
} tally;

static int parse_options(options *o, int argc, char **argv) {
    *o = (options){.limit = 10};
    const larder__option table[] = {
        {"limit", LARDER__NUMBER, &o->limit, "N", "samples and classes to show, 0 for none (10)"},
        {"json", LARDER__FLAG, &o->json, NULL, "one JSON object for programs, with all classes"},
        {0}};
    const larder__command command = {
        "ls", "larder ls URI [--limit N] [--json]",
        "Shows what a data set is: samples, bytes, classes and the first few samples. A plain "
        "file\n"
        "or folder name will do where larder can tell what it is; larder list shows all sources.",
        "  larder ls photos/\n"
        "  larder ls 'tar:shard-{000000..000009}.tar'\n"
        "  larder ls s3://bucket/photos/\n"
        "  larder ls 'idx:/usr/share/datasets/fashion-mnist?split=test' --json",
        table};
    size_t count;
    int rc = larder__options_parse(&command, argc, argv, &o->uri, 1, &count);
    if (rc == 0 && count == 0) {
        fprintf(stderr, "larder ls: which data set? larder ls --help tells more\n");
        rc = -1;
    }
    return rc;
}

static int count_all(tally *t, larder__data *d) {
    const larder_dataset *about = larder__data_about(d);
    *t = (tally){.classes = about->classes, .smallest = UINT32_MAX};
    if (t->classes > 0 && t->classes <= MOST_COUNTED) {
        t->counts = larder__calloc(t->classes, sizeof *t->counts);
        if (!t->counts)
            return LARDER_E_NOMEM;
    }
    for (uint64_t i = 0; i < about->count; i++) {
        larder_sample s;
        int rc = larder__data_stat(d, i, &s);
        if (rc < 0)
            return rc;
        if (s.label < 0)
            t->unlabelled++;
        else if (t->counts && (uint32_t)s.label < t->classes)
            t->counts[s.label]++;
        t->smallest = s.bytes < t->smallest ? s.bytes : t->smallest;
        t->largest = s.bytes > t->largest ? s.bytes : t->largest;
    }
    return 0;
}

static uint64_t at_most(uint64_t limit, uint64_t n) { return n < limit ? n : limit; }

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_classes(larder__json *j, larder__data *d, const tally *t) {
    larder__json_open(j, "class_counts", '[');
    for (uint32_t c = 0; t->counts && c < t->classes; c++) {
        const char *name = larder__data_class(d, c);
        larder__json_open(j, NULL, '{');
        larder__json_u64(j, "label", c);
        if (name)
            larder__json_text(j, "name", name);
        larder__json_u64(j, "count", t->counts[c]);
        larder__json_close(j, '}');
    }
    larder__json_close(j, ']');
}

static void json_samples(larder__json *j, larder__data *d, uint64_t limit) {
    larder__json_open(j, "samples", '[');
    for (uint64_t i = 0; i < at_most(limit, larder__data_about(d)->count); i++) {
        char name[4096] = "";
        larder_sample s = {0};
        if (larder__data_stat(d, i, &s) < 0 || larder__data_name(d, i, name, sizeof name) < 0)
            break;
        larder__json_open(j, NULL, '{');
        larder__json_u64(j, "id", i);
        larder__json_f64(j, "label", s.label);
        larder__json_u64(j, "bytes", s.bytes);
        larder__json_text(j, "name", name);
        larder__json_close(j, '}');
    }
    larder__json_close(j, ']');
}

static void print_json(larder__data *d, const tally *t, uint64_t limit) {
    const larder_dataset *about = larder__data_about(d);
    larder__json j = {.to = stdout};
    char fingerprint[24], identity[24];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, about->fingerprint);
    snprintf(identity, sizeof identity, "%016" PRIx64, about->identity);
    larder__json_begin(&j);
    larder__json_text(&j, "uri", larder__data_uri(d));
    larder__json_text(&j, "source", larder__data_plugin(d)->name);
    larder__json_u64(&j, "count", about->count);
    larder__json_u64(&j, "bytes", about->bytes);
    larder__json_u64(&j, "classes", about->classes);
    larder__json_u64(&j, "unlabelled", t->unlabelled);
    larder__json_text(&j, "fingerprint", fingerprint);
    larder__json_text(&j, "identity", identity);
    if (about->raw.h) {
        larder__json_open(&j, "shape", '{');
        larder__json_u64(&j, "h", about->raw.h);
        larder__json_u64(&j, "w", about->raw.w);
        larder__json_u64(&j, "c", about->raw.c);
        larder__json_text(&j, "layout", about->layout == LARDER_NCHW ? "chw" : "hwc");
        larder__json_close(&j, '}');
    }
    larder__json_open(&j, "fields", '[');
    const char *field;
    for (size_t i = 0; (field = larder__data_field(d, i)); i++)
        larder__json_text(&j, NULL, field);
    larder__json_close(&j, ']');
    json_classes(&j, d, t);
    json_samples(&j, d, limit);
    larder__json_close(&j, '}');
    putchar('\n');
}

/* ---- for people ------------------------------------------------------------------------------ */

static void print_head(larder__data *d, const tally *t) {
    const larder_dataset *about = larder__data_about(d);
    const larder_plugin *p = larder__data_plugin(d);
    char all[32], low[32], high[32];
    larder__shown_print(stdout, larder__data_uri(d));
    printf("\n  source    %s: %s\n", p->name, p->summary);
    printf("  samples   %" PRIu64 "\n", about->count);
    printf("  payload   %s (%" PRIu64 " bytes)", larder__print_bytes((double)about->bytes, all),
           about->bytes);
    if (about->count && t->smallest != t->largest)
        printf(", %s to %s a sample", larder__print_bytes(t->smallest, low),
               larder__print_bytes(t->largest, high));
    else if (about->count)
        printf(", %s a sample", larder__print_bytes(t->smallest, low));
    if (about->raw.h)
        printf("\n  shape     %" PRIu32 " x %" PRIu32 " x %" PRIu32 " raw pixels (h x w x c), %s",
               about->raw.h, about->raw.w, about->raw.c,
               about->layout == LARDER_NCHW ? "planes" : "interleaved");
    printf("\n  classes   ");
    if (about->classes)
        printf("%" PRIu32, about->classes);
    else
        printf("unknown");
    if (t->unlabelled)
        printf(", %" PRIu64 " samples without a label", t->unlabelled);
    const char *field;
    for (size_t i = 0; i < 32 && (field = larder__data_field(d, i)); i++) {
        printf("%s", i ? ", " : "\n  fields    ");
        larder__shown_print(stdout, field);
    }
    putchar('\n');
}

/* A folder with train/ in it shows that part alone: the other is named. Not of other machines',
 * whose lists take long. */
static void print_parts(const char *uri, const larder_dataset *about) {
    char test[LARDER__URI_BYTES];
    larder__data *d = NULL;
    if (strstr(uri, "split=") || strstr(uri, "://") || larder__parts_test_uri(test, uri) < 0 ||
        larder__data_open(&d, test) < 0)
        return;
    if (larder__data_about(d)->fingerprint != about->fingerprint) {
        printf("  part      train; %" PRIu64 " samples to test with are ",
               larder__data_about(d)->count);
        larder__shown_print(stdout, test);
        putchar('\n');
    }
    larder__data_close(&d);
}

static void print_classes(larder__data *d, const tally *t, uint64_t limit) {
    uint64_t shown = t->counts ? at_most(limit, t->classes) : 0;
    if (shown)
        printf("\n  %8s  %10s  class\n", "label", "samples");
    for (uint32_t c = 0; c < shown; c++) {
        const char *name = larder__data_class(d, c);
        printf("  %8" PRIu32 "  %10" PRIu64 "  ", c, t->counts[c]);
        larder__shown_print(stdout, name ? name : "-");
        putchar('\n');
    }
    if (shown && shown < t->classes)
        printf("  and %" PRIu64 " more classes\n", t->classes - shown);
}

static void print_samples(larder__data *d, uint64_t limit) {
    uint64_t n = larder__data_about(d)->count, shown = at_most(limit, n);
    if (shown)
        printf("\n  %8s  %8s  %10s  name\n", "id", "label", "bytes");
    for (uint64_t i = 0; i < shown; i++) {
        char name[4096] = "", label[16] = "-";
        larder_sample s = {0};
        if (larder__data_stat(d, i, &s) < 0 || larder__data_name(d, i, name, sizeof name) < 0)
            break;
        if (s.label >= 0)
            snprintf(label, sizeof label, "%" PRId32, s.label);
        printf("  %8" PRIu64 "  %8s  %10" PRIu32 "  ", i, label, s.bytes);
        larder__shown_print(stdout, name);
        putchar('\n');
    }
    if (shown && shown < n)
        printf("  and %" PRIu64 " more samples\n", n - shown);
}

int larder__cmd_ls(int argc, char **argv) {
    options o;
    tally t = {0};
    larder__data *d = NULL;
    int parsed = parse_options(&o, argc, argv);
    if (parsed != 0)
        return parsed < 0 ? 2 : 0;
    int rc = larder__data_open(&d, o.uri);
    if (rc == 0)
        rc = count_all(&t, d);
    if (rc == 0 && o.json) {
        print_json(d, &t, o.limit);
    } else if (rc == 0) {
        larder__print_data_notes("ls", d);
        print_head(d, &t);
        print_parts(o.uri, larder__data_about(d));
        print_classes(d, &t, o.limit);
        print_samples(d, o.limit);
    }
    rc = larder__exit_code("ls", rc);
    larder__free(t.counts);
    larder__data_close(&d);
    return rc;
}
