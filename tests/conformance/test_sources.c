/* What every registered source must keep (tests/support/source_suite.c), each on a small data set
 * of its own; those of the network on servers of their own. A source that is not in `places` fails:
 * there has to be something to open. */
#include "array_kit.h"
#include "aws_kit.h"
#include "base/err.h"
#include "base/mem.h"
#include "pack_kit.h"
#include "packed.h"
#include "plugins.h"
#include "source/source.h"
#include "source_suite.h"
#include "stores.h"
#include "tar_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[256];

/* ---- servers --------------------------------------------------------------------------------- */

static struct {
    pid_t pid; /* 0: not started */
    int keep;  /* it ends when this is closed */
    unsigned http, https, s3;
    char certificate[200];
} web;

static const char *python(void) {
    return access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
}

static bool web_start(void) {
    int in[2], out[2];
    char line[300] = "";
    assert_true(pipe(in) == 0 && pipe(out) == 0);
    web.pid = fork();
    assert_true(web.pid >= 0);
    if (web.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp(python(), "python3", "tests/support/web_serve.py", root, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    web.keep = in[1];
    FILE *f = fdopen(out[0], "r");
    assert_non_null(f);
    bool there = fgets(line, sizeof line, f) && sscanf(line, "%u %u %u %199s", &web.http,
                                                       &web.https, &web.s3, web.certificate) == 4;
    fclose(f);
    return there;
}

static void web_stop(void) {
    int status;
    if (web.pid > 0) {
        close(web.keep);
        waitpid(web.pid, &status, 0);
    }
    memset(&web, 0, sizeof web);
}

/* ---- what there is to open ------------------------------------------------------------------- */

static void path_of(char out[512], const char *name) { snprintf(out, 512, "%s/%s", root, name); }

static void put(const char *name, const void *bytes, size_t size) {
    char path[512];
    path_of(path, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    check_write(path, bytes, size);
}

static void make_dir(void) {
    for (int i = 0; i < 12; i++) {
        char name[64];
        snprintf(name, sizeof name, "dir/%s/%02d.jpg", i % 3 ? "a" : i % 2 ? "b" : "b/deep", i);
        put(name, name, strlen(name));
    }
    put("dir/a/empty.jpg", "", 0);
    put("dir/a/notes.txt", "this is no sample", 17);
}

static void make_tar(void) {
    for (int s = 0; s < 2; s++) {
        char name[64], path[512];
        snprintf(name, sizeof name, "tar/s-%d.tar", s);
        put(name, "", 0);
        path_of(path, name);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        for (int i = 0; i < 5; i++) {
            snprintf(name, sizeof name, "sample-%d-%d", s, i);
            tar_put_sample(f, name, name, strlen(name), i % 2 ? "1" : "0");
        }
        tar_put_end(f);
        fclose(f);
    }
}

static void make_list(void) {
    static const char lines[] = "b.jpg\t3\t1\na.jpg\t-\t0\nc.jpg\t5\t1\n";
    put("list/a.jpg", "aa", 2);
    put("list/b.jpg", "bbb", 3);
    put("list/c.jpg", "ccccc", 5);
    put("list/all.tsv", lines, sizeof lines - 1);
}

static void make_pack(void) {
    char from[512], uri[520], to[512];
    larder__pack_result r;
    put("pictures/a/none.txt", "", 0);
    path_of(from, "pictures");
    path_of(to, "pack");
    if (kit_pictures(from) == 0)
        return;
    snprintf(uri, sizeof uri, "dir:%s", from);
    larder__pack_conf conf = kit_pack_conf(uri, to);
    check_ok(larder__pack_run(&conf, &r));
}

static void make_idx(void) {
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0,
                                           0, 2, 0, 0, 0, 1, 1, 2, 3, 4};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};
    put("idx/train-images-idx3-ubyte", images, sizeof images);
    put("idx/train-labels-idx1-ubyte", labels, sizeof labels);
}

static void make_cifar(void) {
    static unsigned char bytes[2 * 3074];
    char name[64];
    bytes[1] = 99;
    bytes[3074] = 19;
    put("cifar100/train.bin", bytes, sizeof bytes);
    bytes[1] = bytes[3074] = 0;
    bytes[0] = 9;
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "cifar10/data_batch_%d.bin", i);
        put(name, bytes, 2 * 3073);
    }
}

static void make_arrays(void) {
    char path[512];
    path_of(path, "arrays");
    mkdir(path, 0700);
    path_of(path, "arrays/x.npy");
    kit_npy(path, "<f4", "(5, 3)", 60);
    path_of(path, "arrays/pictures.npy");
    kit_npy(path, "|u1", "(4, 2, 3, 3)", 72);
    path_of(path, "arrays/y.npy");
    kit_npy(path, "<f8", "(5, 2)", 80);
    path_of(path, "arrays/tokens.npy");
    kit_npy(path, "<u2", "(41,)", 82);
}

static void make_tables(void) {
    static const char rows[] =
        "a,\"say\",b,kind\r\n1,\"x, \"\"y\"\"\n\",2.5,cat\n,,3,dog\n-1e3,z,4,cat";
    static const char places[] = "label,length,file,offset\n1,5,bytes.bin,3\n0,0,bytes.bin,20\n"
                                 "2,7,more.bin,0\n";
    put("tables/rows.csv", rows, sizeof rows - 1);
    put("tables/places.csv", places, sizeof places - 1);
    put("tables/bytes.bin", "0123456789abcdefghij", 20);
    put("tables/more.bin", "ABCDEFG", 7);
}

static void make_stores(void) {
    static const char *const keys[] = {"a", "b/2", "__len__"}, *const values[] = {"one", "", "2"};
    char path[512];
    path_of(path, "lmdb");
    mkdir(path, 0700);
    kit_lmdb(path, keys, (const void *const *)values, (const size_t[]){3, 0, 1}, 3);
    path_of(path, "all.h5");
    kit_hdf5(path, 5);
}

/* In texts, {root} is the folder, {http}, {https} and {s3} are ports, {ca} is a file. */
typedef struct place {
    const char *source; /* its name; one source may have several */
    const char *where, *args, *nowhere;
    uint64_t count;
    const char *touched;    /* a file, of which the byte touched_at belongs to a sample; or NULL, */
    size_t touched_at;      /* and */
    const char *other_args; /* make other samples */
    bool network;
} place;

#define WEB "retries=0&connect=5s&requests=4&engines=1"

#define TOUCH_LAST SIZE_MAX /* any file of pages: its last byte */

static const place places[] = {
    {"dir", "{root}/dir", "", "{root}/none", 13, "dir/a/01.jpg", 0, NULL, false},
    {"dir", "{root}/dir", "io=plain", "{root}/none", 13, "dir/a/01.jpg", 0, NULL, false},
    {"tar", "{root}/tar/s-{0..1}.tar", "", "{root}/none.tar", 10, "tar/s-1.tar", 513, NULL, false},
    {"tar", "{root}/tar", "index=off", "{root}/none.tar", 10, "tar/s-1.tar", 513, NULL, false},
    {"list", "{root}/list/all.tsv", "", "{root}/none.tsv", 3, "list/c.jpg", 1, NULL, false},
    {"pack", "{root}/pack", "", "{root}/none", 18, "pack/shard-000000.tar", 2048, NULL, false},
    {"idx", "{root}/idx", "", "{root}/none", 2, "idx/train-images-idx3-ubyte", 17, NULL, false},
    {"cifar10", "{root}/cifar10", "", "{root}/none", 10, "cifar10/data_batch_5.bin", 100, NULL,
     false},
    {"cifar100", "{root}/cifar100", "", "{root}/none", 2, "cifar100/train.bin", 100, NULL, false},
    {"http", "//127.0.0.1:{http}/dir/", WEB, "//127.0.0.1:{http}/none/", 13, "dir/a/01.jpg", 0,
     NULL, true},
    {"http", "//127.0.0.1:{http}/tar/s-{0..1}.tar", WEB, "//127.0.0.1:{http}/none.tar", 10,
     "tar/s-1.tar", 513, NULL, true},
    {"https", "//127.0.0.1:{https}/dir/", WEB "&ca={ca}", "//127.0.0.1:{https}/none/", 13,
     "dir/a/01.jpg", 0, NULL, true},
    {"s3", "//data/dir/", WEB "&anonymous=1&endpoint=http://127.0.0.1:{s3}", "//data/none/", 13,
     "dir/a/01.jpg", 0, NULL, true},
    {"gs", "//data/dir/", WEB "&anonymous=1&endpoint=http://127.0.0.1:{s3}", "//data/none/", 13,
     "dir/a/01.jpg", 0, NULL, true},
    {"mem", "", "n=20&bytes=0-50&bad=99", "somewhere", 20, NULL, 0, "n=20&bytes=0-50&seed=2",
     false},
    {"mem", "", "n=3&h=2&w=3&c=1", "somewhere", 3, NULL, 0, "n=3&h=2&w=3&c=1&seed=2", false},
    {"slow", "dir:{root}/dir", "latency=1us", "dir:{root}/none", 13, "dir/a/01.jpg", 0, NULL,
     false},
    {"npy", "{root}/arrays/x.npy", "labels={root}/arrays/y.npy", "{root}/none.npy", 5,
     "arrays/y.npy", 200, NULL, false},
    {"npy", "{root}/arrays/pictures.npy", "", "{root}/arrays", 4, "arrays/pictures.npy", 190, NULL,
     false},
    {"raw", "{root}/arrays/tokens.npy", "dtype=u16&offset=128", "{root}/none", 41,
     "arrays/tokens.npy", 150, NULL, false},
    {"window", "npy:{root}/arrays/tokens.npy", "length=8,stride=4", "npy:{root}/none.npy", 9,
     "arrays/tokens.npy", 150, NULL, false},
    {"window", "raw:{root}/arrays/tokens.npy?dtype=u16&offset=128", "length=8", "dir:{root}/dir", 5,
     NULL, 0, "length=8,stride=7", false},
    {"csv", "{root}/tables/rows.csv", "target=kind", "{root}/none.csv", 3, "tables/rows.csv", 19,
     NULL, false},
    {"csv", "{root}/tables/rows.csv", "target=b&columns=a", "{root}/tables", 3, NULL, 0, "target=b",
     false},
    {"table", "{root}/tables/places.csv", "", "{root}/tables/rows.csv", 3, "tables/more.bin", 3,
     NULL, false},
    {"lmdb", "{root}/lmdb", "", "{root}/dir", 2, "lmdb/data.mdb", TOUCH_LAST, NULL, false},
    {"lmdb", "{root}/lmdb/data.mdb", "", "{root}/all.h5", 2, "lmdb/data.mdb", TOUCH_LAST, NULL,
     false},
    {"hdf5", "{root}/all.h5", "y=t", "{root}/none.h5", 5, NULL, 0, "y=y", false},
    {"hdf5", "{root}/all.h5", "x=f&y=y", "{root}/lmdb/data.mdb", 5, NULL, 0, "x=t", false},
    {"mix", "3*dir:{root}/dir,1*tar:{root}/tar", "epoch=all", "0.5*dir:{root}/none", 40,
     "tar/s-1.tar", 513, NULL, false},
    {"mix", "1*dir:{root}/dir?take=2:9,1*list:{root}/list/all.tsv", "epoch=11", "dir:{root}/none",
     11, NULL, 0, "epoch=13", false},
};

static const char *fill(char out[600], const char *text) {
    size_t at = 0;
    while (*text && at < 300) {
        const struct {
            const char *mark;
            unsigned port;
            const char *is;
        } marks[] = {{"{root}", 0, root},
                     {"{http}", web.http, NULL},
                     {"{https}", web.https, NULL},
                     {"{s3}", web.s3, NULL},
                     {"{ca}", 0, web.certificate}};
        size_t k = 0;
        while (k < 5 && strncmp(text, marks[k].mark, strlen(marks[k].mark)) != 0)
            k++;
        if (k == 5) {
            out[at++] = *text++;
            continue;
        }
        at += (size_t)(marks[k].is ? snprintf(out + at, 600 - at, "%s", marks[k].is)
                                   : snprintf(out + at, 600 - at, "%u", marks[k].port));
        text += strlen(marks[k].mark);
    }
    out[at] = 0;
    return out;
}

static void touch(void *arg) {
    const place *p = arg;
    char path[512];
    path_of(path, p->touched);
    size_t size;
    unsigned char *bytes = kit_read(path, &size);
    assert_true(p->touched_at < size || p->touched_at == TOUCH_LAST);
    bytes[p->touched_at == TOUCH_LAST ? size - 1 : p->touched_at] ^= 1;
    check_write(path, bytes, size);
    free(bytes);
}

static int set_up(void **state) {
    (void)state;
    char path[512];
    check_folder(root);
    path_of(path, "cache");
    setenv("LARDER_CACHE_DIR", path, 1);
    setenv("no_proxy", "*", 1);
    kit_aws_clear();
    make_dir();
    make_tar();
    make_list();
    make_pack();
    make_idx();
    make_cifar();
    make_arrays();
    make_tables();
    make_stores();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    web_stop();
    check_folder_remove(root);
    return 0;
}

/* ---- the suite ------------------------------------------------------------------------------- */

/* Is what this place needs part of this build and of this machine? */
static bool can_be_had(const place *p) {
    bool curl = strstr(larder_features(), "-curl") == NULL;
    bool jpeg = strstr(larder_features(), "-jpeg") == NULL;
    if ((strcmp(p->source, "pack") == 0 && !jpeg) ||
        (strcmp(p->source, "lmdb") == 0 && strstr(larder_features(), "-lmdb")) ||
        (strcmp(p->source, "hdf5") == 0 && strstr(larder_features(), "-hdf5")))
        return false;
    if (!p->network)
        return true;
    if (curl && !web.pid && !web_start())
        web.http = 0;
    return curl && web.http;
}

static void run_place(const larder_source *s, const place *p) {
    char where[600], args[600], nowhere[600];
    if (!can_be_had(p)) {
        fprintf(stderr, "%s: not on this machine or not in this build\n", p->source);
        return;
    }
    source_case c = {.source = s,
                     .where = fill(where, p->where),
                     .args = fill(args, p->args),
                     .nowhere = fill(nowhere, p->nowhere),
                     .count = p->count,
                     .change = p->touched ? touch : NULL,
                     .arg = (void *)(uintptr_t)p,
                     .other_args = p->other_args,
                     .network = p->network};
    if (!source_suite(&c))
        fail_msg("source %s (%s?%s): %s", p->source, where, args, wrong_said());
}

static void every_source(void **state) {
    (void)state;
    for (size_t k = 0; larder__sources[k]; k++) {
        const larder_source *s = larder__sources[k];
        size_t found = 0;
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            if (strcmp(places[i].source, s->plugin.name) == 0) {
                run_place(s, &places[i]);
                found++;
            }
        if (!found)
            fail_msg("source %s has no small data set to be tried on: add a line for it to "
                     "`places` in tests/conformance/test_sources.c, and what it opens to set_up",
                     s->plugin.name);
    }
}

/* Sources never see an id that is none: whoever opened them answers, with a sentence. */
static void wrong_ids(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const place *p = &places[i];
        const larder_source *s = larder__source_find(p->source);
        char where[600], args[600], uri[1300], name[64];
        if (!s || !can_be_had(p))
            continue;
        fill(where, p->where);
        fill(args, p->args);
        if (s->wraps)
            snprintf(uri, sizeof uri, "%s:%s:%s", p->source, args, where);
        else
            snprintf(uri, sizeof uri, "%s:%s?%s", p->source, where, args);
        larder__data *d = NULL;
        check_ok(larder__data_open(&d, uri));
        const uint64_t ids[] = {p->count, 0, UINT64_MAX, p->count - 1, p->count};
        larder_read out[5];
        larder_sample one;
        assert_int_equal(larder__data_stat(d, p->count, &one), LARDER_E_RANGE);
        assert_int_equal(larder__data_name(d, UINT64_MAX, name, sizeof name), LARDER_E_RANGE);
        check_ok(larder__data_read(d, ids, 5, out));
        for (size_t k = 0; k < 5; k++) {
            bool there = ids[k] < p->count;
            assert_int_equal(there, out[k].buf != NULL);
            if (!there)
                assert_int_equal(out[k].code, LARDER_E_RANGE);
            assert_int_equal(there, out[k].why[0] == 0);
            larder_buf_unref(&out[k].buf);
        }
        larder__data_close(&d);
    }
}

/* ---- sources that are wrong on purpose ------------------------------------------------------- */

enum { COUNT = 6, CLASSES = 3, SIDE = 4 };

typedef enum {
    NOTHING,
    A_COUNT,
    ALL_BYTES,
    A_LABEL,
    A_SECOND_STAT,
    ITS_PIXELS,
    A_LONG_NAME,
    ONE_NAME,
    A_CLASS,
    ITS_NOTES,
    A_FIGURE,
    A_SHORT_READ,
    OTHER_BYTES,
    A_FORGOTTEN_READ,
    THREADS,
    INTERRUPTS,
    A_PART,
    NO_PART_BYTES,
    A_FINGERPRINT,
    A_CHANGE,
    NOWHERE,
    IN_SILENCE,
    A_LEAK,
    A_LEAK_WHEN_MEMORY_IS_SHORT,
    SHORT_MEMORY,
    A_SMALL_STATE,
    A_PARAMETER,
    WRONGS
} wrongness;
static wrongness what;
static uint64_t opened;             /* times */
static unsigned char version;       /* of the bytes */
static _Thread_local uint64_t made; /* reads by this thread */

typedef struct sound {
    unsigned char *first; /* byte of each sample */
    void *other;
    bool interrupted;
} sound;

static int sound_open(void *st, const char *where, const larder_args *args) {
    sound *s = st;
    (void)args;
    opened++;
    if (strcmp(where, "here") != 0 && what == IN_SILENCE)
        return LARDER_E_NOTFOUND;
    if (strcmp(where, "here") != 0 && what != NOWHERE)
        return larder__fail(LARDER_E_NOTFOUND, "there is nothing at %.40s", where);
    if (what == A_SMALL_STATE)
        ((char *)st)[sizeof *s] = 1;
    s->first = larder__malloc(COUNT);
    s->other = larder__malloc(1);
    for (unsigned i = 0; s->first && i < COUNT; i++)
        s->first[i] = (unsigned char)(i + version);
    return s->first && s->other ? 0 : LARDER_E_NOMEM;
}

static void sound_close(void *st) {
    sound *s = st;
    larder__free(s->first);
    if (what == A_LEAK || (what == A_LEAK_WHEN_MEMORY_IS_SHORT && !s->first))
        lose(s->other);
    else
        larder__free(s->other);
}

static uint32_t size_of(uint64_t id) {
    return SIDE * SIDE + (uint32_t)(what == ITS_PIXELS) * (uint32_t)id;
}

static int sound_describe(void *st, larder_dataset *out) {
    (void)st;
    *out = (larder_dataset){.count = COUNT + (what == A_COUNT),
                            .classes = CLASSES,
                            .raw = {SIDE, SIDE, 1},
                            .parts = true,
                            .fingerprint = what == A_FINGERPRINT ? opened : 1,
                            .identity = what == A_CHANGE ? 1 : version + 1u};
    for (uint64_t id = 0; id < COUNT; id++)
        out->bytes += size_of(id) + (what == ALL_BYTES);
    return 0;
}

static int sound_stat(void *st, uint64_t id, larder_sample *out) {
    static uint32_t stats;
    (void)st;
    *out = (larder_sample){size_of(id), (int32_t)(id % CLASSES)};
    if (what == A_LABEL && id == 5)
        out->label = CLASSES;
    if (what == A_SECOND_STAT)
        out->bytes += stats++ % 2;
    return 0;
}

static int sound_name(void *st, uint64_t id, char *out, size_t cap) {
    (void)st;
    if (what == A_LONG_NAME)
        memcpy(out, "sample", 7);
    else
        snprintf(out, cap, "sample %d", what == ONE_NAME ? 1 : (int)id);
    return 0;
}

static const char *sound_class(void *st, uint32_t label) {
    (void)st;
    return label < CLASSES || what == A_CLASS ? "a class" : NULL;
}

static void make_one(sound *s, uint64_t id, uint32_t bytes, larder_read *r) {
    larder_buf *buf = larder_buf_new(bytes - (what == A_SHORT_READ && id == 4));
    *r = (larder_read){.buf = buf, .code = buf || what == SHORT_MEMORY ? 0 : LARDER_E_NOMEM};
    made++;
    if (buf)
        memset(larder_buf_data(buf),
               s->first[id] + (what == OTHER_BYTES && made == 10 ? 1 : 0) +
                   (what == THREADS && made < 20 ? 1 : 0),
               larder_buf_size(buf));
    else
        snprintf(r->why, sizeof r->why, "no memory");
}

static int sound_parts(void *st, const uint64_t *ids, const larder_rect *rects, size_t n,
                       larder_read *out) {
    sound *s = st;
    for (size_t i = 0; i < n; i++) {
        const larder_rect *r = rects ? &rects[i] : NULL;
        if (what == A_FORGOTTEN_READ && i == 3)
            continue;
        make_one(s, ids[i], r && r->x1 ? (r->x1 - r->x0) * (r->y1 - r->y0) : size_of(ids[i]),
                 &out[i]);
        if (s->interrupted && what == INTERRUPTS)
            out[i].code = LARDER_E_CANCELLED;
    }
    return 0;
}

static int sound_read(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    return sound_parts(st, ids, NULL, n, out);
}

static int sound_extent(void *st, uint64_t id, uint32_t *w, uint32_t *h) {
    (void)st, (void)id;
    *w = *h = SIDE;
    return 0;
}

static int sound_part_bytes(void *st, uint64_t id, const larder_rect *r, uint32_t *out) {
    (void)st, (void)id;
    *out = (r->x1 - r->x0) * (r->y1 - r->y0) + (what == A_PART && r->x0);
    return 0;
}

static void sound_interrupt(void *st) { ((sound *)st)->interrupted = what == INTERRUPTS; }

static const larder_figure *sound_figures(void *st) {
    static const larder_figure f[] = {{"sound_reads", "", "samples read"}, {0}};
    (void)st;
    return f;
}
static double sound_figure(void *st, size_t i) {
    (void)st, (void)i;
    return what == A_FIGURE ? 0.0 / 0.0 : 1;
}
static const char *sound_note(void *st, size_t i) {
    (void)st;
    return i < 2 || what == ITS_NOTES ? "something lies there" : NULL;
}

static void change_sound(void *arg) {
    (void)arg;
    version++;
}

static const larder_param good_params[] = {{"level", "int", "1", "of nothing", 0, 5}, {0}};
static const larder_param bad_params[] = {{"level", "int", "7", "of nothing", 0, 5}, {0}};

static const char *try_wrong(unsigned w) {
    larder_source s = {
        .plugin = {"sound", "a source that is right", good_params, sizeof(sound)},
        .open = sound_open,
        .close = sound_close,
        .describe = sound_describe,
        .stat = sound_stat,
        .name = sound_name,
        .class_name = sound_class,
        .read = sound_read,
        .extent = sound_extent,
        .part_bytes = sound_part_bytes,
        .read_parts = sound_parts,
        .interrupt = sound_interrupt,
        .figures = sound_figures,
        .figure = sound_figure,
        .note = sound_note,
    };
    what = w;
    version = 0;
    made = 0;
    if (w == A_PARAMETER)
        s.plugin.params = bad_params;
    if (w == NO_PART_BYTES)
        s.part_bytes = NULL;
    source_case c = {.source = &s,
                     .where = "here",
                     .args = "",
                     .nowhere = "there",
                     .count = COUNT,
                     .change = change_sound};
    bool right = source_suite(&c);
    find_lost();
    return right ? NULL : wrong_said();
}

/* Of each the suite says what is wrong, and of the sound one nothing. */
static void broken_sources(void **state) {
    (void)state;
    static const char *const says[WRONGS] = {
        [A_COUNT] = "says 7 samples where 6 are",
        [ALL_BYTES] = "bytes in all",
        [A_LABEL] = "has the label 3 of 3 classes",
        [A_SECOND_STAT] = "two stats",
        [ITS_PIXELS] = "its pixels",
        [A_LONG_NAME] = "goes past",
        [ONE_NAME] = "have one name",
        [A_CLASS] = "names classes",
        [ITS_NOTES] = "notes do not end",
        [A_FIGURE] = "is not finite",
        [A_SHORT_READ] = "as it is read",
        [OTHER_BYTES] = "other bytes on another read",
        [A_FORGOTTEN_READ] = "cannot be read",
        [THREADS] = "threads that read at once",
        [INTERRUPTS] = "neither read nor cancelled",
        [A_PART] = "part_bytes says",
        [NO_PART_BYTES] = "not all",
        [A_FINGERPRINT] = "another data set",
        [A_CHANGE] = "the same data set after",
        [NOWHERE] = "where nothing is",
        [IN_SILENCE] = "without a sentence",
        [A_LEAK] = "after its end",
        [A_LEAK_WHEN_MEMORY_IS_SHORT] = "after its end, with allocation",
        [SHORT_MEMORY] = "neither bytes nor a code",
        [A_SMALL_STATE] = "past its state",
        [A_PARAMETER] = "its initial values are refused",
    };
    check_wrongs("source", try_wrong, says, WRONGS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_ids),
        cmocka_unit_test(every_source),
        cmocka_unit_test(broken_sources),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
