/* Where certificates of the system are looked for. */
#include "check.h"

#include "base/certificates.h"

#include <stdlib.h>
#include <unistd.h>

static void variables_decide(void **state) {
    (void)state;
    setenv("SSL_CERT_FILE", "/mine.pem", 1);
    assert_string_equal(larder__system_certificates(), "/mine.pem");
    setenv("SSL_CERT_DIR", "/folder", 1);
    assert_string_equal(larder__system_certificates(), "/mine.pem");
    unsetenv("SSL_CERT_FILE");
    assert_null(larder__system_certificates());
    setenv("SSL_CERT_FILE", "", 1);
    assert_null(larder__system_certificates());
}

static void else_a_file_that_is_there(void **state) {
    (void)state;
    unsetenv("SSL_CERT_FILE");
    unsetenv("SSL_CERT_DIR");
    const char *file = larder__system_certificates();
    if (!file) { /* a system without any */
        assert_int_not_equal(access("/etc/ssl/certs/ca-certificates.crt", R_OK), 0);
        return;
    }
    assert_int_equal(access(file, R_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_decide),
        cmocka_unit_test(else_a_file_that_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
