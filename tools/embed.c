/* Files as C, for programs that carry them along. A program of its own, so that a C compiler is all
 * that is needed to build.
 *
 *     embed OUT.c FOLDER/NAME FILE...   defines larder__NAME_files as src/FOLDER/NAME.h declares it
 */
#include <stdio.h>
#include <string.h>

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int put_file(FILE *to, const char *path, int number) {
    FILE *f = fopen(path, "rb");
    int byte, n = 0;
    if (!f) {
        perror(path);
        return 1;
    }
    fprintf(to, "\n/* %s */\nstatic const unsigned char file%d[] = {", base(path), number);
    while ((byte = fgetc(f)) != EOF)
        fprintf(to, "%s%d,", n++ % 24 ? "" : "\n", byte);
    fprintf(to, "\n0};\n");
    int bad = ferror(f);
    fclose(f);
    return bad;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: embed OUT.c FOLDER/NAME FILE...\n");
        return 2;
    }
    FILE *to = fopen(argv[1], "w");
    if (!to) {
        perror(argv[1]);
        return 1;
    }
    int bad = 0;
    fprintf(to, "/* Made by tools/embed.c. */\n#include \"%s.h\"\n", argv[2]);
    for (int i = 3; i < argc; i++)
        bad |= put_file(to, argv[i], i);
    fprintf(to, "\nconst larder__carried larder__%s_files[] = {\n", base(argv[2]));
    for (int i = 3; i < argc; i++)
        fprintf(to, "    {\"%s\", file%d, sizeof file%d - 1},\n", base(argv[i]), i, i);
    fprintf(to, "    {NULL, NULL, 0}};\n");
    bad |= ferror(to);
    if (fclose(to) != 0 || bad) { /* half a file would look newer than what it is made of */
        perror(argv[1]);
        remove(argv[1]);
        return 1;
    }
    return 0;
}
