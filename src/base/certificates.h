/* Whom this system trusts. A TLS library looks where the distribution it was built on keeps that,
 * and ours may have come from another one. */
#ifndef LARDER_BASE_CERTIFICATES_H
#define LARDER_BASE_CERTIFICATES_H

/* A file of certificates: $SSL_CERT_FILE, or where distributions have theirs. NULL leaves it to the
 * TLS library: nothing was found, or $SSL_CERT_DIR alone says otherwise. */
const char *larder__system_certificates(void);

#endif
