/* An NVIDIA GPU, found at run time: the driver (libcuda), CUDA's compiler (libnvrtc) and whatever
 * else of CUDA's libraries a part wants are opened by name, so that the library links against none
 * of them and runs where there are none. The device code of larder (src/gpu/code) is carried along
 * as text and compiled for the GPU at hand once; what comes out is kept in the user's cache folder.
 *
 * It works in the device's primary context, which is PyTorch's too: pointers and streams of either
 * are good for both. Functions here make that context current for as long as they run; a part that
 * calls libraries of its own (cuBLAS, nvJPEG) does so between larder__gpu_enter and leave. Any
 * thread may call; a stream is used by one thread at a time. */
#ifndef LARDER_GPU_GPU_H
#define LARDER_GPU_GPU_H

#include <larder/larder.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__gpu larder__gpu;
typedef uint64_t larder__gpu_ptr; /* in the device's memory */
typedef struct CUctx_st *larder__gpu_context;
typedef struct CUstream_st *larder__gpu_stream; /* CUDA's own; NULL: the default stream */
typedef struct CUevent_st *larder__gpu_event;
typedef struct CUmod_st *larder__gpu_module;
typedef struct CUfunc_st *larder__gpu_function;

/* Device `number` as CUDA counts (CUDA_VISIBLE_DEVICES applies). E_UNSUPPORTED and a sentence where
 * there is no driver, no such device, or the driver does not fit. */
int larder__gpu_open(larder__gpu **, int number);
void larder__gpu_close(larder__gpu **);

typedef struct larder__gpu_about {
    char name[128];
    int driver;       /* 13000: CUDA 13.0 is the newest it takes */
    int major, minor; /* 9, 0: sm_90 */
    int processors;   /* multiprocessors */
    double seconds;   /* that opening took: the context's start */
    double compiling; /* seconds spent on larder__gpu_module so far */
} larder__gpu_about;
const larder__gpu_about *larder__gpu_about_it(const larder__gpu *);
int larder__gpu_free_bytes(larder__gpu *, size_t *out_free, size_t *out_all);

/* Its context, current for this thread until leave. They nest. */
int larder__gpu_enter(larder__gpu *);
void larder__gpu_leave(larder__gpu *);

/* ---- code ------------------------------------------------------------------------------------ */

/* A file of src/gpu/code, "rows.cu", for this device. `defines`: "-DNAME=value" texts, ends with
 * NULL, may be NULL. Belongs to the gpu, which unloads it; asked for twice it is the same one. */
int larder__gpu_module_get(larder__gpu *, larder__gpu_module *out, const char *file,
                           const char *const *defines);
int larder__gpu_function_get(larder__gpu *, larder__gpu_function *out, larder__gpu_module,
                             const char *name);

typedef struct larder__gpu_shape {
    unsigned grid[3], block[3]; /* 0 counts as 1 */
    size_t shared;              /* bytes a block */
} larder__gpu_shape;
/* `args`: a pointer to each parameter. */
int larder__gpu_launch(larder__gpu *, larder__gpu_function, larder__gpu_shape, larder__gpu_stream,
                       void **args);

/* ---- memory, streams, events ----------------------------------------------------------------- */

/* `what` is for the sentence when there is too little: "rows of the kernel matrix". */
int larder__gpu_alloc(larder__gpu *, larder__gpu_ptr *out, size_t bytes, const char *what);
void larder__gpu_free(larder__gpu *, larder__gpu_ptr); /* 0: nothing */
/* Memory of this process that the device reaches by itself. */
int larder__gpu_pinned(larder__gpu *, void **out, size_t bytes);
void larder__gpu_unpin(larder__gpu *, void *); /* what pinned gave */
/* They come back at once where the memory is pinned; else the bytes have left when they do. */
int larder__gpu_put(larder__gpu *, larder__gpu_ptr to, const void *from, size_t bytes,
                    larder__gpu_stream);
int larder__gpu_get(larder__gpu *, void *to, larder__gpu_ptr from, size_t bytes,
                    larder__gpu_stream);
int larder__gpu_zero(larder__gpu *, larder__gpu_ptr to, size_t bytes, larder__gpu_stream);

/* `urgent`: goes before the work of other streams, else behind it. */
int larder__gpu_stream_open(larder__gpu *, larder__gpu_stream *, bool urgent);
void larder__gpu_stream_close(larder__gpu *, larder__gpu_stream *);
int larder__gpu_wait(larder__gpu *, larder__gpu_stream); /* until all of it is done */
int larder__gpu_event_open(larder__gpu *, larder__gpu_event *);
void larder__gpu_event_close(larder__gpu *, larder__gpu_event *);
int larder__gpu_event_record(larder__gpu *, larder__gpu_event, larder__gpu_stream);
int larder__gpu_event_wait(larder__gpu *, larder__gpu_event); /* this thread waits */

/* ---- CUDA's other libraries ------------------------------------------------------------------ */

/* The first of these names ("libnvjpeg.so.13", …; ends with NULL) that can be opened: in the
 * folders of $LARDER_CUDA_LIBRARIES (joined by colons), where the system looks, or where CUDA
 * usually lies. Never closed. `what` and `from` are for the sentence: "CUDA's JPEG decoder",
 * "PyTorch or the CUDA toolkit". */
int larder__gpu_library(void **out, const char *const *names, const char *what, const char *from);
int larder__gpu_compiler(void **out); /* NVRTC, with which modules are made */
/* A function of it, E_UNSUPPORTED where it has none of that name. */
int larder__gpu_symbol(void *library, const char *name, void *out_function, const char *what);

#endif
