#include "source/found.h"

#include "base/file.h"

#include <stdio.h>
#include <strings.h>

#ifndef LARDER_HAVE_JPEG
#define LARDER_HAVE_JPEG 0
#endif
#ifndef LARDER_HAVE_SPNG
#define LARDER_HAVE_SPNG 0
#endif
#ifndef LARDER_HAVE_GIF
#define LARDER_HAVE_GIF 0
#endif
#ifndef LARDER_HAVE_TIFF
#define LARDER_HAVE_TIFF 0
#endif
#ifndef LARDER_HAVE_WEBP
#define LARDER_HAVE_WEBP 0
#endif

static const struct {
    const char *ending;
    bool decoded; /* by this build */
    bool asked;   /* ImageFolder passes over it, and so do we unless we are asked for it */
} pictures[] = {{"jpg", LARDER_HAVE_JPEG, false},
                {"jpeg", LARDER_HAVE_JPEG, false},
                {"png", LARDER_HAVE_SPNG, false},
                {"ppm", true, false},
                {"bmp", true, false},
                {"pgm", true, false},
                {"tif", LARDER_HAVE_TIFF, false},
                {"tiff", LARDER_HAVE_TIFF, false},
                {"webp", LARDER_HAVE_WEBP, false},
                {"gif", LARDER_HAVE_GIF, true},
                {"pbm", true, true}};
enum { PICTURES = sizeof pictures / sizeof *pictures };

const char *larder__ending(const char *path) {
    const char *dot = strrchr(larder__name_in(path), '.');
    return dot ? dot + 1 : NULL;
}

static int find_picture(const char *ending) {
    for (int i = 0; ending && i < PICTURES; i++)
        if (strcasecmp(ending, pictures[i].ending) == 0)
            return i;
    return -1;
}

bool larder__is_picture(const char *ending) {
    int i = find_picture(ending);
    return i >= 0 && !pictures[i].asked;
}

bool larder__is_decoded(const char *ending) {
    int i = find_picture(ending);
    return i >= 0 && pictures[i].decoded;
}

/* ---- counting -------------------------------------------------------------------------------- */

static void count(larder__tally *t, const char *ending, uint64_t n) {
    char low[LARDER__ENDING_CHARS] = "";
    size_t len = ending ? strlen(ending) : 0;
    for (size_t i = 0; len < sizeof low && i < len; i++)
        low[i] = (char)(ending[i] >= 'A' && ending[i] <= 'Z' ? ending[i] + 32 : ending[i]);
    for (int i = 0; low[0] && i < LARDER__ENDINGS; i++)
        if (t->count[i] == 0 || strcmp(t->ending[i], low) == 0) {
            memcpy(t->ending[i], low, sizeof low);
            t->count[i] += n;
            return;
        }
    t->others += n;
}

void larder__found_unused(larder__found *f, const char *path, const char *ending, uint64_t n) {
    if (n && larder__name_in(path)[0] != '.')
        count(&f->unused, ending, n);
}

void larder__found_sample(larder__found *f, const char *path) {
    const char *ending = larder__ending(path);
    if (larder__is_decoded(ending))
        return;
    count(&f->strange, ending, 1);
    if (!f->first[0])
        snprintf(f->first, sizeof f->first, "%s", path);
}

static void add(larder__tally *to, const larder__tally *from) {
    for (int i = 0; i < LARDER__ENDINGS && from->count[i]; i++)
        count(to, from->ending[i], from->count[i]);
    to->others += from->others;
}

void larder__found_add(larder__found *to, const larder__found *from) {
    add(&to->unused, &from->unused);
    add(&to->strange, &from->strange);
    if (!to->first[0])
        memcpy(to->first, from->first, sizeof to->first);
}

/* ---- saying ---------------------------------------------------------------------------------- */

static uint64_t sum(const larder__tally *t) {
    uint64_t all = t->others;
    for (int i = 0; i < LARDER__ENDINGS; i++)
        all += t->count[i];
    return all;
}

/* "300 .json, 300 .txt, 2 others" */
static void list(const larder__tally *t, char out[256]) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < LARDER__ENDINGS && t->count[i] && at < 256; i++)
        at += (size_t)snprintf(out + at, 256 - at, "%s%llu .%s", at ? ", " : "",
                               (unsigned long long)t->count[i], t->ending[i]);
    if (t->others && at < 256)
        snprintf(out + at, 256 - at, "%s%llu %s", at ? ", " : "", (unsigned long long)t->others,
                 at ? "others" : "without a known ending");
}

const char *larder__found_note(const larder__found *f, const char *what, size_t i,
                               larder__found_says *says) {
    uint64_t unused = sum(&f->unused), strange = sum(&f->strange);
    char endings[256], *out = says->text[0];
    if (unused && i == 0) {
        list(&f->unused, endings);
        snprintf(out, sizeof says->text[0], "%llu %s are not used: %s%s",
                 (unsigned long long)unused, what, endings,
                 strcmp(what, "members") == 0 ? "; fields= takes them" : "");
        return out;
    }
    if (!strange || i != (unused ? 1u : 0u))
        return NULL;
    out = says->text[1];
    list(&f->strange, endings);
    snprintf(out, sizeof says->text[1],
             "larder does not decode %llu samples, by their names (%s; larder --version says what "
             "this build has), the first is %.120s: convert them, leave them to PIL (pil=True in "
             "Python), pass over them (on_bad=skip) or take their bytes as they are",
             (unsigned long long)strange, endings, f->first);
    return out;
}
