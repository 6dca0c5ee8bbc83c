/* Larder's device code, compiled for the GPU at hand by CUDA's own compiler as a library, once:
 * what comes out is kept in the user's cache folder under the hash of all it was made from, with a
 * hash of itself, so that half a file or somebody's scribbling is made again and not run. */
#include "base/clock.h"
#include "base/err.h"
#include "base/keep.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "gpu/code.h"
#include "gpu/gpu_inside.h"

#include <stdio.h>
#include <string.h>

typedef struct compiler {
    int (*version)(int *, int *);
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*cubin_size)(void *, size_t *);
    int (*cubin)(void *, char *);
    int (*destroy)(void **);
    const char *(*error_text)(int);
    int major, minor;
} compiler;

enum { OPTIONS = 16 };

typedef struct work { /* one file to be compiled */
    larder__gpu *g;
    compiler with;
    const larder__carried *file;
    char arch[40];
    const char *option[OPTIONS];
    int options;
    char key[2 * LARDER__SHA256 + 1];
    unsigned char *cubin; /* followed by its hash */
    size_t size;          /* without that */
} work;

static const char what[] = "CUDA's compiler";

int larder__gpu_compiler(void **out) {
    static const char *const names[] = {"libnvrtc.so.13",   "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so.11.8", "libnvrtc.so",    NULL};
    return larder__gpu_library(out, names, what, "PyTorch or the CUDA toolkit");
}

static int open_compiler(compiler *c) {
    void *lib;
    int rc = larder__gpu_compiler(&lib);
    const struct {
        const char *name;
        void *to;
    } want[] = {{"nvrtcVersion", &c->version},          {"nvrtcCreateProgram", &c->create},
                {"nvrtcCompileProgram", &c->compile},   {"nvrtcGetProgramLogSize", &c->log_size},
                {"nvrtcGetProgramLog", &c->log},        {"nvrtcGetCUBINSize", &c->cubin_size},
                {"nvrtcGetCUBIN", &c->cubin},           {"nvrtcDestroyProgram", &c->destroy},
                {"nvrtcGetErrorString", &c->error_text}};
    for (size_t i = 0; rc == 0 && i < sizeof want / sizeof *want; i++)
        rc = larder__gpu_symbol(lib, want[i].name, want[i].to, what);
    if (rc == 0 && c->version(&c->major, &c->minor) != 0)
        rc = larder__fail(LARDER_E_UNSUPPORTED, "%s does not say its version", what);
    return rc;
}

static void set_key(work *w) {
    unsigned char hash[LARDER__SHA256];
    char head[64];
    larder__sha256 h;
    larder__sha256_begin(&h);
    int n = snprintf(head, sizeof head, "larder 1 nvrtc %d.%d", w->with.major, w->with.minor);
    larder__sha256_add(&h, head, (size_t)n + 1);
    for (int i = 0; i < w->options; i++)
        larder__sha256_add(&h, w->option[i], strlen(w->option[i]) + 1);
    larder__sha256_add(&h, w->file->bytes, w->file->size);
    larder__sha256_end(&h, hash);
    larder__sha256_hex(hash, w->key);
}

/* ---- kept between runs ----------------------------------------------------------------------- */

static void name_of(const work *w, char out[96]) { snprintf(out, 96, "cuda-%.64s.cubin", w->key); }

static void hash_of(const unsigned char *bytes, size_t n, unsigned char out[LARDER__SHA256]) {
    larder__sha256 h;
    larder__sha256_begin(&h);
    larder__sha256_add(&h, bytes, n);
    larder__sha256_end(&h, out);
}

/* False: it is not there, or not whole. */
static bool recall(work *w) {
    char name[96];
    unsigned char hash[LARDER__SHA256];
    larder__keep_file kept;
    name_of(w, name);
    if (larder__keep_map(name, &kept) < 0)
        return false;
    size_t n = kept.size > sizeof hash ? kept.size - sizeof hash : 0;
    w->cubin = n ? larder__malloc(kept.size) : NULL;
    if (w->cubin) {
        memcpy(w->cubin, kept.bytes, kept.size);
        hash_of(w->cubin, n, hash);
        w->size = n;
    }
    larder__keep_free(&kept);
    if (w->cubin && memcmp(hash, w->cubin + n, sizeof hash) == 0)
        return true;
    larder__free(w->cubin);
    w->cubin = NULL;
    return false;
}

static void remember(work *w) {
    char name[96];
    name_of(w, name);
    hash_of(w->cubin, w->size, w->cubin + w->size);
    if (larder__keep_store(name, w->cubin, w->size + LARDER__SHA256) < 0)
        larder__errmsg_set(""); /* it costs a second at the next start, no more */
}

/* ---- compiling ------------------------------------------------------------------------------- */

static int say_refused(work *w, void *program, int answer) {
    size_t n = 0;
    char *log = w->with.log_size(program, &n) == 0 && n < 1 << 20 ? larder__calloc(1, n + 1) : NULL;
    if (log && w->with.log(program, log) != 0)
        log[0] = 0;
    int rc = larder__fail(
        LARDER_E_UNSUPPORTED, "CUDA's compiler %d.%d refuses %s for %s: %s: %.300s", w->with.major,
        w->with.minor, w->file->name, w->arch, w->with.error_text(answer), log ? log : "");
    larder__free(log);
    return rc;
}

static int take_out(work *w, void *program) {
    if (w->with.cubin_size(program, &w->size) != 0 || w->size == 0)
        return larder__fail(LARDER_E_UNSUPPORTED, "CUDA's compiler gives no code for %s", w->arch);
    w->cubin = larder__malloc(w->size + LARDER__SHA256);
    if (!w->cubin)
        return larder__fail(LARDER_E_NOMEM, "no memory for the GPU's code");
    return w->with.cubin(program, (char *)w->cubin) == 0
               ? 0
               : larder__fail(LARDER_E_UNSUPPORTED, "CUDA's compiler keeps its code to itself");
}

static int compile(work *w) {
    void *program = NULL;
    int answer =
        w->with.create(&program, (const char *)w->file->bytes, w->file->name, 0, NULL, NULL);
    if (answer != 0)
        return larder__fail(LARDER_E_UNSUPPORTED, "CUDA's compiler does not start: %s",
                            w->with.error_text(answer));
    answer = w->with.compile(program, w->options, w->option);
    int rc = answer != 0 ? say_refused(w, program, answer) : take_out(w, program);
    w->with.destroy(&program);
    return rc;
}

/* ---- modules --------------------------------------------------------------------------------- */

static int set_up(work *w, const char *file, const char *const *defines) {
    const larder__gpu_about *a = &w->g->about;
    for (w->file = larder__code_files; w->file->name && strcmp(w->file->name, file) != 0;)
        w->file++;
    if (!w->file->name)
        return larder__fail(LARDER_E_NOTFOUND, "%s is no file of larder's device code", file);
    snprintf(w->arch, sizeof w->arch, "--gpu-architecture=sm_%d%d", a->major, a->minor);
    w->option[w->options++] = w->arch;
    w->option[w->options++] = "--std=c++14";
    while (defines && *defines && w->options < OPTIONS)
        w->option[w->options++] = *defines++;
    return open_compiler(&w->with);
}

static int load(work *w, larder__gpu_module *out) {
    enum { OLD_DRIVER_MOST = 222, NO_BINARY = 209, BAD_IMAGE = 200 };
    int rc = larder__gpu_enter(w->g);
    if (rc < 0)
        return rc;
    int answer = w->g->call->load(out, w->cubin);
    larder__gpu_leave(w->g);
    if (answer == OLD_DRIVER_MOST || answer == NO_BINARY || answer == BAD_IMAGE)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "the GPU's driver takes code of CUDA %d.%d and CUDA's compiler here is "
                            "%d.%d: a newer driver or an older compiler is needed",
                            w->g->about.driver / 1000, w->g->about.driver % 1000 / 10,
                            w->with.major, w->with.minor);
    return larder__gpu_check(w->g, answer, "take larder's code");
}

static int add(work *w, larder__gpu_loaded **out) {
    bool known = recall(w);
    int rc = known ? 0 : compile(w);
    if (rc == 0 && !known)
        remember(w);
    larder__gpu_loaded *fresh = rc == 0 ? larder__calloc(1, sizeof *fresh) : NULL;
    if (rc == 0 && !fresh)
        rc = larder__fail(LARDER_E_NOMEM, "no memory for the GPU's code");
    rc = rc < 0 ? rc : load(w, &fresh->module);
    if (rc < 0) {
        larder__free(fresh);
        return rc;
    }
    memcpy(fresh->key, w->key, sizeof w->key);
    fresh->next = w->g->loaded;
    *out = w->g->loaded = fresh;
    return 0;
}

int larder__gpu_module_get(larder__gpu *g, larder__gpu_module *out, const char *file,
                           const char *const *defines) {
    work w = {.g = g};
    double from = larder__now();
    int rc = set_up(&w, file, defines);
    if (rc < 0)
        return rc;
    set_key(&w);
    pthread_mutex_lock(&g->lock);
    larder__gpu_loaded *found = g->loaded;
    while (found && strcmp(found->key, w.key) != 0)
        found = found->next;
    rc = found ? 0 : add(&w, &found);
    if (rc == 0)
        *out = found->module;
    g->about.compiling += larder__now() - from;
    pthread_mutex_unlock(&g->lock);
    larder__free(w.cubin);
    return rc;
}
