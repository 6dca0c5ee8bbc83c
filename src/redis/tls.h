/* TLS over a socket that is connected already, by OpenSSL. One thread may send while another reads:
 * OpenSSL's own state is not made for two, so every step is under a lock, and nobody waits under
 * it. No signal is raised when the other side is gone. */
#ifndef LARDER_REDIS_TLS_H
#define LARDER_REDIS_TLS_H

#include <stddef.h>

typedef struct larder__tls larder__tls;

typedef struct larder__tls_conf {
    const char *ca;         /* file of those who are believed; "": the system's */
    const char *cert, *key; /* files of who we are; "": nobody in particular */
    const char *name;       /* the name or address that the certificate has to be about */
    const char *peer;       /* for sentences */
} larder__tls_conf;

/* Shakes hands; every certificate is checked. `until`: as of larder__now. */
int larder__tls_open(larder__tls **out, int fd, const larder__tls_conf *, double until);
void larder__tls_close(larder__tls **);
/* Some bytes, at least one; or negative. */
int larder__tls_read(larder__tls *, void *to, size_t n, double until);
/* All of them; each piece may take `patience` seconds. */
int larder__tls_write(larder__tls *, const void *from, size_t n, double patience);

#endif
