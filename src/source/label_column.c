#include "source/label_column.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

void larder__label_column_begin(larder__label_column *l) {
    *l = (larder__label_column){.whole = true, .numbers = true};
}

bool larder__text_number(const char *text, double *out) {
    char *end;
    text += strspn(text, " ");
    *out = NAN;
    if (!*text)
        return true;
    if (!strchr("+-.0123456789nNiI", *text) || strpbrk(text, "xX(")) /* no hex, no nan(7) */
        return false;
    *out = strtod(text, &end);
    return end[strspn(end, " ")] == 0;
}

int larder__label_column_add(larder__label_column *l, const char *text) {
    double v;
    size_t n = strlen(text) + 1;
    int rc = larder__grow(&l->text, &l->cap, l->used + n, 1);
    if (rc == 0)
        rc = larder__grow(&l->ends, &l->ends_cap, l->count + 1, sizeof *l->ends);
    if (rc < 0)
        return rc;
    memcpy(l->text + l->used, text, n);
    l->used += n;
    l->ends[l->count++] = l->used;
    bool number = larder__text_number(text, &v);
    l->numbers &= number;
    l->whole &= number && (isnan(v) || (v == floor(v) && v >= -1 && v < INT32_MAX));
    return 0;
}

static const char *text_of(const larder__label_column *l, uint64_t i) {
    return l->text + (i ? l->ends[i - 1] : 0);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_numbers(larder__label_column *l) {
    for (uint64_t i = 0; i < l->count; i++) {
        const char *t = text_of(l, i);
        l->labels[i] = t[0] ? (int32_t)strtod(t, NULL) : -1; /* an empty cell: none */
        if (l->labels[i] >= 0 && (uint32_t)l->labels[i] >= l->classes)
            l->classes = (uint32_t)l->labels[i] + 1;
    }
    return 0;
}

static int read_names(larder__label_column *l) {
    l->names = larder__malloc((l->count + 1) * sizeof *l->names);
    if (!l->names)
        return LARDER_E_NOMEM;
    uint64_t n = 0;
    for (uint64_t i = 0; i < l->count; i++)
        if (text_of(l, i)[0])
            l->names[n++] = l->text + (text_of(l, i) - l->text);
    qsort(l->names, n, sizeof *l->names, by_text);
    for (uint64_t i = 0; i < n; i++)
        if (l->classes == 0 || strcmp(l->names[l->classes - 1], l->names[i]) != 0)
            l->names[l->classes++] = l->names[i];
    for (uint64_t i = 0; i < l->count; i++) {
        char *key = l->text + (text_of(l, i) - l->text);
        char **at = bsearch(&key, l->names, l->classes, sizeof *l->names, by_text);
        l->labels[i] = at ? (int32_t)(at - l->names) : -1;
    }
    return 0;
}

int larder__label_column_end(larder__label_column *l) {
    l->are = !l->numbers ? LARDER__LABELS_NAMES
             : l->whole  ? LARDER__LABELS_NUMBERS
                         : LARDER__LABELS_FLOATS;
    if (l->are == LARDER__LABELS_FLOATS)
        return 0;
    l->labels = larder__malloc((l->count + 1) * sizeof *l->labels);
    if (!l->labels)
        return LARDER_E_NOMEM;
    return l->are == LARDER__LABELS_NAMES ? read_names(l) : read_numbers(l);
}

void larder__label_column_free(larder__label_column *l) {
    larder__free(l->text);
    larder__free(l->ends);
    larder__free(l->labels);
    larder__free(l->names);
    *l = (larder__label_column){0};
}
