/* Decoders in a cage: whatever one does costs the sample it was at and no other, which is named;
 * all other samples are as they are without a cage. */
#include "base/hash.h"
#include "cage/cage_lock.h"
#include "check.h"
#include "loader_kit.h"
#include "pictures.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 40, BATCH = 5, EVIL = 17, SIDE = 8, LARGE = 20 << 20 };

static char folder[256], uri[300], hostile[700], hasty[700];

/* A picture of its own for each sample; `evil` is what the worker of tool_hostile_cage.c does. */
static void write_sample_in(const char *in, uint64_t i, const char *evil) {
    char path[400];
    unsigned char bytes[64 + SIDE * SIDE * 3];
    int n = snprintf((char *)bytes, 64, "P6 %s%s\n%d %d 255\n", evil ? "#evil " : "#",
                     evil ? evil : "", SIDE, SIDE);
    for (size_t k = 0; k < (size_t)SIDE * SIDE * 3; k++)
        bytes[(size_t)n + k] = (unsigned char)(i * 31 + k);
    snprintf(path, sizeof path, "%s/class/%02u.ppm", in, (unsigned)i);
    check_write(path, bytes, (size_t)n + (size_t)SIDE * SIDE * 3);
}

static void write_sample(uint64_t i, const char *evil) { write_sample_in(folder, i, evil); }

static int set_up(void **state) {
    (void)state;
    const char *build = getenv("LARDER_BUILD");
    char path[400];
    check_folder(folder);
    snprintf(path, sizeof path, "%s/class", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    for (uint64_t i = 0; i < N; i++)
        write_sample(i, NULL);
    snprintf(uri, sizeof uri, "dir:%s", folder);
    snprintf(hostile, sizeof hostile, "seconds=1000,memory=64MiB,program=%s/tool_hostile_cage",
             build ? build : "build/test");
    snprintf(hasty, sizeof hasty, "seconds=1%s", strchr(hostile, ','));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(folder);
    return 0;
}

static larder_loader_conf conf_of(const char *cage) {
    larder_loader_conf c = kit_conf(uri, "lru");
    c.cache = "0";
    c.batch = BATCH;
    c.epochs = 1;
    c.on_bad = LARDER_BAD_SKIP;
    c.cage = cage;
    return c;
}

/* Of each sample that came: a number for its pixels; 0: it did not. */
typedef struct seen {
    uint64_t pixels[N];
    size_t count;
    larder_bad bad;
    size_t bad_count;
} seen;

static void run(const larder_loader_conf *c, seen *s) {
    larder_loader *l = NULL;
    const larder_batch *b;
    int rc;
    memset(s, 0, sizeof *s);
    check_ok(larder_loader_open(&l, c));
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END) {
        if (rc == LARDER_END_EPOCH)
            continue;
        size_t row = (size_t)b->shape.h * b->shape.w * b->shape.c;
        for (size_t i = 0; i < b->n; i++, s->count++)
            s->pixels[b->served[i]] = larder__hash_bytes(1, (const char *)b->x + i * row, row) | 1;
        check_ok(larder_loader_done(l, b));
    }
    check_ok(rc);
    larder_bad bad = {.size = sizeof bad};
    for (; larder_loader_bad(l, s->bad_count, &bad) == 0; s->bad_count++)
        s->bad = bad;
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, 0, &f));
    assert_int_equal(f.bad, s->bad_count);
    larder_loader_close(&l);
}

/* The pixels of a sample depend on its place in the order, which is the same in all runs. */
static void costs_one_in(const char *cage, const char *evil, const char *why) {
    larder_loader_conf plain = conf_of(NULL), caged = conf_of(cage);
    seen want, got;
    write_sample(EVIL, evil);
    run(&plain, &want);
    assert_int_equal(want.count, N);
    run(&caged, &got);
    if (got.bad_count != 1 || got.count != N - 1 || got.bad.id != EVIL)
        fail_msg("%s: %zu came, %zu were bad: %s", evil, got.count, got.bad_count, got.bad.why);
    if (!strstr(got.bad.why, "17.ppm") || !strstr(got.bad.why, why) || strchr(got.bad.why, 0x1b))
        fail_msg("%s: \"%s\" does not say \"%s\"", evil, got.bad.why, why);
    got.pixels[EVIL] = want.pixels[EVIL];
    assert_memory_equal(got.pixels, want.pixels, sizeof want.pixels);
    write_sample(EVIL, NULL);
}

/* No time is up here, so that a busy machine changes nothing. */
static void costs_one(const char *evil, const char *why) { costs_one_in(hostile, evil, why); }

/* ---- what a decoder may do ------------------------------------------------------------------- */

static void test_crashes(void **state) {
    (void)state;
    costs_one("head segv", "signal 11");
    costs_one("pixels segv", "signal 11");
    bool plain = larder__cage_limits_memory(); /* a sanitizer ends in its own way, and is caught */
    costs_one("head abort", plain ? "signal 6" : "its decoder was ended");
    costs_one("pixels exit", plain ? "ended with exit status 0" : "its decoder ");
    costs_one("pixels overrun", "signal 11");
}

static void test_runs_away(void **state) {
    (void)state;
    costs_one_in(hasty, "head loop", "ended after 1 seconds");
    costs_one_in(hasty, "pixels loop", "ended after 1 seconds");
}

/* The one limit that is of the clock on the wall. There is no other sample, so that it can be short
 * and none that is innocent meets it on a busy machine. */
static void test_stands_still(void **state) {
    (void)state;
    char place[256], class[300], source[300], curt[700];
    check_folder(place);
    snprintf(class, sizeof class, "%s/class", place);
    assert_int_equal(mkdir(class, 0700), 0);
    write_sample_in(place, 0, "pixels stand");
    snprintf(source, sizeof source, "dir:%s", place);
    snprintf(curt, sizeof curt, "seconds=0.05%s", strchr(hostile, ','));
    larder_loader_conf c = conf_of(curt);
    larder_loader *l = NULL;
    const larder_batch *b;
    c.source = source;
    c.on_bad = LARDER_BAD_FAIL;
    check_ok(larder_loader_open(&l, &c));
    assert_int_equal(larder_loader_next(l, &b), LARDER_E_FORMAT);
    if (!strstr(larder_errmsg(), "00.ppm): its decoder was ended after 0.05 seconds of nothing"))
        fail_msg("%s", larder_errmsg());
    larder_loader_close(&l);
    check_folder_remove(place);
}

static void test_takes_memory(void **state) {
    (void)state;
    if (!larder__cage_limits_memory())
        skip_since("a sanitizer's own memory is beyond any limit");
    costs_one("pixels allocate", "signal 6");
    costs_one("pixels reserve", "signal 6");
}

static void test_reaches_out(void **state) {
    (void)state;
    static const char *const deeds[] = {"open",  "socket", "execve", "ptrace", "signal",
                                        "fork",  "prctl",  "code",   "share",  "shrink",
                                        "stack", "poison", "inherit"};
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        char evil[32];
        snprintf(evil, sizeof evil, "%s %s", i % 2 ? "head" : "pixels", deeds[i]);
        costs_one(evil, "it tried what its cage forbids");
    }
}

static void test_ends_everybody(void **state) {
    (void)state;
    if (geteuid() == 0)
        skip_since("as root's it would be everybody's end if the cage did not hold");
    costs_one("head kill", "it tried what its cage forbids");
}

static void test_finds_nothing(void **state) {
    (void)state;
    enum { DESCRIPTOR = 57 }; /* of tool_hostile_cage.c */
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], DESCRIPTOR), DESCRIPTOR);
    assert_int_equal(setenv("LARDER_CAGE_SECRET", "key", 1), 0);
    costs_one("head environ", "signal 11");
    costs_one("head descriptor", "signal 11");
    costs_one("head scribble", "signal 11");
    unsetenv("LARDER_CAGE_SECRET");
    close(DESCRIPTOR);
    close(ends[0]);
    close(ends[1]);
}

static void test_lies(void **state) {
    (void)state;
    costs_one("head short", "something else than was asked");
    costs_one("pixels short", "something else than was asked");
    costs_one("head other", "something else than was asked");
    costs_one("pixels positive", "something else than was asked");
    costs_one("head giant", "answered");
    costs_one("pixels wide", "pixels that are none");
    costs_one("pixels backwards", "pixels that are none");
    costs_one("pixels outside", "pixels that are none");
    costs_one("pixels less", "pixels that are none");
    costs_one("head tearful", "more memory than its cage has");
    costs_one("head escape", "\\x1b");
}

/* Answers that nobody asked for meet the next question: its sample is asked for again. */
static void test_answers_twice(void **state) {
    (void)state;
    larder_loader_conf plain = conf_of(NULL), caged = conf_of(hostile);
    seen want, got;
    write_sample(EVIL, "pixels twice");
    run(&plain, &want);
    run(&caged, &got);
    assert_true(got.bad_count <= 1 && (got.bad_count == 0 || got.bad.id == EVIL));
    got.pixels[EVIL] = want.pixels[EVIL];
    assert_memory_equal(got.pixels, want.pixels, sizeof want.pixels);
    write_sample(EVIL, NULL);
}

/* One that answers what it has not read: it spoils what it says, but nobody waits for it to read.
 */
static void test_answers_ahead(void **state) {
    (void)state;
    larder_loader_conf c = conf_of(hostile);
    larder_loader *l = NULL;
    const larder_batch *b;
    int rc;
    write_sample(EVIL, "head ahead");
    c.epochs = 12; /* more questions than a socket has room for */
    c.threads = 1;
    check_ok(larder_loader_open(&l, &c));
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END)
        if (rc != LARDER_END_EPOCH)
            check_ok(larder_loader_done(l, b));
    check_ok(rc);
    larder_loader_close(&l);
    write_sample(EVIL, NULL);
}

static void test_many_crashes(void **state) {
    (void)state;
    larder_loader_conf plain = conf_of(NULL), caged = conf_of(hostile);
    seen want, got;
    for (uint64_t i = 0; i < N; i++)
        if (i != EVIL)
            write_sample(i, i % 2 ? "pixels segv" : "head segv");
    plain.batch = caged.batch = N;
    run(&plain, &want);
    run(&caged, &got);
    assert_int_equal(got.bad_count, N - 1);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.pixels[EVIL], want.pixels[EVIL]);
    for (uint64_t i = 0; i < N; i++)
        write_sample(i, NULL);
}

static void test_fail_and_replace(void **state) {
    (void)state;
    larder_loader_conf c = conf_of(hostile);
    larder_loader *l = NULL;
    const larder_batch *b;
    int rc;
    seen got;
    write_sample(EVIL, "pixels segv");
    c.on_bad = LARDER_BAD_FAIL;
    check_ok(larder_loader_open(&l, &c));
    while ((rc = larder_loader_next(l, &b)) == 0)
        check_ok(larder_loader_done(l, b));
    assert_int_equal(rc, LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "17.ppm): its decoder was ended by signal 11"));
    larder_loader_close(&l);
    c.on_bad = LARDER_BAD_REPLACE;
    run(&c, &got);
    assert_int_equal(got.count, N);
    assert_int_equal(got.bad_count, 1);
    assert_int_equal(got.bad.id, EVIL);
    write_sample(EVIL, NULL);
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Processes that `parent` has started, of this name; how many there are. */
static size_t workers_of(pid_t parent, pid_t *out, size_t most) {
    size_t n = 0;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) && n < most;) {
        char path[300], line[300] = "", *end;
        long long up;
        FILE *f;
        snprintf(path, sizeof path, "/proc/%.200s/stat", e->d_name);
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !(f = fopen(path, "r")))
            continue;
        if (fgets(line, sizeof line, f) && (end = strrchr(line, ')')) &&
            sscanf(end, ") %*c %lld", &up) == 1 && up == parent && end[2] != 'Z')
            out[n++] = (pid_t)atoll(e->d_name);
        fclose(f);
    }
    closedir(d);
    return n;
}

static void test_killed_from_outside(void **state) {
    (void)state;
    larder_loader_conf plain = conf_of(NULL), caged = conf_of("on");
    uint64_t want[64], got[64];
    pid_t workers[64];
    larder_loader *l = NULL;
    plain.epochs = caged.epochs = 4;
    check_ok(larder_loader_open(&l, &plain));
    size_t count = kit_run(l, want, 64);
    larder_loader_close(&l);
    check_ok(larder_loader_open(&l, &caged));
    assert_int_equal(kit_run(l, got, 10), 10);
    size_t n = workers_of(getpid(), workers, 64);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        kill(workers[i], SIGKILL);
    assert_int_equal(kit_run(l, got + 10, 54), count - 10);
    larder_loader_close(&l);
    assert_memory_equal(got, want, count * sizeof *got);
    assert_int_equal(workers_of(getpid(), workers, 64), 0);
}

static bool gone(pid_t p) {
    char path[64], line[300] = "", *end;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)p);
    FILE *f = fopen(path, "r");
    if (!f)
        return true;
    bool dead = !fgets(line, sizeof line, f) || ((end = strrchr(line, ')')) && end[2] == 'Z');
    fclose(f);
    return dead;
}

/* A job that is at a sample which takes for ever. */
static void job(int tell, const char *cage) {
    larder_loader_conf c = conf_of(cage);
    larder_loader *l = NULL;
    const larder_batch *b;
    must(larder_loader_open(&l, &c) == 0);
    must(write(tell, "", 1) == 1);
    while (larder_loader_next(l, &b) == 0)
        must(larder_loader_done(l, b) == 0);
    _exit(0);
}

static void test_job_is_killed(void **state) {
    (void)state;
    int ends[2];
    char byte, patient[800];
    pid_t workers[64];
    size_t n = 0;
    snprintf(patient, sizeof patient, "seconds=1000%s", strchr(hostile, ','));
    for (uint64_t i = 0; i < N; i++)
        write_sample(i, i % 2 ? "pixels loop" : "pixels stand");
    assert_int_equal(pipe(ends), 0);
    pid_t p = fork();
    assert_true(p >= 0);
    if (p == 0)
        job(ends[1], patient);
    close(ends[1]); /* or one that ended would be waited for */
    assert_int_equal(read(ends[0], &byte, 1), 1);
    while (n < 2) /* one for each of its threads */
        n = workers_of(p, workers, 64);
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    for (size_t i = 0; i < n; i++)
        while (!gone(workers[i])) /* the runner's time limit ends a test that waits in vain */
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    close(ends[0]);
    for (uint64_t i = 0; i < N; i++)
        write_sample(i, NULL);
}

/* Closing does not wait for a decoder that runs away. */
static void test_close_in_the_middle(void **state) {
    (void)state;
    char patient[800];
    pid_t workers[64];
    larder_loader *l = NULL;
    const larder_batch *b;
    snprintf(patient, sizeof patient, "seconds=1000000%s", strchr(hostile, ','));
    larder_loader_conf c = conf_of(patient);
    c.patience = 0.05;
    for (uint64_t i = 0; i < N; i++)
        write_sample(i, "pixels loop");
    check_ok(larder_loader_open(&l, &c));
    assert_int_equal(larder_loader_next(l, &b), LARDER_NOT_YET);
    larder_loader_close(&l);
    assert_int_equal(workers_of(getpid(), workers, 64), 0);
    for (uint64_t i = 0; i < N; i++)
        write_sample(i, NULL);
}

/* Children of the program's own are its own, and it may forget or wait for all of them. */
static void test_other_children(void **state) {
    (void)state;
    int status = 0;
    pid_t p = fork();
    assert_true(p >= 0);
    if (p == 0)
        _exit(3);
    costs_one("pixels segv", "signal 11");
    assert_int_equal(waitpid(p, &status, 0), p);
    assert_int_equal(WEXITSTATUS(status), 3);
    signal(SIGCHLD, SIG_IGN);
    costs_one("pixels segv", "its decoder has ended");
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
}

/* ---- the same as without --------------------------------------------------------------------- */

static void same_as_plain(const larder_loader_conf *given) {
    larder_loader_conf c = *given;
    uint64_t want[64], got[64];
    larder_loader *l = NULL;
    c.epochs = 2;
    c.cage = NULL;
    check_ok(larder_loader_open(&l, &c));
    size_t count = kit_run(l, want, 64);
    larder_loader_close(&l);
    assert_true(count > 0 && count < 64);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        c.cage = "on";
        c.threads = threads;
        check_ok(larder_loader_open(&l, &c));
        assert_int_equal(kit_run(l, got, 64), count);
        larder_loader_close(&l);
        assert_memory_equal(got, want, count * sizeof *got);
    }
    larder_loader *rest = kit_resume(&c, count / 2, want, count);
    larder_loader_close(&rest);
}

static void write_picture(const char *in, const char *name, unsigned char *bytes, size_t size) {
    char path[700];
    if (!bytes)
        return; /* this build has no such library */
    snprintf(path, sizeof path, "%s/%s", in, name);
    check_write(path, bytes, size);
    free(bytes);
}

static void test_formats(void **state) {
    (void)state;
    char place[256], class[300], name[64], source[300];
    size_t size;
    check_folder(place);
    snprintf(class, sizeof class, "%s/class", place);
    assert_int_equal(mkdir(class, 0700), 0);
    for (uint32_t i = 0; i < 6; i++) {
        check_jpeg_conf j = {.w = 90 + 40 * i, .h = 120, .channels = 3, .seed = i};
        j.h_samp = j.v_samp = 1 + (int)(i % 2);
        j.progressive = i % 3 == 1;
        j.restart = i % 3 == 2 ? 3 : 0;
        size = 0;
        unsigned char *bytes = check_jpeg(&j, &size);
        snprintf(name, sizeof name, "%u.jpg", i);
        write_picture(class, name, bytes, size);
        bytes = check_png(50 + i, 60, i % 2 ? 3 : 2, 8, i % 3 == 0, &size);
        snprintf(name, sizeof name, "%u.png", i);
        write_picture(class, name, bytes, size);
        char *pnm = malloc(40000);
        assert_non_null(pnm);
        size = (size_t)snprintf(pnm, 64, "P5 70 %u 255\n", 80 + i);
        memset(pnm + size, (int)(40 * i), 39000);
        snprintf(name, sizeof name, "%u.pgm", i);
        write_picture(class, name, (unsigned char *)pnm, size + 70 * (80 + (size_t)i));
    }
    char *large = calloc(1, LARGE); /* more than a worker has room for at first */
    assert_non_null(large);
    memcpy(large, "P5 60 50 255\n", 13);
    write_picture(class, "large.pgm", (unsigned char *)large, LARGE);
    snprintf(source, sizeof source, "dir:%s", place);
    larder_loader_conf c = kit_conf(source, "minio");
    c.batch = 4;
    c.augment = "rrc:size=24|flip|jitter:brightness=0.4";
    same_as_plain(&c);
    c.cache = "4MiB:20/40/40"; /* as pixels and as rows, too */
    same_as_plain(&c);
    c.augment = "resize:h=20,w=20";
    c.views = 2;
    c.cache = "20%";
    same_as_plain(&c);
    check_folder_remove(place);
}

static void test_real_pictures(void **state) {
    (void)state;
    char tar[512], source[600];
    if (!check_shared("jpeg/flowers102-0000.tar", tar))
        skip_since("no shared pictures here, or a build without JPEG");
    snprintf(source, sizeof source, "tar:%s", tar);
    larder_loader_conf c = kit_conf(source, "quiver");
    c.augment = "rrc:size=64|flip|normalize:preset=imagenet";
    c.dtype = LARDER_F32;
    same_as_plain(&c);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void refused(const char *cage, int code, const char *why) {
    larder_loader_conf c = conf_of(cage);
    larder_loader *l = NULL;
    assert_int_equal(larder_loader_open(&l, &c), code);
    if (!strstr(larder_errmsg(), why))
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", cage, larder_errmsg(), why);
}

static void test_refused(void **state) {
    (void)state;
    refused("program=/nonexistent/larder", LARDER_E_NOTFOUND, "is no program");
    refused("program=/bin/true", LARDER_E_UNSUPPORTED, "/bin/true");
    refused("memry=1GiB", LARDER_E_ARGS, "memory");
    refused("seconds=0", LARDER_E_RANGE, "seconds");
    refused("memory=0", LARDER_E_RANGE, "memory=0");
    refused("memory=20", LARDER_E_RANGE, "1MiB"); /* 20 bytes: a unit was forgotten */
    refused("yes", LARDER_E_ARGS, "yes");
    larder_loader_conf c = conf_of("off");
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    larder_loader_close(&l);
}

/* In a process where a call to the kernel fails so, as on a kernel that has none. */
static int open_without(const char *cage, long call, int error, char *why, size_t cap) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog all = {sizeof steps / sizeof *steps, steps};
    int ends[2], code = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t p = fork();
    assert_true(p >= 0);
    if (p == 0) {
        larder_loader_conf c = conf_of(cage);
        larder_loader *l = NULL;
        must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0);
        code = larder_loader_open(&l, &c);
        const char *said = code < 0 ? larder_errmsg() : "";
        must(write(ends[1], &code, sizeof code) == sizeof code);
        must(write(ends[1], said, strlen(said) + 1) > 0);
        larder_loader_close(&l);
        _exit(0);
    }
    close(ends[1]);
    memset(why, 0, cap);
    assert_int_equal(read(ends[0], &code, sizeof code), sizeof code);
    assert_true(read(ends[0], why, cap - 1) > 0);
    close(ends[0]);
    waitpid(p, NULL, 0);
    return code;
}

static void test_no_lock(void **state) {
    (void)state;
    char why[1000];
    assert_int_equal(open_without("on", SYS_seccomp, ENOSYS, why, sizeof why),
                     LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(why, "this kernel has no seccomp for it"));
    assert_int_equal(open_without("on", SYS_seccomp, EINVAL, why, sizeof why),
                     LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(why, "this kernel has no seccomp for it"));
    assert_int_equal(open_without("on", SYS_capset, EPERM, why, sizeof why), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(why, "rights of root"));
    if (larder__cage_limits_memory()) { /* a sanitizer asks for limits before */
        assert_int_equal(open_without("on", SYS_prlimit64, EPERM, why, sizeof why),
                         LARDER_E_UNSUPPORTED);
        assert_non_null(strstr(why, "limit"));
    }
    assert_int_equal(open_without("on", 444, ENOSYS, why, sizeof why), 0); /* landlock: an extra */
    assert_int_equal(open_without("on", SYS_memfd_create, EMFILE, why, sizeof why), LARDER_E_NOMEM);
    assert_non_null(strstr(why, "memory for a cage"));
}

/* Little room for addresses (ulimit -v): a cage takes what it needs, not what it may need. */
static void test_few_addresses(void **state) {
    (void)state;
    if (!larder__cage_limits_memory())
        skip_since("a sanitizer's own memory is beyond any limit");
    pid_t p = fork();
    assert_true(p >= 0);
    if (p == 0) {
        const struct rlimit few = {(rlim_t)2 << 30, (rlim_t)2 << 30};
        must(setrlimit(RLIMIT_AS, &few) == 0);
        larder_loader_conf c = conf_of("memory=256MiB");
        larder_loader *l = NULL;
        const larder_batch *b;
        c.threads = 1;
        must(larder_loader_open(&l, &c) == 0);
        int rc;
        while ((rc = larder_loader_next(l, &b)) == 0)
            must(b->n == BATCH && larder_loader_done(l, b) == 0);
        must(rc == LARDER_END_EPOCH || rc == LARDER_END);
        larder_loader_close(&l);
        _exit(0);
    }
    int status = 1;
    waitpid(p, &status, 0);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_runs_away),
        cmocka_unit_test(test_stands_still),
        cmocka_unit_test(test_takes_memory),
        cmocka_unit_test(test_reaches_out),
        cmocka_unit_test(test_ends_everybody),
        cmocka_unit_test(test_finds_nothing),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_answers_twice),
        cmocka_unit_test(test_answers_ahead),
        cmocka_unit_test(test_many_crashes),
        cmocka_unit_test(test_fail_and_replace),
        cmocka_unit_test(test_killed_from_outside),
        cmocka_unit_test(test_job_is_killed),
        cmocka_unit_test(test_close_in_the_middle),
        cmocka_unit_test(test_other_children),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_real_pictures),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_lock),
        cmocka_unit_test(test_few_addresses),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
