/* LIBSVM text: how fast it is read, beside finding its line ends (memchr) and copying it out of the
 * page cache (read), from the same file in turn.
 *
 *     build/bench_svm_read FILE [rounds] */
#include "base/clock.h"

#include <fcntl.h>
#include <larder/svm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char chunk[1 << 20];

/* Bytes of the file; with `lines`, its line ends are looked for too. */
static double copy_out(const char *path, size_t *lines) {
    int fd = open(path, O_RDONLY);
    double size = 0;
    ssize_t n;
    while (fd >= 0 && (n = read(fd, chunk, sizeof chunk)) > 0) {
        size += (double)n;
        for (char *at = chunk; lines && (at = memchr(at, '\n', (size_t)(chunk + n - at))); at++)
            ++*lines;
    }
    if (fd >= 0)
        close(fd);
    return size;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "bench_svm_read FILE [rounds]\n");
        return 2;
    }
    enum { MOST = 99 };
    double t[3][MOST], size = 0;
    size_t lines = 0, rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 7;
    rounds = rounds < 1 ? 1 : rounds > MOST ? MOST : rounds;
    for (size_t r = 0; r < rounds; r++) {
        larder_svm_data *d = NULL;
        double a = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        size = copy_out(argv[1], NULL);
        double b = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        lines = 0;
        copy_out(argv[1], &lines);
        double c = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        if (larder_svm_read(&d, argv[1], 0) < 0) {
            fprintf(stderr, "%s\n", larder_errmsg());
            return 1;
        }
        t[0][r] = b - a, t[1][r] = c - b;
        t[2][r] = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID) - c;
        larder_svm_data_close(&d);
    }
    static const char *const what[] = {"read()", "and memchr", "larder_svm_read"};
    printf("%s: %.1f MB, %zu lines; one thread, CPU time, median of %zu (best)\n", argv[1],
           size / 1e6, lines, rounds);
    for (int i = 0; i < 3; i++) {
        qsort(t[i], rounds, sizeof **t, by_size);
        printf("%-16s %8.0f MB/s (%.0f)\n", what[i], size / 1e6 / t[i][rounds / 2],
               size / 1e6 / t[i][0]);
    }
    return 0;
}
