#include "cli/bill.h"

#include "base/json.h"
#include "base/versions.h"

#include <dlfcn.h>
#include <larder/larder.h>
#include <link.h>
#include <string.h>

/* "libjpeg 2.1.5;spng 0.7.3;", as pkg-config said when this was configured. */
#ifndef LARDER_LIBRARIES
#define LARDER_LIBRARIES ""
#endif
/* "libcurl.so.4;": those that are opened at their first use. */
#ifndef LARDER_LATE_NAMES
#define LARDER_LATE_NAMES ""
#endif

static void library(larder__json *j, const char *name, const char *version) {
    larder__json_open(j, NULL, '{');
    larder__json_text(j, "name", name);
    larder__json_text(j, "version", version);
    larder__json_close(j, '}');
}

static void built_with(larder__json *j) {
    char all[] = LARDER_LIBRARIES, *rest = all, *entry;
    larder__json_open(j, "built_with", '[');
#ifdef __GLIBC__ /* others do not say which they are */
    char libc[24];
    snprintf(libc, sizeof libc, "%d.%d", __GLIBC__, __GLIBC_MINOR__);
    library(j, "glibc", libc);
#endif
    while ((entry = strsep(&rest, ";"))) {
        char *name = strsep(&entry, " ");
        if (entry)
            library(j, name, entry);
    }
    larder__json_close(j, ']');
}

static void open_late(void) {
    char all[] = LARDER_LATE_NAMES, *rest = all, *name;
    while ((name = strsep(&rest, ";")))
        if (*name)
            dlopen(name, RTLD_LAZY | RTLD_LOCAL);
}

/* What the linker has found here, libraries of libraries among them. */
static int loaded(struct dl_phdr_info *info, size_t size, void *json) {
    (void)size;
    if (info->dlpi_name[0] == '/')
        larder__json_text(json, NULL, info->dlpi_name);
    return 0;
}

int larder__print_bill(void) {
    larder__json j = {.to = stdout};
    larder__json_begin(&j);
    larder__json_text(&j, "larder", larder_version());
    larder__json_text(&j, "parts", larder_features());
    larder__json_open(&j, "formats", '{');
#define XX(name, oldest, newest, remedy)                                                           \
    larder__json_open(&j, #name, '[');                                                             \
    larder__json_u64(&j, NULL, oldest);                                                            \
    larder__json_u64(&j, NULL, newest);                                                            \
    larder__json_close(&j, ']');
    LARDER__FORMATS(XX)
#undef XX
    larder__json_close(&j, '}');
    built_with(&j);
    larder__json_open(&j, "loaded", '[');
    open_late();
    dl_iterate_phdr(loaded, &j);
    larder__json_close(&j, ']');
    larder__json_close(&j, '}');
    putchar('\n');
    return 0;
}
