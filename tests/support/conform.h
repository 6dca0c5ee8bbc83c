/* What the conformance suites have in common. A check answers true, or says what is wrong and
 * answers false, so that a suite can also be shown plug-ins that are broken on purpose: of each of
 * them it has to say what is wrong with it. */
#ifndef LARDER_TEST_CONFORM_H
#define LARDER_TEST_CONFORM_H

#include "check.h"

#include <larder/plugin.h>

/* Keeps the sentence; false, always. */
bool wrong(const char *form, ...) __attribute__((format(printf, 1, 2)));
const char *wrong_said(void); /* the last one */
#define holds(truth, ...)                                                                          \
    do {                                                                                           \
        if (!(truth))                                                                              \
            return wrong(__VA_ARGS__);                                                             \
    } while (0)

/* Has something failed with a sentence since `forget`? */
void forget(void);
bool told(void);

/* Name, summary and parameters: initial values are taken, and whatever a parameter's type and
 * bounds exclude is refused with a sentence, as are names that there are none of. */
bool check_plugin(const char *kind, const larder_plugin *, char separator);
/* A list that ends, with names and help; NULL is fine. */
bool check_figures(const larder_figure *, size_t *count);

/* Memory with bytes behind it that must stay what they are. Zeroed, 16-byte aligned. */
void *guarded_new(size_t bytes);
bool guarded_whole(const void *, size_t bytes);
void guarded_free(void *);

/* For plug-ins that lose memory on purpose: not freed now, and freed by `find_lost`. */
void lose(void *);
void find_lost(void);

/* With allocation 1, 2, … failing, alone and then with all after it, until none is left to fail. In
 * each of them `walk` must answer true, and all that it allocated on this thread must be free
 * again. Where others allocate for it (`beside`), which one that is depends on them: it is not
 * counted, and ever fewer are made to fail. */
bool check_memory(bool (*walk)(void *arg), void *arg, bool beside);

/* The plug-in with nothing wrong (0) draws no sentence, and each of the others the one that belongs
 * to it: says[w] is part of what `try` answers. */
void check_wrongs(const char *kind, const char *(*try)(unsigned w), const char *const *says,
                  unsigned wrongs);

#endif
