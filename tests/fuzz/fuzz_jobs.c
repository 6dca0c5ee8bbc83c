/* Whatever answers under the name of a job is read whole or refused; what was read can be written
 * and read again, and told to Prometheus. */
#include "see/job.h"
#include "see/prometheus.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const void *bytes, size_t size) {
    char *text = malloc(size + 1);
    if (text) {
        memcpy(text, bytes, size);
        text[size] = 0;
    }
    return text;
}

static char *write_all(const larder__jobs *jobs, size_t *size) {
    char *text = NULL;
    FILE *to = open_memstream(&text, size);
    if (!to)
        return NULL;
    larder__jobs_head(to, jobs->count);
    for (size_t i = 0; i < jobs->count; i++)
        larder__job_write(to, &jobs->at[i]);
    larder__jobs_tail(to);
    larder__prometheus_write(to, jobs->at, jobs->count);
    larder__json j = {.to = to};
    if (jobs->count)
        larder__job_json(&j, &jobs->at[0]);
    fclose(to);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    larder__jobs jobs = {0}, again = {0};
    char *text = copy_of(data, size), *written = NULL;
    size_t n = 0;
    if (text && larder__jobs_read(&jobs, text, size, 4) == 0 && (written = write_all(&jobs, &n))) {
        if (larder__jobs_read(&again, written, n, 4) < 0 || again.count != jobs.count)
            abort();
    }
    free(text);
    free(written);
    larder__jobs_free(&jobs);
    larder__jobs_free(&again);
    return 0;
}
