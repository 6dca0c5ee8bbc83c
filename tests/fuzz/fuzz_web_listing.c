/* Any bytes as what a server says is there: the first byte chooses a list of S3, one of its errors,
 * the page of a folder or a manifest. Names that come out are not empty and have no zero byte. */
#include "source/web/listed.h"

#include <larder/larder.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *arg, const larder__listed *l) {
    size_t *names = arg;
    if (l->n == 0 || l->n >= LARDER__KEY_MAX || memchr(l->name, 0, l->n) || l->label < -1)
        abort();
    return ++*names > 100000 ? LARDER_E_RANGE : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char token[LARDER__LIST_TOKEN];
    larder__s3_error error;
    size_t names = 0;
    if (size < 1)
        return 0;
    char *copy = malloc(size); /* exactly as large, so that a byte beyond is noticed */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        if (larder__s3_list_parse(copy, size - 1, take, &names, token) == 0 &&
            memchr(token, 0, sizeof token) == NULL)
            abort();
        break;
    case 1:
        larder__s3_error_parse(copy, size - 1, &error);
        break;
    case 2:
        larder__page_parse(copy, size - 1, take, &names);
        break;
    default:
        larder__manifest_parse(copy, size - 1, "manifest", take, &names);
    }
    free(copy);
    return 0;
}
