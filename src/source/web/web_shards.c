/* Shards on a site: are they packed, and where does each begin? */
#include "source/web/web_data.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "source/pack_index.h"

/* Over the whole URL: a folder's shards and the same ones named one by one have one index. */
uint64_t larder__web_object_id(larder__web_data *d, const larder__web_objects *o, uint64_t i) {
    const char *const texts[] = {larder__web_shown(d), o->root, larder__names_get(&o->names, i)};
    uint64_t h = 7;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (const char *c = texts[t]; *c; c++)
            h = larder__mix64(h ^ (unsigned char)*c) + 1;
    return h;
}

static int add_beside(larder__web_objects *beside, const larder__web_objects *shards, uint64_t i) {
    char path[LARDER__KEY_MAX];
    int rc = larder__pack_path(path, sizeof path, larder__names_get(&shards->names, i));
    return rc < 0 ? rc
                  : larder__web_objects_add(beside, path, strlen(path), LARDER__BYTES_UNKNOWN, 0);
}

/* One that a listing names would do as well, but a brace pattern names none. */
int larder__web_shards_open(larder__web_data *d) {
    larder__web_objects beside = {.root = larder__strdup(d->objects.root)};
    int rc = beside.root ? 0 : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__web_objects_ask(&d->objects, d->web, true, false);
    if (rc == 0)
        rc = add_beside(&beside, &d->objects, 0);
    if (rc == 0)
        rc = larder__web_objects_ask(&beside, d->web, true, true);
    bool packed = rc == 0 && beside.bytes[0] != LARDER__BYTES_UNKNOWN;
    for (uint64_t i = 1; rc == 0 && packed && i < d->objects.names.count; i++)
        rc = add_beside(&beside, &d->objects, i);
    if (rc == 0 && packed)
        rc = larder__web_objects_ask(&beside, d->web, true, false);
    if (rc == 0)
        rc = packed ? larder__web_packs_open(d, &beside) : larder__web_tars_open(d);
    larder__web_objects_free(&beside);
    return rc;
}
