#include "wire/token.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int read_line(larder__token *t, FILE *from, const char *path) {
    unsigned char line[LARDER__TOKEN_MOST + 2];
    size_t n = fread(line, 1, sizeof line, from);
    if (ferror(from))
        return larder__fail(LARDER_E_IO, "%s: cannot be read", path);
    size_t size = 0;
    while (size < n && line[size] > ' ')
        size++;
    if (size < LARDER__TOKEN_LEAST || size > LARDER__TOKEN_MOST)
        return larder__fail(LARDER_E_FORMAT,
                            "%s: a token is a line of %d to %d characters without blanks; "
                            "openssl rand -hex 32 makes one",
                            path, LARDER__TOKEN_LEAST, LARDER__TOKEN_MOST);
    memcpy(t->bytes, line, size);
    t->size = size;
    return 0;
}

int larder__token_read(larder__token *t, const char *path) {
    struct stat st;
    *t = (larder__token){0};
    FILE *from = fopen(path, "re");
    if (!from)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    int rc =
        fstat(fileno(from), &st) == 0 && (st.st_mode & 077) == 0
            ? read_line(t, from, path)
            : larder__fail(LARDER_E_ARGS, "%s: others may read it; chmod 600 %s first", path, path);
    fclose(from);
    return rc;
}

bool larder__token_same(const larder__token *t, const void *bytes, size_t size) {
    unsigned char other[LARDER__TOKEN_MOST] = {0};
    memcpy(other, bytes, size < sizeof other ? size : sizeof other);
    volatile unsigned char differs = (unsigned char)(t->size != size || t->size == 0);
    for (size_t i = 0; i < sizeof other; i++)
        differs = (unsigned char)(differs | (t->bytes[i] ^ other[i]));
    return differs == 0;
}
