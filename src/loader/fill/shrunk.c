/* Samples that the cache keeps shrunk. */
#include "base/asked.h"
#include "base/err.h"
#include "loader/fill/joint.h"
#include "stage/jpeg_encode.h"

int larder__shrink_make(larder_loader *l, larder__scratch *scratch, larder_buf *read,
                        larder_buf **out) {
    if (l->own) /* kept as it is */
        return 0;
    int rc = larder__pipeline_shrink(l->pipeline, scratch, read, &l->shrink.to, out);
    /* What cannot be decoded as a whole may still be good for a part: it stays as it is. */
    return rc == LARDER_E_NOMEM ? rc : 0;
}

/* As the row did that it entered with: what cannot be shrunk has this size. */
static int read_whole(larder_loader *l, uint64_t id, larder_buf **out) {
    larder_rect whole = {0};
    larder_read read = {0};
    uint64_t before = larder__requests();
    if (l->parts)
        whole = larder__parts_whole(l->parts, id);
    int rc = l->parts ? larder__data_read_parts(l->data, &id, &whole, 1, &read)
                      : larder__data_read(l->data, &id, 1, &read);
    rc = rc < 0 ? rc : read.code;
    if (rc < 0)
        return rc;
    *out = read.buf;
    larder__joint_note(l, NULL, before, 1, larder_buf_size(read.buf));
    pthread_mutex_lock(&l->lock); /* nobody asked for it: a background read of the next batch */
    l->probes++;
    l->probe_bytes += larder_buf_size(read.buf);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

/* Of an entry that is not there although its time has come, by whoever decides. */
static uint32_t find_size(void *loader, uint64_t id) {
    larder_loader *l = loader;
    larder__scratch *scratch = NULL;
    larder_buf *read = NULL, *small = NULL;
    uint32_t bytes = larder__data_came_to(l->data, id);
    if (bytes)
        return bytes;
    if (larder__loader_scratch(l, &scratch) == 0 && read_whole(l, id, &read) == 0 &&
        larder__shrink_make(l, scratch, read, &small) == 0)
        bytes = (uint32_t)larder_buf_size(small ? small : read);
    larder_buf_unref(&read);
    larder_buf_unref(&small);
    larder__scratch_close(&scratch);
    return bytes;
}

int larder__shrink_open(larder_loader *l, larder__draw_conf *draw) {
    const larder_dataset *about = larder__data_about(l->data);
    if (l->own)
        draw->shrunk_size = find_size;
    if (!l->shrink.on || l->conf.order_only)
        return 0;
    if (!larder__jpeg_can_encode())
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "shrink= needs JPEG, which this build is without: libjpeg-turbo was "
                            "missing (apt install libjpeg62-turbo-dev, then build again)");
    if (about->raw.h && about->raw.c != 1 && about->raw.c != 3)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "shrink= makes JPEGs of 1 or 3 channels, and samples have %u",
                            about->raw.c);
    if (l->shrink.automatic)
        l->shrink.to.side = larder__pipeline_side(l->pipeline);
    draw->shrink = l->shrink.to;
    draw->shrunk_size = find_size;
    return 0;
}
