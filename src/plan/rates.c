/* The rates of a machine: their names, their defaults, what is needed and what is possible. */
#include "base/err.h"
#include "base/near.h"
#include "base/object.h"
#include "base/sized.h"

#include "base/spec.h"
#include <stdbool.h>

#include "plan/rates.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum { kind_number, kind_bytes, kind_link } kind;

static const struct {
    const char *key;
    double initial;
    kind kind;
    size_t at;
} keys[] = {
#define XX(key, initial, kind, help) {#key, initial, kind_##kind, offsetof(larder_rates, key)},
    LARDER_RATES(XX)
#undef XX
};
enum { KEYS = sizeof keys / sizeof *keys };

static double get(const larder_rates *r, size_t i) {
    double value;
    memcpy(&value, (const char *)r + keys[i].at, sizeof value);
    return value;
}

static void put(larder_rates *r, size_t i, double value) {
    memcpy((char *)r + keys[i].at, &value, sizeof value);
}

void larder__rates_defaults(larder_rates *r) {
    for (size_t i = 0; i < KEYS; i++)
        put(r, i, keys[i].initial);
}

int larder__rates_take(larder_rates *r, const larder_rates *given) {
    larder_rates own = {0};
    int rc = larder__sized_in(&own, sizeof own, given, "larder_rates");
    for (size_t i = 0; rc == 0 && i < KEYS; i++)
        if (get(&own, i) != 0)
            put(r, i, get(&own, i));
    return rc;
}

static int parse_link(const char *value, double *out) {
    static const char *const names[] = {"none", "intra", "inter"};
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], value) == 0) {
            *out = i;
            return 0;
        }
    return larder__fail(LARDER_E_ARGS, "nvlink is none, intra or inter, not \"%.40s\"", value);
}

/* "64GiB", and also what larder__parse_bytes does not take because no file is so large or so
 * finely cut: 1.25e9, inf. */
static int parse_amount(const char *key, kind k, const char *value, double *out) {
    uint64_t bytes;
    if (strcmp(value, "inf") == 0) {
        *out = INFINITY;
        return 0;
    }
    if (k == kind_bytes && strpbrk(value, "KMGTPkmgtpB") &&
        larder__parse_bytes(value, &bytes) == 0) {
        *out = (double)bytes;
        return 0;
    }
    return larder__parse_f64(key, value, out);
}

int larder__rates_set(larder_rates *r, const char *key, const char *value) {
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].key, key) == 0) {
            double number = 0;
            int rc = keys[i].kind == kind_link ? parse_link(value, &number)
                                               : parse_amount(key, keys[i].kind, value, &number);
            if (rc == 0 && (isnan(number) || number < 0))
                rc = larder__fail(LARDER_E_ARGS, "%s cannot be %s", key, value);
            if (rc == 0)
                put(r, i, number);
            return rc;
        }
    char hint[LARDER__NEAR_CHARS + 32];
    larder__near near;
    larder__near_begin(&near, key, strlen(key));
    for (size_t i = 0; i < KEYS; i++)
        larder__near_try(&near, keys[i].key, strlen(keys[i].key));
    larder__near_hint(&near, hint);
    return larder__fail(LARDER_E_ARGS,
                        "there is no rate \"%.40s\"%s%s larder plan --help lists them", key, hint,
                        hint[0] ? "" : ";");
}

static int take_member(void *arg, const char *key, const larder__object_value *v) {
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].key, key) == 0 && (v->is_text || !isnan(v->number))) {
            char number[40];
            snprintf(number, sizeof number, "%.17g", v->number);
            return larder__rates_set(arg, key, v->is_text ? v->text : number);
        }
    return 0;
}

int larder__rates_read(larder_rates *r, const char *text, const char *where) {
    return larder__object_parse(text, where, take_member, r);
}

static int check_positive(const larder_rates *r) {
    const struct {
        const char *key;
        double value;
    } positive[] = {{"n", r->n},
                    {"t_gpu", r->t_gpu},
                    {"t_da", r->t_da},
                    {"t_a", r->t_a},
                    {"t_d", isnan(r->t_d) ? 1 : r->t_d},
                    {"b_nic", r->b_nic},
                    {"b_pcie", r->b_pcie},
                    {"b_cache", r->b_cache},
                    {"b_storage", r->b_storage},
                    {"s_data", r->s_data},
                    {"m", r->m},
                    {"m_decoded", isnan(r->m_decoded) ? 1 : r->m_decoded},
                    {"n_total", r->n_total},
                    {"gpus", r->gpus},
                    {"batch", r->batch}};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        if (!(positive[i].value > 0))
            return larder__fail(LARDER_E_ARGS, "%s has to be above 0", positive[i].key);
    return 0;
}

static bool is_endless(const char *key) {
    static const char *const all[] = {"t_da",   "t_a",     "t_d",      "b_nic",
                                      "b_pcie", "b_cache", "b_storage"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i], key) == 0)
            return true;
    return false;
}

/* A link or processors may be faster than all else; what is counted is a number, and so is what
 * training takes: no plan is faster. Beyond these sizes products are no numbers any more. */
static int check_size(const larder_rates *r) {
    const double least = 1e-24, most = 1e24;
    for (size_t i = 0; i < KEYS; i++) {
        const char *key = keys[i].key;
        double v = get(r, i);
        if (isinf(v) && !is_endless(key))
            return larder__fail(LARDER_E_ARGS, "%s has to be finite", key);
        if (v != 0 && isfinite(v) && (v > most || v < least))
            return larder__fail(LARDER_E_ARGS, "%s=%g: no machine has that", key, v);
    }
    return 0;
}

/* Not given, these follow from the others. */
static bool is_derived(const char *key) {
    return strcmp(key, "c_nw") == 0 || strcmp(key, "c_pcie") == 0 ||
           strcmp(key, "m_decoded") == 0 || strcmp(key, "t_d") == 0;
}

int larder__rates_check(const larder_rates *r) {
    char missing[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < KEYS; i++) {
        if (!is_derived(keys[i].key) && isnan(get(r, i)))
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %s", keys[i].key);
    }
    if (used)
        return larder__fail(LARDER_E_ARGS,
                            "not known yet:%s; give --profile FILE (larder profile writes it) or "
                            "--set key=value",
                            missing);
    int rc = check_positive(r);
    return rc < 0 ? rc : check_size(r);
}
