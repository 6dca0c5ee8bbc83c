#include "base/convert.h"

#include "base/err.h"
#include "base/half.h"

#include <math.h>

typedef struct number { /* exact either way: a double does not hold every int64 */
    bool whole;
    bool large; /* whole, and not below 2^63: u is it */
    int64_t i;
    uint64_t u;
    double d;
} number;

#define AS(type, var)                                                                              \
    type var;                                                                                      \
    memcpy(&var, at, sizeof var)

static number load(const unsigned char *at, larder_dtype dtype) {
    number k = {.whole = true};
    switch (dtype) {
    case LARDER_F32: {
        AS(float, v);
        return (number){.d = (double)v};
    }
    case LARDER_F64: {
        AS(double, v);
        return (number){.d = v};
    }
    case LARDER_F16: {
        AS(uint16_t, v);
        return (number){.d = (double)larder__float_of_f16(v)};
    }
    case LARDER_BF16: {
        AS(uint16_t, v);
        return (number){.d = (double)larder__float_of_bf16(v)};
    }
    case LARDER_C64: { /* the real part */
        AS(float, v);
        return (number){.d = (double)v};
    }
    case LARDER_I64: {
        AS(int64_t, v);
        k.i = v;
        break;
    }
    case LARDER_I32: {
        AS(int32_t, v);
        k.i = v;
        break;
    }
    case LARDER_I16: {
        AS(int16_t, v);
        k.i = v;
        break;
    }
    case LARDER_I8: {
        AS(int8_t, v);
        k.i = v;
        break;
    }
    case LARDER_U16: {
        AS(uint16_t, v);
        k.i = v;
        break;
    }
    case LARDER_U32: {
        AS(uint32_t, v);
        k.i = v;
        break;
    }
    case LARDER_U64: {
        AS(uint64_t, v);
        k.large = v > INT64_MAX;
        k.u = v;
        k.i = (int64_t)v;
        break;
    }
    default:
        k.i = *at;
    }
    k.d = k.large ? (double)k.u : (double)k.i;
    return k;
}

/* A whole number between these two, from whatever it is. */
static bool fits(number *k, int64_t least, uint64_t most) {
    if (!k->whole) {
        if (!(k->d >= -9223372036854775808.0 && k->d < 18446744073709551616.0) ||
            floor(k->d) != k->d)
            return false;
        k->large = k->d >= 9223372036854775808.0;
        k->u = k->d >= 0 ? (uint64_t)k->d : 0;
        k->i = k->large ? 0 : (int64_t)k->d;
    } else if (!k->large)
        k->u = k->i >= 0 ? (uint64_t)k->i : 0;
    return k->large ? k->u <= most : k->i >= least && (k->i < 0 || k->u <= most);
}

static bool store(unsigned char *at, larder_dtype dtype, number *k) {
    static const struct {
        int64_t least;
        uint64_t most;
    } span[LARDER_DTYPES] = {[LARDER_U8] = {0, UINT8_MAX},
                             [LARDER_I64] = {INT64_MIN, INT64_MAX},
                             [LARDER_I32] = {INT32_MIN, INT32_MAX},
                             [LARDER_I16] = {INT16_MIN, INT16_MAX},
                             [LARDER_I8] = {INT8_MIN, INT8_MAX},
                             [LARDER_U16] = {0, UINT16_MAX},
                             [LARDER_BOOL] = {0, 1},
                             [LARDER_U32] = {0, UINT32_MAX},
                             [LARDER_U64] = {0, UINT64_MAX}};
    float f = (float)k->d;
    if (dtype == LARDER_F32)
        memcpy(at, &f, sizeof f);
    else if (dtype == LARDER_F64)
        memcpy(at, &k->d, sizeof k->d);
    else if (span[dtype].most == 0 || !fits(k, span[dtype].least, span[dtype].most))
        return false;
    else {
        uint64_t v = k->large ? k->u : (uint64_t)k->i;
        for (size_t b = 0; b < larder__dtype_bytes(dtype); b++)
            at[b] = (unsigned char)(v >> (8 * b));
    }
    return true;
}

int larder__convert(void *out, larder_dtype to, const void *in, larder_dtype from, size_t n) {
    size_t width = larder__dtype_bytes(from), wide = larder__dtype_bytes(to);
    if (from == to) {
        memcpy(out, in, n * width);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        number k = load((const unsigned char *)in + i * width, from);
        if (!store((unsigned char *)out + i * wide, to, &k))
            return larder__fail(LARDER_E_RANGE, "%g cannot be an %s", k.d, larder__dtype_name(to));
    }
    return 0;
}
