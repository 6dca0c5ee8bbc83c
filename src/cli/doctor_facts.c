#include "cli/doctor_facts.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/host.h"
#include "base/keep.h"
#include "base/limit.h"
#include "base/mem.h"
#include "gpu/gpu_jpeg.h"
#include "profile/bench_machine.h"
#include "redis/conn.h"
#include "source/ring.h"
#include "unix/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void take(larder__fact *f, int rc, const char *there) {
    f->there = rc >= 0;
    snprintf(f->says, sizeof f->says, "%s", rc >= 0 ? there : larder_errmsg());
}

/* ---- the machine ----------------------------------------------------------------------------- */

static uint64_t available_memory(void) {
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (uint64_t)kib << 10;
}

static void look_at_machine(larder__facts *f) {
    struct rlimit files = {0};
    larder__host_say(f->host, sizeof f->host);
    f->cores = larder__cpu_count();
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    f->machine_cores = all > 0 ? (uint32_t)all : f->cores;
    f->memory = larder__memory_limit();
    f->machine_memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    f->free_memory = available_memory();
    f->most_files = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
    if (getloadavg(&f->load, 1) != 1)
        f->load = NAN;
#if defined(__x86_64__)
    f->wide = __builtin_cpu_supports("avx2");
#else
    f->wide = true;
#endif
    larder__ring *ring = NULL;
    take(&f->uring, larder__ring_open(&ring), "many files in one call");
    larder__ring_close(&ring);
}

static void name_file_system(larder__place *p) {
    static const struct {
        unsigned long type;
        const char *name;
        bool network;
    } known[] = {
        {0xef53, "ext4", false},        {0x58465342, "xfs", false},   {0x9123683e, "btrfs", false},
        {0x794c7630, "overlay", false}, {0x01021994, "tmpfs", false}, {0x2fc12fc1, "zfs", false},
        {0x6969, "nfs", true},          {0xff534d42, "cifs", true},   {0xfe534d42, "smb", true},
        {0x65735546, "fuse", true},     {0x0bd00bd0, "lustre", true}, {0x01021997, "9p", true},
        {0x00c36400, "ceph", true},     {0x47504653, "gpfs", true}};
    struct statfs s;
    if (statfs(p->path, &s) != 0)
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((unsigned long)s.f_type == known[i].type) {
            snprintf(p->kind, sizeof p->kind, "%s", known[i].name);
            p->network = known[i].network;
        }
}

/* The folder, or the nearest one above it that is there already. */
static int look_at_place(larder__place *p, const char *path) {
    struct statvfs v;
    snprintf(p->path, sizeof p->path, "%s", path);
    while (statvfs(p->path, &v) != 0) {
        char *slash = strrchr(p->path, '/');
        if (errno != ENOENT || !slash || !p->path[1])
            return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
        slash[slash == p->path] = '\0'; /* the last one that is left is the root */
    }
    p->free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    p->all_bytes = (uint64_t)v.f_blocks * v.f_frsize;
    p->writable = access(p->path, W_OK) == 0;
    name_file_system(p);
    return 0;
}

static void look_at_keep(larder__place *p, char why[LARDER__WHY]) {
    char path[4096];
    if (larder__keep_path("x", path, sizeof path) < 0) {
        snprintf(why, LARDER__WHY, "%s", larder_errmsg());
        return;
    }
    *strrchr(path, '/') = '\0';
    if (look_at_place(p, path) < 0)
        p->path[0] = '\0';
}

/* ---- beside it ------------------------------------------------------------------------------- */

const char *const larder__cuda_names[] = {"nvrtc", "nvjpeg"};

static void look_at_cuda(larder__facts *f) {
    void *library;
    take(&f->cuda[0], larder__gpu_compiler(&library), "CUDA's compiler");
    take(&f->cuda[1], larder__jpegs_library(&library), "CUDA's decoder of JPEGs");
}

static void look_at_gpu(larder__facts *f) {
    larder__gpu *gpu = NULL;
    char says[LARDER__WHY] = "";
    size_t left, all = 0;
    int rc = larder__gpu_open(&gpu, 0);
    if (rc == 0) {
        const larder__gpu_about *a = larder__gpu_about_it(gpu);
        larder__gpu_free_bytes(gpu, &left, &all);
        snprintf(says, sizeof says, "%s, sm_%d%d, %d multiprocessors; driver for CUDA %d.%d",
                 a->name, a->major, a->minor, a->processors, a->driver / 1000,
                 a->driver % 1000 / 10);
    }
    take(&f->gpu, rc, says);
    f->gpu_memory = all;
    larder__gpu_close(&gpu);
    look_at_cuda(f);
}

static void look_at_daemon(larder__fact *f) {
    larder__door door;
    char *json = NULL, says[LARDER__WHY] = "";
    int rc = larder__door_usual(&door, false);
    if (rc == 0 && (rc = larder__attach_status(&door, &json)) == 0)
        snprintf(says, sizeof says, "answers at %s", door.path);
    take(f, rc, says);
    larder__free(json);
}

#if LARDER_HAVE_HIREDIS
static int look_at_redis(larder__fact *f, const char *address) {
    const char *at = address ? address : "redis://127.0.0.1";
    char shown[200];
    larder__redis_conf conf = {.timeout = 1};
    larder__conn c = {0};
    larder__cache_mask(at, shown, sizeof shown);
    if (!larder__redis_named(at))
        return larder__fail(LARDER_E_ARGS, "--redis \"%.60s\": write it as redis://host", shown);
    int rc = larder__redis_read(&conf, at, &at);
    if (rc < 0)
        return larder__fail_in(rc, "--redis");
    rc = larder__conn_open(&c, &conf, conf.hosts[0].name, conf.hosts[0].port, false);
    take(f, rc, shown);
    larder__conn_close(&c);
    return 0;
}
#else
static int look_at_redis(larder__fact *f, const char *address) {
    (void)address;
    snprintf(f->says, sizeof f->says, "this build has no Redis (Debian: libhiredis-dev)");
    return 0;
}
#endif

/* ---- Python ---------------------------------------------------------------------------------- */

/* What comes through the pipe until its end, or until the time is over. */
static size_t read_until(int fd, char *out, size_t cap, double end) {
    size_t n = 0;
    for (double left; n + 1 < cap && (left = end - larder__now()) > 0;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, (int)(left * 1000) + 1) <= 0)
            continue;
        ssize_t got = read(fd, out + n, cap - 1 - n);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    out[n] = '\0';
    return n;
}

static int spawn_python(pid_t *pid, int to) {
    static char program[] = "python3", how[] = "-c",
                /* -c looks into the current folder first, which may be a stranger's */
        code[] = "import sys\n"
                 "sys.path[:] = [p for p in sys.path if p]\n"
                 "import importlib.util as u\n"
                 "import larder, larder._lib\n"
                 "has = [n for n in ('torch', 'numpy', 'sklearn') if u.find_spec(n)]\n"
                 "print(larder.__version__, 'with', larder._lib.path() + ';', "
                 "', '.join(has) or 'no torch, no numpy')\n";
    char *argv[] = {program, how, code, NULL};
    posix_spawn_file_actions_t files;
    if (posix_spawn_file_actions_init(&files) != 0)
        return LARDER_E_NOMEM;
    posix_spawn_file_actions_adddup2(&files, to, 1);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&files, to, 2);
    int err = posix_spawnp(pid, program, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return err ? larder__fail(LARDER_E_NOTFOUND, "python3: %s", strerror(err)) : 0;
}

/* Its last line: of a traceback the one that says what is wrong. */
static const char *last_line(char *text) {
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

static void look_at_python(larder__fact *f) {
    enum { PATIENCE = 20 }; /* seconds */
    char said[4096] = "";
    int ends[2], status = 1;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(f->says, sizeof f->says, "%s", strerror(errno));
        return;
    }
    int rc = spawn_python(&pid, ends[1]);
    close(ends[1]);
    if (rc == 0) {
        read_until(ends[0], said, sizeof said, larder__now() + PATIENCE);
        kill(pid, SIGKILL); /* of a zombie nothing comes of it */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        const char *line = last_line(said);
        rc = strstr(line, " with ") ? 0 : larder__fail(LARDER_E_NOTFOUND, "python3: %.200s", line);
        take(f, rc, line);
    } else
        take(f, rc, "");
    close(ends[0]);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void note(larder__facts *f, int rc) {
    if (rc < 0 && !f->unmeasured[0])
        snprintf(f->unmeasured, sizeof f->unmeasured, "%s", larder_errmsg());
}

void larder__facts_measure(larder__facts *f, double seconds) {
    larder__disk_bench disk = {.read = (double)NAN, .random = (double)NAN};
    if (!(seconds > 0))
        return;
    note(f, larder__bench_decode(seconds * 0.4, &f->decode));
    note(f, larder__bench_copy(seconds * 0.2, &f->copy));
    int rc = larder__bench_disk(f->here.path, seconds * 0.4, &disk);
    note(f, rc);
    if (rc == 0) {
        f->disk_read = disk.read;
        f->disk_random = disk.random;
        f->disk_direct = disk.direct;
    }
}

int larder__facts_gather(larder__facts *f, const larder__checks *c) {
    *f = (larder__facts){0};
    f->decode = f->copy = f->disk_read = f->disk_random = (double)NAN;
    char whole[PATH_MAX];
    const char *folder = c->folder ? c->folder : ".";
    struct stat st;
    if (stat(folder, &st) != 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return larder__fail(LARDER_E_ARGS, "%s is no folder", folder);
    int rc = look_at_place(&f->here, realpath(folder, whole) ? whole : folder);
    if (rc < 0)
        return rc;
    look_at_machine(f);
    look_at_keep(&f->keep, f->unkept);
    look_at_gpu(f);
    look_at_daemon(&f->daemon);
    if ((rc = look_at_redis(&f->redis, c->redis)) < 0)
        return rc;
    look_at_python(&f->python);
    return 0;
}
