/* The fields of the structs of job.h as tables: where they are, and of what kind. */
#ifndef LARDER_SEE_JOB_FIELDS_H
#define LARDER_SEE_JOB_FIELDS_H

#include "see/job.h"

typedef enum { LARDER__IS_U64, LARDER__IS_F64, LARDER__IS_TEXT } larder__field_is;
typedef struct larder__field {
    const char *name;
    larder__field_is is;
    size_t at, size;
} larder__field;

extern const larder__field larder__fields_job[], larder__fields_stat[], larder__fields_epoch[],
    larder__fields_bad[];

/* Members of the object that is open. */
void larder__fields_json(larder__json *, const larder__field *, const void *object);

#endif
