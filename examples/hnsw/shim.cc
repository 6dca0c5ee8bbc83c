#include "shim.h"

#include <hnswlib/hnswlib.h>

#include <memory>
#include <new>

namespace {

class CallerSpace : public hnswlib::SpaceInterface<float> {
  public:
    explicit CallerSpace(const hnsw_index_conf &conf) : conf_(conf) {}
    size_t get_data_size() override { return conf_.item_bytes; }
    hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
    void *get_dist_func_param() override { return &conf_; }

  private:
    static float distance(const void *a, const void *b, const void *param) {
        const hnsw_index_conf *conf = static_cast<const hnsw_index_conf *>(param);
        return conf->distance(a, b, conf->arg);
    }
    hnsw_index_conf conf_;
};

} // namespace

struct hnsw_index {
    explicit hnsw_index(const hnsw_index_conf &conf)
        : space(conf), index(&space, conf.n, conf.links, conf.width, conf.seed) {}
    CallerSpace space;
    hnswlib::HierarchicalNSW<float> index;
};

int hnsw_index_open(hnsw_index **out, const hnsw_index_conf *conf) {
    *out = nullptr;
    try {
        *out = new hnsw_index(*conf);
        return 0;
    } catch (...) {
        return -1;
    }
}

void hnsw_index_close(hnsw_index **index) {
    delete *index;
    *index = nullptr;
}

int hnsw_index_put(hnsw_index *h, uint32_t id, const void *item) {
    try {
        h->index.addPoint(item, id);
        return 0;
    } catch (...) {
        return -1;
    }
}

size_t hnsw_index_search(hnsw_index *h, const void *item, size_t k, size_t ef, uint32_t *ids,
                         float *distances) {
    try {
        h->index.setEf(ef);
        auto found = h->index.searchKnn(item, k);
        size_t n = 0;
        for (; !found.empty(); found.pop(), n++) {
            distances[n] = found.top().first;
            ids[n] = static_cast<uint32_t>(found.top().second);
        }
        return n;
    } catch (...) {
        return 0;
    }
}

const void *hnsw_index_item(const hnsw_index *h, uint32_t id) {
    auto at = h->index.label_lookup_.find(id);
    if (at == h->index.label_lookup_.end())
        return nullptr;
    return h->index.getDataByInternalId(at->second);
}

size_t hnsw_index_bytes(const hnsw_index *h) {
    size_t n = h->index.max_elements_;
    /* the lowest level, a pointer and a level a node, and about 1/M of them in upper levels */
    return n * (h->index.size_data_per_element_ + sizeof(void *) + sizeof(int) + 32) +
           h->index.cur_element_count * h->index.size_links_per_element_ / h->index.M_;
}
