#include "redis_model.h"

#include "actors.h"
#include "base/hash.h"
#include "descriptors.h"
#include "waits.h"
#include "wires.h"
#include "worlds.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text { /* bytes of its own */
    char *at;
    size_t size;
} text;

typedef enum { STRING = 1, HASH, LIST } sort;

typedef struct entry {
    text key;
    sort sort;
    double expires; /* NEVER: does not */
    text value;     /* STRING */
    text *items;    /* LIST: records; HASH: field, value, field, … */
    size_t count, cap;
} entry;

typedef struct database {
    entry *at;
    size_t count, cap;
} database;

enum { CONNECTIONS = 48, ARGS = 64 };

static struct {
    database now, safe;
    bool full, wrote;
    double clock, loading_until;
    uint64_t pushed;
    struct {
        int fd; /* -1: none */
        text in;
        size_t cap;
    } open[CONNECTIONS];
    text out;
    size_t out_cap;
    text loaded[4];
} r;
bool redis_model_forgets_last;
long long redis_model_short = 1;

/* ---- texts ----------------------------------------------------------------------------------- */

static text text_new(const void *at, size_t n) {
    text t = {outside_alloc(n + 1), n};
    if (n)
        memcpy(t.at, at, n);
    t.at[n] = '\0';
    return t;
}

static void text_set(text *t, const void *at, size_t n) {
    text fresh = text_new(at, n);
    outside_free(t->at);
    *t = fresh;
}

static bool text_is(const text *t, const char *s) {
    return t->size == strlen(s) && memcmp(t->at, s, t->size) == 0;
}
static bool same(const text *a, const text *b) {
    return a->size == b->size && memcmp(a->at, b->at, a->size) == 0;
}

/* As tonumber does; false: it is none. */
static bool number_of(const text *t, long long *out) {
    char *end;
    if (!t || !t->size)
        return false;
    *out = strtoll(t->at, &end, 10);
    return *end == '\0';
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void entry_clear(entry *e) {
    for (size_t i = 0; i < e->count; i++)
        outside_free(e->items[i].at);
    outside_free(e->items);
    outside_free(e->value.at);
    outside_free(e->key.at);
}

static void clear(database *d) {
    for (size_t i = 0; i < d->count; i++)
        entry_clear(&d->at[i]);
    d->count = 0;
}

static void forget(size_t i) {
    entry_clear(&r.now.at[i]);
    r.now.at[i] = r.now.at[--r.now.count];
}

static double now(void) { return actors_now() + r.clock; }

static entry *lying(const text *key) { /* whether its time is over or not */
    for (size_t i = 0; i < r.now.count; i++)
        if (same(&r.now.at[i].key, key))
            return &r.now.at[i];
    return NULL;
}

static entry *find(const text *key) {
    entry *e = lying(key);
    return e && e->expires > now() ? e : NULL;
}

static bool del(const text *key) {
    entry *e = lying(key);
    bool there = e && e->expires > now();
    if (e)
        forget((size_t)(e - r.now.at));
    return there;
}

/* The one that is there, or a new one. Others may lie elsewhere after it. */
static entry *entry_of(const text *key, sort s) {
    entry *e = find(key);
    if (e && e->sort == s)
        return e;
    del(key);
    if (r.now.count == r.now.cap) {
        r.now.cap = r.now.cap ? 2 * r.now.cap : 64;
        r.now.at = outside_resize(r.now.at, r.now.cap * sizeof *r.now.at);
    }
    e = &r.now.at[r.now.count++];
    *e = (entry){.key = text_new(key->at, key->size), .sort = s, .expires = ACTOR_NEVER};
    return e;
}

static void item_add(entry *e, const void *at, size_t n) {
    if (e->count == e->cap) {
        e->cap = e->cap ? 2 * e->cap : 16;
        e->items = outside_resize(e->items, e->cap * sizeof *e->items);
    }
    e->items[e->count++] = text_new(at, n);
}

static text *field(const entry *e, const char *name) {
    for (size_t i = 0; e && i < e->count; i += 2)
        if (text_is(&e->items[i], name))
            return &e->items[i + 1];
    return NULL;
}

static void field_set(entry *e, const char *name, const void *at, size_t n) {
    text *had = field(e, name);
    if (had) {
        text_set(had, at, n);
        return;
    }
    item_add(e, name, strlen(name));
    item_add(e, at, n);
}

static void field_number(entry *e, const char *name, long long n) {
    char digits[24];
    int k = snprintf(digits, sizeof digits, "%lld", n);
    field_set(e, name, digits, (size_t)k);
}

static void field_drop(entry *e, const char *name) {
    for (size_t i = 0; i < e->count; i += 2)
        if (text_is(&e->items[i], name)) {
            outside_free(e->items[i].at);
            outside_free(e->items[i + 1].at);
            e->items[i] = e->items[e->count - 2];
            e->items[i + 1] = e->items[e->count - 1];
            e->count -= 2;
            return;
        }
}

static void copy(database *to, const database *from) {
    clear(to);
    if (to->cap < from->count) {
        to->cap = from->count;
        to->at = outside_resize(to->at, to->cap * sizeof *to->at);
    }
    for (size_t i = 0; i < from->count; i++) {
        const entry *e = &from->at[i];
        entry *c = &to->at[to->count++];
        *c = (entry){
            .key = text_new(e->key.at, e->key.size), .sort = e->sort, .expires = e->expires};
        if (e->value.at)
            c->value = text_new(e->value.at, e->value.size);
        for (size_t k = 0; k < e->count; k++)
            item_add(c, e->items[k].at, e->items[k].size);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void say(const void *at, size_t n) {
    if (r.out.size + n > r.out_cap) {
        r.out_cap = 2 * (r.out.size + n) + 1024;
        r.out.at = outside_resize(r.out.at, r.out_cap);
    }
    if (n)
        memcpy(r.out.at + r.out.size, at, n);
    r.out.size += n;
}

static void say_head(char type, long long n) {
    char line[32], *at = line + sizeof line;
    unsigned long long left = n < 0 ? 0 - (unsigned long long)n : (unsigned long long)n;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (n < 0)
        *--at = '-';
    *--at = type;
    say(at, (size_t)(line + sizeof line - at));
}

static void say_text(const void *at, size_t n) {
    say_head('$', (long long)n);
    say(at, n);
    say("\r\n", 2);
}

static void say_line(const char *line) {
    say(line, strlen(line));
    say("\r\n", 2);
}

/* ---- scripts --------------------------------------------------------------------------------- */

typedef struct script {      /* what all of them begin with (redis/journal.c) */
    const text *keys, *argv; /* argv[0] is ARGV[1] */
    size_t argc;
    entry *state;
    bool sound;
    long long base, count, snapat, snapsize, ms;
} script;

static const char OOM[] = "-OOM command not allowed when used memory > 'maxmemory'.";

/* May it write something that takes room? Not where Redis is full, unless it has written. */
static bool may_add(void) {
    if (r.full && !r.wrote)
        return false;
    r.wrote = true;
    return true;
}

static entry *list_of(const script *s) {
    entry *e = find(&s->keys[1]);
    return e && e->sort == LIST ? e : NULL;
}

static bool look(script *s) {
    s->state = find(&s->keys[0]);
    const text *gen = field(s->state, "gen");
    const entry *log = find(&s->keys[1]);
    if (!s->state || s->state->sort != HASH || !gen || gen->size != 16 ||
        !field(s->state, "conf") || !field(s->state, "core") ||
        !number_of(field(s->state, "base"), &s->base) ||
        !number_of(field(s->state, "count"), &s->count) ||
        !number_of(field(s->state, "snapat"), &s->snapat) ||
        !number_of(field(s->state, "snapsize"), &s->snapsize) || (log && log->sort != LIST))
        return false;
    return s->base >= 0 && s->base <= s->snapat && s->snapat <= s->count &&
           (long long)(log ? log->count : 0) == s->count - s->base;
}

static bool saved(const script *s) {
    const entry *snap = find(&s->keys[2]);
    if (s->snapat == 0)
        return true;
    return snap && snap->sort == STRING && (long long)snap->value.size == s->snapsize &&
           snap->value.size >= 16 && memcmp(snap->value.at, field(s->state, "gen")->at, 16) == 0;
}

static bool push(script *s, const void *at, size_t n) {
    if (!may_add())
        return false;
    item_add(entry_of(&s->keys[1], LIST), at, n);
    s->state = find(&s->keys[0]);
    twins_pushed(strtoull(field(s->state, "gen")->at, NULL, 16), (uint64_t)s->count, at, n);
    field_number(s->state, "count", ++s->count);
    r.pushed++;
    return true;
}

static bool push_short(script *s, uint32_t head, const text *more) {
    char room[1024];
    uint32_t words[2] = {head, 0};
    size_t n = more ? more->size : 0;
    if (n > sizeof room - sizeof words)
        abort();
    memcpy(room, words, sizeof words);
    if (n)
        memcpy(room + sizeof words, more->at, n);
    return push(s, room, sizeof words + n);
}

static bool lease(const script *s, const char *number) {
    char member[64];
    if (!may_add())
        return false;
    long long length = strtoll(s->argv[2].at, NULL, 10);
    int n = snprintf(member, sizeof member, "%.*s%lld", (int)s->argv[0].size, s->argv[0].at,
                     s->ms + length);
    field_set(s->state, number, member, (size_t)n);
    return true;
}

static bool leave(script *s, const char *number) {
    if (!push_short(s, 2 + (uint32_t)atoi(number) * 256, NULL))
        return false;
    field_drop(s->state, number);
    return true;
}

static bool over(const script *s, const text *member) {
    long long until = member->size > 16 ? strtoll(member->at + 16, NULL, 10) : 0;
    return until <= s->ms;
}

static bool was(const script *s, const text *member) { /* of the same job, before */
    return member->size >= 16 && s->argv[0].size == 16 &&
           memcmp(member->at, s->argv[0].at, 16) == 0;
}

static bool expel(script *s) {
    uint64_t members = 0;
    for (size_t i = 0; i < s->state->count; i += 2)
        if (isdigit((unsigned char)s->state->items[i].at[0]))
            members |= (uint64_t)1 << (atoi(s->state->items[i].at) & 63);
    for (int n = 0; n < 60; n++) {
        char number[8];
        if (!(members >> n & 1))
            continue;
        snprintf(number, sizeof number, "%d", n);
        const text *m = field(s->state, number);
        if (m && !text_is(&s->argv[1], number) && (over(s, m) || was(s, m)) && !leave(s, number))
            return false;
    }
    return true;
}

static void keep(const script *s, const text *ttl) {
    for (int i = 0; i < 3; i++) {
        entry *e = find(&s->keys[i]);
        if (e)
            e->expires = now() + strtod(ttl->at, NULL);
    }
    r.wrote = true;
}

static bool mine(const script *s) {
    const text *m = s->sound ? field(s->state, s->argv[1].at) : NULL;
    return m && same(field(s->state, "gen"), &s->argv[3]) && was(s, m);
}

static void say_records(const script *s, long long from) {
    const entry *log = list_of(s);
    size_t count = log ? log->count : 0, at = from > 0 ? (size_t)from : 0;
    at = at < count ? at : count;
    say_head('*', (long long)(count - at));
    for (; at < count; at++)
        say_text(log->items[at].at, log->items[at].size);
}

static void say_field(const script *s, const char *name) {
    const text *t = field(s->state, name);
    say_text(t->at, t->size);
}

/* False: Redis is full. */
static bool run_join(script *s) {
    int began = 0;
    bool there = find(&s->keys[0]) || find(&s->keys[1]) || find(&s->keys[2]);
    if (!(s->sound && saved(s)) || same(field(s->state, "gen"), &s->argv[3])) {
        for (int i = 0; i < 3; i++)
            del(&s->keys[i]);
        r.wrote = true;
        s->state = entry_of(&s->keys[0], HASH);
        field_set(s->state, "gen", s->argv[9].at, s->argv[9].size);
        field_set(s->state, "conf", s->argv[7].at, s->argv[7].size);
        field_set(s->state, "core", s->argv[8].at, s->argv[8].size);
        field_number(s->state, "base", 0);
        field_number(s->state, "count", 0);
        field_number(s->state, "snapat", 0);
        field_number(s->state, "snapsize", 0);
        began = there ? 2 : 1;
        s->sound = look(s);
    }
    int refused = same(field(s->state, "core"), &s->argv[8]) ? 0 : -2;
    if (!refused && !expel(s))
        return false;
    int n = 0, most = atoi(s->argv[5].at);
    char number[12] = "0";
    while (n < most && field(s->state, number))
        snprintf(number, sizeof number, "%d", ++n);
    if (!refused && n == most)
        refused = -1;
    if (refused) {
        say_head('*', 3);
        say_head(':', refused);
        say_field(s, "conf");
        say_field(s, "gen");
        return true;
    }
    if (!push_short(s, 1 + (uint32_t)n * 256, &s->argv[4]) || !lease(s, number))
        return false;
    keep(s, &s->argv[6]);
    const entry *snap = s->snapat > 0 ? find(&s->keys[2]) : NULL;
    say_head('*', 7);
    say_head(':', n);
    say_field(s, "conf");
    say_field(s, "gen");
    say_head(':', began);
    say_head(':', s->snapat);
    say_records(s, s->snapat - s->base);
    say_text(snap ? snap->value.at : "", snap ? snap->value.size : 0);
    return true;
}

static void say_refused(int why) {
    say_head('*', 1);
    say_head(':', why);
}

static bool run_step(script *s) {
    long long from;
    const entry *log = list_of(s);
    if (!mine(s)) {
        say_refused(-1);
        return true;
    }
    if (!number_of(&s->argv[4], &from) || from < s->base || (from == s->base && from > 0) ||
        from > s->count) {
        say_refused(-2);
        return true;
    }
    if (from > s->base && !same(&log->items[from - 1 - s->base], &s->argv[5]) &&
        !redis_model_forgets_last) {
        say_refused(-3);
        return true;
    }
    if (!lease(s, s->argv[1].at) || !expel(s))
        return false;
    for (size_t i = 6; i < s->argc; i++)
        if (!push(s, s->argv[i].at, s->argv[i].size))
            return false;
    say_head('*', 2);
    say_head(':', saved(s));
    say_records(s, from - s->base);
    return true;
}

static bool run_snapshot(script *s) {
    long long at = 0, behind = strtoll(s->argv[6].at, NULL, 10) / redis_model_short;
    if (!mine(s) || !number_of(&s->argv[4], &at) || at > s->count || at < s->snapat ||
        (at == s->snapat && saved(s)) ||
        (at > s->base && !redis_model_forgets_last &&
         !same(&list_of(s)->items[at - 1 - s->base], &s->argv[8]))) {
        say_head(':', 0);
        return true;
    }
    if (!may_add())
        return false;
    del(&s->keys[2]);
    entry *snap = entry_of(&s->keys[2], STRING);
    text_set(&snap->value, s->argv[5].at, s->argv[5].size);
    s->state = find(&s->keys[0]);
    field_number(s->state, "snapat", at);
    field_number(s->state, "snapsize", (long long)s->argv[5].size);
    long long first = at - behind;
    entry *log = list_of(s);
    if (first > s->base && log) {
        size_t gone = (size_t)(first - s->base);
        for (size_t i = 0; i < gone; i++)
            outside_free(log->items[i].at);
        memmove(log->items, log->items + gone, (log->count - gone) * sizeof *log->items);
        log->count -= gone;
        field_number(s->state, "base", first);
        if (log->count == 0)
            del(&s->keys[1]); /* a list without records is none */
    }
    keep(s, &s->argv[7]);
    say_head(':', 1);
    return true;
}

static bool run_leave(script *s) {
    if (mine(s) && !leave(s, s->argv[1].at))
        return false;
    say_head(':', 1);
    return true;
}

/* By what larder sends: where a script is another one than these were written after, that is said,
 * and this file is to follow. */
static const struct {
    uint64_t hash;
    bool (*run)(script *);
} scripts[] = {{0xabf87e757d5eb51, run_join},
               {0x5a5550d3efe6b2b1, run_step},
               {0x2cb981de4006576a, run_snapshot},
               {0x1ac21fd38080a83e, run_leave}};

static void evalsha(const text *argv, size_t argc) {
    script s = {.keys = argv + 3, .argv = argv + 6, .argc = argc - 6};
    s.ms = (long long)((1.7e9 + now()) * 1e3);
    uint64_t sha = strtoull(argv[1].at, NULL, 16);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (scripts[i].hash != sha)
            continue;
        size_t before = r.out.size;
        r.wrote = false;
        s.sound = look(&s);
        if (!scripts[i].run(&s)) {
            r.out.size = before;
            say_line(OOM);
        }
        return;
    }
    say_line("-NOSCRIPT No matching script. Please use EVAL.");
}

static void script_load(const text *body) {
    char sha[48];
    uint64_t hash = larder__hash_bytes(7, body->at, body->size) >> 1;
    bool known = false;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (scripts[i].hash == hash) {
            known = true;
            if (!r.loaded[i].at)
                r.loaded[i] = text_new(body->at, body->size);
        }
    if (!known)
        actors_complain(
            "a script of %016llx that tests/simulate/redis_model.c does not know: %.60s",
            (unsigned long long)hash, body->at + body->size - 60);
    int n = snprintf(sha, sizeof sha, "%040llx", (unsigned long long)hash);
    say_text(sha, (size_t)n);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void set(const text *argv, size_t argc) {
    if (r.full) {
        say_line(OOM);
        return;
    }
    del(&argv[1]);
    entry *e = entry_of(&argv[1], STRING);
    text_set(&e->value, argv[2].at, argv[2].size);
    if (argc == 5)
        e->expires = now() + strtod(argv[4].at, NULL);
    say_line("+OK");
}

static void get(const text *key) {
    const entry *e = find(key);
    if (e && e->sort == STRING)
        say_text(e->value.at, e->value.size);
    else
        say_head('$', -1);
}

/* Some keys at a time; the cursor is where to go on. */
static void scan(const text *argv) {
    enum { PAGE = 16 };
    size_t from = (size_t)strtoull(argv[1].at, NULL, 10), n = 0, prefix = argv[3].size - 1,
           to = from;
    char cursor[24];
    for (; to < r.now.count && n < PAGE; to++)
        n +=
            r.now.at[to].key.size >= prefix && memcmp(r.now.at[to].key.at, argv[3].at, prefix) == 0;
    int k = snprintf(cursor, sizeof cursor, "%zu", to < r.now.count ? to : 0);
    say_head('*', 2);
    say_text(cursor, (size_t)k);
    say_head('*', (long long)n);
    for (size_t i = from; i < to; i++)
        if (r.now.at[i].key.size >= prefix && memcmp(r.now.at[i].key.at, argv[3].at, prefix) == 0)
            say_text(r.now.at[i].key.at, r.now.at[i].key.size);
}

static void command(const text *argv, size_t argc) {
    if (actors_now() < r.loading_until)
        say_line("-LOADING Redis is loading the dataset in memory");
    else if (text_is(&argv[0], "PING"))
        say_line("+PONG");
    else if (text_is(&argv[0], "SCRIPT"))
        script_load(&argv[2]);
    else if (text_is(&argv[0], "EVALSHA"))
        evalsha(argv, argc);
    else if (text_is(&argv[0], "SET"))
        set(argv, argc);
    else if (text_is(&argv[0], "GET"))
        get(&argv[1]);
    else if (text_is(&argv[0], "MGET")) {
        say_head('*', (long long)argc - 1);
        for (size_t i = 1; i < argc; i++)
            get(&argv[i]);
    } else if (text_is(&argv[0], "UNLINK"))
        say_head(':', del(&argv[1]));
    else if (text_is(&argv[0], "EXISTS"))
        say_head(':', find(&argv[1]) != NULL);
    else if (text_is(&argv[0], "SCAN"))
        scan(argv);
    else {
        actors_complain("Redis is asked for %s, which the model does not know", argv[0].at);
        say_line("-ERR unknown command");
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

/* A line's number at *at; false: it is not whole. */
static bool head(const text *in, size_t *at, char type, size_t *out) {
    size_t n = 0, i = *at;
    if (i >= in->size)
        return false;
    if (in->at[i] != type) {
        actors_complain("Redis hears something that is no command");
        return false;
    }
    for (i++; i < in->size && isdigit((unsigned char)in->at[i]); i++)
        n = n * 10 + (size_t)(in->at[i] - '0');
    if (i + 2 > in->size)
        return false;
    *at = i + 2;
    *out = n;
    return true;
}

/* One command of what has come; its bytes, 0: it is not whole. */
static size_t hear_one(const text *in) {
    text argv[ARGS], *args = argv;
    size_t at = 0, argc = 0, n;
    if (!head(in, &at, '*', &argc))
        return 0;
    if (argc > ARGS)
        args = outside_alloc(argc * sizeof *args);
    size_t have = 0;
    while (have < argc && head(in, &at, '$', &n) && at + n + 2 <= in->size) {
        args[have++] = text_new(in->at + at, n);
        at += n + 2;
    }
    if (have == argc && argc)
        command(args, argc);
    for (size_t i = 0; i < have; i++)
        outside_free(args[i].at);
    if (args != argv)
        outside_free(args);
    return have == argc ? at : 0;
}

static void hang_up(int i) {
    descriptor_close(r.open[i].fd);
    r.open[i].fd = -1;
}

static void serve(int i) {
    char room[4096];
    struct iovec v = {room, sizeof room};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    ssize_t n = wires_receive(r.open[i].fd, &m, MSG_DONTWAIT);
    if (n == 0) {
        hang_up(i);
        return;
    }
    if (n < 0)
        return;
    text *in = &r.open[i].in;
    if (in->size + (size_t)n > r.open[i].cap) {
        r.open[i].cap = 2 * (in->size + (size_t)n);
        in->at = outside_resize(in->at, r.open[i].cap);
    }
    memcpy(in->at + in->size, room, (size_t)n);
    in->size += (size_t)n;
    r.out.size = 0;
    for (size_t used; in->size && (used = hear_one(in)) > 0;) {
        memmove(in->at, in->at + used, in->size - used);
        in->size -= used;
    }
    for (size_t sent = 0; sent < r.out.size;) {
        struct iovec o = {r.out.at + sent, r.out.size - sent};
        n = wires_send(r.open[i].fd, &(struct msghdr){.msg_iov = &o, .msg_iovlen = 1},
                       WIRES_BUFFERED);
        if (n <= 0)
            return;
        sent += (size_t)n;
    }
}

static void greet(int fd) {
    for (int i = 0; i < CONNECTIONS; i++)
        if (r.open[i].fd < 0) {
            r.open[i].fd = fd;
            r.open[i].in.size = 0;
            waits_watch(fd, &r);
            return;
        }
    descriptor_close(fd);
}

void *redis_model_main(void *arg) {
    (void)arg;
    int listener = wires_socket(true);
    for (int i = 0; i < CONNECTIONS; i++)
        r.open[i].fd = -1;
    wires_listen(listener, REDIS_MODEL_NAME);
    waits_watch(listener, &r);
    for (;;) {
        double next = ACTOR_NEVER;
        for (int fd; (fd = wires_accept(listener, false)) >= 0;)
            greet(fd);
        for (int i = 0; i < CONNECTIONS; i++) {
            if (r.open[i].fd < 0)
                continue;
            if (wires_readable(r.open[i].fd))
                serve(i);
            double at = r.open[i].fd < 0 ? ACTOR_NEVER : wires_readable_at(r.open[i].fd);
            next = at < next ? at : next;
        }
        actors_wait(&r, next);
    }
    return NULL;
}

void redis_model_answer(size_t argc, const char *const *argv, const size_t *lengths,
                        const char **out, size_t *size) {
    text args[ARGS] = {0};
    for (size_t i = 0; i < argc; i++)
        args[i] = text_new(argv[i], lengths[i]);
    r.out.size = 0;
    command(args, argc);
    for (size_t i = 0; i < argc; i++)
        outside_free(args[i].at);
    *out = r.out.at;
    *size = r.out.size;
}

const char *redis_model_script(int which, size_t *size) {
    *size = r.loaded[which].size;
    return r.loaded[which].at;
}

/* ---- mishaps --------------------------------------------------------------------------------- */

void redis_model_full(bool yes) { r.full = yes; }
void redis_model_clock(double by) { r.clock += by; }
void redis_model_empty(void) { clear(&r.now); }
void redis_model_sync(void) { copy(&r.safe, &r.now); }
void redis_model_rollback(void) { copy(&r.now, &r.safe); }
void redis_model_started(double loading_until) { r.loading_until = loading_until; }
uint64_t redis_model_records(void) { return r.pushed; }

bool redis_model_evict(void) {
    if (r.now.count == 0)
        return false;
    forget((size_t)actors_chance(r.now.count));
    return true;
}

static entry *some(sort s, const char *part) {
    entry *found = NULL;
    uint64_t n = 0;
    for (size_t i = 0; i < r.now.count; i++) {
        entry *e = &r.now.at[i];
        if (e->sort == s && (!part || strstr(e->key.at, part)) && actors_chance(++n) == 0)
            found = e;
    }
    return found;
}

bool redis_model_spoil(void) {
    entry *e = some(STRING, NULL);
    if (!e || e->value.size == 0)
        return false;
    if (actors_one_in(3))
        e->value.size = actors_chance(e->value.size);
    else
        e->value.at[actors_chance(e->value.size)] ^= (char)(1 << actors_chance(8));
    return true;
}

bool redis_model_cut_log(void) {
    entry *e = some(LIST, NULL);
    if (!e || e->count == 0)
        return false;
    outside_free(e->items[--e->count].at);
    if (e->count == 0)
        forget((size_t)(e - r.now.at));
    return true;
}

void redis_model_each(redis_model_fn fn, void *arg) {
    for (size_t i = 0; i < r.now.count; i++) {
        const entry *e = &r.now.at[i];
        if (e->sort == STRING && e->expires > now())
            fn(arg, e->key.at, e->value.at, e->value.size, e->expires < ACTOR_NEVER);
    }
}

void redis_model_begin(void) {
    clear(&r.now);
    clear(&r.safe);
    r.full = r.wrote = false;
    r.clock = r.loading_until = 0;
    r.pushed = 0;
}

void redis_model_end(void) {
    clear(&r.now);
    clear(&r.safe);
}
