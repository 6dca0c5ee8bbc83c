/* What is slow or lacking on a machine, from facts alone. */
#include "base/spec.h"
#include "cli/doctor_facts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void say(larder__slow *s, const char *format, ...) {
    va_list ap;
    if (s->count == LARDER__ADVICE_LINES)
        return;
    va_start(ap, format);
    vsnprintf(s->lines[s->count++], sizeof s->lines[0], format, ap);
    va_end(ap);
}

static bool lacks(const char *parts, const char *name) {
    char wanted[32];
    snprintf(wanted, sizeof wanted, "-%s ", name);
    return strstr(parts, wanted) != NULL;
}

static void judge_build(larder__slow *s, const char *parts) {
    static const struct {
        const char *part, *what, *package;
    } all[] = {{"jpeg", "JPEG pictures cannot be decoded", "libjpeg-dev"},
               {"png", "PNG pictures cannot be decoded", "libspng-dev"},
               {"cblas",
                "larder train and SVM multiply matrices by code of larder's own, several "
                "times slower",
                "libopenblas-dev"},
               {"uring", "small files are read one call at a time", "liburing-dev"},
               {"curl", "web servers and S3 cannot be read", "libcurl4-openssl-dev"},
               {"redis", "several machines cannot share a cache", "libhiredis-dev"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (lacks(parts, all[i].part))
            say(s, "this build is without %s: %s (Debian: %s, then build again)", all[i].part,
                all[i].what, all[i].package);
}

static void judge_processor(larder__slow *s, const larder__facts *f) {
    if (f->cores < f->machine_cores)
        say(s, "this process may use %u of %u cores (cgroup or affinity): loaders start %u threads",
            f->cores, f->machine_cores, f->cores);
    if (isfinite(f->load) && f->load > 1.5 * f->machine_cores)
        say(s, "%.1f processes want %u cores: others are at work here%s", f->load, f->machine_cores,
            isfinite(f->copy) ? ", and what was measured is too low" : "");
    if (!f->wide)
        say(s, "the processor has no AVX2: resizing, colours and SVM run their plain code");
}

static void judge_memory(larder__slow *s, const larder__facts *f) {
    char have[32], all[32];
    if (f->memory < f->machine_memory)
        say(s, "this process may use %s of %s memory (cgroup or ulimit -v): a cache fits in that",
            larder__print_bytes((double)f->memory, have),
            larder__print_bytes((double)f->machine_memory, all));
    if (f->free_memory && f->free_memory < f->machine_memory / 10)
        say(s, "only %s of memory are free: a cache that takes more makes the machine swap",
            larder__print_bytes((double)f->free_memory, have));
    if (f->most_files && f->most_files < 1024)
        say(s,
            "ulimit -n is %llu: shards and connections are opened again and again; 4096 is "
            "enough",
            (unsigned long long)f->most_files);
}

static void judge_kept(larder__slow *s, const larder__facts *f) {
    if (f->unkept[0])
        say(s, "indexes and the GPU's code are made anew at every start: %s", f->unkept);
    else if (f->keep.path[0] && !f->keep.writable)
        say(s,
            "the cache folder (%s) cannot be written to: shards and long lists of files are "
            "looked through anew in every run; LARDER_CACHE_DIR names another",
            f->keep.path);
}

static void judge_place(larder__slow *s, const larder__place *p, const char *what) {
    char left[32];
    if (!p->path[0])
        return;
    if (p->network)
        say(s,
            "%s (%s) lies on %s, another machine's disk: a cache pays, and so does a folder on a "
            "local disk",
            what, p->path, p->kind);
    if (p->all_bytes && p->free_bytes < p->all_bytes / 50)
        say(s, "%s (%s) has %s left: indexes and caches on disk find no room", what, p->path,
            larder__print_bytes((double)p->free_bytes, left));
}

/* Samples a second of such training, for scale. */
static const double gpu_takes = 2500;

static void judge_speed(larder__slow *s, const larder__facts *f) {
    if (isfinite(f->decode) && f->decode * f->cores < gpu_takes)
        say(s,
            "%u core%s decode about %.0f pictures of 500x375 a second; a GPU that trains ResNet-50 "
            "in mixed precision takes about %.0f (an A100): decoding would hold it up. larder "
            "pack, "
            "shrink= or a decoded share of the cache (larder plan) help",
            f->cores, f->cores == 1 ? "" : "s", f->decode * f->cores, gpu_takes);
    if (isfinite(f->disk_random) && f->disk_random < 1000)
        say(s,
            "the disk of %s gives %.0f random reads a second: samples that are files of their own "
            "come no faster; tar shards with --recipe stream read whole blocks",
            f->here.path, f->disk_random);
    if (f->gpu.there && !f->cuda[0].there)
        say(s, "there is a GPU, and %.200s", f->cuda[0].says);
    if (!f->uring.there)
        say(s, "%.250s", f->uring.says);
}

void larder__facts_judge(larder__slow *s, const larder__facts *f, const char *parts) {
    s->count = 0;
    judge_build(s, parts);
    judge_processor(s, f);
    judge_memory(s, f);
    judge_place(s, &f->here, "this folder");
    judge_place(s, &f->keep, "the cache folder");
    judge_kept(s, f);
    judge_speed(s, f);
}
