#include "root_kit.h"

#include <stdio.h>
#include <string.h>

char kit_root[256];

int kit_root_make(void **state) {
    (void)state;
    check_folder(kit_root);
    return 0;
}

int kit_root_remove(void **state) {
    (void)state;
    check_folder_remove(kit_root);
    return 0;
}

const char *kit_path(const char *name) {
    static char out[4][512];
    static unsigned turn;
    char *to = out[turn++ % 4];
    snprintf(to, sizeof out[0], "%s/%s", kit_root, name);
    return to;
}

void kit_put(const char *name, const char *text) {
    check_write(kit_path(name), text, strlen(text));
}
