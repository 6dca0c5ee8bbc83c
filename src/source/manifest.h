/* The manifest that lies in a folder of files and gives them order and labels. Lines are as
 * source/web/listed.h has them; what begins with # is for us alone. */
#ifndef LARDER_SOURCE_MANIFEST_H
#define LARDER_SOURCE_MANIFEST_H

#include <larder/plugin.h>

#define LARDER__MANIFEST_NAME "manifest.tsv"
#define LARDER__MANIFEST_HEAD "#larder manifest 1\n"
#define LARDER__MANIFEST_CLASS "#class\t" /* and the name of the next class, from 0 on */

/* Is there one in this folder, and written by us? Its path goes into out either way. */
bool larder__manifest_find(const char *folder, char *out, size_t cap);

#endif
