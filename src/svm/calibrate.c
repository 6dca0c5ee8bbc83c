#include "svm/calibrate.h"

#include <math.h>

typedef struct fit {
    const double *values;
    const bool *positive;
    size_t n;
    double high, low; /* targets of the two classes, drawn in from 1 and 0 */
} fit;

/* log(1 + e^z) and 1 / (1 + e^z) without overflow. */
static double log_one_plus(double z) { return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z)); }
static double falling(double z) { return z >= 0 ? exp(-z) / (1 + exp(-z)) : 1 / (1 + exp(z)); }

static double loss(const fit *f, double a, double b) {
    double sum = 0;
    for (size_t i = 0; i < f->n; i++) {
        double z = a * f->values[i] + b, t = f->positive[i] ? f->high : f->low;
        sum += t * z + log_one_plus(-z);
    }
    return sum;
}

typedef struct slope {
    double ga, gb, aa, ab, bb;
} slope;

static slope derive(const fit *f, double a, double b) {
    slope s = {.aa = 1e-12, .bb = 1e-12}; /* keeps the Hessian invertible */
    for (size_t i = 0; i < f->n; i++) {
        double v = f->values[i], p = falling(a * v + b), w = p * (1 - p);
        double d = (f->positive[i] ? f->high : f->low) - p;
        s.aa += v * v * w, s.ab += v * w, s.bb += w;
        s.ga += v * d, s.gb += d;
    }
    return s;
}

void larder__sigmoid_fit(const double *values, const bool *positive, size_t n, double *a,
                         double *b) {
    double plus = 0;
    for (size_t i = 0; i < n; i++)
        plus += positive[i];
    double minus = (double)n - plus;
    fit f = {values, positive, n, (plus + 1) / (plus + 2), 1 / (minus + 2)};
    *a = 0;
    *b = log((minus + 1) / (plus + 1));
    double now = loss(&f, *a, *b);
    for (int i = 0; i < 100; i++) {
        slope s = derive(&f, *a, *b);
        if (fabs(s.ga) < 1e-5 && fabs(s.gb) < 1e-5)
            return;
        double det = s.aa * s.bb - s.ab * s.ab;
        double da = -(s.bb * s.ga - s.ab * s.gb) / det, db = -(s.aa * s.gb - s.ab * s.ga) / det;
        double along = s.ga * da + s.gb * db, step = 1, next = 0;
        while (step >= 1e-10 &&
               (next = loss(&f, *a + step * da, *b + step * db)) >= now + 1e-4 * step * along)
            step /= 2;
        if (step < 1e-10)
            return;
        *a += step * da, *b += step * db, now = next;
    }
}

double larder__sigmoid(double value, double a, double b) { return falling(a * value + b); }

/* p'Qp, and Qp into `qp`. */
static double multiply(size_t k, const double *q, const double *p, double *qp) {
    double all = 0;
    for (size_t i = 0; i < k; i++) {
        qp[i] = 0;
        for (size_t j = 0; j < k; j++)
            qp[i] += q[i * k + j] * p[j];
        all += p[i] * qp[i];
    }
    return all;
}

static double largest_error(size_t k, const double *qp, double all) {
    double most = 0;
    for (size_t i = 0; i < k; i++)
        most = fmax(most, fabs(qp[i] - all));
    return most;
}

/* One coordinate step that keeps the sum at one; Qp and p'Qp follow along. */
static double step_along(size_t k, size_t t, const double *q, double *p, double *qp, double all) {
    double d = (all - qp[t]) / q[t * k + t];
    p[t] += d;
    all = (all + d * (d * q[t * k + t] + 2 * qp[t])) / ((1 + d) * (1 + d));
    for (size_t j = 0; j < k; j++) {
        qp[j] = (qp[j] + d * q[t * k + j]) / (1 + d);
        p[j] /= 1 + d;
    }
    return all;
}

/* Minimises p'Qp over probabilities. */
void larder__couple(size_t k, const double *pair, double *p, double *work) {
    double *q = work, *qp = work + k * k;
    for (size_t i = 0; i < k; i++) {
        p[i] = 1 / (double)k;
        q[i * k + i] = 0;
        for (size_t j = 0; j < k; j++)
            if (j != i) {
                q[i * k + i] += pair[j * k + i] * pair[j * k + i];
                q[i * k + j] = -pair[j * k + i] * pair[i * k + j];
            }
    }
    for (size_t round = 0; round < 100 || round < k; round++) {
        double all = multiply(k, q, p, qp);
        if (largest_error(k, qp, all) < 0.005 / (double)k)
            return;
        for (size_t t = 0; t < k; t++)
            all = step_along(k, t, q, p, qp, all);
    }
}
