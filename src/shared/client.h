/* A cache that this process shares with others: the same calls as every cache has, said to whoever
 * orders what all jobs say, and answered by a machine (shared/machine.h) there or here. How words
 * get there and how bytes come back is the carrier's: a daemon on this machine (unix/attach.h) or
 * Redis (redis/group.h). When nobody is there every request is answered with "make it yourself", so
 * that training goes on straight from storage. */
#ifndef LARDER_SHARED_CLIENT_H
#define LARDER_SHARED_CLIENT_H

#include "base/stat.h"
#include "shared/reply.h"

typedef struct larder__client larder__client;

/* Words and bytes on their way. Decides nothing. Called with the client's lock held but where it
 * says "any thread". */
typedef struct larder__carrier {
    const char *name; /* "daemon" */
    /* Is there anybody to talk to? Looks for them now and then when there is nobody, and tells
     * larder__client_joined when it has found them. */
    bool (*there)(void *st);
    /* A word that needs no answer: it arrives before the next question. */
    void (*tell)(void *st, const larder__op *);
    /* A question; false: nobody is there any more. */
    bool (*ask)(void *st, const larder__op *, larder__replies *out);
    /* Tickets for these requests, of which `in` are the answers; what is far away is sent for. One
     * that is not to be had is given back, and made for this job alone. */
    void (*board)(void *st, const larder__reply *in, const larder_access *, size_t n,
                  larder__ticket *out);
    /* Answers that nobody comes for. */
    void (*refuse)(void *st, const larder__reply *, size_t n);
    /* Optional: residents that can be had without a question. False: ask. */
    bool (*take)(void *st, const larder_access *, size_t n, larder__ticket *out);
    void (*close)(void **st);
    /* Any thread. Of tickets that board has given, as in larder__cache_ops. */
    void (*fill)(void *st, larder__ticket *, larder_buf *);
    void (*failed)(void *st, larder__ticket *, int code);
    int (*wait)(void *st, larder__ticket *, larder_buf **out);
    int (*receive)(void *st, larder__ticket *, larder_buf *token, larder_buf **out); /* or NULL */
    /* Any thread. What is known of the residents now. slot_of stays where it is until the end:
     * others read in it at any time, whoever talks meanwhile. */
    void (*look)(void *st, larder_slots *out);
    void (*note)(void *st, char *out, size_t cap); /* why it was last away; "": never */
} larder__carrier;

typedef struct larder__client_conf {
    uint64_t keys;
    size_t most;   /* rows of one question */
    uint32_t size; /* of every sample; 0: size_of */
    uint32_t (*size_of)(void *arg, uint64_t id);
    void *size_arg;
    bool exchanges; /* the policy exchanges what is wanted for what it has */
    larder__stats *stats;
    const char *alone; /* name of the figure that counts what was made for this job alone */
} larder__client_conf;

/* In two steps, since a carrier needs its client before it is there. The second takes over the
 * carrier's state, also when it fails. */
int larder__client_new(larder__client **out, const larder__client_conf *);
int larder__client_open(larder__cache **out, larder__client *, const larder__carrier *, void *st);
void larder__client_free(larder__client **); /* of one that was not opened */

/* By carriers. Others are there now, and this is where they are in their stream of fresh samples
 * (NULL: nowhere): they are told what they have to know. */
void larder__client_joined(larder__client *, const larder_stream *);
/* They are gone, and what they answered with them. */
void larder__client_lost(larder__client *);
/* A ticket to make this entry for oneself, without asking anybody. */
void larder__client_alone(larder__client *, const larder_access *, larder__ticket *out);
bool larder__ticket_alone(const larder__ticket *); /* is it such a one? */
/* The client's lock, where nobody is asking anything and no answers wait; false: not now. */
bool larder__client_try(larder__client *);
void larder__client_enter(larder__client *); /* as soon as nobody else has it */
void larder__client_done(larder__client *);

#endif
