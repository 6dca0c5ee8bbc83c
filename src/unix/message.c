#include "unix/message.h"

#include "base/err.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the kernel's interface; its headers are not everywhere where a C library is. */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 };

void larder__hello_write(const larder__hello *h, larder_writer *w) {
    larder_write_u32(w, h->magic);
    larder_write_u32(w, h->version);
    larder_write_u32(w, h->pid);
    larder_write_u32(w, h->batch);
    larder_write_u32(w, h->at_once);
    larder_write_u64(w, h->identity);
    larder_write_u64(w, h->keys);
    larder_write_u64(w, h->payload);
    larder_write_u64(w, h->seed);
    larder_write_u64(w, h->forms_id);
    for (int f = 0; f < LARDER_FORMS; f++)
        larder_write_f64(w, h->share[f]);
    larder_write_f64(w, h->decoded_ratio);
    larder_write_u32(w, h->decoded_bytes);
    larder_write_u32(w, h->row_bytes);
    larder_write_u32(w, h->size);
    larder_write_u32(w, h->again);
    larder__write_text(w, h->name);
    larder__write_text(w, h->policy);
    larder__write_text(w, h->budget);
}

/* Shares that are shares, or encoded samples alone. */
static void forms_read(larder__hello *h, larder_reader *r) {
    double sum = 0;
    bool sane = true;
    h->forms_id = larder_read_u64(r);
    for (int f = 0; f < LARDER_FORMS; f++) {
        h->share[f] = larder_read_f64(r);
        sane = sane && h->share[f] >= 0 && h->share[f] <= 1;
        sum += sane ? h->share[f] : 0;
    }
    h->decoded_ratio = larder_read_f64(r);
    h->decoded_bytes = larder_read_u32(r);
    h->row_bytes = larder_read_u32(r);
    sane = sane && sum > 0.999 && sum < 1.001 && h->decoded_ratio >= 0 && h->decoded_ratio < 1e9;
    if (!sane || (h->forms_id == 0 && h->share[LARDER_ENCODED] < 1))
        larder_read_reject(r, "its cache is shared out between forms in a way that makes no sense");
}

/* A wrong version is no malformed message: it gets its own sentence, so the rest is not looked at
 * before that is known. */
int larder__greeting_check(uint32_t magic, uint32_t version, const larder_reader *r) {
    if (larder_read_status(r) < 0 || magic != LARDER__WIRE_MAGIC)
        return larder__fail(LARDER_E_FORMAT, "this is not a larder client");
    if (version != LARDER__WIRE_VERSION)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "the client speaks protocol %u, this daemon %u: use the same larder "
                            "for both",
                            version, LARDER__WIRE_VERSION);
    return 0;
}

int larder__hello_read(larder__hello *h, larder_reader *r) {
    memset(h, 0, sizeof *h);
    h->magic = larder_read_u32(r);
    h->version = larder_read_u32(r);
    int rc = larder__greeting_check(h->magic, h->version, r);
    if (rc < 0)
        return rc;
    h->pid = larder_read_u32(r);
    h->batch = larder_read_u32(r);
    h->at_once = larder_read_u32(r);
    h->identity = larder_read_u64(r);
    h->keys = larder_read_u64(r);
    h->payload = larder_read_u64(r);
    h->seed = larder_read_u64(r);
    forms_read(h, r);
    h->size = larder_read_u32(r);
    h->again = larder_read_u32(r);
    larder__read_text(r, h->name, sizeof h->name);
    larder__read_text(r, h->policy, sizeof h->policy);
    larder__read_text(r, h->budget, sizeof h->budget);
    if (h->payload > LARDER__PAYLOAD_MOST)
        return larder_read_reject(r, "more bytes than a data set can have");
    if (h->at_once > LARDER__AT_ONCE_MOST)
        return larder_read_reject(r, "more requests at once than anybody may make");
    return larder_read_status(r);
}

void larder__welcome_write(const larder__welcome *m, larder_writer *w) {
    larder_write_u32(w, m->version);
    larder_write_u32(w, m->job);
    larder_write_u64(w, m->arena_bytes);
    larder_write_u64(w, m->keys);
    larder_write_u64(w, m->budget);
    larder_write_u32(w, m->wants_sizes);
    larder_write_u32(w, m->streaming);
    larder_write_u32(w, m->pins);
    larder_write_u64(w, m->stream.seed);
    larder_write_u64(w, m->stream.sweep);
    larder_write_u64(w, m->stream.at);
    for (int i = 0; i < LARDER_FORMS; i++)
        larder_write_f64(w, m->share[i]);
    larder__write_text(w, m->policy);
}

int larder__welcome_read(larder__welcome *m, larder_reader *r) {
    m->version = larder_read_u32(r);
    m->job = larder_read_u32(r);
    m->arena_bytes = larder_read_u64(r);
    m->keys = larder_read_u64(r);
    m->budget = larder_read_u64(r);
    m->wants_sizes = larder_read_u32(r);
    m->streaming = larder_read_u32(r);
    m->pins = larder_read_u32(r);
    m->stream.seed = larder_read_u64(r);
    m->stream.sweep = larder_read_u64(r);
    m->stream.at = larder_read_u64(r);
    for (int i = 0; i < LARDER_FORMS; i++)
        m->share[i] = larder_read_f64(r);
    larder__read_text(r, m->policy, sizeof m->policy);
    return larder_read_status(r);
}

void larder__refused_write(larder_writer *w, int code, const char *why) {
    larder_write_u32(w, (uint32_t)-code);
    larder__write_text(w, why);
}

int larder__refused_read(larder_reader *r) {
    char why[512];
    uint32_t code = larder_read_u32(r);
    larder__read_text(r, why, sizeof why);
    if (larder_read_status(r) < 0 || code == 0 || code > 100)
        return larder__fail(LARDER_E_FORMAT, "the daemon refused, and why cannot be read");
    return larder__fail(-(int)code, "the daemon says: %s", why);
}

void larder__returns_write(const larder__returns *m, larder_writer *w) {
    larder_write_u32(w, m->releases);
    larder_write_u32(w, m->makes);
    larder_write_bytes(w, m->released, m->releases * sizeof *m->released);
    larder_write_bytes(w, m->made, m->makes * sizeof *m->made);
}

int larder__returns_read(larder__returns *m, larder_reader *r, larder_writer *room) {
    m->releases = larder_read_u32(r);
    m->makes = larder_read_u32(r);
    uint64_t bytes =
        (uint64_t)m->releases * sizeof *m->released + (uint64_t)m->makes * sizeof *m->made;
    if (larder_read_status(r) < 0 || bytes != larder__read_left(r))
        return larder__fail(LARDER_E_FORMAT, "returns of another length than they say");
    room->size = 0;
    larder_write_bytes(room, r->at, (size_t)bytes);
    if (room->code < 0)
        return room->code;
    m->released = (const uint32_t *)(const void *)room->bytes;
    m->made = (const larder__wire_made *)(const void *)(m->released + m->releases);
    return 0;
}

/* ---- sleeping -------------------------------------------------------------------------------- */

void larder__word_wait(const _Atomic uint32_t *word, uint32_t while_it_is, double seconds) {
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, &t, NULL, 0);
}

void larder__word_wake(const _Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}
