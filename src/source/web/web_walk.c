#include "source/web/web_walk.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "source/split.h"

enum {
    AT_ONCE = 64,
    MOST_FOLDERS = 1 << 22,
    DEEPEST = 32,         /* folders in each other */
    PAGE_BYTES = 64 << 20 /* of the page of one folder, or one list */
};

/* ---- what was found -------------------------------------------------------------------------- */

typedef struct taking { /* of one folder's page */
    larder__web_walk *w;
    size_t folder; /* its name's place in the text */
    bool s3;
} taking;

static int add_text(larder__web_walk *w, const char *above, size_t above_size, const char *name,
                    size_t n, size_t *at) {
    int rc = larder__grow(&w->text, &w->text_cap, w->text_size + above_size + n + 1, 1);
    if (rc < 0)
        return rc;
    *at = w->text_size;
    memcpy(w->text + *at, above, above_size);
    memcpy(w->text + *at + above_size, name, n);
    w->text_size += above_size + n + 1;
    w->text[w->text_size - 1] = 0;
    return 0;
}

static int add_folder(larder__web_walk *w, size_t name) {
    size_t depth = 0;
    for (const char *c = w->text + name; *c; c++)
        depth += *c == '/';
    if (depth > DEEPEST || w->folders_used == MOST_FOLDERS)
        return larder__fail(LARDER_E_RANGE, "%.100s: too many folders, or too many in each other",
                            w->root);
    int rc = larder__grow(&w->folders, &w->folders_cap, w->folders_used + 1, sizeof *w->folders);
    if (rc == 0)
        w->folders[w->folders_used++] = name;
    return rc;
}

/* S3 names whole keys, pages name what is in the folder. */
static int take_listed(void *arg, const larder__listed *l) {
    const taking *t = arg;
    larder__web_walk *w = t->w;
    char above[LARDER__KEY_MAX];
    size_t above_size = t->s3 ? 0 : strlen(w->text + t->folder), root = strlen(w->root), name;
    const char *from = l->name;
    size_t n = l->n;
    if (t->s3 && (n < root || memcmp(from, w->root, root) != 0))
        return larder__fail(LARDER_E_FORMAT, "a list has a key that was not asked for");
    if (t->s3) {
        from += root;
        n -= root;
    }
    if (n == 0 || (!l->folder && from[n - 1] == '/')) /* a key that stands for a folder */
        return 0;
    if (above_size + n + root >= LARDER__KEY_MAX)
        return larder__fail(LARDER_E_FORMAT, "a name is longer than %d bytes", LARDER__KEY_MAX - 1);
    memcpy(above, w->text + t->folder, above_size); /* the text may move */
    int rc = add_text(w, above, above_size, from, n, &name);
    if (rc < 0 || l->folder)
        return rc < 0 ? rc : add_folder(w, name);
    rc = larder__grow(&w->files, &w->files_cap, w->files_used + 1, sizeof *w->files);
    if (rc == 0)
        w->files[w->files_used++] = (larder__web_found){name, l->bytes, l->tag};
    return rc;
}

/* ---- asking ---------------------------------------------------------------------------------- */

typedef struct question { /* about one folder */
    size_t folder;        /* its name's place in the text */
    char *key;            /* whole */
    char token[LARDER__LIST_TOKEN];
    char seen[LARDER__LIST_TOKEN]; /* that of the page of the last power of two: */
    uint64_t pages;                /* so a circle is found, however long it is */
    larder__pair query[5];
    bool open;
} question;

static int ask(larder__web_walk *w, question *q, larder__web_request *r) {
    bool s3 = larder__web_site_is_s3(larder__web_site_of(w->web));
    if (!q->key && !(q->key = larder__web_key(w->root, w->text + q->folder)))
        return LARDER_E_NOMEM;
    *r = (larder__web_request){.key = s3 ? "" : q->key,
                               .bytes = LARDER__BYTES_UNKNOWN,
                               .object = LARDER__BYTES_UNKNOWN,
                               .most = PAGE_BYTES};
    if (!s3)
        return 0;
    q->query[0] = (larder__pair){"list-type", "2"};
    q->query[1] = (larder__pair){"delimiter", "/"};
    q->query[2] = (larder__pair){"encoding-type", "url"};
    q->query[3] = (larder__pair){"prefix", q->key};
    q->query[4] = (larder__pair){"continuation-token", q->token};
    r->query = q->query;
    r->query_count = q->token[0] ? 5 : 4;
    return 0;
}

static bool in_circle(question *q) {
    if (!q->token[0])
        return false;
    if (strcmp(q->token, q->seen) == 0)
        return true;
    q->pages++;
    if ((q->pages & (q->pages - 1)) == 0)
        memcpy(q->seen, q->token, sizeof q->seen);
    return false;
}

static int take_page(larder__web_walk *w, question *q, larder__web_request *r) {
    taking t = {w, q->folder, larder__web_site_is_s3(larder__web_site_of(w->web))};
    const char *shown = larder__web_site_shown(larder__web_site_of(w->web));
    int rc = r->code < 0  ? larder__fail(r->code, "%s", r->why)
             : r->text.at ? 0
                          : larder__fail(LARDER_E_FORMAT, "an empty page");
    if (rc == 0 && t.s3) {
        rc = larder__s3_list_parse(r->text.at, r->text.n, take_listed, &t, q->token);
        if (rc == 0 && in_circle(q))
            rc = larder__fail(LARDER_E_FORMAT, "a list goes on where it already was");
    } else if (rc == 0 && !r->answer.framed && !larder__page_is_whole(r->text.at, r->text.n)) {
        rc = larder__fail(LARDER_E_IO, "the page has no end, and the server does not say how long "
                                       "it is: it may be cut short");
    } else if (rc == 0) {
        rc = larder__page_parse(r->text.at, r->text.n, take_listed, &t);
    }
    q->open = rc == 0 && t.s3 && q->token[0];
    larder__text_free(&r->text);
    return rc < 0 && r->code == 0 ? larder__fail_in(rc, "%s%.200s", shown, q->key) : rc;
}

/* Folders [from, to) that are known, all pages of each; at most AT_ONCE. */
static int ask_folders(larder__web_walk *w, size_t from, size_t to) {
    question *q = larder__calloc(to - from, sizeof *q);
    larder__web_request *r = larder__calloc(to - from, sizeof *r);
    int rc = q && r ? 0 : LARDER_E_NOMEM;
    for (size_t i = 0; q && i < to - from; i++)
        q[i] = (question){.folder = w->folders[from + i], .open = true};
    for (bool more = true; rc == 0 && more;) {
        size_t n = 0, at = 0;
        more = false;
        for (size_t i = 0; rc == 0 && i < to - from; i++)
            if (q[i].open)
                rc = ask(w, &q[i], &r[n++]);
        if (rc == 0)
            larder__web_run(w->web, r, n);
        for (size_t i = 0; rc == 0 && i < to - from; i++)
            if (q[i].open) {
                rc = take_page(w, &q[i], &r[at++]);
                more |= q[i].open;
            }
        for (size_t i = 0; i < n; i++)
            larder__text_free(&r[i].text);
    }
    for (size_t i = 0; q && i < to - from; i++)
        larder__free(q[i].key);
    larder__free(q);
    larder__free(r);
    return rc;
}

int larder__web_walk_below(larder__web_walk *w) {
    int rc = 0;
    while (rc == 0 && w->asked < w->folders_used) {
        size_t from = w->asked, left = w->folders_used - from;
        w->asked += left < AT_ONCE ? left : AT_ONCE;
        rc = ask_folders(w, from, w->asked);
    }
    return rc;
}

/* ---- the folder itself, and its parts -------------------------------------------------------- */

static int list_root(larder__web_walk *w, const char *root) {
    larder__web *web = w->web;
    larder__web_walk_free(w);
    w->web = web;
    w->root = larder__strdup(root);
    size_t name;
    int rc = w->root ? add_text(w, "", 0, "", 0, &name) : LARDER_E_NOMEM;
    if (rc == 0)
        rc = add_folder(w, name);
    if (rc < 0)
        return rc;
    w->asked = 1;
    return ask_folders(w, 0, 1);
}

/* Is there a folder of one of these names, with folders or shards in it? Then its whole key, on the
 * heap. */
static int find_part(larder__web_walk *w, const char *const *names, char **out) {
    *out = NULL;
    for (size_t k = 0; names[k]; k++)
        for (size_t i = 1; i < w->folders_used; i++) {
            const char *folder = w->text + w->folders[i];
            size_t n = strlen(folder);
            if (n != strlen(names[k]) + 1 || memcmp(folder, names[k], n - 1) != 0)
                continue;
            larder__web_walk inside = {.web = w->web};
            char *key = larder__web_key(w->root, folder);
            if (!key)
                return LARDER_E_NOMEM;
            int rc = list_root(&inside, key);
            bool more = inside.folders_used > 1;
            for (size_t f = 0; f < inside.files_used; f++)
                more |= larder__is_shard_name(inside.text + inside.files[f].name);
            larder__web_walk_free(&inside);
            if (rc == 0 && more)
                *out = key;
            else
                larder__free(key);
            if (rc < 0 || more)
                return rc;
        }
    return 0;
}

int larder__web_walk_begin(larder__web_walk *w, larder__web *web, const char *root,
                           const char *split, bool *parted) {
    bool automatic = strcmp(split, "auto") == 0;
    char *part = NULL, *other = NULL;
    *w = (larder__web_walk){.web = web};
    *parted = false;
    int rc = list_root(w, root);
    if (rc == 0)
        rc = find_part(w, larder__split_names(split), &part);
    if (rc == 0 && part && automatic)
        rc = find_part(w, larder__split_names("test"), &other);
    if (rc == 0 && part && (!automatic || other)) {
        *parted = true;
        rc = list_root(w, part);
    }
    larder__free(part);
    larder__free(other);
    return rc;
}

void larder__web_walk_free(larder__web_walk *w) {
    larder__free(w->root);
    larder__free(w->text);
    larder__free(w->files);
    larder__free(w->folders);
    *w = (larder__web_walk){0};
}
