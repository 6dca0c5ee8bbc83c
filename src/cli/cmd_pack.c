/* larder pack: a data set into shards that can be read in parts, and checking them. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/spec.h"
#include "cli/commands.h"
#include "cli/data_notes.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "pack/inspect.h"
#include "pack/packer.h"
#include "source/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct pack_args {
    const char *words[2]; /* source and folder, or shards to check */
    size_t count;
    const char *shard_size;
    uint64_t restart, jobs, quality, max_side, list;
    bool strip, verify, check, json, quiet;
    larder__stop stop;
    larder__progress progress;
    double begun;
    uint64_t listed;
    larder__json out;
} pack_args;

static int parse_options(pack_args *a, int argc, char **argv) {
    const larder__option table[] = {
        {"shard-size", LARDER__TEXT, &a->shard_size, "SIZE",
         "bytes of samples in a shard, before packing (256MiB)"},
        {"restart", LARDER__NUMBER, &a->restart, "K",
         "blocks (MCUs) a segment; 0: what makes about 180 bytes (0)"},
        {"jobs", LARDER__NUMBER, &a->jobs, "N", "threads; 0: as many as cores (0)"},
        {"verify", LARDER__FLAG, &a->verify, NULL, "decode every picture twice and compare pixels"},
        {"strip", LARDER__FLAG, &a->strip, NULL, "leave out EXIF, colour profiles and comments"},
        {"max-side", LARDER__NUMBER, &a->max_side, "PIXELS",
         "encode larger pictures again, smaller; not lossless"},
        {"quality", LARDER__NUMBER, &a->quality, "Q",
         "encode all pictures again with quality 1 to 100; not lossless"},
        {"check", LARDER__FLAG, &a->check, NULL, "look at shards that are there, byte by byte"},
        {"list", LARDER__NUMBER, &a->list, "N", "samples left as they are to name, at most (20)"},
        {"json", LARDER__FLAG, &a->json, NULL, "one JSON object for programs, with all of them"},
        {"quiet", LARDER__FLAG, &a->quiet, NULL, "no progress"},
        {0}};
    const larder__command command = {
        "pack",
        "larder pack URI FOLDER [--shard-size SIZE] [--restart K] [--jobs N] [--verify]\n"
        "       larder pack --check FOLDER",
        "Writes a data set as WebDataset shards whose JPEGs carry restart markers, with an index\n"
        "beside each shard. Pixels stay the same to the last bit. A loader that crops at random\n"
        "then reads and decodes about half of each picture; other tools read the shards as ever.\n"
        "What is no JPEG, or cannot be cut, is taken along as it is and named.\n\n"
        "Stopped or killed, the same command goes on with the first shard that is not finished.",
        "  larder pack photos/ packed/\n"
        "  larder pack 'tar:train-{000..099}.tar' packed/ --jobs 8 --verify\n"
        "  larder pack --check packed/\n"
        "  larder ls packed/",
        table};
    int rc = larder__options_parse(&command, argc, argv, a->words, 2, &a->count);
    if (rc == 0 && a->count != (a->check ? 1u : 2u))
        return larder__wrong_usage("pack", a->check ? "--check wants one folder or shard"
                                                    : "from where, and into which folder?");
    return rc;
}

/* ---- on the way ------------------------------------------------------------------------------ */

static void show(void *arg, uint64_t done, uint64_t all, uint64_t bytes) {
    pack_args *a = arg;
    double now = larder__now();
    larder__work_view v = {a->check ? "check" : "pack", done, all, bytes, now - a->begun};
    larder__progress_work(&a->progress, &v, now);
}

static void interrupt(void *data) { larder__data_interrupt(data); }

static void opened(void *arg, larder__data *data) {
    pack_args *a = arg;
    larder__stop_early(&a->stop, NULL);
    if (data)
        larder__print_data_notes("pack", data);
    larder__stop_tell(&a->stop, data ? interrupt : NULL, data);
}

static void complain(void *arg, const char *sentence) {
    pack_args *a = arg;
    larder__progress_clear(&a->progress);
    fprintf(stderr, "larder pack: %s\n", sentence);
}

static void name_passed(void *arg, uint64_t id, uint8_t kind, const char *name) {
    pack_args *a = arg;
    if (a->json) {
        larder__json_open(&a->out, NULL, '{');
        larder__json_u64(&a->out, "id", id);
        larder__json_text(&a->out, "name", name);
        larder__json_text(&a->out, "why", larder__pack_kind(kind));
        larder__json_close(&a->out, '}');
        return;
    }
    if (a->listed++ >= a->list)
        return;
    larder__progress_clear(&a->progress);
    printf("  sample %" PRIu64 ", %s: ", id, larder__pack_kind(kind));
    larder__shown_print(stdout, name);
    putchar('\n');
}

/* ---- results --------------------------------------------------------------------------------- */

static void print_tally(const larder__pack_tally *t) {
    char payload[32], shards[32], index[32];
    printf("%" PRIu64 " samples in %" PRIu64 " shards, payload %s, %.1f segments a sample\n",
           t->samples, t->shards, larder__print_bytes((double)t->bytes, payload),
           t->samples ? (double)t->segments / (double)t->samples : 0);
    printf("files: tar %s, index %s\n", larder__print_bytes((double)t->shard_bytes, shards),
           larder__print_bytes((double)t->index_bytes, index));
    for (int k = 0; k < LARDER__PACK_KIND_END; k++)
        if (t->kinds[k])
            printf("  %10" PRIu64 "  %s\n", t->kinds[k], larder__pack_kind((uint8_t)k));
}

static void json_tally(larder__json *j, const larder__pack_tally *t) {
    larder__json_u64(j, "samples", t->samples);
    larder__json_u64(j, "shards", t->shards);
    larder__json_u64(j, "bytes", t->bytes);
    larder__json_u64(j, "segments", t->segments);
    larder__json_u64(j, "shard_bytes", t->shard_bytes);
    larder__json_u64(j, "index_bytes", t->index_bytes);
    larder__json_open(j, "kinds", '[');
    for (int k = 0; k < LARDER__PACK_KIND_END; k++)
        if (t->kinds[k]) {
            larder__json_open(j, NULL, '{');
            larder__json_text(j, "kind", larder__pack_kind((uint8_t)k));
            larder__json_u64(j, "count", t->kinds[k]);
            larder__json_close(j, '}');
        }
    larder__json_close(j, ']');
}

/* Looks into the shards: counts, and names what was left as it is. */
static int survey(pack_args *a, const char *where, larder__pack_tally *t) {
    larder__inspect_conf conf = {.where = where,
                                 .deep = a->check,
                                 .stop = &a->stop.signal,
                                 .progress = show,
                                 .passed = name_passed,
                                 .complain = complain,
                                 .arg = a};
    if (a->json) {
        a->out = (larder__json){.to = stdout};
        larder__json_begin(&a->out);
        larder__json_open(&a->out, "passed", '[');
    }
    int rc = larder__pack_inspect(&conf, t);
    larder__progress_clear(&a->progress);
    if (a->json) {
        larder__json_close(&a->out, ']');
        json_tally(&a->out, t);
    } else if (a->listed > a->list)
        printf("  and %" PRIu64 " more that were left as they are\n", a->listed - a->list);
    return rc;
}

static void close_json(pack_args *a) {
    if (a->json)
        larder__json_close(&a->out, '}');
}

/* ---- the two ways ---------------------------------------------------------------------------- */

static int run_check(pack_args *a) {
    larder__pack_tally t = {0};
    int rc = survey(a, a->words[0], &t);
    if (a->json)
        larder__json_u64(&a->out, "bad", t.bad);
    else if (rc == 0) {
        print_tally(&t);
        printf(t.bad ? "%" PRIu64 " of these are not what was packed\n"
                     : "every byte is as it was packed\n",
               t.bad);
    }
    close_json(a);
    if (rc == 0 && t.bad)
        rc = larder__fail(LARDER_E_FORMAT, "%" PRIu64 " shards or samples are damaged", t.bad);
    return rc;
}

static int run_pack(pack_args *a) {
    larder__pack_conf conf = {.source = a->words[0],
                              .folder = a->words[1],
                              .jobs = (uint32_t)a->jobs,
                              .how = {.restart = (uint32_t)a->restart,
                                      .strip = a->strip,
                                      .verify = a->verify,
                                      .quality = (uint32_t)a->quality,
                                      .max_side = (uint32_t)a->max_side},
                              .stop = &a->stop.signal,
                              .progress = show,
                              .opened = opened,
                              .arg = a};
    if (a->jobs > 256 || a->restart > 65535 || a->quality > 100 || a->max_side > 65535)
        return larder__fail(LARDER_E_ARGS, "--jobs up to 256, --restart and --max-side up to "
                                           "65535, --quality up to 100");
    int rc =
        a->shard_size ? larder__parse_amount("--shard-size", a->shard_size, &conf.shard_bytes) : 0;
    larder__pack_result r = {0};
    larder__pack_tally t = {0};
    larder__stop_early(&a->stop, "larder pack: interrupted\n");
    if (rc == 0)
        rc = larder__pack_run(&conf, &r);
    larder__stop_early(&a->stop, NULL);
    larder__progress_clear(&a->progress);
    double seconds = larder__now() - a->begun, cpu = larder__cpu_seconds();
    if (rc < 0 || (rc = survey(a, a->words[1], &t)) < 0)
        return rc;
    if (a->json) {
        larder__json_u64(&a->out, "source_bytes", r.bytes);
        larder__json_u64(&a->out, "found_shards", r.found);
        larder__json_f64(&a->out, "seconds", seconds);
        larder__json_f64(&a->out, "cpu_seconds", cpu);
        close_json(a);
        return 0;
    }
    print_tally(&t);
    if (r.found)
        printf("%" PRIu64 " shards were finished before\n", r.found);
    printf("payload %+.2f%%; %.1f s, %.1f CPU-seconds\n",
           r.bytes ? 100 * ((double)t.bytes / (double)r.bytes - 1) : 0, seconds, cpu);
    return 0;
}

int larder__cmd_pack(int argc, char **argv) {
    pack_args a = {.list = 20};
    int rc = parse_options(&a, argc, argv);
    if (rc)
        return rc > 0 ? 0 : 2;
    if ((rc = larder__stop_open(&a.stop)) < 0)
        return larder__exit_code("pack", rc);
    larder__progress_open(&a.progress, a.quiet ? NULL : stderr);
    a.begun = larder__now();
    rc = a.check ? run_check(&a) : run_pack(&a);
    larder__progress_clear(&a.progress);
    rc = larder__exit_code("pack", rc);
    int stopped = larder__stop_code(&a.stop);
    larder__stop_close(&a.stop);
    return stopped ? stopped : rc;
}
