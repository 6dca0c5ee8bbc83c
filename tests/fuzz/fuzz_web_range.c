/* What a server answers when some bytes of an object are asked for: whatever its head and body are,
 * the bytes asked for land in their pieces, or the request fails with a sentence. The input: what
 * was asked for and what libcurl says in the end, in eight bytes; the head, line by line, up to an
 * empty line; the body, which comes in two parts. */
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#if LARDER_HAVE_CURL
#include "source/web/web_engine.c"

#include <stdlib.h>

enum { MOST = 64, ASKED = 8, PIECES = 2 };

typedef struct asked {
    larder__web_request request;
    larder__web_piece pieces[PIECES];
    unsigned char *bytes[PIECES]; /* exactly as many */
} asked;

static void ask(asked *a, const uint8_t *d) {
    uint64_t bytes = d[1] % MOST + 1, first = d[2] % bytes, gap = d[3] % (bytes - first);
    const uint64_t at[PIECES] = {0, first + gap}, n[PIECES] = {first, bytes - first - gap};
    a->request = (larder__web_request){.key = "a/b.tar",
                                       .head = d[0] & 1,
                                       .ranged = d[0] & 2,
                                       .from = d[0] & 2 ? d[4] : 0,
                                       .bytes = bytes,
                                       .object = d[0] & 4 ? LARDER__BYTES_UNKNOWN : d[5] + bytes,
                                       .tag = d[0] & 8 ? d[6] : 0,
                                       .pieces = a->pieces,
                                       .piece_count = d[0] & 16 ? PIECES : 0,
                                       .most = MOST / 2};
    for (size_t i = 0; i < PIECES; i++) {
        a->bytes[i] = malloc(n[i]);
        a->pieces[i] = (larder__web_piece){at[i], n[i], a->bytes[i]};
    }
    if (!a->request.piece_count && d[0] & 32)
        a->request.bytes = LARDER__BYTES_UNKNOWN;
}

static void hear(larder__web_try *t, const uint8_t *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) + 1 - at : size - at;
        take_head((char *)(uintptr_t)data + at, 1, n, t);
        at += n;
        if (n <= 2)
            break;
    }
    for (size_t half = (size - at) / 2; at < size; at += half, half = size - at)
        if (take_body((char *)(uintptr_t)data + at, 1, half, t) != half || half == 0)
            break;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const larder__s3_conf s3 = {"", "eu-west-1", "", "path", true, false, NULL};
    static const larder__http_conf http = {"", ""};
    static const CURLcode ends[] = {CURLE_OK,
                                    CURLE_OK,
                                    CURLE_WRITE_ERROR,
                                    CURLE_PARTIAL_FILE,
                                    CURLE_OPERATION_TIMEDOUT,
                                    CURLE_COULDNT_CONNECT,
                                    CURLE_SSL_CONNECT_ERROR,
                                    CURLE_PEER_FAILED_VERIFICATION};
    static CURL *easy;
    larder__web web = {0};
    larder__web_engine engine = {.web = &web};
    asked a;
    char *key = NULL;
    double wait;
    if (size < ASKED)
        return 0;
    if (!easy && (larder__web_begin() < 0 || !(easy = curl_easy_init())))
        abort();
    int rc = data[7] & 8 ? larder__web_site_s3(&web.site, &key, "//photos/a", &s3)
                         : larder__web_site_http(&web.site, &key, "https", "//h/a", &http);
    if (rc < 0)
        abort();
    ask(&a, data);
    larder__web_try *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *t = (larder__web_try){.easy = easy, .request = &a.request, .probe = data[7] & 16};
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &engine);
    hear(t, data + ASKED, size - ASKED);
    CURLcode end = ends[data[7] % 8];
    larder__web_outcome out = larder__web_judge(t, web.site, end, &wait);
    const larder__web_request *r = &a.request;
    if (out == LARDER__WEB_DONE) {
        if (r->code != 0 || (!r->head && r->bytes != LARDER__BYTES_UNKNOWN && t->body != r->bytes))
            abort();
    } else if (wait >= 0 && (r->code >= 0 || !r->why[0]))
        abort();
    for (size_t i = 0; i < PIECES; i++)
        free(a.bytes[i]);
    larder__text_free(&a.request.text);
    larder__web_site_close(&web.site);
    larder__free(key);
    free(t);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return (void)data, (void)size, 0; }
#endif
