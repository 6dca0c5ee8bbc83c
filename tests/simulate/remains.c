#include "remains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES = 32 };

typedef struct change { /* of names, at once: one goes, one comes or changes */
    char gone[PLATTER_NAME];
    folder_entry comes;
} change;

static struct {
    unsigned char bytes[REMAINS_FILES][REMAINS_FILE_MOST];
    size_t sizes[REMAINS_FILES];
    folder names;
    change changes[CHANGES]; /* that are not there yet, in their order */
    uint32_t pending;
} disk;

/* ---- names ----------------------------------------------------------------------------------- */

folder_entry *folder_find(folder *f, const char *name) {
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->of[i].name, name) == 0)
            return &f->of[i];
    return NULL;
}

static void apply(folder *f, const change *c) {
    folder_entry *gone = c->gone[0] ? folder_find(f, c->gone) : NULL;
    if (gone)
        *gone = f->of[--f->count];
    if (!c->comes.name[0])
        return;
    folder_entry *e = folder_find(f, c->comes.name);
    if (!e && f->count == REMAINS_NAMES)
        abort();
    *(e ? e : &f->of[f->count++]) = c->comes;
}

static void settle(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        apply(&disk.names, &disk.changes[i]);
    disk.pending -= n;
    memmove(disk.changes, disk.changes + n, disk.pending * sizeof *disk.changes);
}

void remains_alter(folder *seen, const char *gone, const char *comes, int file) {
    change c = {.comes = {.file = file}};
    snprintf(c.gone, sizeof c.gone, "%s", gone ? gone : "");
    snprintf(c.comes.name, sizeof c.comes.name, "%s", comes ? comes : "");
    apply(seen, &c);
    if (disk.pending == CHANGES)
        settle(1);
    disk.changes[disk.pending++] = c;
    if (actors_one_in(4)) /* the journal is written now and then */
        settle((uint32_t)actors_chance(disk.pending + 1));
}

void remains_settle_names(void) { settle(disk.pending); }

/* As many changes as had come. */
void remains_cut_names(folder *out) {
    settle((uint32_t)actors_chance(disk.pending + 1));
    *out = disk.names;
    disk.pending = 0;
}

bool remains_named(int file) {
    for (uint32_t i = 0; i < disk.names.count; i++)
        if (disk.names.of[i].file == file)
            return true;
    for (uint32_t i = 0; i < disk.pending; i++)
        if (disk.changes[i].comes.name[0] && disk.changes[i].comes.file == file)
            return true;
    return false;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void remains_write_some(int file, const seen_file *f) {
    for (size_t s = 0; s < f->top; s += PLATTER_SECTOR)
        if (actors_one_in(3))
            memcpy(disk.bytes[file] + s, f->now + s, PLATTER_SECTOR);
    if (actors_one_in(2))
        disk.sizes[file] = f->size;
}

void remains_write_all(int file, const seen_file *f) {
    memcpy(disk.bytes[file], f->now, f->top);
    disk.sizes[file] = f->size;
}

/* Of what was not there yet nothing, all or some. */
void remains_cut(int file, seen_file *f) {
    unsigned char *there = disk.bytes[file];
    uint64_t how = actors_chance(3);
    for (size_t s = 0; s < f->top; s += PLATTER_SECTOR)
        if (how == 2 || (how == 1 && actors_one_in(2)))
            memcpy(there + s, f->now + s, PLATTER_SECTOR);
    if (how == 2 || (how == 1 && actors_one_in(2)))
        disk.sizes[file] = f->size;
    f->size = disk.sizes[file];
    memset(there + f->size, 0, f->top - f->size);
    memcpy(f->now, there, f->top);
}

void remains_wipe(int file, size_t top) {
    memset(disk.bytes[file], 0, top);
    disk.sizes[file] = 0;
}

void remains_begin(void) { disk.names.count = disk.pending = 0; }
