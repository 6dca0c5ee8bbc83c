/* Folders of made-up pictures of every sort, and packing them. */
#ifndef LARDER_TEST_PACK_KIT_H
#define LARDER_TEST_PACK_KIT_H

#include "check.h"

#include "pack/packer.h"

/* Fills FOLDER/a and FOLDER/b with JPEGs: colour, grey, CMYK, all usual samplings, progressive, odd
 * and tiny sizes; returns how many, or 0 where this build makes no JPEG. */
size_t kit_pictures(const char *folder);
/* Also a truncated JPEG, a PNG, plain text and an empty file; returns how many more. */
size_t kit_oddities(const char *folder);
/* Packs a source into a folder with small shards. */
larder__pack_conf kit_pack_conf(const char *source, const char *folder);
/* A file's bytes, whole; free() them. */
unsigned char *kit_read(const char *path, size_t *size);

#endif
