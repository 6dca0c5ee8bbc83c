/* A folder that a test's files lie in: made before its tests, gone after them. */
#ifndef LARDER_TEST_ROOT_KIT_H
#define LARDER_TEST_ROOT_KIT_H

#include "check.h"

extern char kit_root[256];
/* As cmocka's group set-up and tear-down. */
int kit_root_make(void **state);
int kit_root_remove(void **state);
/* The path of a name below it; four of them stay valid. */
const char *kit_path(const char *name);
/* Writes a text there. */
void kit_put(const char *name, const char *text);

#endif
