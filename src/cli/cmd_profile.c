/* larder profile: what this machine gives for a data set, as the rates that larder plan takes. */
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/stoppable.h"
#include "plan/rates.h"
#include "profile/profile.h"
#include "report/record.h"
#include "see/discover.h"
#include "see/job_rates.h"
#include "shared/cache_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct options {
    const char *uri, *out, *augment, *dtype, *layout, *run, *cache, *shrink;
    uint64_t threads, batch, jobs, job;
    double seconds, t_gpu;
    bool quiet;
} options;

static int wrong(const char *why) { return larder__wrong_usage("profile", why); }

static int check(const options *o) {
    if (!(o->seconds > 0 && o->seconds <= 86400))
        return wrong("--seconds is above 0 and at most 86400");
    if (o->threads > 1024)
        return wrong("--threads is at most 1024");
    if (o->batch < 1 || o->jobs > 1024)
        return wrong("--batch is at least 1, --jobs at most 1024");
    if (o->t_gpu <= 0)
        return wrong("--t-gpu is samples a second, above 0");
    if ((o->t_gpu > 0) + (o->run != NULL) + (o->job > 0) > 1)
        return wrong("the training rate comes from one of --t-gpu, --run and --job");
    if (strcmp(o->dtype, "f32") != 0 && strcmp(o->dtype, "u8") != 0)
        return wrong("--dtype is f32 or u8");
    if (strcmp(o->layout, "nchw") != 0 && strcmp(o->layout, "nhwc") != 0)
        return wrong("--layout is nchw or nhwc");
    return 0;
}

static int read_options(options *o, int argc, char **argv) {
    *o = (options){.dtype = "f32",
                   .layout = "nchw",
                   .cache = "20%",
                   .seconds = 10,
                   .batch = 256,
                   .jobs = 1,
                   .t_gpu = NAN,
                   .augment = ""};
    const larder__option table[] = {
        {"o", LARDER__TEXT, &o->out, "FILE", "where to write the JSON object (standard output)"},
        {"augment", LARDER__TEXT, &o->augment, "STAGES",
         "what is done to a sample, as in training"},
        {"dtype", LARDER__TEXT, &o->dtype, "f32|u8", "of a finished sample (f32)"},
        {"layout", LARDER__TEXT, &o->layout, "nchw|nhwc", "of a finished sample (nchw)"},
        {"threads", LARDER__NUMBER, &o->threads, "T", "that decode; 0: as many as cores (0)"},
        {"t-gpu", LARDER__REAL, &o->t_gpu, "N", "samples a second that training takes"},
        {"run", LARDER__TEXT, &o->run, "DIR", "or take that from a record of larder train --out"},
        {"job", LARDER__NUMBER, &o->job, "PID",
         "or from a job that runs now (larder top shows them)"},
        {"cache", LARDER__TEXT, &o->cache, "X",
         "the cache to plan for: 20%, 8GiB, or unix:PATH, redis://host or disk:FOLDER, which is "
         "measured (20%)"},
        {"shrink", LARDER__TEXT, &o->shrink, "X",
         "also what a recipe's shrink=X saves, takes and does to pixels: auto, 256, 256:q=85"},
        {"batch", LARDER__NUMBER, &o->batch, "B", "samples a step (256)"},
        {"jobs", LARDER__NUMBER, &o->jobs, "J", "that will share the cache (1)"},
        {"seconds", LARDER__REAL, &o->seconds, "S", "to spend, about (10)"},
        {"quiet", LARDER__FLAG, &o->quiet, NULL, "no progress on standard error"},
        {0}};
    const larder__command command = {
        "profile",
        "larder profile URI [-o FILE] [--augment STAGES] [--t-gpu N | --run DIR | --job PID]",
        "Measures what this machine gives for a data set: storage with 1, 4, 16 and 64 reads in\n"
        "flight, decoding and augmenting, cache and memory, a daemon's cache or Redis where\n"
        "--cache (or LARDER_SOCKET) names it. Writes one flat JSON object for larder plan.\n"
        "Samples are read in random order and none twice; what the page cache holds already is\n"
        "still fast, so profile before the data were read, or drop the page cache.",
        "  larder profile photos/ --augment 'rrc:size=224|flip' --t-gpu 900 -o machine.json\n"
        "  larder plan --profile machine.json --set s_cache=64GiB",
        table};
    size_t words;
    int rc = larder__options_parse(&command, argc, argv, &o->uri, 1, &words);
    if (rc != 0)
        return rc;
    return words == 1 ? check(o) : wrong("name the data set to measure");
}

/* What training takes when it does not wait. */
static int rate_of_run(const char *folder, double *out) {
    larder__run run;
    int rc = larder__run_read(&run, folder);
    if (rc < 0)
        return rc;
    larder__epoch t = larder__run_total(&run);
    larder__run_free(&run);
    double busy = t.seconds - t.stall_seconds;
    if (!(t.served > 0 && busy > 0))
        return larder__fail(LARDER_E_ARGS, "%s: nothing was trained in this record", folder);
    *out = (double)t.served / busy;
    return 0;
}

/* Samples a second inside its steps, between two looks, or since it began where no step has ended
 * in between. */
static bool rate_between(const larder__job *before, const larder__job *now, double *out) {
    double samples = larder__job_value(now, "samples"), seconds = now->training;
    if (before && samples > larder__job_value(before, "samples") && seconds > before->training) {
        samples -= larder__job_value(before, "samples");
        seconds -= before->training;
    }
    *out = samples / seconds;
    return samples > 0 && seconds > 0;
}

static const larder__job *trainer_of(const larder__jobs *jobs, uint64_t pid) {
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->at[i].pid == pid && strcmp(jobs->at[i].kind, "loader") == 0)
            return &jobs->at[i];
    return NULL;
}

static int rate_of_job(uint64_t pid, double *out) {
    enum { BETWEEN = 2 }; /* seconds */
    larder__jobs before = {0}, now = {0};
    int rc = larder__discover(&before, 1);
    const larder__job *then = rc == 0 ? trainer_of(&before, pid) : NULL;
    if (then) {
        larder__sleep_until(larder__now() + BETWEEN);
        rc = larder__discover(&now, 1);
    }
    const larder__job *job = rc == 0 && then ? trainer_of(&now, pid) : NULL;
    if (rc == 0 && !job)
        rc = larder__fail(LARDER_E_STATE,
                          "process %llu has no job of yours that can be seen; larder top lists "
                          "those that can",
                          (unsigned long long)pid);
    else if (rc == 0 && !rate_between(larder__job_same(&before, job), job, out))
        rc = larder__fail(LARDER_E_STATE,
                          "process %llu has not finished a step of training yet; try again later",
                          (unsigned long long)pid);
    larder__jobs_free(&before);
    larder__jobs_free(&now);
    return rc;
}

static void tell(void *quiet, const char *line) {
    if (!*(const bool *)quiet)
        fprintf(stderr, "larder profile: %s\n", line);
}

static void warn(const options *o, const larder__profile *p, const larder_rates *r) {
    bool small;
    larder__profile_storage(p, &small);
    if (small)
        fprintf(stderr,
                "larder profile: %llu samples are too few to tell storage's rate: b_storage is a "
                "guess\n",
                (unsigned long long)p->samples);
    else if (p->from_device < 0.5 && strncmp(o->uri, "slow:", 5) != 0)
        fprintf(stderr,
                "larder profile: only %.0f %% of the bytes came from a device that the kernel "
                "counts; if the\nrest lay in the page cache, b_storage is too high\n",
                100 * fmax(p->from_device, 0));
    if (isnan(r->t_gpu))
        fprintf(stderr, "larder profile: how fast is training? Give --t-gpu, --run or --job, or "
                        "later larder plan --set t_gpu=N\n");
}

static int write_out(const options *o, const larder__profile *p, const larder_rates *r,
                     const larder__profiler_conf *conf) {
    if (!o->out)
        return larder__profile_write(stdout, p, r, conf);
    larder__fresh file;
    int rc = larder__fresh_open(&file, o->out);
    return rc < 0 ? rc : larder__fresh_close(&file, larder__profile_write(file.to, p, r, conf));
}

/* Before minutes are spent on what cannot be written down. */
static int check_out(const char *path) {
    struct stat st;
    larder__fresh file;
    if (!path)
        return 0;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return larder__fail(LARDER_E_IO, "%s: cannot be written: Is a directory", path);
    int rc = larder__fresh_open(&file, path);
    if (rc == 0)
        larder__fresh_close(&file, LARDER_E_CANCELLED); /* takes it away again */
    return rc;
}

static void ask_profiler(void *p) { larder__profiler_cancel(p); }

/* Samples a second that training takes, where it was told how to know. */
static int find_rate(const options *o, double *out) {
    if (o->run)
        return rate_of_run(o->run, out);
    if (o->job)
        return rate_of_job(o->job, out);
    if (o->t_gpu > 0)
        *out = o->t_gpu;
    return 0;
}

/* The daemon or the Redis to measure besides. */
static int find_place(larder__cache_text *text, const char *cache, larder__profiler_conf *conf) {
    int rc = larder__cache_text_parse(text, cache, "");
    if (rc < 0)
        return rc;
    larder__cache_place place = larder__cache_back(text)->place;
    conf->redis = place == LARDER__IN_REDIS ? &text->redis : NULL;
    conf->disk = place == LARDER__ON_DISK ? &text->disk : NULL;
    conf->door = place == LARDER__IN_DAEMON || text->wish ? &text->door : NULL;
    return text->wish ? larder__door_usual(&text->door, false) : 0;
}

static int measure(larder__stop *stop, const larder__profiler_conf *conf, larder__profile *out) {
    larder__profiler *p = NULL;
    larder__stop_early(stop, "larder profile: stopped\n");
    int rc = larder__profiler_open(&p, conf);
    larder__stop_early(stop, NULL);
    if (rc < 0)
        return rc;
    larder__stop_tell(stop, ask_profiler, p);
    rc = larder__profiler_run(p, out);
    larder__stop_tell(stop, NULL, NULL);
    larder__profiler_close(&p);
    return rc;
}

static int run(void *arg, larder__stop *stop) {
    const options *o = arg;
    bool quiet = o->quiet;
    larder__profiler_conf conf = {.source = o->uri,
                                  .augment = o->augment,
                                  .dtype = strcmp(o->dtype, "u8") == 0 ? LARDER_U8 : LARDER_F32,
                                  .layout =
                                      strcmp(o->layout, "nhwc") == 0 ? LARDER_NHWC : LARDER_NCHW,
                                  .threads = (uint32_t)o->threads,
                                  .seconds = o->seconds,
                                  .tell = tell,
                                  .tell_arg = &quiet};
    larder_rates rates;
    larder__cache_text cache;
    larder__profile found;
    larder__rates_defaults(&rates);
    int rc = find_place(&cache, o->cache, &conf);
    if (rc == 0 && o->shrink)
        rc = larder__shrinking_parse(&conf.shrink, o->shrink);
    if (rc < 0 || (rc = find_rate(o, &rates.t_gpu)) < 0 || (rc = check_out(o->out)) < 0 ||
        (rc = measure(stop, &conf, &found)) < 0)
        return rc;
    larder__profile_rates(&found, &rates);
    rates.batch = (double)o->batch;
    rates.jobs = (double)o->jobs;
    rates.s_cache = (double)larder__cache_tier_bytes(larder__cache_back(&cache), found.bytes);
    warn(o, &found, &rates);
    return write_out(o, &found, &rates, &conf);
}

int larder__cmd_profile(int argc, char **argv) {
    options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    return larder__stoppable_run(
        &(larder__stoppable){.name = "profile", .run = run, .options = &o, .stopped = "stopped"});
}
