#include "aws_kit.h"

#include <stdlib.h>

void kit_aws_clear(void) {
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("HOME", "/nonexistent", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

larder__s3_conf kit_s3_conf(void) {
    return (larder__s3_conf){.profile = "", .region = "", .endpoint = "", .style = "auto"};
}
