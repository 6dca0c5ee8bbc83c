/* CUDA's compiler, for faults alone: "compiles" anything to a few bytes. FAKE_NVRTC=refuse: it
 * refuses, with a log. */
#include <stdlib.h>
#include <string.h>

int nvrtcVersion(int *major, int *minor);
int nvrtcCreateProgram(void **out, const char *text, const char *name, int n, const char *const *h,
                       const char *const *i);
int nvrtcCompileProgram(void *p, int n, const char *const *options);
int nvrtcGetProgramLogSize(void *p, size_t *out);
int nvrtcGetProgramLog(void *p, char *out);
int nvrtcGetCUBINSize(void *p, size_t *out);
int nvrtcGetCUBIN(void *p, char *out);
int nvrtcDestroyProgram(void **p);
const char *nvrtcGetErrorString(int error);

static const char words[] = "line 1: a word that is none";

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
int nvrtcCreateProgram(void **out, const char *text, const char *name, int n, const char *const *h,
                       const char *const *i) {
    (void)text, (void)name, (void)n, (void)h, (void)i;
    return (*out = calloc(1, 1)) ? 0 : 1;
}
int nvrtcCompileProgram(void *p, int n, const char *const *options) {
    const char *asked = getenv("FAKE_NVRTC");
    (void)p, (void)n, (void)options;
    return asked && strcmp(asked, "refuse") == 0 ? 6 : 0;
}
int nvrtcGetProgramLogSize(void *p, size_t *out) { return (void)p, *out = sizeof words, 0; }
int nvrtcGetProgramLog(void *p, char *out) { return (void)p, memcpy(out, words, sizeof words), 0; }
int nvrtcGetCUBINSize(void *p, size_t *out) { return (void)p, *out = 4, 0; }
int nvrtcGetCUBIN(void *p, char *out) { return (void)p, memcpy(out, "code", 4), 0; }
int nvrtcDestroyProgram(void **p) { return free(*p), *p = NULL, 0; }
const char *nvrtcGetErrorString(int error) { return error == 6 ? "compilation" : "none"; }
