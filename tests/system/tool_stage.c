/* Runs files through a pipeline, for tests in other languages:
 *
 *     tool_stage SPEC u8|f32|f16|bf16 nchw|nhwc SEED [HxWxC] < list of paths, one a line
 *
 * Writes the samples one after the other to stdout. HxWxC: the files are raw, channels last.
 * The seed counts up from file to file. */
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *path) {
    fprintf(stderr, "tool_stage: %s: %s\n", path, larder_errmsg());
    return 1;
}

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long n;
    if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
        (bytes = malloc((size_t)n + 1)))
        *size = fread(bytes, 1, (size_t)n, f);
    if (f)
        fclose(f);
    return bytes;
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    larder__pipeline_conf conf = {.spec = argv[1],
                                  .dtype = strcmp(argv[2], "u8") == 0     ? LARDER_U8
                                           : strcmp(argv[2], "f16") == 0  ? LARDER_F16
                                           : strcmp(argv[2], "bf16") == 0 ? LARDER_BF16
                                                                          : LARDER_F32,
                                  .layout =
                                      strcmp(argv[3], "nchw") == 0 ? LARDER_NCHW : LARDER_NHWC,
                                  .raw_layout = LARDER_NHWC};
    unsigned long long seed = strtoull(argv[4], NULL, 10);
    if (argc > 5 && sscanf(argv[5], "%ux%ux%u", &conf.raw.h, &conf.raw.w, &conf.raw.c) != 3)
        return 2;
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    if (larder__pipeline_open(&p, &conf) < 0 || larder__scratch_open(&s) < 0)
        return fail(argv[1]);
    unsigned char *out = malloc(larder__pipeline_bytes(p));
    char path[4096];
    int rc = out ? 0 : 1;
    while (rc == 0 && fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = 0;
        size_t size = 0;
        unsigned char *bytes = read_file(path, &size);
        if (!bytes || larder__pipeline_run(p, s, bytes, size, seed++, out) < 0)
            rc = fail(path);
        else
            fwrite(out, 1, larder__pipeline_bytes(p), stdout);
        free(bytes);
    }
    free(out);
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
    return rc;
}
