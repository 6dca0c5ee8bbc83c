/* Strings people type: "name:key=value,key=value", "20%", "8GiB", "5ms". One parser for the
 * command line, the C API and Python, strict, with sentences that say what was expected. */
#ifndef LARDER_BASE_SPEC_H
#define LARDER_BASE_SPEC_H

#include <larder/plugin.h>

/* Values of one plug-in's parameters, in the order of its params table. */
struct larder_args {
    const larder_param *params;
    size_t count;
    char **texts;
    double *numbers;
};

/* Splits "name:rest" (or "name") and copies the name; *rest points into spec or at "". */
int larder__spec_name(const char *spec, char *name, size_t cap, const char **rest);

/* Checks "key=value,key=value" against the plug-in's params; separator ',' or '&'. Keys it does
 * not know are an error unless `others` says another plug-in takes them. `kind` is for the
 * sentence: "policy", "source" … */
int larder__args_parse(larder_args *out, const char *kind, const larder_plugin *, const char *text,
                       char separator, const larder_param *const *others);
/* As `others`: whoever takes the other keys, it is checked elsewhere. */
extern const larder_param *const larder__args_any[];
/* Is every key of the text in one of these lists, which end with NULL? Else a sentence with the
 * nearest of them, and all that there are. */
int larder__args_check(const char *kind, const char *name, const char *text, char separator,
                       const larder_param *const *lists);
void larder__args_free(larder_args *);
/* Another text for a parameter of type text. */
int larder__args_set_text(larder_args *, const char *name, const char *text);

/* "3072", "64KiB", "1.5 GB", "8GiB": bytes. Negative, huge, empty or trailing junk: E_ARGS. */
int larder__parse_bytes(const char *text, uint64_t *out);
/* As larder__parse_bytes, where nobody means a few bytes: a number below 64 KiB without a unit, and
 * not 0, gets a sentence with the ways to write it. */
int larder__parse_amount(const char *what, const char *text, uint64_t *out);
/* "5ms", "2s", "150us", "0": seconds. */
int larder__parse_seconds(const char *text, double *out);
/* n digits and nothing else, of a number below 2^64. */
bool larder__parse_digits(const char *text, size_t n, uint64_t *out);
int larder__parse_u64(const char *what, const char *text, uint64_t max, uint64_t *out);
int larder__parse_f64(const char *what, const char *text, double *out);

/* "20%" or "8GiB", maybe followed by ":58/42/0". A bare number up to 100 could be either. */
typedef struct larder__budget {
    bool relative;
    double fraction;
    uint64_t bytes;
    bool split;                 /* the shares were given */
    double share[LARDER_FORMS]; /* of each form, 1 in all */
} larder__budget;
int larder__parse_budget(const char *text, larder__budget *out);
/* Of a data set with so many bytes. More than everything is never of use, but for `pixels`, which
 * may take more than the files. */
uint64_t larder__budget_bytes(const larder__budget *, uint64_t payload, bool pixels);
/* "58/42/0": percent of encoded, decoded and augmented, as fractions of 1. */
enum { LARDER__SPLIT_FORMS = LARDER_AUGMENTED + 1 };
int larder__parse_split(const char *text, double share[LARDER_FORMS]);

/* "64.0 KiB" into out. */
const char *larder__print_bytes(double bytes, char out[32]);

#endif
