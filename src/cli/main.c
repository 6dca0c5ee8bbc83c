/* The program: finds the command and lets it run. */
#include "base/escape.h"
#include "base/near.h"
#include "cage/cage.h"
#include "cli/bill.h"
#include "cli/command_table.h"
#include "cli/complete.h"
#include "cli/manual.h"
#include "cli/tight_memory.h"
#include "cli/variables.h"
#include "plugins.h"

#include <errno.h>
#include <larder/larder.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int help(FILE *to) {
    fprintf(to, "larder keeps a training job fed: a cache, sampler and loader that listens to the\n"
                "training and reads from slow storage only what it must.\n\n"
                "usage: larder COMMAND [options]    larder help COMMAND tells more\n\n");
    const larder__entry *e;
    for (size_t i = 0; (e = larder__command_nth(i)); i++)
        fprintf(to, "  %-12s %s\n", e->name, e->about);
    fprintf(
        to,
        "\n"
        "a first look, without any data:\n"
        "  larder sim --recipe lru,minio,quiver --n 50000 --epochs 5 --cache 20%%\n"
        "  python3 -m larder demo       (in Python's package: a network through three caches)\n"
        "your own data, as larder sees it:\n"
        "  larder ls photos/            (a folder per class, tar shards, CIFAR, MNIST files)\n"
        "train a small network through a cache, on storage made slow:\n"
        "  larder train /usr/share/datasets/fashion-mnist --recipe minio --cache 20%% \\\n"
        "               --epochs 5 --slow nfs\n\n"
        "larder --plugin FILE.so COMMAND … takes policies, samplers, signals, sources, stages\n"
        "and recipes from outside as well; so does LARDER_PLUGINS=FILE.so:FILE.so\n"
        "larder --version shows what this build can do, with --json what it is made of;\n"
        "larder help environment lists the variables it looks at; larder --man COMMAND writes a\n"
        "man page.\n");
    return 0;
}

static int version(void) {
    const char *parts = larder_features();
    printf("larder %s\nparts: %s\n", larder_version(), parts);
    if (strchr(parts, '-'))
        printf("(a minus: left out when this was built)\n");
    return 0;
}

/* NULL with a word about which may be meant. */
static const larder__entry *find_command(const char *word) {
    const larder__entry *e = larder__command_named(word);
    if (e)
        return e;
    if (strcmp(word, "demo") == 0) {
        fprintf(stderr, "larder: the demo is in Python's package: python3 -m larder demo\n");
        return NULL;
    }
    larder__near near;
    larder__near_begin(&near, word, strlen(word));
    for (size_t i = 0; (e = larder__command_nth(i)); i++)
        larder__near_try(&near, e->name, strlen(e->name));
    char hint[LARDER__NEAR_CHARS + 32];
    fputs("larder: no command \"", stderr);
    larder__shown_print(stderr, word);
    fprintf(stderr, "\"%s%s larder --help lists them\n", larder__near_hint(&near, hint),
            larder__near_found(&near) ? "" : ";");
    return NULL;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

/* larder help train is larder train --help. */
static int help_with(char *word, const char *how) {
    if (strcmp(word, "environment") == 0) {
        larder__variables_print(how && strcmp(how, "--markdown") == 0);
        return 0;
    }
    if (is_one_of(word, "--help", "-h", "help"))
        return help(stdout);
    const larder__entry *e = find_command(word);
    char asked[] = "--help", *argv[] = {word, asked, NULL};
    return e ? e->run(2, argv) : 2;
}

/* larder --man: the program's page; larder --man train: that command's. */
static int manual(const char *word) {
    const larder__entry *e = word ? find_command(word) : NULL;
    if (word && !e)
        return 2;
    larder__manual_print(stdout, e);
    return 0;
}

/* --plugin FILE or --plugin=FILE, anywhere and any number of times: loaded, and taken out of the
 * words. */
static int take_plugins(int *argc, char **argv) {
    int kept = 1, rc = larder__plugins_from_env();
    for (int i = 1; rc == 0 && i < *argc; i++) {
        const char *file = NULL;
        if (strcmp(argv[i], "--plugin") == 0)
            file = i + 1 < *argc ? argv[++i] : "";
        else if (strncmp(argv[i], "--plugin=", 9) == 0)
            file = argv[i] + 9;
        else
            argv[kept++] = argv[i];
        rc = file ? larder_load_plugin(file) : 0;
    }
    if (rc < 0) {
        fprintf(stderr, "larder: %s\n", larder_errmsg());
        return 2;
    }
    argv[ *argc = kept] = NULL;
    return 0;
}

static int run(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], LARDER__COMPLETE) == 0)
        return larder__complete(stdout, argc - 2, argv + 2);
    int failed = take_plugins(&argc, argv);
    if (failed)
        return failed;
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    char *word = argv[1];
    if (is_one_of(word, "--help", "-h", "help"))
        return argc > 2 ? help_with(argv[2], argv[3]) : help(stdout);
    if (is_one_of(word, "--version", "-V", "version"))
        return argc > 2 && strcmp(argv[2], "--json") == 0 ? larder__print_bill() : version();
    if (strcmp(word, "--man") == 0)
        return manual(argc > 2 ? argv[2] : NULL);
    const larder__entry *e = find_command(word);
    return e ? e->run(argc - 1, argv + 1) : 2;
}

/* A full disk behind standard output must not pass for success. */
int main(int argc, char **argv) {
    if (argc > 0 && strcmp(argv[0], LARDER__CAGE_PROGRAM) == 0)
        _exit(larder__cage_serve(argc, argv, NULL));
    larder__tight_memory(argv);
    int code = run(argc, argv);
    bool bad = fflush(stdout) != 0;
    if ((bad || ferror(stdout)) && code == 0) {
        fprintf(stderr, "larder: standard output: %s\n", bad ? strerror(errno) : "writing failed");
        return 1;
    }
    return code;
}
