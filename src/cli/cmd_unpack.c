/* larder unpack: the pictures of a data set as files again. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/data_notes.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "pack/extract.h"
#include "source/source.h"

#include <inttypes.h>
#include <larder/larder.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct unpack_args {
    const char *words[2];
    bool json, quiet;
    larder__stop stop;
    larder__progress progress;
    double begun;
} unpack_args;

static int parse_options(unpack_args *a, int argc, char **argv) {
    const larder__option table[] = {
        {"json", LARDER__FLAG, &a->json, NULL, "one JSON object for programs"},
        {"quiet", LARDER__FLAG, &a->quiet, NULL, "no progress"},
        {0}};
    const larder__command command = {
        "unpack", "larder unpack URI FOLDER",
        "Writes every sample of a data set as a file, under the name it had before it was packed.\n"
        "Where the folders do not tell the classes, a manifest.tsv beside the files does: the "
        "folder\n"
        "opens as the same data set.\n"
        "Other members of tar samples (.json, .txt, .seg.png) are written beside them.\n"
        "A file that is there with other bytes stays: the sample gets its number into its name.\n"
        "Stopped or killed, the same command goes on; every file that is there is whole.",
        "  larder unpack packed/ photos-again/", table};
    size_t count = 0;
    int rc = larder__options_parse(&command, argc, argv, a->words, 2, &count);
    if (rc == 0 && count != 2) {
        fprintf(stderr, "larder unpack: from where, and into which folder? larder unpack --help "
                        "tells more\n");
        rc = -1;
    }
    return rc;
}

static void show(void *arg, uint64_t done, uint64_t all, uint64_t bytes) {
    unpack_args *a = arg;
    double now = larder__now();
    larder__work_view v = {"unpack", done, all, bytes, now - a->begun};
    larder__progress_work(&a->progress, &v, now);
}

static void interrupt(void *data) { larder__data_interrupt(data); }

static void opened(void *arg, larder__data *data) {
    unpack_args *a = arg;
    larder__stop_early(&a->stop, NULL);
    if (data)
        larder__print_data_notes("unpack", data);
    larder__stop_tell(&a->stop, data ? interrupt : NULL, data);
}

static void print(const unpack_args *a, const larder__extract_result *r) {
    if (!a->json) {
        printf("%" PRIu64 " files written, %" PRIu64 " there already, %" PRIu64
               " under another name\n",
               r->written, r->there, r->renamed);
        if (r->manifest)
            printf("manifest.tsv beside them has their order and labels\n");
        return;
    }
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_u64(&j, "written", r->written);
    larder__json_u64(&j, "there", r->there);
    larder__json_u64(&j, "renamed", r->renamed);
    larder__json_u64(&j, "bytes", r->bytes);
    larder__json_bool(&j, "manifest", r->manifest);
    larder__json_close(&j, '}');
}

int larder__cmd_unpack(int argc, char **argv) {
    unpack_args a = {0};
    int rc = parse_options(&a, argc, argv);
    if (rc)
        return rc > 0 ? 0 : 2;
    if ((rc = larder__stop_open(&a.stop)) < 0)
        return larder__exit_code("unpack", rc);
    larder__progress_open(&a.progress, a.quiet ? NULL : stderr);
    a.begun = larder__now();
    larder__extract_conf conf = {.source = a.words[0],
                                 .folder = a.words[1],
                                 .stop = &a.stop.signal,
                                 .progress = show,
                                 .opened = opened,
                                 .arg = &a};
    larder__extract_result r;
    larder__stop_early(&a.stop, "larder unpack: interrupted\n");
    rc = larder__extract_run(&conf, &r);
    larder__progress_clear(&a.progress);
    if (rc == 0)
        print(&a, &r);
    rc = larder__exit_code("unpack", rc);
    int stopped = larder__stop_code(&a.stop);
    larder__stop_close(&a.stop);
    return stopped ? stopped : rc;
}
