#include "redis/tls.h"

#include "base/certificates.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"

#if LARDER_HAVE_OPENSSL
#include "base/late.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define CALLS(X)                                                                                   \
    X(BIO_clear_flags)                                                                             \
    X(BIO_get_data)                                                                                \
    X(BIO_meth_free)                                                                               \
    X(BIO_meth_new)                                                                                \
    X(BIO_meth_set_ctrl)                                                                           \
    X(BIO_meth_set_read)                                                                           \
    X(BIO_meth_set_write)                                                                          \
    X(BIO_new)                                                                                     \
    X(BIO_set_data)                                                                                \
    X(BIO_set_flags)                                                                               \
    X(BIO_set_init)                                                                                \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)                                                                     \
    X(SSL_CTX_check_private_key)                                                                   \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_load_verify_locations)                                                               \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_connect)                                                                                 \
    X(SSL_ctrl)                                                                                    \
    X(SSL_free)                                                                                    \
    X(SSL_get0_param)                                                                              \
    X(SSL_get_error)                                                                               \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_new)                                                                                     \
    X(SSL_read)                                                                                    \
    X(SSL_set1_host)                                                                               \
    X(SSL_set_bio)                                                                                 \
    X(SSL_write)                                                                                   \
    X(TLS_client_method) X(X509_VERIFY_PARAM_set1_ip_asc) X(X509_verify_cert_error_string)
CALLS(LARDER__LATE_NAME)
LARDER__LATE(openssl, LARDER_LATE_OPENSSL, CALLS)

struct larder__tls {
    SSL *ssl;
    BIO_METHOD *method;
    int fd;
    pthread_mutex_t lock; /* of ssl */
    char peer[300];
};

/* ---- the socket, as OpenSSL sees it ---------------------------------------------------------- */

static int fd_of(BIO *b) { return ((larder__tls *)BIO_get_data(b))->fd; }

static bool later(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static int bio_write(BIO *b, const char *from, int n) {
    BIO_clear_retry_flags(b);
    ssize_t sent = send(fd_of(b), from, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && later())
        BIO_set_retry_write(b);
    return (int)sent;
}

static int bio_read(BIO *b, char *to, int n) {
    BIO_clear_retry_flags(b);
    ssize_t got = recv(fd_of(b), to, (size_t)n, MSG_DONTWAIT);
    if (got < 0 && later())
        BIO_set_retry_read(b);
    return (int)got;
}

static long bio_ctrl(BIO *b, int what, long unused, void *none) {
    (void)b, (void)unused, (void)none;
    return what == BIO_CTRL_FLUSH;
}

static bool attach(larder__tls *t) {
    BIO *b = NULL;
    t->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "larder");
    if (t->method && BIO_meth_set_write(t->method, bio_write) &&
        BIO_meth_set_read(t->method, bio_read) && BIO_meth_set_ctrl(t->method, bio_ctrl))
        b = BIO_new(t->method);
    if (!b)
        return false;
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b); /* which owns it from here on */
    return true;
}

/* ---- who is believed ------------------------------------------------------------------------- */

/* The last thing OpenSSL had to say; it keeps a list of its complaints for each thread. */
static const char *complaint(void) {
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return why ? why : "it ends in mid-sentence";
}

/* Nobody is asked at a terminal. */
static int no_password(char *to, int n, int writing, void *none) {
    (void)to, (void)n, (void)writing, (void)none;
    return 0;
}

static int load_files(SSL_CTX *x, const larder__tls_conf *conf) {
    const char *ca = conf->ca[0] ? conf->ca : larder__system_certificates();
    int believed =
        ca ? SSL_CTX_load_verify_locations(x, ca, NULL) : SSL_CTX_set_default_verify_paths(x);
    if (believed != 1)
        return larder__fail(LARDER_E_ARGS, "%s: TLS: ca=%s: %s", conf->peer, ca ? ca : "",
                            complaint());
    if (!conf->cert[0])
        return 0;
    if (SSL_CTX_use_certificate_chain_file(x, conf->cert) != 1)
        return larder__fail(LARDER_E_ARGS, "%s: TLS: cert=%s: %s", conf->peer, conf->cert,
                            complaint());
    if (SSL_CTX_use_PrivateKey_file(x, conf->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(x) != 1)
        return larder__fail(LARDER_E_ARGS, "%s: TLS: key=%s: %s (it must have no password)",
                            conf->peer, conf->key, complaint());
    return 0;
}

static int make_context(SSL_CTX **out, const larder__tls_conf *conf) {
    SSL_CTX *x = *out = SSL_CTX_new(TLS_client_method());
    if (!x)
        return larder__fail(LARDER_E_NOMEM, "%s: TLS: %s", conf->peer, complaint());
    SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION);
    SSL_CTX_set_verify(x, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(x, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(x, no_password);
    return load_files(x, conf);
}

/* An address has to stand in the certificate as such; a name is also told, for servers of many. */
static bool expect_name(SSL *ssl, const char *name) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Until the socket is ready for what the last step lacked; false: it cannot go on. */
static bool wait_for(const larder__tls *t, int lack, double until) {
    if (lack != SSL_ERROR_WANT_READ && lack != SSL_ERROR_WANT_WRITE)
        return false;
    struct pollfd p = {.fd = t->fd, .events = lack == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT};
    double left = until - larder__world_now();
    int ms = left <= 0 ? 0 : left > 60 ? 60000 : (int)(left * 1000) + 1;
    return poll(&p, 1, ms) >= 0 || errno == EINTR;
}

static int explain(larder__tls *t, int lack, double until) {
    if (larder__world_now() > until &&
        (lack == SSL_ERROR_WANT_READ || lack == SSL_ERROR_WANT_WRITE))
        return larder__fail(LARDER_E_IO, "%s does not answer", t->peer);
    unsigned long e = ERR_peek_last_error();
    if (lack == SSL_ERROR_ZERO_RETURN || (lack == SSL_ERROR_SYSCALL && e == 0)) {
        ERR_clear_error();
        return larder__fail(LARDER_E_IO, "%s has closed the connection", t->peer);
    }
    return larder__fail(LARDER_E_IO, "%s: TLS: %s", t->peer, complaint());
}

static int refused(larder__tls *t, const larder__tls_conf *conf, int lack, double until) {
    long v = SSL_get_verify_result(t->ssl);
    bool other = v == X509_V_ERR_HOSTNAME_MISMATCH || v == X509_V_ERR_IP_ADDRESS_MISMATCH;
    if (v != X509_V_OK) {
        ERR_clear_error();
        return larder__fail(
            LARDER_E_ARGS,
            "%s: its certificate is not believed: %s (%s%s; ca=FILE names those who "
            "are believed)",
            t->peer, X509_verify_cert_error_string(v),
            other ? "name= says what it is issued to, unless that is " : "asked as ", conf->name);
    }
    bool other_words = lack == SSL_ERROR_SSL &&
                       ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_WRONG_VERSION_NUMBER;
    if (other_words || lack != SSL_ERROR_SSL) { /* what we said was no command, and not answered */
        ERR_clear_error();
        return larder__fail(LARDER_E_IO, "%s does not answer in TLS: is this its plain port?",
                            t->peer);
    }
    return explain(t, lack, until);
}

static int shake_hands(larder__tls *t, const larder__tls_conf *conf, double until) {
    for (;;) {
        ERR_clear_error();
        int rc = SSL_connect(t->ssl);
        if (rc == 1)
            return 0;
        int lack = SSL_get_error(t->ssl, rc);
        if (larder__world_now() > until || !wait_for(t, lack, until))
            return refused(t, conf, lack, until);
    }
}

int larder__tls_open(larder__tls **out, int fd, const larder__tls_conf *conf, double until) {
    SSL_CTX *x = NULL;
    *out = NULL;
    int rc = larder__late_open(&openssl_late);
    if (rc < 0)
        return rc;
    larder__tls *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&t->lock, NULL);
    t->fd = fd;
    snprintf(t->peer, sizeof t->peer, "%s", conf->peer);
    rc = make_context(&x, conf);
    if (rc == 0 && (!(t->ssl = SSL_new(x)) || !attach(t) || !expect_name(t->ssl, conf->name)))
        rc = larder__fail(LARDER_E_NOMEM, "%s: TLS: %s", conf->peer, complaint());
    SSL_CTX_free(x);
    if (rc == 0)
        rc = shake_hands(t, conf, until);
    if (rc < 0)
        larder__tls_close(out);
    return rc;
}

void larder__tls_close(larder__tls **pt) {
    larder__tls *t = *pt;
    *pt = NULL;
    if (!t)
        return;
    SSL_free(t->ssl);
    BIO_meth_free(t->method);
    pthread_mutex_destroy(&t->lock);
    larder__free(t);
}

int larder__tls_read(larder__tls *t, void *to, size_t n, double until) {
    int most = n < INT_MAX ? (int)n : INT_MAX;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        ERR_clear_error();
        int got = SSL_read(t->ssl, to, most);
        int lack = got > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, got);
        pthread_mutex_unlock(&t->lock);
        if (got > 0)
            return got;
        if (larder__world_now() > until || !wait_for(t, lack, until))
            return explain(t, lack, until);
    }
}

int larder__tls_write(larder__tls *t, const void *from, size_t n, double patience) {
    const char *at = from;
    double until = larder__world_now() + patience;
    while (n > 0) {
        pthread_mutex_lock(&t->lock);
        ERR_clear_error();
        int sent = SSL_write(t->ssl, at, n < INT_MAX ? (int)n : INT_MAX);
        int lack = sent > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, sent);
        pthread_mutex_unlock(&t->lock);
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
            until = larder__world_now() + patience;
        } else if (larder__world_now() > until || !wait_for(t, lack, until))
            return explain(t, lack, until);
    }
    return 0;
}

#else

int larder__tls_open(larder__tls **out, int fd, const larder__tls_conf *conf, double until) {
    (void)fd, (void)until;
    *out = NULL;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "%s: TLS needs OpenSSL (package libssl-dev), which this build was made "
                        "without",
                        conf->peer);
}
void larder__tls_close(larder__tls **t) { *t = NULL; }
int larder__tls_read(larder__tls *t, void *to, size_t n, double until) {
    (void)t, (void)to, (void)n, (void)until;
    return LARDER_E_UNSUPPORTED;
}
int larder__tls_write(larder__tls *t, const void *from, size_t n, double patience) {
    (void)t, (void)from, (void)n, (void)patience;
    return LARDER_E_UNSUPPORTED;
}
#endif
