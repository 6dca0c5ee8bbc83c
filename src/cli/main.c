/* The program: finds the command and lets it run. */
#include "cli/commands.h"
#include "cli/tight_memory.h"

#include <errno.h>
#include <larder/larder.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} commands[] = {
#define LARDER_COMMAND(name, about) {#name, larder__cmd_##name, about},
#include "cli/commands.def"
#undef LARDER_COMMAND
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* A command of two words is typed with a hyphen: svm_train is svm-train. */
static bool is_command(const char *name, const char *word) {
    for (; *name && *word; name++, word++)
        if (*name != *word && !(*name == '_' && *word == '-'))
            return false;
    return *name == *word;
}

static void print_command(FILE *to, const char *name, const char *about) {
    char typed[32];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof typed; n++)
        typed[n] = name[n] == '_' ? '-' : name[n];
    typed[n] = '\0';
    fprintf(to, "  %-12s %s\n", typed, about);
}

static int help(FILE *to) {
    fprintf(to, "larder keeps a training job fed: a cache, sampler and loader that listens to the\n"
                "training and reads from slow storage only what it must.\n\n"
                "usage: larder COMMAND [options]    larder COMMAND --help tells more\n\n");
    for (int i = 0; i < COMMANDS; i++)
        print_command(to, commands[i].name, commands[i].about);
    fprintf(to,
            "\n"
            "a first look, without any data:\n"
            "  larder sim --recipe lru,minio,quiver --n 50000 --epochs 5 --cache 20%%\n"
            "your own data, as larder sees it:\n"
            "  larder ls photos/            (a folder per class, tar shards, CIFAR, MNIST files)\n"
            "train a small network through a cache, on storage made slow:\n"
            "  larder train /usr/share/datasets/fashion-mnist --recipe minio --cache 20%% \\\n"
            "               --epochs 5 --slow nfs\n\n"
            "larder --version shows what this build can do.\n");
    return 0;
}

static int version(void) {
    const char *parts = larder_features();
    printf("larder %s\nparts: %s\n", larder_version(), parts);
    if (strchr(parts, '-'))
        printf("(a minus: left out, because its library was missing when this was built)\n");
    return 0;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return help(stdout);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0)
        return version();
    for (int i = 0; i < COMMANDS; i++)
        if (is_command(commands[i].name, word))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "larder: no command \"%s\"; larder --help lists them\n", word);
    return 2;
}

/* A full disk behind standard output must not pass for success. */
int main(int argc, char **argv) {
    larder__tight_memory(argv);
    int code = run(argc, argv);
    bool bad = fflush(stdout) != 0;
    if ((bad || ferror(stdout)) && code == 0) {
        fprintf(stderr, "larder: standard output: %s\n", bad ? strerror(errno) : "writing failed");
        return 1;
    }
    return code;
}
