#include "source/web/web_head.h"

#include "base/spec.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "Sun, 15 Nov 2026 14:25:00 GMT"; 0: something else. */
static time_t parse_date(const char *text, size_t n) {
    char copy[40];
    struct tm t = {0};
    if (n >= sizeof copy)
        return 0;
    memcpy(copy, text, n);
    copy[n] = 0;
    const char *end = strptime(copy, "%a, %d %b %Y %H:%M:%S", &t);
    time_t when = end && strcmp(end, " GMT") == 0 ? timegm(&t) : 0;
    return when > 0 ? when : 0;
}

/* "bytes 0-9/100", "bytes 0-9/ *" */
static void take_range(larder__web_head *h, const char *value, size_t n) {
    const char *end = value + n, *at = value + 6;
    if (n < 6 || strncasecmp(value, "bytes ", 6) != 0)
        return;
    const char *dash = memchr(at, '-', (size_t)(end - at));
    const char *slash = dash ? memchr(dash, '/', (size_t)(end - dash)) : NULL;
    uint64_t first, last, total = LARDER__BYTES_UNKNOWN;
    if (!slash || !larder__parse_digits(at, (size_t)(dash - at), &first) ||
        !larder__parse_digits(dash + 1, (size_t)(slash - dash - 1), &last) || last < first)
        return;
    if (!(end - slash == 2 && slash[1] == '*') &&
        (!larder__parse_digits(slash + 1, (size_t)(end - slash - 1), &total) || last >= total))
        return;
    h->ranged = true;
    h->first = first;
    h->last = last;
    h->total = total;
}

static void take_retry(larder__web_head *h, const char *value, size_t n, time_t now) {
    uint64_t seconds;
    time_t when;
    if (larder__parse_digits(value, n, &seconds))
        h->retry_after = seconds < 86400 ? (double)seconds : 86400;
    else if ((when = parse_date(value, n)) > now)
        h->retry_after = when - now < 86400 ? (double)(when - now) : 86400;
}

static void take_text(char *out, size_t cap, const char *value, size_t n) {
    if (n >= cap || memchr(value, 0, n))
        return;
    memcpy(out, value, n);
    out[n] = 0;
}

static void take_header(larder__web_head *h, const char *name, size_t name_size, const char *value,
                        size_t n, time_t now) {
#define IS(text) (name_size == sizeof(text) - 1 && strncasecmp(name, text, name_size) == 0)
    uint64_t v;
    if (IS("content-length") && larder__parse_digits(value, n, &v)) {
        h->length = v;
        h->framed = true;
    } else if (IS("transfer-encoding")) {
        h->framed |= n >= 7 && strncasecmp(value + n - 7, "chunked", 7) == 0;
    } else if (IS("content-range")) {
        take_range(h, value, n);
    } else if (IS("etag") && n) {
        h->tag = larder__etag_tag(value, n);
    } else if (IS("last-modified") && n && h->tag == 0) {
        h->tag = larder__date_tag(value, n);
    } else if (IS("retry-after")) {
        take_retry(h, value, n, now);
    } else if (IS("date")) {
        h->date = parse_date(value, n);
    } else if (IS("x-amz-bucket-region")) {
        take_text(h->region, sizeof h->region, value, n);
    } else if (IS("location")) {
        take_text(h->location, sizeof h->location, value, n);
    }
#undef IS
}

/* "HTTP/1.1 206 Partial Content", "HTTP/2 200" */
static bool take_status(larder__web_head *h, const char *line, size_t n) {
    if (n < 5 || strncmp(line, "HTTP/", 5) != 0)
        return false;
    const char *blank = memchr(line, ' ', n);
    uint64_t status;
    *h = (larder__web_head){.length = LARDER__BYTES_UNKNOWN, .total = LARDER__BYTES_UNKNOWN};
    h->framed = n > 5 && line[5] >= '2'; /* frames have an end of their own */
    if (blank && line + n - blank >= 4 && larder__parse_digits(blank + 1, 3, &status))
        h->status = (int)status;
    return true;
}

void larder__web_head_line(larder__web_head *h, const char *line, size_t n, time_t now) {
    while (n && strchr("\r\n \t", line[n - 1]))
        n--;
    if (take_status(h, line, n))
        return;
    const char *colon = memchr(line, ':', n);
    if (!colon || !h->status)
        return;
    const char *value = colon + 1, *end = line + n;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    take_header(h, line, (size_t)(colon - line), value, (size_t)(end - value), now);
}
