/* Shared objects with plug-ins. They call larder's public functions, so these have to be found by
 * name: the program exports them, and the library makes itself known to all. */
#include "base/err.h"
#include "base/mem.h"
#include "plugins.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FILES = 64 };
static void *loaded[FILES]; /* handles; never closed, as their functions are in use */
static size_t loaded_count;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Who loaded the library, Python for one, may have kept its names to itself. */
static void be_known(void) {
    Dl_info about;
    int (*self)(const char *) = larder_load_plugin;
    void *at;
    memcpy(&at, &self, sizeof at);
    if (dladdr(at, &about) && about.dli_fname)
        dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static int run_entry(void *handle, const char *file) {
    int (*entry)(void);
    void *at = dlsym(handle, "larder_plugin_load");
    if (!at)
        return larder__fail(LARDER_E_FORMAT,
                            "plug-in %.300s: it has no function larder_plugin_load", file);
    memcpy(&entry, &at, sizeof entry);
    larder__errmsg_set("its larder_plugin_load failed and does not say why");
    int rc = entry();
    if (rc < 0)
        return larder__fail_in(rc, "plug-in %.300s", file);
    larder__errmsg_set(""); /* or the sentence above would turn up for somebody else's failure */
    return 0;
}

static int load(const char *file) {
    char path[4096]; /* with a slash, or it would be looked for elsewhere */
    struct stat about;
    snprintf(path, sizeof path, "%s%s", strchr(file, '/') ? "" : "./", file);
    if (stat(path, &about) < 0)
        return larder__fail(LARDER_E_NOTFOUND, "plug-in %.300s: there is no such file", file);
    be_known();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return larder__fail(LARDER_E_FORMAT, "plug-in %.200s: it cannot be loaded (%.200s)", file,
                            dlerror());
    for (size_t i = 0; i < loaded_count; i++)
        if (loaded[i] == handle)
            return 0;
    if (loaded_count == FILES)
        return larder__fail(LARDER_E_FULL, "plug-in %.300s: more than %d files", file, FILES);
    int rc = run_entry(handle, file);
    if (rc == 0)
        loaded[loaded_count++] = handle;
    return rc; /* not closed where it failed: it may have registered some */
}

int larder_load_plugin(const char *file) {
    if (!file || !file[0])
        return larder__fail(LARDER_E_ARGS, "a plug-in is the name of a shared object");
    pthread_mutex_lock(&one_at_a_time);
    int rc = load(file);
    pthread_mutex_unlock(&one_at_a_time);
    return rc;
}

/* ---- LARDER_PLUGINS -------------------------------------------------------------------------- */

static int env_answer;
static char env_sentence[512];
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static void load_from_env(void) {
    const char *given = secure_getenv("LARDER_PLUGINS");
    char *text = given && given[0] ? larder__strdup(given) : NULL, *rest = NULL;
    for (char *file = text ? strtok_r(text, ":", &rest) : NULL; file && env_answer == 0;
         file = strtok_r(NULL, ":", &rest))
        env_answer = larder_load_plugin(file);
    if (env_answer < 0)
        snprintf(env_sentence, sizeof env_sentence, "%s", larder_errmsg());
    larder__free(text);
}

int larder__plugins_from_env(void) {
    pthread_once(&env_once, load_from_env);
    if (env_answer == 0)
        return 0;
    larder__errmsg_set(env_sentence);
    return larder__fail_in(env_answer, "LARDER_PLUGINS");
}
