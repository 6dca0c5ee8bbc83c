/* What the ranks of a job tell each other: kept until it is forgotten, given to whoever waits. */
#include "base/err.h"
#include "base/mem.h"
#include "unix/ranks_served_inside.h"

#include <string.h>
#include <sys/socket.h>

enum { RECORD_COUNT_MOST = 1 << 16, PIECES_MOST = LARDER__RECORDS_MOST / LARDER__PIECE };

void larder__seat_clear(larder__rank_seat *seat) {
    for (larder__rank_record *r = seat->records, *next; r; r = next) {
        next = r->next;
        larder__free(r);
    }
    seat->records = NULL;
    seat->last = &seat->records;
    seat->record_bytes = seat->record_count = 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

int larder__unix_ranks_tell(larder__server *s, larder__server_client *c) {
    const larder__unix_ranks *ranks = c->berth.ranks;
    uint32_t missing = UINT32_MAX;
    for (uint32_t k = ranks->world; k-- > 0;)
        if (ranks->seats[k].state == LARDER__SEAT_EMPTY)
            missing = k;
    s->body.size = 0;
    larder_write_u32(&s->body, missing);
    larder_write_u64(&s->body, ranks->met ? ranks->session : 0);
    return larder__server_reply(s, c, LARDER__MSG_RANKS);
}

/* One who cannot be told something would wait for it: it hears the end, and hangs up when it reads
 * nothing here any more. */
static void told(const larder__server_client *c, int rc) {
    if (rc < 0)
        shutdown(c->fd, SHUT_WR);
}

void larder__unix_ranks_tell_all(larder__server *s, const larder__unix_ranks *ranks) {
    for (uint32_t k = 0; k < ranks->world; k++)
        if (ranks->seats[k].client)
            told(ranks->seats[k].client, larder__unix_ranks_tell(s, ranks->seats[k].client));
}

static int tell_record(larder__server *s, larder__server_client *c, uint32_t rank,
                       const larder__rank_record *r) {
    larder__berth *b = &c->berth;
    if (r->piece + 1 == r->pieces)
        b->wish[rank] = false;
    s->body.size = 0;
    larder_write_u32(&s->body, b->serial);
    larder_write_u32(&s->body, rank);
    larder_write_u32(&s->body, r->piece);
    larder_write_u32(&s->body, r->pieces);
    larder_write_bytes(&s->body, r->bytes, r->size);
    return larder__server_reply(s, c, LARDER__MSG_HEARD);
}

static int tell_gone(larder__server *s, larder__server_client *c, uint32_t rank) {
    c->berth.wish[rank] = false;
    s->body.size = 0;
    larder_write_u32(&s->body, c->berth.serial);
    larder_write_u32(&s->body, rank);
    larder__seat_state now = c->berth.ranks->seats[rank].state;
    larder_write_u32(&s->body, now == LARDER__SEAT_EMPTY   ? LARDER__RANK_APART
                               : now == LARDER__SEAT_ENDED ? LARDER__RANK_ENDED
                                                           : LARDER__RANK_LOST);
    return larder__server_reply(s, c, LARDER__MSG_GONE);
}

static bool waits_for(const larder__server_client *c, uint32_t rank) {
    return c && c->berth.wish && c->berth.wish[rank];
}

void larder__unix_ranks_tell_gone(larder__server *s, larder__unix_ranks *ranks, uint32_t rank) {
    for (uint32_t k = 0; k < ranks->world; k++)
        if (waits_for(ranks->seats[k].client, rank))
            told(ranks->seats[k].client, tell_gone(s, ranks->seats[k].client, rank));
}

/* ---- hearing --------------------------------------------------------------------------------- */

int larder__unix_ranks_say(larder__server *s, larder__server_client *c, larder_reader *r) {
    larder__unix_ranks *ranks = c->berth.ranks;
    larder__rank_seat *seat = &ranks->seats[c->berth.rank];
    uint32_t kind = larder_read_u32(r), piece = larder_read_u32(r), pieces = larder_read_u32(r);
    uint64_t number = larder_read_u64(r);
    size_t size = larder__read_left(r);
    if (larder_read_status(r) < 0 || pieces == 0 || pieces > PIECES_MOST || piece >= pieces ||
        size > LARDER__PIECE)
        return larder__fail(LARDER_E_FORMAT, "a record of a size that makes no sense");
    if (seat->record_bytes + size > LARDER__RECORDS_MOST || seat->record_count == RECORD_COUNT_MOST)
        return larder__fail(LARDER_E_FULL, "rank %u has said more than %d MiB that nobody forgets",
                            c->berth.rank, LARDER__RECORDS_MOST >> 20);
    larder__rank_record *record = larder__malloc(sizeof *record + size);
    if (!record)
        return larder__fail(LARDER_E_FULL,
                            "rank %u says more than the daemon has memory for; start it with a "
                            "larger --cache",
                            c->berth.rank);
    *record = (larder__rank_record){
        .number = number, .kind = kind, .piece = piece, .pieces = pieces, .size = size};
    larder_read_bytes(r, record->bytes, size);
    *seat->last = record;
    seat->last = &record->next;
    seat->record_bytes += size;
    seat->record_count++;
    for (uint32_t k = 0; k < ranks->world; k++) {
        larder__server_client *o = ranks->seats[k].client;
        if (waits_for(o, c->berth.rank) && o->berth.kind == kind && o->berth.number == number)
            told(o, tell_record(s, o, c->berth.rank, record));
    }
    return 0;
}

int larder__unix_ranks_forget(larder__server_client *c, larder_reader *r) {
    larder__rank_seat *seat = &c->berth.ranks->seats[c->berth.rank];
    uint32_t kind = larder_read_u32(r);
    uint64_t number = larder_read_u64(r);
    larder__rank_record **at = &seat->records;
    while (larder_read_status(r) == 0 && *at) {
        larder__rank_record *record = *at;
        if (record->kind != kind || record->number != number) {
            at = &record->next;
            continue;
        }
        *at = record->next;
        seat->record_bytes -= record->size;
        seat->record_count--;
        larder__free(record);
    }
    if (!*at)
        seat->last = at;
    return larder_read_status(r);
}

/* What there is of one rank's record, or that it will never be there. A piece is told in its turn:
 * one that was said a thousand times is not a thousand answers. */
static int answer_wish(larder__server *s, larder__server_client *c, uint32_t rank) {
    const larder__rank_seat *seat = &c->berth.ranks->seats[rank];
    uint32_t next = 0;
    int rc = 0;
    for (const larder__rank_record *r = seat->records; r && rc == 0 && c->berth.wish[rank];
         r = r->next)
        if (r->kind == c->berth.kind && r->number == c->berth.number && r->piece == next) {
            rc = tell_record(s, c, rank, r);
            next++;
        }
    bool gone = seat->state == LARDER__SEAT_ENDED || seat->state == LARDER__SEAT_LOST ||
                (c->berth.ranks->apart && seat->state == LARDER__SEAT_EMPTY);
    return rc == 0 && c->berth.wish[rank] && gone ? tell_gone(s, c, rank) : rc;
}

int larder__unix_ranks_wish(larder__server *s, larder__server_client *c, larder_reader *r) {
    larder__berth *b = &c->berth;
    uint32_t world = b->ranks->world;
    if (!b->wish && !(b->wish = larder__calloc(world, sizeof *b->wish)))
        return LARDER_E_NOMEM;
    memset(b->wish, 0, world * sizeof *b->wish);
    b->serial = larder_read_u32(r);
    b->kind = larder_read_u32(r);
    b->number = larder_read_u64(r);
    size_t n = larder__read_left(r) / sizeof(uint32_t);
    for (size_t i = 0; i < n; i++) {
        uint32_t rank = larder_read_u32(r);
        if (rank >= world || rank == b->rank)
            return larder__fail(LARDER_E_RANGE, "it waits for rank %u of %u", rank, world);
        b->wish[rank] = true;
    }
    int rc = larder_read_status(r) < 0 ? larder_read_status(r) : larder__unix_ranks_tell(s, c);
    for (uint32_t k = 0; rc == 0 && k < world; k++)
        if (b->wish[k])
            rc = answer_wish(s, c, k);
    return rc;
}
