#include "cache/operation.h"

#include "base/err.h"

enum list { NONE, ROWS, IDS, SCORED, TOUCHED, MADE, SIZES, WORDS };

typedef struct shape {
    uint8_t numbers, values, list;
} shape;

static const shape shapes[LARDER__OPS] = {
#define LARDER_OP(NAME, numbers, values, list, help) [LARDER__OP_##NAME] = {numbers, values, list},
#define LARDER_WORD(NAME, numbers, values, list, group, call, args, help)                          \
    [LARDER__OP_##NAME] = {numbers, values, list},
#include "cache/operations.def"
#undef LARDER_OP
#undef LARDER_WORD
};

/* Bytes of one element as it is written. */
static const uint8_t element[] = {[NONE] = 0,
                                  [ROWS] = sizeof(larder__row),
                                  [IDS] = sizeof(uint32_t),
                                  [SCORED] = sizeof(uint32_t) + sizeof(float),
                                  [TOUCHED] = sizeof(larder__touch),
                                  [MADE] = sizeof(larder__made),
                                  [SIZES] = sizeof(uint32_t),
                                  [WORDS] = sizeof(uint64_t)};

void larder__op_write(const larder__op *o, larder_writer *w) {
    const shape *s = &shapes[o->type];
    for (int i = 0; i < s->numbers; i++)
        larder_write_u64(w, o->number[i]);
    for (int i = 0; i < s->values; i++)
        larder_write_f64(w, o->value[i]);
    if (s->list != IDS && s->list != SCORED) {
        if (o->n)
            larder_write_bytes(w, o->rows, o->n * element[s->list]);
        return;
    }
    for (size_t i = 0; i < o->n; i++) {
        larder_write_u32(w, (uint32_t)o->ids[i]);
        if (s->list == SCORED)
            larder_write_bytes(w, &o->scores[i], sizeof *o->scores);
    }
}

static bool known(const larder__op *o, int list, uint64_t keys) {
    for (size_t i = 0; i < o->n; i++) {
        uint64_t key = list == ROWS                    ? o->rows[i].key
                       : list == TOUCHED               ? o->touched[i].key
                       : list == MADE                  ? o->made[i].key
                       : list == IDS || list == SCORED ? o->ids[i]
                                                       : 0;
        if (key >= keys)
            return false;
    }
    return true;
}

/* Ids are wider here than on their way; scores lie behind them. */
static void read_ids(larder__op *o, larder_reader *r, bool scored, larder_writer *room) {
    larder__write_space(room, o->n * (sizeof(uint64_t) + sizeof(float)));
    if (room->code < 0)
        return;
    uint64_t *ids = (uint64_t *)(void *)room->bytes;
    float *scores = (float *)(void *)(ids + o->n);
    for (size_t i = 0; i < o->n; i++) {
        ids[i] = larder_read_u32(r);
        if (scored)
            larder_read_bytes(r, &scores[i], sizeof *scores);
    }
    o->ids = ids;
    o->scores = scored ? scores : NULL;
}

static void read_list(larder__op *o, larder_reader *r, int list, larder_writer *room) {
    size_t bytes = o->n * element[list];
    room->size = 0;
    if (o->n == 0)
        return;
    if (list == IDS || list == SCORED) {
        read_ids(o, r, list == SCORED, room);
        return;
    }
    larder__write_space(room, bytes);
    if (room->code < 0)
        return;
    larder_read_bytes(r, room->bytes, bytes);
    o->rows = (const larder__row *)(const void *)room->bytes;
}

int larder__op_read(larder__op *o, uint32_t type, larder_reader *r, uint64_t keys,
                    larder_writer *room) {
    *o = (larder__op){.type = (larder__op_type)type};
    if (type == LARDER__NO_OP || type >= LARDER__OPS)
        return larder__fail(LARDER_E_FORMAT, "there is no operation %u", type);
    const shape *s = &shapes[type];
    for (int i = 0; i < s->numbers; i++)
        o->number[i] = larder_read_u64(r);
    for (int i = 0; i < s->values; i++)
        o->value[i] = larder_read_f64(r);
    size_t left = larder__read_left(r), one = element[s->list];
    if (larder_read_status(r) < 0 || (one ? left % one != 0 : left != 0) ||
        (one && left / one > LARDER__OP_ROWS && s->list != WORDS))
        return larder__fail(LARDER_E_FORMAT, "operation %u is of another length than it has", type);
    o->n = one ? left / one : 0;
    read_list(o, r, s->list, room);
    if (room->code < 0)
        return room->code;
    return known(o, s->list, keys)
               ? larder_read_status(r)
               : larder__fail(LARDER_E_FORMAT, "operation %u is about a sample that does not exist",
                              type);
}
