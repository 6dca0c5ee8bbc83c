/* Samples per core-second through the stages: CPU time, median and spread of several rounds.
 *
 *     bench_stage [--rounds N] [--seconds S] [--case NAME] [--read] [--cage]
 *                 [--spec AUGMENT [--u8|--f16]] [FOLDER]
 *
 * Without a folder of photographs only the raw cases run; FOLDER is searched for .jpg files, also
 * one level below. With --read each file is opened and read again for each sample, as a loader
 * without a cache does; otherwise they lie in memory. With --spec only that is run, on the
 * photographs; channels first. With --cage each case of photographs is run in a cage as well, turn
 * by turn; the time of both processes counts. */
#include "base/clock.h"
#include "base/mem.h"
#include "cage/cage.h"
#include "stage/pipeline.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct files {
    size_t n, cap, bytes;
    unsigned char **at;
    size_t *size;
    char **path; /* NULL: made up */
} files;

static void die(const char *what) {
    fprintf(stderr, "bench_stage: %s: %s\n", what, larder_errmsg());
    exit(1);
}

static unsigned char *read_file(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    unsigned char *bytes = NULL;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 && (bytes = malloc((size_t)st.st_size)) &&
        read(fd, bytes, (size_t)st.st_size) != st.st_size) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes)
        *size = (size_t)st.st_size;
    if (fd >= 0)
        close(fd);
    return bytes;
}

static void *grown(void *old, size_t n, size_t each) {
    void *p = realloc(old, n * each);
    if (!p)
        die("out of memory");
    return p;
}

static void files_add(files *f, const char *path) {
    if (f->n == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        f->at = grown(f->at, f->cap, sizeof *f->at);
        f->size = grown(f->size, f->cap, sizeof *f->size);
        f->path = grown(f->path, f->cap, sizeof *f->path);
    }
    f->at[f->n] = read_file(path, &f->size[f->n]);
    f->path[f->n] = strdup(path);
    if (!f->at[f->n] || !f->path[f->n])
        die(path);
    f->bytes += f->size[f->n++];
}

static void files_scan(files *f, const char *folder, int depth) {
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[1024];
        size_t n = strlen(e->d_name);
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
            continue;
        if (n > 4 && strcmp(e->d_name + n - 4, ".jpg") == 0)
            files_add(f, path);
        else if (depth > 0 && e->d_name[0] != '.')
            files_scan(f, path, depth - 1);
    }
    if (d)
        closedir(d);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct job {
    larder__pipeline *p;
    larder__scratch *s;
    const files *f;
    char *batch;
    size_t slots, bytes;
    uint64_t seed;
    bool read; /* each file again for each sample */
} job;

static void one_sample(job *j, size_t i) {
    unsigned char *bytes = j->f->at[i];
    size_t size = j->f->size[i];
    bool again = j->read && j->f->path;
    if (again && !(bytes = read_file(j->f->path[i], &size)))
        die(j->f->path[i]);
    if (larder__pipeline_run(j->p, j->s, bytes, size, j->seed,
                             j->batch + j->seed % j->slots * j->bytes) < 0)
        die("run");
    if (again)
        free(bytes);
}

/* Samples per CPU second over at least `seconds`, at least one pass over the files. */
static double round_of(job *j, double seconds) {
    double start = larder__scratch_seconds(j->s), now = start;
    uint64_t done = 0;
    while (now - start < seconds) {
        for (size_t i = 0; i < j->f->n; i++, done++, j->seed++)
            one_sample(j, i);
        now = larder__scratch_seconds(j->s);
    }
    return (double)done / (now - start);
}

typedef struct options {
    int rounds;
    double seconds;
    const char *only, *folder, *spec;
    larder_dtype dtype; /* with spec */
    bool read, cage;
} options;

static double show(const char *name, const char *how, double *rate, int rounds, const files *f) {
    qsort(rate, (size_t)rounds, sizeof *rate, by_value);
    printf("%-16s %-5s %10.0f samples/core-s [%.0f..%.0f], %zu samples of %zu bytes\n", name, how,
           rate[rounds / 2], rate[0], rate[rounds - 1], f->n, f->bytes / f->n);
    return rate[rounds / 2];
}

static void run_case(const char *name, const larder__pipeline_conf *conf, const files *f,
                     const options *o) {
    if (f->n == 0 || (o->only && strcmp(o->only, name) != 0))
        return;
    const int rounds = o->rounds;
    job j = {.f = f, .slots = 64, .read = o->read};
    double rate[99], caged[99];
    larder__scratch *here = NULL, *there = NULL;
    larder__cage *cage = NULL;
    if (larder__pipeline_open(&j.p, conf) < 0 || larder__scratch_open(&here) < 0)
        die(name);
    if (o->cage && conf->raw.h == 0 &&
        (larder__cage_open(&cage, "on") < 0 || larder__scratch_open(&there) < 0 ||
         larder__cage_take(cage, there) < 0))
        die("cage");
    j.s = here;
    j.bytes = larder__pipeline_bytes(j.p);
    j.batch = larder__memalign(64, j.slots * j.bytes);
    if (!j.batch)
        die(name);
    round_of(&j, o->seconds / 4);
    for (int i = 0; i < rounds; i++) {
        j.s = here;
        rate[i] = round_of(&j, o->seconds);
        j.s = there;
        if (i == 0 && there)
            round_of(&j, o->seconds / 4);
        caged[i] = there ? round_of(&j, o->seconds) : 0;
    }
    double plain = show(name, "", rate, rounds, f);
    if (there)
        printf("%-16s       %10.1f %% less in a cage\n", name,
               100 * (1 - show(name, "caged", caged, rounds, f) / plain));
    fflush(stdout);
    larder__free(j.batch);
    larder__scratch_close(&here);
    larder__scratch_close(&there);
    larder__cage_close(&cage);
    larder__pipeline_close(&j.p);
}

static files made_up(size_t n, size_t bytes) {
    files f = {.n = n, .bytes = n * bytes};
    f.at = malloc(n * sizeof *f.at);
    f.size = malloc(n * sizeof *f.size);
    for (size_t i = 0; f.at && f.size && i < n; i++) {
        f.at[i] = malloc(bytes);
        f.size[i] = bytes;
        for (size_t k = 0; f.at[i] && k < bytes; k++)
            f.at[i][k] = (unsigned char)(i * 31 + k * 7);
    }
    return f;
}

int main(int argc, char **argv) {
    options o = {.rounds = 5, .seconds = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            o.rounds = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            o.seconds = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--case") == 0 && i + 1 < argc)
            o.only = argv[++i];
        else if (strcmp(argv[i], "--read") == 0)
            o.read = true;
        else if (strcmp(argv[i], "--cage") == 0)
            o.cage = true;
        else if (strcmp(argv[i], "--spec") == 0 && i + 1 < argc)
            o.spec = argv[++i];
        else if (strcmp(argv[i], "--u8") == 0)
            o.dtype = LARDER_U8;
        else if (strcmp(argv[i], "--f16") == 0)
            o.dtype = LARDER_F16;
        else
            o.folder = argv[i];
    }
    o.rounds = o.rounds < 1 ? 1 : o.rounds > 99 ? 99 : o.rounds;
    files cifar = made_up(2048, 3072), photos = {0};
    if (o.folder)
        files_scan(&photos, o.folder, 1);
    if (o.spec) {
        run_case("spec", &(larder__pipeline_conf){.spec = o.spec, .dtype = o.dtype}, &photos, &o);
        return 0;
    }
    const larder_shape raw = {32, 32, 3};
    static const char cifar_spec[] = "crop:size=32,pad=4|flip|normalize:preset=cifar10";
    const larder__pipeline_conf cases[] = {
        {.spec = cifar_spec, .raw = raw, .dtype = LARDER_F32},
        {.spec = cifar_spec,
         .raw = raw,
         .raw_layout = LARDER_NHWC,
         .dtype = LARDER_F32,
         .layout = LARDER_NHWC},
        {.spec = "crop:size=32,pad=4|flip", .raw = raw, .dtype = LARDER_U8},
        {.spec = "rrc:size=224|flip|normalize:preset=imagenet", .dtype = LARDER_F32},
        {.spec = "rrc:size=224|flip", .dtype = LARDER_U8, .layout = LARDER_NHWC},
        {.spec = "resize:size=256|centercrop:size=224|normalize:preset=imagenet",
         .dtype = LARDER_F32}};
    run_case("cifar-f32-nchw", &cases[0], &cifar, &o);
    run_case("cifar-f32-nhwc", &cases[1], &cifar, &o);
    run_case("cifar-u8-nchw", &cases[2], &cifar, &o);
    run_case("photo-rrc-f32", &cases[3], &photos, &o);
    run_case("photo-rrc-u8", &cases[4], &photos, &o);
    run_case("photo-centre-f32", &cases[5], &photos, &o);
    return 0;
}
