#include "redis/slots.h"

#include <string.h>

/* CRC-16/XMODEM: polynomial 0x1021, nothing reflected. A nibble at a time. */
static uint16_t crc16(const char *p, size_t n) {
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                       0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                       0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint16_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        crc = (uint16_t)(crc << 4 ^ table[(crc >> 12 ^ c >> 4) & 15]);
        crc = (uint16_t)(crc << 4 ^ table[(crc >> 12 ^ c) & 15]);
    }
    return crc;
}

uint16_t larder__redis_slot(const char *key, size_t n) {
    const char *open = memchr(key, '{', n);
    if (open) {
        const char *from = open + 1, *close = memchr(from, '}', n - (size_t)(from - key));
        if (close && close > from) {
            key = from;
            n = (size_t)(close - from);
        }
    }
    return crc16(key, n) % LARDER__REDIS_SLOTS;
}

static bool read_number(const char **at, unsigned long most, unsigned long *out) {
    size_t digits = 0;
    *out = 0;
    for (; **at >= '0' && **at <= '9' && digits < 9; (*at)++, digits++)
        *out = *out * 10 + (unsigned long)(**at - '0');
    return digits > 0 && *out <= most;
}

bool larder__redis_moved(const char *error, larder__moved *out) {
    unsigned long number;
    *out = (larder__moved){.ask = strncmp(error, "ASK ", 4) == 0};
    if (!out->ask && strncmp(error, "MOVED ", 6) != 0)
        return false;
    const char *at = strchr(error, ' ') + 1;
    if (!read_number(&at, LARDER__REDIS_SLOTS - 1, &number) || *at++ != ' ')
        return false;
    out->slot = (uint16_t)number;
    const char *colon = strrchr(at, ':');
    if (!colon || (size_t)(colon - at) >= sizeof out->host)
        return false;
    memcpy(out->host, at, (size_t)(colon - at));
    at = colon + 1;
    if (!read_number(&at, 65535, &number) || *at || number == 0)
        return false;
    out->port = (uint16_t)number;
    return true;
}
