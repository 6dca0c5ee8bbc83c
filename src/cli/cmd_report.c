/* larder report: the records of runs as one HTML file and a table. */
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "report/html.h"

#include <larder/larder.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FOLDERS_MAX = 256 };

typedef struct options {
    const char *output, *title, *md, *svg;
    bool json, brief, wide;
    const char *folders[FOLDERS_MAX];
    size_t count;
} options;

/* As larder__options_parse: 0, 1 after --help, -1 when wrong. */
static int read_options(options *o, int argc, char **argv) {
    *o = (options){.title = "larder"};
    const larder__option table[] = {
        {"o", LARDER__TEXT, &o->output, "FILE",
         "write one HTML file with plots, no network needed"},
        {"md", LARDER__TEXT, &o->md, "FILE", "write the tables as Markdown"},
        {"svg", LARDER__TEXT, &o->svg, "FILE", "write the picture alone: accuracy against bytes"},
        {"short", LARDER__FLAG, &o->brief, NULL,
         "the figures that matter, in 80 columns; of --md too"},
        {"wide", LARDER__FLAG, &o->wide, NULL,
         "all columns, however narrow the terminal is (in a pipe they are there anyway)"},
        {"json", LARDER__FLAG, &o->json, NULL, "a line a group of seeds instead of the table"},
        {"title", LARDER__TEXT, &o->title, "TEXT", "its heading (larder)"},
        {0}};
    larder__command command = {
        "report", "larder report RUN... [-o out.html] [--md out.md] [--svg out.svg]",
        "Prints a table of runs: folders of larder train --out, or recorded jobs (--record). Runs\n"
        "that differ in nothing but their seed are one group, with mean and standard deviation; "
        "one\n"
        "that was cut short is a group of its own.",
        "  larder report report/lru report/minio -o report/both.html\n"
        "  larder report runs/*-seed-? -o all.html --md all.md --svg pareto.svg",
        table};
    int rc = larder__options_parse(&command, argc, argv, o->folders, FOLDERS_MAX, &o->count);
    if (rc == 0 && o->count == 0) {
        fprintf(stderr, "larder report: name at least one run: a folder of larder train --out, or "
                        "a recorded job\n");
        rc = -1;
    }
    return rc;
}

typedef struct page {
    const options *o;
    const larder__run *runs;
    size_t count;
} page;

static int write_html(FILE *to, const page *p) {
    return larder__report_html(to, p->o->title, p->runs, p->count);
}
static int write_md(FILE *to, const page *p) {
    return p->o->brief ? larder__report_short(to, p->runs, p->count, larder__table_md)
                       : larder__report_md(to, p->o->title, p->runs, p->count);
}
static int write_svg(FILE *to, const page *p) {
    larder__seed_groups g;
    int rc = larder__groups_make(&g, p->runs, p->count);
    if (rc == 0)
        rc = larder__report_pareto(to, &g);
    larder__groups_free(&g);
    return rc;
}

/* Whole or not at all: a half-written report would look like a finished one. */
static int put(const char *path, const page *p, int (*write)(FILE *, const page *)) {
    larder__fresh f;
    if (!path)
        return 0;
    int rc = larder__fresh_open(&f, path);
    if (rc == 0)
        rc = write(f.to, p);
    rc = larder__fresh_close(&f, rc);
    if (rc == 0 && !p->o->json)
        printf("\nreport: %s\n", path);
    return rc;
}

/* 0: standard output is no terminal, or one that does not say. */
static size_t terminal_columns(void) {
    struct winsize w = {0};
    return isatty(1) && ioctl(1, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

static int report(const options *o) {
    size_t count = o->count;
    larder__run *runs = larder__calloc(count, sizeof *runs);
    int rc = runs ? 0 : larder__fail(LARDER_E_NOMEM, "report: no memory");
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = larder__run_read(&runs[i], o->folders[i]);
    if (rc == 0)
        rc = larder__runs_check(runs, count);
    if (rc == 0)
        rc = o->json ? larder__report_json(stdout, runs, count)
             : o->brief
                 ? larder__report_short(stdout, runs, count, larder__table_text)
                 : larder__report_text(stdout, runs, count, o->wide ? 0 : terminal_columns());
    page p = {o, runs, count};
    if (rc == 0)
        rc = put(o->output, &p, write_html);
    if (rc == 0)
        rc = put(o->md, &p, write_md);
    if (rc == 0)
        rc = put(o->svg, &p, write_svg);
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
    return larder__exit_code("report", report(&o));
}
