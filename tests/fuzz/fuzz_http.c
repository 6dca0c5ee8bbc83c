/* Whatever a browser or anybody else sends is a request, is refused, or needs more to be either. */
#include "see/http_request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__http_request r;
    size_t used = 0;
    char *bytes = malloc(size + 1); /* exactly as long, so that reading past it is seen */
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    int status = larder__http_parse(&r, bytes, size, &used);
    if (status == 200 && (used > size || used < 4 || r.path[0] != '/'))
        abort();
    if (status != 0 && (status < 200 || status > 505))
        abort();
    if (status == 200) {
        static const char ours[] = "LOCALHSTlocalhst0123456789.:[]"; /* and nobody's name else */
        if (larder__http_host_is_local(r.host) && strspn(r.host, ours) != strlen(r.host))
            abort();
        larder__token_equal(r.token, "abcdefgh");
        if (!larder__token_equal(r.token, r.token))
            abort();
    }
    free(bytes);
    return 0;
}
