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
    larder_write_u32(w, h->oldest);
    larder_write_u32(w, h->pid);
    larder_write_u32(w, h->batch);
    larder_write_u32(w, h->at_once);
    larder_write_u64(w, h->identity);
    larder_write_u64(w, h->payload);
    larder_write_u32(w, h->size);
    larder_write_u32(w, h->again);
    larder__agreement_write(&h->about, w);
    larder__write_text(w, h->name);
    larder__write_text(w, h->budget);
}

/* A wrong version is no malformed message: it gets its own sentence, so the rest is not looked at
 * before that is known. */
int larder__greeting_read(uint32_t *magic, uint32_t *version, uint32_t *oldest, larder_reader *r) {
    *magic = larder_read_u32(r);
    *version = larder_read_u32(r);
    if (larder_read_status(r) < 0 || *magic != LARDER__WIRE_MAGIC)
        return larder__fail(LARDER_E_FORMAT, "this is not a larder client");
    *oldest = *version >= LARDER__WIRE_OLDEST ? larder_read_u32(r) : *version;
    if (*version < LARDER__WIRE_OLDEST || *oldest > LARDER__WIRE_VERSION)
        return larder__version_check(LARDER__FORMAT_WIRE, "what the client speaks",
                                     *version < LARDER__WIRE_OLDEST ? *version : *oldest);
    if (*version > LARDER__WIRE_VERSION)
        *version = LARDER__WIRE_VERSION;
    return larder_read_status(r);
}

int larder__spoken_check(uint32_t version) {
    if (version >= larder__speaks.wire_oldest && version <= larder__speaks.wire)
        return 0;
    return larder__fail(LARDER_E_UNSUPPORTED,
                        "the daemon wants to speak version %u, this larder speaks %u to %u: use "
                        "one larder for the daemon and its jobs",
                        version, larder__speaks.wire_oldest, larder__speaks.wire);
}

int larder__hello_read(larder__hello *h, larder_reader *r) {
    memset(h, 0, sizeof *h);
    int rc = larder__greeting_read(&h->magic, &h->version, &h->oldest, r);
    if (rc < 0)
        return rc;
    h->pid = larder_read_u32(r);
    h->batch = larder_read_u32(r);
    h->at_once = larder_read_u32(r);
    h->identity = larder_read_u64(r);
    h->payload = larder_read_u64(r);
    h->size = larder_read_u32(r);
    h->again = larder_read_u32(r);
    larder__agreement_read(&h->about, r);
    larder__read_text(r, h->name, sizeof h->name);
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
    larder_write_u32(w, m->wants_sizes);
    larder_write_u32(w, m->streaming);
    larder_write_u32(w, m->pins);
    larder_write_u32(w, m->sealed);
    larder_write_u32(w, m->apart);
    larder_write_u64(w, m->stream.seed);
    larder_write_u64(w, m->stream.sweep);
    larder_write_u64(w, m->stream.at);
    larder__agreement_write(&m->about, w);
    if (m->tray)
        larder_write_u32(w, m->tray);
}

int larder__welcome_read(larder__welcome *m, larder_reader *r) {
    m->version = larder_read_u32(r);
    m->job = larder_read_u32(r);
    m->arena_bytes = larder_read_u64(r);
    m->wants_sizes = larder_read_u32(r);
    m->streaming = larder_read_u32(r);
    m->pins = larder_read_u32(r);
    m->sealed = larder_read_u32(r);
    m->apart = larder_read_u32(r);
    m->stream.seed = larder_read_u64(r);
    m->stream.sweep = larder_read_u64(r);
    m->stream.at = larder_read_u64(r);
    int rc = larder__agreement_read(&m->about, r);
    m->tray = larder__read_left(r) ? larder_read_u32(r) : 0;
    return rc < 0 ? rc : larder__spoken_check(m->version);
}

void larder__prove_write(const larder__prove *p, larder_writer *w) {
    larder_write_u64(w, p->nonce);
    for (uint32_t i = 0; i < p->count; i++)
        larder_write_u64(w, p->keys[i]);
}

int larder__prove_read(larder__prove *p, larder_reader *r) {
    p->nonce = larder_read_u64(r);
    p->count = (uint32_t)(larder__read_left(r) / sizeof *p->keys);
    if (larder_read_status(r) < 0 || p->count > LARDER__WITNESSES)
        return larder__fail(LARDER_E_FORMAT, "the daemon wants more samples read than it may");
    for (uint32_t i = 0; i < p->count; i++)
        p->keys[i] = larder_read_u64(r);
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
