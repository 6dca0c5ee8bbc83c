/* Tests of s3: begin with an environment that says nothing about it. */
#ifndef LARDER_TEST_AWS_KIT_H
#define LARDER_TEST_AWS_KIT_H

#include "check.h"

#include "source/web/web_site.h"

void kit_aws_clear(void);
larder__s3_conf kit_s3_conf(void); /* as it is unless said */

#endif
