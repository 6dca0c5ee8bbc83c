/* larder report: the records of runs as one HTML file and a table. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/html.h"

#include <larder/larder.h>
#include <stdio.h>

enum { FOLDERS_MAX = 256 };

typedef struct options {
    const char *output, *title;
    const char *folders[FOLDERS_MAX];
    size_t count;
} options;

/* As larder__options_parse: 0, 1 after --help, -1 when wrong. */
static int read_options(options *o, int argc, char **argv) {
    *o = (options){.title = "larder"};
    const larder__option table[] = {
        {"o", LARDER__TEXT, &o->output, "FILE",
         "write one HTML file with plots, no network needed"},
        {"title", LARDER__TEXT, &o->title, "TEXT", "its heading (larder)"},
        {0}};
    larder__command command = {
        "report", "larder report DIR... [-o out.html]",
        "Prints a table of the runs whose records lie in the folders (larder train --out DIR).",
        "  larder report report/lru report/minio -o report/both.html", table};
    int rc = larder__options_parse(&command, argc, argv, o->folders, FOLDERS_MAX, &o->count);
    if (rc == 0 && o->count == 0) {
        fprintf(stderr, "larder report: name at least one folder with a run's record\n");
        rc = -1;
    }
    return rc;
}

/* Whole or not at all: a half-written report would look like a finished one. */
static int write_html(const options *o, const larder__run *runs, size_t count) {
    larder__fresh f;
    int rc = larder__fresh_open(&f, o->output);
    if (rc == 0)
        rc = larder__report_html(f.to, o->title, runs, count);
    return larder__fresh_close(&f, rc);
}

static int report(const options *o) {
    size_t count = o->count;
    larder__run *runs = larder__calloc(count, sizeof *runs);
    int rc = runs ? 0 : larder__fail(LARDER_E_NOMEM, "report: no memory");
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = larder__run_read(&runs[i], o->folders[i]);
    if (rc == 0)
        rc = larder__report_text(stdout, runs, count);
    if (rc == 0 && o->output && (rc = write_html(o, runs, count)) == 0)
        printf("\nreport: %s\n", o->output);
    for (size_t i = 0; runs && i < count; i++)
        larder__run_free(&runs[i]);
    larder__free(runs);
    return rc;
}

int larder__cmd_report(int argc, char **argv) {
    options o;
    int rc = read_options(&o, argc, argv);
    if (rc != 0)
        return rc > 0 ? 0 : 2;
    rc = report(&o);
    if (rc < 0)
        fprintf(stderr, "larder report: %s\n", larder_errmsg());
    return rc == 0 ? 0 : rc == LARDER_E_ARGS ? 2 : 1;
}
