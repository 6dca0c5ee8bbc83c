#include "shared/value.h"

#include "base/sum.h"

#include <string.h>

static const unsigned char MAGIC[4] = {'L', 'R', 'D', 'V'};
enum { SUM_AT = 32 };

static void put(unsigned char *at, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

static uint64_t checksum(const unsigned char *head, const void *bytes, size_t size) {
    return larder__sum_bytes(larder__sum_bytes(larder__speaks.value, head, SUM_AT), bytes, size);
}

void larder__value_write(unsigned char head[LARDER__VALUE_HEAD], const larder__value *v,
                         const void *bytes) {
    memset(head, 0, LARDER__VALUE_HEAD);
    memcpy(head, MAGIC, sizeof MAGIC);
    head[4] = (unsigned char)larder__speaks.value;
    head[5] = v->form;
    head[6] = v->held;
    head[7] = LARDER__PAYLOAD_BYTES;
    put(head + 8, v->size, 4);
    put(head + 16, v->id, 8);
    put(head + 24, v->mark, 8);
    put(head + SUM_AT, checksum(head, bytes, v->size), 8);
}

uint8_t larder__value_held(const unsigned char head[LARDER__VALUE_HEAD]) { return head[6]; }
uint32_t larder__value_size(const unsigned char head[LARDER__VALUE_HEAD]) {
    return (uint32_t)get(head + 8, 4);
}

bool larder__value_fits(const unsigned char head[LARDER__VALUE_HEAD], const larder__value *asked,
                        uint64_t size) {
    return memcmp(head, MAGIC, sizeof MAGIC) == 0 && head[4] == larder__speaks.value &&
           head[5] == asked->form && head[7] == LARDER__PAYLOAD_BYTES &&
           (head[6] == asked->held || asked->held == LARDER__ANY_FORM) && size <= asked->size &&
           get(head + 8, 4) == size && get(head + 16, 8) == asked->id &&
           get(head + 24, 8) == asked->mark;
}

bool larder__value_sound(const unsigned char head[LARDER__VALUE_HEAD], const void *bytes,
                         size_t size) {
    return get(head + SUM_AT, 8) == checksum(head, bytes, size);
}
