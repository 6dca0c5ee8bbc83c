/* larder ls: what a data set is and what lies in it. */
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/spec.h"
#include "source/source.h"

#include <inttypes.h>
#include <stdio.h>

int larder__cmd_ls(int argc, char **argv);

static const char usage[] =
    "usage: larder ls URI [--limit N] [--json]\n"
    "\n"
    "Shows what a data set is: samples, bytes, classes and the first few samples.\n"
    "\n"
    "  URI         dir:photos, tar:shard-{000..009}.tar, idx:mnist?split=test, cifar10:folder,\n"
    "              mem:?n=1000, slow:nfs:URI, or a plain file or folder name\n"
    "  --limit N   first samples, and classes, to show; 10 unless said, 0 for none\n"
    "  --json      one JSON object for programs\n"
    "\n"
    "`larder list` shows all sources with their parameters.\n";

enum { MOST_COUNTED = 1 << 20 }; /* classes; more are not counted one by one */

typedef struct options {
    const char *uri;
    uint64_t limit;
    bool json, help;
} options;

typedef struct tally {
    uint64_t *counts; /* per class; NULL when there are none or too many */
    uint32_t classes;
    uint64_t unlabelled;
    uint32_t smallest, largest;
} tally;

static int complain(int code) {
    fprintf(stderr, "larder ls: %s\n", larder_errmsg());
    return code;
}

static int parse_options(options *o, int argc, char **argv) {
    *o = (options){.limit = 10};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0)
            o->help = true;
        else if (strcmp(a, "--json") == 0)
            o->json = true;
        else if (strncmp(a, "--limit=", 8) == 0) {
            if (larder__parse_u64("--limit", a + 8, UINT64_MAX, &o->limit) < 0)
                return -1;
        } else if (strcmp(a, "--limit") == 0) {
            if (i + 1 == argc)
                return larder__fail(LARDER_E_ARGS, "--limit needs a number");
            if (larder__parse_u64("--limit", argv[++i], UINT64_MAX, &o->limit) < 0)
                return -1;
        } else if (a[0] == '-' && a[1])
            return larder__fail(LARDER_E_ARGS, "unknown option %s; see larder ls --help", a);
        else if (o->uri)
            return larder__fail(LARDER_E_ARGS, "one data set at a time, not %s and %s", o->uri, a);
        else
            o->uri = a;
    }
    if (!o->help && !o->uri)
        return larder__fail(LARDER_E_ARGS, "which data set? See larder ls --help");
    return 0;
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

/* ---- for programs ------------------------------------------------------------------------------------------ */

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
    char fingerprint[24];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, about->fingerprint);
    larder__json_open(&j, NULL, '{');
    larder__json_text(&j, "uri", larder__data_uri(d));
    larder__json_text(&j, "source", larder__data_plugin(d)->name);
    larder__json_u64(&j, "count", about->count);
    larder__json_u64(&j, "bytes", about->bytes);
    larder__json_u64(&j, "classes", about->classes);
    larder__json_u64(&j, "unlabelled", t->unlabelled);
    larder__json_text(&j, "fingerprint", fingerprint);
    if (about->raw.h) {
        larder__json_open(&j, "shape", '{');
        larder__json_u64(&j, "h", about->raw.h);
        larder__json_u64(&j, "w", about->raw.w);
        larder__json_u64(&j, "c", about->raw.c);
        larder__json_text(&j, "layout", about->layout == LARDER_NCHW ? "chw" : "hwc");
        larder__json_close(&j, '}');
    }
    json_classes(&j, d, t);
    json_samples(&j, d, limit);
    larder__json_close(&j, '}');
    putchar('\n');
}

/* ---- for people ---------------------------------------------------------------------------------------------- */

static void print_head(larder__data *d, const tally *t) {
    const larder_dataset *about = larder__data_about(d);
    const larder_plugin *p = larder__data_plugin(d);
    char all[32], low[32], high[32];
    printf("%s\n  source    %s: %s\n", larder__data_uri(d), p->name, p->summary);
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
    putchar('\n');
}

static void print_classes(larder__data *d, const tally *t, uint64_t limit) {
    uint64_t shown = t->counts ? at_most(limit, t->classes) : 0;
    if (shown)
        printf("\n  %8s  %10s  class\n", "label", "samples");
    for (uint32_t c = 0; c < shown; c++) {
        const char *name = larder__data_class(d, c);
        printf("  %8" PRIu32 "  %10" PRIu64 "  %s\n", c, t->counts[c], name ? name : "-");
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
        printf("  %8" PRIu64 "  %8s  %10" PRIu32 "  %s\n", i, label, s.bytes, name);
    }
    if (shown && shown < n)
        printf("  and %" PRIu64 " more samples\n", n - shown);
}

int larder__cmd_ls(int argc, char **argv) {
    options o;
    tally t = {0};
    larder__data *d = NULL;
    if (parse_options(&o, argc, argv) < 0)
        return complain(2);
    if (o.help) {
        fputs(usage, stdout);
        return 0;
    }
    int rc = larder__data_open(&d, o.uri);
    if (rc == 0)
        rc = count_all(&t, d);
    if (rc < 0) {
        complain(1);
    } else if (o.json) {
        print_json(d, &t, o.limit);
    } else {
        print_head(d, &t);
        print_classes(d, &t, o.limit);
        print_samples(d, o.limit);
    }
    larder__free(t.counts);
    larder__data_close(&d);
    return rc < 0 ? 1 : 0;
}
