#include "cache/policy/groups.h"

#include "base/mem.h"

enum { MOST = 1 << 16 }; /* groups: of a MiB each, 64 GiB of them */

int larder__groups_open(larder__key_groups *g, uint64_t keys, double share, uint64_t limit) {
    *g = (larder__key_groups){.keys = (uint32_t)keys,
                              .room = (uint32_t)(keys < MOST ? keys + 1 : MOST),
                              .share = share,
                              .limit = limit,
                              .open = LARDER__NO_GROUP};
    larder__list_init(&g->standing);
    larder__list_init(&g->gone);
    g->all = larder__calloc(g->room, sizeof *g->all);
    g->order = larder__calloc(g->room, sizeof *g->order);
    g->mates = larder__calloc(keys + 1, sizeof *g->mates);
    g->group_of = larder__malloc((keys + 1) * sizeof *g->group_of);
    if (!g->all || !g->order || !g->mates || !g->group_of)
        return LARDER_E_NOMEM;
    memset(g->group_of, 0xff, (keys + 1) * sizeof *g->group_of);
    return 0;
}

void larder__groups_close(larder__key_groups *g) {
    larder__free(g->all);
    larder__free(g->order);
    larder__free(g->mates);
    larder__free(g->group_of);
    *g = (larder__key_groups){0};
}

static void drop(larder__key_groups *g, uint32_t at) {
    larder__key_group *it = &g->all[at];
    for (uint32_t k = it->members.oldest; k != LARDER_NO_SLOT; k = g->mates[k].newer)
        g->group_of[k] = LARDER__NO_GROUP;
    larder__list_init(&it->members);
    it->live = 0;
    it->dropped = true;
    g->bytes -= it->bytes;
    larder__list_cut(&g->standing, g->order, at);
    larder__list_push(&g->gone, g->order, at);
}

static void leave(larder__key_groups *g, uint32_t key) {
    uint32_t at = g->group_of[key];
    if (at == LARDER__NO_GROUP)
        return;
    larder__key_group *it = &g->all[at];
    larder__list_cut(&it->members, g->mates, key);
    g->group_of[key] = LARDER__NO_GROUP;
    it->live--;
    if (at != g->open && (double)it->live < g->share * (double)it->count)
        drop(g, at);
}

/* The next unused group after the last one found; round and round. */
static uint32_t begin(larder__key_groups *g) {
    for (uint32_t i = 0; i < g->room; i++) {
        uint32_t at = (g->empty + i) % g->room;
        if (g->all[at].used)
            continue;
        g->empty = (at + 1) % g->room;
        g->all[at] = (larder__key_group){.number = ++g->last_number, .used = true};
        larder__list_init(&g->all[at].members);
        larder__list_push(&g->standing, g->order, at);
        return at;
    }
    return LARDER__NO_GROUP;
}

void larder__groups_add(larder__key_groups *g, uint32_t key, uint32_t size) {
    if (g->open == LARDER__NO_GROUP && (g->open = begin(g)) == LARDER__NO_GROUP)
        return; /* all in use: this one is not remembered */
    leave(g, key);
    larder__key_group *it = &g->all[g->open];
    larder__list_push(&it->members, g->mates, key);
    g->group_of[key] = g->open;
    it->count++;
    it->live++;
    it->bytes += size;
    g->bytes += size;
}

uint32_t larder__groups_finish(larder__key_groups *g) {
    uint32_t at = g->open;
    g->open = LARDER__NO_GROUP;
    if (at == LARDER__NO_GROUP)
        return at;
    while (g->limit && g->bytes > g->limit && g->standing.oldest != at)
        drop(g, g->standing.oldest);
    if (g->limit && g->bytes > g->limit) {
        drop(g, at);
        return LARDER__NO_GROUP;
    }
    return at;
}

size_t larder__groups_dropped(larder__key_groups *g, uint64_t *numbers, size_t max) {
    size_t n = 0;
    while (n < max && g->gone.oldest != LARDER_NO_SLOT) {
        uint32_t at = g->gone.oldest;
        larder__list_cut(&g->gone, g->order, at);
        numbers[n++] = g->all[at].number;
        g->all[at].used = false;
    }
    return n;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__groups_save(const larder__key_groups *g, larder_writer *w) {
    larder_write_u64(w, g->last_number);
    larder_write_u32(w, g->empty);
    for (uint32_t at = g->standing.oldest; at != LARDER_NO_SLOT; at = g->order[at].newer) {
        const larder__key_group *it = &g->all[at];
        larder_write_u32(w, at);
        larder_write_u64(w, it->number);
        larder_write_u64(w, it->bytes);
        larder_write_u32(w, it->count);
        for (uint32_t k = it->members.oldest; k != LARDER_NO_SLOT; k = g->mates[k].newer)
            larder_write_u32(w, k);
        larder_write_u32(w, UINT32_MAX);
    }
    larder_write_u32(w, UINT32_MAX);
    for (uint32_t at = g->gone.oldest; at != LARDER_NO_SLOT; at = g->order[at].newer) {
        larder_write_u32(w, at);
        larder_write_u64(w, g->all[at].number);
    }
    larder_write_u32(w, UINT32_MAX);
}

static int load_members(larder__key_groups *g, larder_reader *r, uint32_t at) {
    larder__key_group *it = &g->all[at];
    for (;;) {
        uint32_t key = larder_read_index(r, g->keys, true);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        if (key == UINT32_MAX)
            break;
        if (g->group_of[key] != LARDER__NO_GROUP)
            return larder_read_reject(r, "a sample lies in two packages");
        larder__list_push(&it->members, g->mates, key);
        g->group_of[key] = at;
        it->live++;
    }
    return it->live && it->live <= it->count
               ? 0
               : larder_read_reject(r, "a package has more samples than it was made with");
}

static int load_group(larder__key_groups *g, larder_reader *r, uint32_t at, larder__list *to) {
    larder__key_group *it = &g->all[at];
    uint64_t number = larder_read_u64(r);
    if (it->used || number == 0 || number > g->last_number)
        return larder_read_reject(r, "its packages are numbered wrongly");
    *it = (larder__key_group){.number = number, .used = true, .dropped = to == &g->gone};
    larder__list_init(&it->members);
    larder__list_push(to, g->order, at);
    return 0;
}

int larder__groups_load(larder__key_groups *g, larder_reader *r) {
    g->last_number = larder_read_u64(r);
    g->empty = larder_read_index(r, g->room, false);
    larder__list *const lists[] = {&g->standing, &g->gone};
    int rc = larder_read_status(r);
    for (int k = 0; rc == 0 && k < 2; k++)
        for (;;) {
            uint32_t at = larder_read_index(r, g->room, true);
            if ((rc = larder_read_status(r)) < 0 || at == UINT32_MAX)
                break;
            if ((rc = load_group(g, r, at, lists[k])) < 0)
                break;
            if (k == 1)
                continue;
            g->all[at].bytes = larder_read_u64(r);
            g->all[at].count = larder_read_u32(r);
            if (g->all[at].bytes > (uint64_t)1 << 50)
                return larder_read_reject(r, "a package of a petabyte");
            if ((rc = load_members(g, r, at)) < 0)
                break;
            g->bytes += g->all[at].bytes;
        }
    return rc;
}
