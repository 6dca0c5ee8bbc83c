/* Whatever is typed as a size, a time, a budget or a plug-in's arguments is either understood or
 * refused with a sentence. The first byte picks the parser. */
#include "base/spec.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const larder_param params[] = {
    {"factor", "int", "10", "a whole number", 1, 1000},
    {"ratio", "float", "0.5", "a fraction", 0, 1},
    {"on", "bool", "0", "a switch", 0, 0},
    {"room", "size", "1MiB", "a size", 0, 0},
    {"wait", "time", "5ms", "a time", 0, 0},
    {"mode", "fast|slow", "fast", "a choice", 0, 0},
    {"note", "text", "", "anything", 0, 0},
    {0},
};
static const larder_plugin plugin = {.name = "example", .params = params};

static void parse(uint8_t parser, const char *text) {
    uint64_t whole;
    double number;
    larder__budget budget;
    larder_args args;
    char name[16];
    const char *rest;
    switch (parser % 6) {
    case 0:
        if (larder__parse_bytes(text, &whole) == 0 && whole > UINT64_C(1) << 62)
            abort();
        break;
    case 1:
        if (larder__parse_seconds(text, &number) == 0 && !(number >= 0))
            abort();
        break;
    case 2:
        if (larder__parse_budget(text, &budget) == 0 && budget.relative &&
            !(budget.fraction >= 0 && budget.fraction <= 1))
            abort();
        break;
    case 3:
        if (larder__parse_u64("fuzz", text, 1000, &whole) == 0 && whole > 1000)
            abort();
        break;
    default:
        if (larder__spec_name(text, name, sizeof name, &rest) < 0)
            break;
        if (larder__args_parse(&args, "policy", &plugin, rest, parser & 1 ? ',' : '&', NULL) < 0)
            break;
        number = larder_args_number(&args, "factor");
        if (!(number >= 1 && number <= 1000))
            abort();
        larder__args_free(&args);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    char *text = malloc(size);
    if (!text)
        return -1;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    parse(data[0], text);
    free(text);
    return 0;
}
