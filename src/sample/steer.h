/* How much of each batch is reused: h as a fixed number, falling or rising over the run, or steered
 * so that storage keeps up with training.
 *
 * auto: (1 - h) x fresh x read_seconds is what storage needs for one served sample, where `fresh`
 * is the share of the stream that has to be read. h is the smallest at which this stays below the
 * time of a training step, with a little to spare. It is decided anew some 64 times an epoch, moves
 * half of the way each time, and is 0, exactly, where storage is fast enough.
 *
 * What a read takes while it runs is not all that keeps storage from being used: threads decode,
 * and wait for a processor. So while training waits and storage is busy for most of the time, reads
 * are slowly taken to be dearer than they look (`load`), until training waits for a fiftieth of its
 * time. Waiting for anything but storage changes nothing.
 *
 * What reuse costs bounds it (`bound`): fresh samples have a higher loss than reused ones by as
 * much as reuse has learned by heart, and this gap, as a share of the loss that training began
 * with, stays below the bound. (Not of the fresh loss of the same time: what is nearly learned has
 * a gap of half its loss, and nothing is lost by it.) The gap is taken to grow as the times a
 * sample is reused, h / (1 - h), so from those of the time that the gap is of follows how many it
 * allows; h is never above that. Without reports nothing is known of a gap, and nothing bounded.
 *
 * Every change is noted with the number of its batch: the loader puts the list into the saved
 * state, onto the tape and into the folder of `larder train --out`. A run that follows such a list
 * repeats to the bit; what it follows it notes too, so its own state says as much. */
#ifndef LARDER_SAMPLE_STEER_H
#define LARDER_SAMPLE_STEER_H

#include <larder/plugin.h>

typedef struct larder__steer {
    enum { LARDER__STEER_LINE, LARDER__STEER_AUTO, LARDER__STEER_FOLLOW } how;
    double from, to;     /* LINE: h at the beginning and after `epochs`; equal: fixed */
    double epochs, most; /* most: h is never above, for auto */
    larder_pace pace;
    double trained, waited; /* of the pace, at the last decision */
    double stall;           /* share of time spent waiting, over the last second or so */
    double load;            /* auto: what a read costs, as a multiple of what it seems to take */
    double bound;           /* auto: of the gap; 0: none */
    double reuse, weight;   /* sum of h / (1 - h), and what it is of, fading as the gap does */
    larder_memorised known; /* the gap, as of the next batch */
    double allowed;         /* h by the gap; 1: nothing is known of it */
    double needed;          /* h by the rates, as of the last decision */
    double h;
    uint64_t batch;     /* batches drawn so far */
    uint64_t batches;   /* of one epoch */
    larder_turn *turns; /* as decided so far */
    size_t count, cap;
    larder_turn *ahead; /* as they are to be decided; NULL: by the rates */
    size_t ahead_count, next;
} larder__steer;

/* Takes h, h_max, epochs, gap, read_us and step_us from its sampler's arguments. */
int larder__steer_init(larder__steer *, const larder_args *, uint64_t batches);
void larder__steer_fini(larder__steer *);
/* Makes room for what one epoch may decide. */
int larder__steer_epoch(larder__steer *);
void larder__steer_pace(larder__steer *, const larder_pace *);
/* Would it look at what is memorised, with these arguments? And what that is, before each batch. */
bool larder__steer_watches(const larder_args *);
void larder__steer_memorised(larder__steer *, const larder_memorised *);
/* The h that storage needs, where the bound of the gap keeps it well below; else NAN. */
double larder__steer_held(const larder__steer *);
/* h of the next batch; `done` epochs lie behind it, `fresh` of the stream has to be read. While the
 * cache fills up h does not act yet: what is waited for then says nothing. */
double larder__steer_next(larder__steer *, double done, double fresh, bool acts);
/* What was decided before, and what is to be decided: as larder_sampler has them. With a fixed or
 * scheduled h nothing is decided, and a list of turns does not fit. */
int larder__steer_past(larder__steer *, const larder_turn *, size_t n);
int larder__steer_follow(larder__steer *, const larder_turn *, size_t n);
void larder__steer_save(const larder__steer *, larder_writer *);
int larder__steer_load(larder__steer *, larder_reader *);

#endif
