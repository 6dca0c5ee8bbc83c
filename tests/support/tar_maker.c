#include "tar_maker.h"

#include <string.h>

static const char zeros[1024];

void tar_put_header(FILE *f, char type, const char *name, const char *prefix, const char *size_field) {
    unsigned char head[512] = {0};
    unsigned sum = 0;
    memcpy(head, name, strnlen(name, 100));
    memcpy(head + 100, "0000644\0000000000\0000000000", 24);
    memcpy(head + 124, size_field, 12);
    memcpy(head + 136, "00000000000", 12);
    memset(head + 148, ' ', 8);
    head[156] = (unsigned char)type;
    memcpy(head + 257, "ustar\00000", 8);
    memcpy(head + 345, prefix, strnlen(prefix, 155));
    for (size_t i = 0; i < 512; i++)
        sum += head[i];
    snprintf((char *)head + 148, 8, "%06o", sum);
    fwrite(head, 1, 512, f);
}

void tar_put_pad(FILE *f, size_t size) { fwrite(zeros, 1, (512 - size % 512) % 512, f); }

void tar_put(FILE *f, char type, const char *name, const void *bytes, size_t size) {
    char field[24];
    snprintf(field, sizeof field, "%011zo", size);
    tar_put_header(f, type, name, "", field);
    fwrite(bytes, 1, size, f);
    tar_put_pad(f, size);
}

void tar_put_sample(FILE *f, const char *key, const void *bytes, size_t size, const char *label) {
    char name[128];
    snprintf(name, sizeof name, "%s.jpg", key);
    tar_put(f, '0', name, bytes, size);
    snprintf(name, sizeof name, "%s.cls", key);
    if (label)
        tar_put(f, '0', name, label, strlen(label));
}

void tar_put_end(FILE *f) { fwrite(zeros, 1, sizeof zeros, f); }
