/* Values on a local disk: larder's folder, one file a value, LMDB, and fio on the very blocks that
 * larder reads, which says what the disk gives. Random reads at one depth, past the page cache or
 * with it dropped before; rounds of all ways take turns. MB/s and CPU time a read (user and system;
 * fio's as it reports it), medians with least and most; "disk": bytes that the disk had to read, of
 * those asked for.
 *
 *     build/bench_disk FOLDER [ROUNDS [DEPTH [MB OF VALUES ["larder fio"]]]]
 *
 * FOLDER is to be on the disk in question; what it makes there goes at the end. */
#include "base/clock.h"
#include "base/hash.h"
#include "disk/disk.h"
#include "measure.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if LARDER_HAVE_LMDB
#include <lmdb.h>
#endif

enum { MOST_ROUNDS = 31, MOST_DEPTH = 256, WAYS = 4 };
enum { BY_LARDER, BY_FIO, BY_FILES, BY_LMDB };
static const char *const way_names[WAYS] = {"larder", "fio", "files", "lmdb"};

static char folder[400];
static const char *only = "larder fio files lmdb"; /* ways to measure; larder always */
static uint32_t size;                              /* of each value */
static uint64_t values, reads, depth = 32, group;  /* group: sent at once, by fio too */
static unsigned char *content;

static void die(const char *what) {
    fprintf(stderr, "bench_disk: %s: %s\n", what, larder_errmsg());
    exit(1);
}
/* No key twice in a round: the page cache of some would have it. */
static uint64_t key_at(uint64_t round, uint64_t i) {
    uint64_t stride = values % 7919 ? 7919 : 7907; /* primes */
    return (larder__mix64(round) + i * stride) % values;
}
static void in_folder(char out[512], const char *name) {
    snprintf(out, 512, "%s/%s", folder, name);
}

static uint64_t usage; /* of what is counted */
static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)path, (void)ftw;
    usage += type == FTW_F || type == FTW_D ? (uint64_t)st->st_blocks * 512 : 0;
    return 0;
}
static double megabytes_below(const char *name) {
    char path[512];
    in_folder(path, name);
    usage = 0;
    nftw(path, count_one, 16, FTW_PHYS);
    return (double)usage / 1e6;
}
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}
static void sync_all(void) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || syncfs(fd) != 0)
        die(folder);
    close(fd);
}
static void sync_file(const char *name) {
    char path[512];
    in_folder(path, name);
    int fd = open(path, O_RDWR);
    if (fd < 0 || fsync(fd) != 0)
        die(path);
    close(fd);
}
/* Bytes that this process had the disk read. */
static double bytes_from_disk(void) {
    char line[128];
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "re");
    while (f && fgets(line, sizeof line, f))
        (void)(sscanf(line, "read_bytes: %llu", &n) == 1);
    if (f)
        fclose(f);
    return (double)n;
}

/* ---- larder ---------------------------------------------------------------------------------- */

static larder__disk *disk;

static void open_disk(void) {
    char path[512];
    in_folder(path, "larder");
    larder__disk_conf conf = {.folder = path,
                              .budget = larder__disk_value_bytes(size) * values * 65 / 64 +
                                        values * 8 + (16 << 20),
                              .identity = size,
                              .keys = values,
                              .name = "bench",
                              .patience = 30};
    if (larder__disk_open(&disk, &conf) < 0)
        die("open");
}

static void write_larder(void) {
    open_disk();
    for (uint64_t k = 0; k < values; k++) {
        larder_buf *b = larder_buf_new(size);
        memcpy(larder_buf_data(b), content + k % 4096, size);
        larder__value v = {.id = k, .size = size, .form = 1, .held = 1};
        larder__disk_put(disk, &v, b);
        larder_buf_unref(&b);
        if (k % ((32u << 20) / larder__disk_value_bytes(size)) == 0) /* half of the queue */
            larder__disk_settle(disk, 60);
    }
    larder__disk_settle(disk, 60);
    sync_file("larder/data");
    larder__disk_figures f;
    larder__disk_read_figures(disk, &f);
    if (f.writes != values)
        die("not all values were written");
}

static larder__disk_fetch *ask(uint64_t key) {
    larder__value v = {.id = key, .size = size, .form = 1, .held = 1};
    larder__disk_fetch *f = larder__disk_fetch_new(&v);
    if (!f)
        die("no memory");
    return f;
}

/* `depth` of them under way, taken as they come, like fio. */
static void read_larder(uint64_t round) {
    larder__disk_fetch *at[MOST_DEPTH];
    size_t under_way = 0;
    for (uint64_t sent = 0, done = 0; done < reads; done++) {
        while (sent < reads && under_way + group <= depth) {
            for (uint64_t i = 0; i < group; i++)
                at[under_way + i] = ask(key_at(round, sent + i));
            larder__disk_send(disk, at + under_way, group);
            under_way += group;
            sent += group;
        }
        size_t i = larder__disk_any(disk, at, under_way);
        larder_buf *b = larder__disk_receive(disk, at[i]);
        if (!b || larder_buf_size(b) != size)
            die("a value is not there");
        larder_buf_unref(&b);
        larder__disk_fetch_unref(&at[i]);
        at[i] = at[--under_way];
    }
}

/* ---- many threads, for those that read one at a time ----------------------------------------- */

static void (*read_one)(uint64_t key, void *into);
static uint64_t the_round;
static _Atomic uint64_t next_read;
static void *read_on(void *arg) {
    void *into = malloc(size + 1);
    for (uint64_t i; (i = next_read++) < reads;)
        read_one(key_at(the_round, i), into);
    free(into);
    return arg;
}
static void read_by_threads(uint64_t round, void (*one)(uint64_t, void *)) {
    pthread_t t[MOST_DEPTH];
    read_one = one;
    the_round = round;
    next_read = 0;
    for (uint64_t i = 0; i < depth; i++)
        if (pthread_create(&t[i], NULL, read_on, NULL) != 0)
            die("no thread");
    for (uint64_t i = 0; i < depth; i++)
        pthread_join(t[i], NULL);
}

/* ---- a file a value -------------------------------------------------------------------------- */

static void file_name(char out[512], uint64_t key) {
    snprintf(out, 512, "%s/files/%03u/%08llu", folder, (unsigned)(key % 256),
             (unsigned long long)key);
}
static void write_files(void) {
    char path[512];
    in_folder(path, "files");
    mkdir(path, 0700);
    for (unsigned i = 0; i < 256; i++) {
        snprintf(path, sizeof path, "%s/files/%03u", folder, i);
        mkdir(path, 0700);
    }
    for (uint64_t k = 0; k < values; k++) {
        file_name(path, k);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || write(fd, content + k % 4096, size) != (ssize_t)size)
            die("no room for the files");
        close(fd);
    }
    sync_all(); /* others' bytes too, but one by one it would be slower still */
}
static void drop_files(void) {
    char path[512];
    for (uint64_t k = 0; k < values; k++) {
        file_name(path, k);
        int fd = open(path, O_RDONLY);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}
static void read_file(uint64_t key, void *into) {
    char path[512];
    file_name(path, key);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, into, size + 1) != (ssize_t)size)
        die("a file is not there");
    close(fd);
}

/* ---- LMDB ------------------------------------------------------------------------------------ */

#if LARDER_HAVE_LMDB
static MDB_env *env;
static MDB_dbi table;
static void must(int rc) {
    if (rc) {
        fprintf(stderr, "bench_disk: lmdb: %s\n", mdb_strerror(rc));
        exit(1);
    }
}
static void open_lmdb(void) {
    char path[512];
    MDB_txn *t;
    in_folder(path, "lmdb");
    mkdir(path, 0700);
    must(mdb_env_create(&env));
    must(mdb_env_set_mapsize(env, (larder__disk_value_bytes(size) + 8192) * values * 2));
    must(mdb_env_set_maxreaders(env, MOST_DEPTH + 8));
    must(mdb_env_open(env, path, MDB_NOSYNC | MDB_NORDAHEAD | MDB_NOTLS, 0600));
    must(mdb_txn_begin(env, NULL, 0, &t));
    must(mdb_dbi_open(t, NULL, MDB_INTEGERKEY, &table));
    must(mdb_txn_commit(t));
}
static void write_lmdb(void) {
    open_lmdb();
    for (uint64_t k = 0; k < values;) {
        MDB_txn *t;
        must(mdb_txn_begin(env, NULL, 0, &t));
        for (int i = 0; i < 64 && k < values; i++, k++) {
            MDB_val key = {sizeof k, &k}, v = {size, content + k % 4096};
            must(mdb_put(t, table, &key, &v, 0));
        }
        must(mdb_txn_commit(t));
    }
    must(mdb_env_sync(env, 1));
}
/* Pages that are mapped stay, so it is opened anew. */
static void drop_lmdb(void) {
    char path[512];
    mdb_env_close(env);
    in_folder(path, "lmdb/data.mdb");
    int fd = open(path, O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    open_lmdb();
}
static void read_lmdb(uint64_t k, void *into) {
    MDB_txn *t;
    MDB_val key = {sizeof k, &k}, v;
    must(mdb_txn_begin(env, NULL, MDB_RDONLY, &t));
    must(mdb_get(t, table, &key, &v));
    memcpy(into, v.mv_data, v.mv_size);
    mdb_txn_abort(t);
}
#endif

/* ---- fio ------------------------------------------------------------------------------------- */

static double number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtod(at + strlen(name) + strspn(at + strlen(name), "\" :"), NULL) : 0;
}
/* MB/s and CPU seconds of as many reads of as many blocks of larder's own file. */
static bool run_fio(uint64_t round, double *rate, double *cpu) {
    char command[1200], text[65536];
    uint64_t block = larder__disk_value_bytes(size);
    snprintf(command, sizeof command,
             "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 " /* its memory in huge pages, as larder's */
             "fio --name=a --filename=%s/larder/data --readonly --rw=randread --bs=%llu "
             "--size=%llu --io_size=%llu --direct=1 --ioengine=io_uring --iodepth=%llu "
             "--iodepth_batch_submit=%llu --norandommap=1 --randseed=%llu --output-format=json "
             "2>/dev/null",
             folder, (unsigned long long)block, (unsigned long long)(block * values),
             (unsigned long long)(block * reads), (unsigned long long)depth,
             (unsigned long long)group, (unsigned long long)round + 1);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    const char *job = strstr(text, "\"read\"");
    if (!f || pclose(f) != 0 || !job || number_after(job, "total_ios") < (double)reads)
        return false;
    double seconds = number_after(job, "\"runtime\"") / 1e3;
    *rate = number_after(job, "bw_bytes") / 1e6;
    *cpu = seconds * (number_after(text, "usr_cpu") + number_after(text, "sys_cpu")) / 100;
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------- */

typedef struct result {
    double rate[MOST_ROUNDS], cpu[MOST_ROUNDS]; /* MB of blocks a second; us a read */
    double from_disk;                           /* of the bytes asked for, the last round's */
    bool there;
} result;

static void one_round(int way, uint64_t round, result *r) {
    double bytes = (double)larder__disk_value_bytes(size) * (double)reads;
    if (!strstr(only, way_names[way]))
        return;
    if (way == BY_FIO) {
        double cpu = 0;
        r->there = run_fio(round, &r->rate[round], &cpu);
        r->cpu[round] = cpu / (double)reads * 1e6;
        return;
    }
#if LARDER_HAVE_LMDB
    if (way == BY_LMDB)
        drop_lmdb();
#else
    if (way == BY_LMDB)
        return;
#endif
    if (way == BY_FILES)
        drop_files();
    double before = bytes_from_disk(), wall = larder__now(), cpu = larder__cpu_seconds();
    if (way == BY_LARDER)
        read_larder(round);
    else if (way == BY_FILES)
        read_by_threads(round, read_file);
#if LARDER_HAVE_LMDB
    else
        read_by_threads(round, read_lmdb);
#endif
    r->rate[round] = bytes / (larder__now() - wall) / 1e6;
    r->cpu[round] = (larder__cpu_seconds() - cpu) / (double)reads * 1e6;
    r->from_disk = (bytes_from_disk() - before) / bytes;
    r->there = true;
}

static void write_by(int way) {
    static const char *const names[WAYS] = {"larder", NULL, "files", "lmdb"};
    void (*writers[WAYS])(void) = {write_larder, NULL, write_files, NULL};
#if LARDER_HAVE_LMDB
    writers[BY_LMDB] = write_lmdb;
#endif
    if (!writers[way] || !strstr(only, way_names[way]))
        return;
    sync_all();
    double wall = larder__now(), cpu = larder__cpu_seconds();
    writers[way]();
    wall = larder__now() - wall;
    cpu = larder__cpu_seconds() - cpu;
    double mb = (double)size * (double)values / 1e6;
    printf("write %-8s %8.0f MB/s %9.1f us CPU a value  %6.3f bytes of disk a byte\n",
           way_names[way], mb / wall, cpu / (double)values * 1e6, megabytes_below(names[way]) / mb);
    fflush(stdout);
}

static void show(const result *r, size_t rounds) {
    double base[2] = {0};
    printf("%-12s %8s %21s %7s %9s %19s %7s %6s\n", "read", "MB/s", "(least .. most)", "of fio",
           "us CPU", "(least .. most)", "of fio", "disk");
    for (int pass = 0; pass < 2; pass++)
        for (int way = 0; way < WAYS; way++) {
            if (!r[way].there)
                continue;
            result s = r[way];
            double rate = measure_median(s.rate, rounds), cpu = measure_median(s.cpu, rounds);
            if (pass == 0 && way == BY_FIO)
                base[0] = rate, base[1] = cpu;
            if (pass == 0)
                continue;
            printf("%-12s %8.0f  (%8.0f .. %6.0f) %6.0f%% %9.1f (%7.1f .. %6.1f) %7.2f %6.2f\n",
                   way_names[way], rate, s.rate[0], s.rate[rounds - 1],
                   base[0] > 0 ? rate / base[0] * 100 : 0, cpu, s.cpu[0], s.cpu[rounds - 1],
                   base[1] > 0 ? cpu / base[1] : 0, way == BY_FIO ? 1 : s.from_disk);
        }
}

static void measure(uint32_t bytes, uint64_t at_once, uint64_t megabytes, size_t rounds) {
    static result results[WAYS];
    memset(results, 0, sizeof results);
    size = bytes;
    group = at_once;
    values = megabytes * 1000000 / larder__disk_value_bytes(bytes);
    reads = values / depth * depth;
    printf("\n%u bytes, %llu values, %llu reads a round, depth %llu, %llu sent at once\n", bytes,
           (unsigned long long)values, (unsigned long long)reads, (unsigned long long)depth,
           (unsigned long long)group);
    for (int way = 0; way < WAYS; way++)
        write_by(way);
    for (size_t round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++)
            one_round(way, round, &results[way]);
    show(results, rounds);
    larder__disk_close(&disk);
#if LARDER_HAVE_LMDB
    if (env)
        mdb_env_close(env);
    env = NULL;
#endif
    static const char *const names[] = {"larder", "files", "lmdb"};
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        in_folder(path, names[i]);
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

int main(int argc, char **argv) {
    size_t rounds = argc > 2 ? (size_t)atoi(argv[2]) : 5;
    uint64_t megabytes = argc > 4 ? (uint64_t)atoll(argv[4]) : 1000;
    only = argc > 5 ? argv[5] : only;
    depth = argc > 3 ? (uint64_t)atoll(argv[3]) : 32;
    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS || depth < 8 || depth > MOST_DEPTH ||
        depth % 8 || strlen(argv[1]) > 300 || !strstr(only, "larder")) {
        fprintf(stderr, "bench_disk FOLDER [ROUNDS [DEPTH, a multiple of 8 [MB [WAYS]]]]\n");
        return 2;
    }
    snprintf(folder, sizeof folder, "%s/larder-bench-disk-XXXXXX", argv[1]);
    content = malloc((1 << 20) + 4096);
    if (!content || !mkdtemp(folder))
        die(folder);
    for (uint64_t i = 0; i + 8 <= (1 << 20) + 4096; i += 8) {
        uint64_t w = larder__mix64(i);
        memcpy(content + i, &w, 8);
    }
    measure(110000, 2, megabytes, rounds);
    measure(3000, 8, megabytes / 2, rounds);
    rmdir(folder);
    free(content);
    return 0;
}
