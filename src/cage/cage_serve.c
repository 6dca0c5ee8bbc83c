/* The other side of a cage: a process that locks itself in and decodes until nobody asks any more.
 * Nothing of the data set is looked at before the lock is shut. */
#include "base/err.h"
#include "base/mem.h"
#include "cage/cage.h"
#include "cage/cage_lock.h"
#include "cage/cage_talk.h"
#include "stage/jpeg_encode.h"
#include "stage/scratch.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct desk {
    larder__scratch *scratch;
    const uint8_t *in;
    size_t room; /* of `in` */
    uint8_t *out;
} desk;

/* Pixels are decoded where the other side reads them. */
static void lend_out(desk *d, bool on) {
    d->scratch->block[LARDER__BLOCK_DECODED] = on ? d->out : NULL;
    d->scratch->cap[LARDER__BLOCK_DECODED] = on ? LARDER__CAGE_OUT : 0;
}

/* Libraries look at the processor and its files when they decode for the first time; some are
 * opened then, which no sample has to be there for. */
static void warm_up(larder__scratch *s) {
    enum { SIDE = 16 };
    uint8_t grey[SIDE * SIDE * 4 + 64] = {0};
    const larder__picture pic = {grey, SIDE * 4, 4, 1, {0, 0, SIDE, SIDE}};
    const larder__jpeg_conf conf = {.quality = 75, .limit = 1 << 16};
    larder__picture back;
    const uint8_t *jpeg = NULL;
    size_t size = 0;
    uint32_t w, h;
    const larder__sound sound = {.frames = 1, .rate = 8000, .channels = 1};
    float frame;
    if (larder__jpeg_encode(s, &pic, SIDE, SIDE, &conf, &jpeg, &size) == 0 && jpeg &&
        larder__codec_jpeg.head(s, jpeg, size, &w, &h) == 0)
        larder__codec_jpeg.pixels(s, jpeg, size, 1, pic.is, &back);
    const larder__codec *const others[] = {&larder__codec_png, &larder__codec_webp,
                                           &larder__codec_tiff, &larder__codec_gif};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        others[i]->head(s, grey, sizeof grey, &w, &h);
    larder__sound_window(&sound, s, grey, sizeof grey, 0, &frame);
}

static int close_others(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, LARDER__CAGE_OUT_FD + 1u, ~0u, 0u) == 0)
        return 0;
#endif
    struct rlimit most = {0};
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur > 1 << 20)
        return larder__fail(LARDER_E_UNSUPPORTED, "descriptors of others cannot be closed");
    for (int fd = LARDER__CAGE_OUT_FD + 1; fd < (int)most.rlim_cur; fd++)
        close(fd);
    return 0;
}

static int prepare(desk *d, uint64_t memory) {
    struct sched_param none = {0};
    int rc = close_others();
    void *in = mmap(NULL, d->room, PROT_READ, MAP_SHARED | MAP_NORESERVE, LARDER__CAGE_IN_FD, 0);
    void *out = mmap(NULL, LARDER__CAGE_OUT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                     LARDER__CAGE_OUT_FD, 0);
    if (in == MAP_FAILED || out == MAP_FAILED)
        return larder__fail(LARDER_E_NOMEM, "a cage's memory: %s", strerror(errno));
    d->in = in;
    d->out = out;
    close(LARDER__CAGE_IN_FD);
    close(LARDER__CAGE_OUT_FD);
    sched_setscheduler(0, SCHED_BATCH, &none); /* as the loader's threads; it works without, too */
    if (rc != 0 || (rc = larder__scratch_open(&d->scratch)) != 0)
        return rc;
    warm_up(d->scratch);
    larder__free(d->scratch->block[LARDER__BLOCK_DECODED]);
    lend_out(d, true);
    return larder__cage_lock(memory);
}

static bool say(larder__cage_answer *a, int rc) {
    a->magic = LARDER__CAGE_TELLS;
    a->code = rc;
    if (rc < 0)
        snprintf(a->why, sizeof a->why, "%s", larder_errmsg());
    return send(LARDER__CAGE_SOCKET, a, sizeof *a, MSG_NOSIGNAL) == sizeof *a;
}

static int decode_head(desk *d, const larder__cage_ask *q, larder__cage_answer *a) {
    const larder__codec *c = larder__codec_find(d->in, q->size);
    return c ? c->head(d->scratch, d->in, q->size, &a->w, &a->h) : LARDER_E_FORMAT;
}

static int decode_pixels(desk *d, const larder__cage_ask *q, larder__cage_answer *a) {
    larder__picture pic = {0};
    const larder__codec *c = larder__codec_find(d->in, q->size);
    int rc =
        c ? c->pixels(d->scratch, d->in, q->size, q->denominator, q->want, &pic) : LARDER_E_FORMAT;
    if (rc < 0)
        return rc;
    a->at = pic.at - d->out;
    a->row = pic.row;
    a->is = pic.is;
    return 0;
}

/* Frames are read into the block that pixels are lent for, and out of it where they are wanted. */
static int decode_sound(desk *d, const larder__cage_ask *q) {
    lend_out(d, false);
    int rc = larder__sound_window(&q->sound, d->scratch, d->in, q->size, q->where,
                                  (float *)(void *)d->out);
    larder__free(d->scratch->block[LARDER__BLOCK_DECODED]);
    lend_out(d, false);
    larder__scratch_trim(d->scratch);
    lend_out(d, true);
    return rc;
}

static int answer(desk *d, const larder__cage_ask *q, larder__cage_answer *a) {
    d->scratch->indices = q->indices != 0;
    int rc = LARDER_E_FORMAT;
    if (q->what == LARDER__CAGE_HEAD)
        rc = decode_head(d, q, a);
    else if (q->what == LARDER__CAGE_PIXELS)
        rc = decode_pixels(d, q, a);
    else if (q->what == LARDER__CAGE_SOUND)
        rc = decode_sound(d, q);
    if (q->what == LARDER__CAGE_PIXELS) {
        lend_out(d, false); /* it is nobody's to free */
        larder__scratch_trim(d->scratch);
        lend_out(d, true);
    }
    return rc;
}

/* argv: how much memory it may take, who started it, and how large the largest sample is. */
int larder__cage_serve(int argc, char **argv, larder__cage_hook hook) {
    desk d = {0};
    larder__cage_answer a = {0};
    larder__cage_ask q;
    if (argc != 4 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
        getppid() != (pid_t)strtoll(argv[2], NULL, 10))
        return 1;
    d.room = (size_t)strtoull(argv[3], NULL, 10);
    int rc = prepare(&d, strtoull(argv[1], NULL, 10));
    snprintf(a.why, sizeof a.why, "%s", larder_version());
    if (rc != 0 || !d.scratch) { /* nothing is decoded without the lock */
        say(&a, rc);
        return 1;
    }
    while (say(&a, rc) && recv(LARDER__CAGE_SOCKET, &q, sizeof q, 0) == sizeof q &&
           q.magic == LARDER__CAGE_ASKS && q.size <= d.room) {
        a = (larder__cage_answer){.number = q.number};
        if (hook)
            hook(q.what, d.in, q.size, d.out);
        rc = answer(&d, &q, &a);
    }
    return 0;
}
