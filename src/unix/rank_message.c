#include "unix/rank_message.h"

#include "base/err.h"
#include "base/spec.h"
#include "shared/relay.h"
#include "unix/frame.h"

#include <string.h>

void larder__join_write(const larder__join *j, larder_writer *w) {
    const uint32_t words[] = {j->magic, j->version, j->oldest, j->pid,   j->rank,
                              j->world, j->batch,   j->turns,  j->pixels};
    const uint64_t longs[] = {j->fingerprint, j->identity, j->keys,
                              j->payload,     j->want,     j->session};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        larder_write_u32(w, words[i]);
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        larder_write_u64(w, longs[i]);
    larder__write_text(w, j->job);
    larder__write_text(w, j->name);
}

/* As larder__hello_read does: another version first of all. */
int larder__join_read(larder__join *j, larder_reader *r) {
    memset(j, 0, sizeof *j);
    int rc = larder__greeting_read(&j->magic, &j->version, &j->oldest, r);
    if (rc < 0)
        return rc;
    j->pid = larder_read_u32(r);
    j->rank = larder_read_u32(r);
    j->world = larder_read_u32(r);
    j->batch = larder_read_u32(r);
    j->turns = larder_read_u32(r);
    j->pixels = larder_read_u32(r);
    j->fingerprint = larder_read_u64(r);
    j->identity = larder_read_u64(r);
    j->keys = larder_read_u64(r);
    j->payload = larder_read_u64(r);
    j->want = larder_read_u64(r);
    j->session = larder_read_u64(r);
    larder__read_text(r, j->job, sizeof j->job);
    larder__read_text(r, j->name, sizeof j->name);
    if (larder_read_status(r) < 0)
        return larder_read_status(r);
    if (j->world == 0 || j->world > LARDER__RELAY_RANKS || j->rank >= j->world || j->keys == 0 ||
        j->payload > LARDER__PAYLOAD_MOST || j->want == 0 || !larder__job_name_fits(j->job))
        return larder__fail(LARDER_E_FORMAT, "rank %u of %u of a job that makes no sense", j->rank,
                            j->world);
    return 0;
}

void larder__joined_write(const larder__joined *m, larder_writer *w) {
    larder_write_u32(w, m->version);
    larder_write_u64(w, m->arena_bytes);
    larder_write_u64(w, m->budget);
}

int larder__joined_read(larder__joined *m, larder_reader *r) {
    m->version = larder_read_u32(r);
    m->arena_bytes = larder_read_u64(r);
    m->budget = larder_read_u64(r);
    int rc = larder_read_status(r);
    return rc < 0 ? rc : larder__spoken_check(m->version);
}

larder__wire_value larder__wire_value_of(const larder__value *v) {
    return (larder__wire_value){
        .id = v->id, .mark = v->mark, .size = v->size, .form = v->form, .held = v->held};
}

larder__value larder__wire_value_read(larder_reader *r) {
    larder__wire_value w;
    larder_read_bytes(r, &w, sizeof w);
    bool fits = w.form < LARDER__SPLIT_FORMS &&
                (w.held < LARDER__SPLIT_FORMS || w.held == LARDER__ANY_FORM) && w.zero[0] == 0 &&
                w.zero[1] == 0;
    if (!fits)
        larder_read_reject(r, "it names a value in a form that there is not");
    return (larder__value){
        .id = w.id, .mark = w.mark, .size = w.size, .form = w.form, .held = w.held};
}
