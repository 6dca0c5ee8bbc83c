#include "base/certificates.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const places[] = {
    "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Gentoo */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, Red Hat and their kin */
    "/etc/pki/tls/certs/ca-bundle.crt",                  /* older ones */
    "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
};

static const char *set(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

const char *larder__system_certificates(void) {
    const char *file = set("SSL_CERT_FILE");
    if (file || set("SSL_CERT_DIR"))
        return file;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    return NULL;
}
