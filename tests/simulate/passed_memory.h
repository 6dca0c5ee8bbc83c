/* Memory that processes of the made world share: one makes it, wires carry it to others, and
 * whoever has a descriptor of it can map it. It goes with its last descriptor and mapping. */
#ifndef LARDER_SIMULATE_PASSED_MEMORY_H
#define LARDER_SIMULATE_PASSED_MEMORY_H

#include "actors.h"

extern bool passed_memory_out; /* none is given now */

/* As the system's: -1 or NULL, and errno. */
int passed_create(void); /* a descriptor of some that has no size yet */
int passed_resize(int fd, size_t bytes);
size_t passed_bytes(int fd);
void *passed_map(int fd, size_t bytes, bool to_write);
int passed_unmap(const void *);

typedef struct passed_parcel { /* on its way to another process */
    struct passed_memory *memory;
    bool only_read;
} passed_parcel;
/* For wires: it leaves for a process of that user. It is received, by the process that is at work,
 * or lost. */
passed_parcel passed_send(int fd, uint32_t user);
int passed_receive(passed_parcel);
void passed_lose(passed_parcel);

void passed_begin(void);
void passed_crash(const actor_process *);
uint32_t passed_mapped_of(const actor_process *); /* mappings that it has not given back */

#endif
