/* Sounds: a window of each recording, at one rate, as channels x samples of f32. */
#include "base/err.h"
#include "stage/column.h"
#include "stage/sound.h"

#include <math.h>

typedef struct sound_state {
    larder__sound wants;
    double where; /* NAN: by chance */
} sound_state;

static int open_sound(larder__column *c, const larder_args *args, const larder__sight *sight,
                      const larder__field *first) {
    sound_state *s = c->state;
    (void)sight, (void)first;
    const char *at = larder_args_text(args, "at");
    double frames = round(larder_args_number(args, "seconds") * larder_args_number(args, "rate"));
    if (!(frames >= 1 && frames <= LARDER__SOUND_FRAMES))
        return larder__fail(LARDER_E_RANGE, "a window of %g samples, not 1 to %d", frames,
                            LARDER__SOUND_FRAMES);
    s->wants = (larder__sound){.rate = (uint32_t)larder_args_number(args, "rate"),
                               .channels = (uint32_t)larder_args_number(args, "channels"),
                               .frames = (uint32_t)frames};
    s->where = strcmp(at, "start") == 0 ? 0 : strcmp(at, "centre") == 0 ? 0.5 : NAN;
    larder__column_fix(c, LARDER_F32, (const uint64_t[]){s->wants.channels, s->wants.frames}, 2);
    return 0;
}

/* Without chance, the middle of what it may be. */
static int run_sound(const larder__column *c, const larder__sight *sight, const larder__field *f,
                     larder__cell *out) {
    enum { STREAM = 0x50d };
    const sound_state *s = c->state;
    double where = s->where;
    if (isnan(where)) {
        larder_rng rng;
        larder_rng_seed(&rng, sight->seed, STREAM);
        where = sight->seed == LARDER__NO_CHANCE ? 0.5 : larder_rng_unit(&rng);
    }
    return larder__sound_window(&s->wants, sight->scratch, f->data, f->bytes, where, out->row);
}

static const larder_param params[] = {
    {"seconds", "float", "1", "length of the window; what is shorter ends in silence", 0, 1e6},
    {"rate", "int", "16000", "samples a second, whatever the recording has", 1, 1000000},
    {"channels", "int", "1", "1: all of them mixed", 1, LARDER__SOUND_CHANNELS},
    {"at", "chance|start|centre", "chance", "where in a longer recording", 0, 0},
    {0}};

const larder__column_kind larder__column_sound = {
    .plugin = {.name = "sound",
               .summary = "a window of a recording (wav, flac, ogg, mp3 …), resampled",
               .params = params,
               .state_size = sizeof(sound_state)},
    .endings = " wav flac ogg oga opus mp3 aif aiff au ",
    .plain = true,
    .open = open_sound,
    .run = run_sound,
};
