/* larder doctor: what is built in, what the machine has, how fast it is, and what is slow here. */
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/doctor_facts.h"
#include "cli/options.h"
#include "cli/variables.h"
#include "profile/bench_machine.h"

#include <larder/larder.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    larder__checks checks;
    double seconds; /* for measuring */
    bool json;
} options;

static int parse(options *o, int argc, char **argv) {
    *o = (options){.seconds = 3};
    const larder__option table[] = {
        {"seconds", LARDER__REAL, &o->seconds, "S", "for measuring; 0: none (3)"},
        {"folder", LARDER__TEXT, &o->checks.folder, "DIR", "whose disk is meant (this one)"},
        {"redis", LARDER__TEXT, &o->checks.redis, "ADDRESS",
         "to try, as redis://host (redis://127.0.0.1)"},
        {"json", LARDER__FLAG, &o->json, NULL, "one JSON object for programs"},
        {0}};
    const larder__command command = {
        "doctor", "larder doctor [--seconds S] [--folder DIR] [--redis ADDRESS] [--json]",
        "Says what this build has, what this machine has (cores, memory, disks, GPU, CUDA's "
        "libraries,\na daemon, Redis, Python's module), how fast it decodes, copies and reads, and "
        "what is slow here,\nwhy, and what helps. It measures for a few seconds with a picture and "
        "a file of its own; larder\nprofile measures your data. Nothing is changed or left behind.",
        "  larder doctor\n  larder doctor --folder /mnt/data --json", table};
    size_t words;
    int rc = larder__options_parse(&command, argc, argv, NULL, 0, &words);
    if (rc == 0 && !(o->seconds >= 0 && o->seconds <= 600))
        rc = larder__wrong_usage("doctor", "--seconds is 0 to 600");
    return rc;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void print_fact(const char *name, const larder__fact *f, const char *no) {
    printf("  %-10s %s", name, f->there ? "" : no);
    larder__shown_print(stdout, f->says);
    putchar('\n');
}

static void print_place(const char *name, const larder__place *p) {
    char left[32], all[32];
    if (p->path[0]) {
        printf("  %-10s ", name);
        larder__shown_print(stdout, p->path);
        printf("%s%s: %s of %s free%s\n", p->kind[0] ? ", " : "", p->kind,
               larder__print_bytes((double)p->free_bytes, left),
               larder__print_bytes((double)p->all_bytes, all),
               p->writable ? "" : ", cannot be written to");
    }
}

static void print_variables(void) {
    bool any = false;
    for (const larder__variable *v = larder__variables; v->name; v++)
        if (!v->opens && strncmp(v->name, "LARDER", 6) == 0 && getenv(v->name)) {
            printf("%s%s", any ? ", " : "  variables  ", v->name);
            any = true;
        }
    if (any)
        printf("\n");
}

/* What need not be measured is there at once, and stays there if measuring is broken off. */
static void print_machine(const larder__facts *f) {
    printf("larder %s\n  %-10s %s\n", larder_version(), "parts", larder_features());
    printf("machine\n  %-10s %s\n", "is", f->host);
    if (isfinite(f->load))
        printf("  %-10s %.1f on %u cores\n", "load", f->load, f->machine_cores);
    print_place("folder", &f->here);
    print_place("indexes", &f->keep);
    print_fact("io_uring", &f->uring, "no: ");
    print_fact("gpu", &f->gpu, "none: ");
    for (size_t i = 0; i < LARDER__CUDA_PARTS; i++)
        print_fact(larder__cuda_names[i], &f->cuda[i], "none: ");
    print_fact("daemon", &f->daemon, "none: ");
    print_fact("redis", &f->redis, "none: ");
    print_fact("python", &f->python, "no: ");
    print_variables();
    fflush(stdout);
}

static void print_measured(const larder__facts *f) {
    printf("measured\n");
    if (isfinite(f->decode))
        printf("  %-10s %.0f pictures/s a core (JPEG of %dx%d, rrc:size=%d), %.0f on %u\n",
               "decode", f->decode, LARDER__BENCH_W, LARDER__BENCH_H, LARDER__BENCH_SIDE,
               f->decode * f->cores, f->cores);
    if (isfinite(f->copy))
        printf("  %-10s %.1f GB/s in memory, one thread\n", "copy", f->copy / 1e9);
    if (isfinite(f->disk_read))
        printf("  %-10s %.0f MB/s in one piece, %.0f random reads of 64 KiB a second%s\n", "disk",
               f->disk_read / 1e6, f->disk_random,
               f->disk_direct ? "" : ", some from memory (no direct reads here)");
    if (f->unmeasured[0])
        printf("  %-10s %s\n", "not", f->unmeasured);
}

static void print_text(const larder__facts *f, const larder__slow *slow) {
    if (isfinite(f->copy) || f->unmeasured[0])
        print_measured(f);
    printf("slow here\n");
    for (uint32_t i = 0; i < slow->count; i++)
        printf("- %s\n", slow->lines[i]);
    if (slow->count == 0)
        printf("  nothing stands out\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_fact(larder__json *j, const char *key, const larder__fact *f) {
    larder__json_open(j, key, '{');
    larder__json_bool(j, "there", f->there);
    larder__json_text(j, f->there ? "is" : "why", f->says);
    larder__json_close(j, '}');
}

static void json_place(larder__json *j, const char *key, const larder__place *p) {
    larder__json_open(j, key, '{');
    larder__json_text(j, "path", p->path);
    larder__json_text(j, "kind", p->kind);
    larder__json_bool(j, "network", p->network);
    larder__json_bool(j, "writable", p->writable);
    larder__json_u64(j, "free_bytes", p->free_bytes);
    larder__json_u64(j, "bytes", p->all_bytes);
    larder__json_close(j, '}');
}

static void json_machine(larder__json *j, const larder__facts *f) {
    larder__json_open(j, "machine", '{');
    larder__json_text(j, "is", f->host);
    larder__json_u64(j, "cores", f->cores);
    larder__json_u64(j, "machine_cores", f->machine_cores);
    larder__json_f64(j, "load", f->load);
    larder__json_u64(j, "memory_bytes", f->memory);
    larder__json_u64(j, "machine_memory_bytes", f->machine_memory);
    larder__json_u64(j, "free_memory_bytes", f->free_memory);
    larder__json_u64(j, "gpu_memory_bytes", f->gpu_memory);
    larder__json_bool(j, "avx2", f->wide);
    json_place(j, "folder", &f->here);
    json_place(j, "indexes", &f->keep);
    json_fact(j, "io_uring", &f->uring);
    json_fact(j, "gpu", &f->gpu);
    for (size_t i = 0; i < LARDER__CUDA_PARTS; i++)
        json_fact(j, larder__cuda_names[i], &f->cuda[i]);
    json_fact(j, "daemon", &f->daemon);
    json_fact(j, "redis", &f->redis);
    json_fact(j, "python", &f->python);
    larder__json_close(j, '}');
}

static void print_json(const larder__facts *f, const larder__slow *slow) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, "larder", larder_version());
    larder__json_text(&j, "parts", larder_features());
    json_machine(&j, f);
    larder__json_open(&j, "measured", '{');
    larder__json_f64(&j, "decode_per_core", f->decode);
    larder__json_f64(&j, "copy_bytes_per_second", f->copy);
    larder__json_f64(&j, "disk_bytes_per_second", f->disk_read);
    larder__json_f64(&j, "disk_random_reads_per_second", f->disk_random);
    larder__json_bool(&j, "disk_direct", f->disk_direct);
    larder__json_text(&j, "not", f->unmeasured);
    larder__json_close(&j, '}');
    larder__json_open(&j, "environment", '[');
    for (const larder__variable *v = larder__variables; v->name; v++)
        if (!v->opens && getenv(v->name)) /* names alone: there are keys among them */
            larder__json_text(&j, NULL, v->name);
    larder__json_close(&j, ']');
    larder__json_open(&j, "slow", '[');
    for (uint32_t i = 0; i < slow->count; i++)
        larder__json_text(&j, NULL, slow->lines[i]);
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
    putchar('\n');
}

int larder__cmd_doctor(int argc, char **argv) {
    options o;
    larder__facts facts;
    larder__slow slow;
    int rc = parse(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    if ((rc = larder__facts_gather(&facts, &o.checks)) == 0) {
        if (!o.json)
            print_machine(&facts);
        larder__facts_measure(&facts, o.seconds);
        larder__facts_judge(&slow, &facts, larder_features());
        if (o.json)
            print_json(&facts, &slow);
        else
            print_text(&facts, &slow);
    }
    return larder__exit_code("doctor", rc);
}
