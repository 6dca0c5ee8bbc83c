/* What reading costs where a store takes money for it: by the request and by the byte that leaves
 * it. */
#ifndef LARDER_SIM_PRICE_H
#define LARDER_SIM_PRICE_H

typedef struct larder__price {
    double request, byte; /* of one */
} larder__price;

/* "s3", or "get=0.0004/1000,byte=0.09/GiB": money for so many requests, and for so many bytes; one
 * of the two may be left out. */
int larder__price_parse(larder__price *, const char *text);
static inline double larder__price_of(const larder__price *p, double requests, double bytes) {
    return requests * p->request + bytes * p->byte;
}

#endif
