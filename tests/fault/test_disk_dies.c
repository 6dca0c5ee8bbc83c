/* A disk that fails for good under a folder in use, as the kernel has it: a loop device whose
 * memory is taken away, so that every read and write of it is an error. Mapped tables that are not
 * in the page cache are then SIGBUS to whoever looks at them. Root only, and where there are loop
 * devices and ext4. */
#include "check.h"

#include "disk/disk_folder.h"
#include "disk_kit.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

enum { MIB = 1 << 20, KEYS = 1 << 20, PATIENCE = 60, SIZE = 5000 };

static char place[256];
static int memory = -1, device = -1;

/* False: not to be had here. */
static bool make_disk(void) {
    char path[64], command[200];
    memory = memfd_create("disk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (memory < 0 || control < 0 || ftruncate(memory, 64 * MIB) != 0)
        return false;
    struct loop_config how = {
        .fd = (uint32_t)memory, .block_size = 4096, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
    bool mine = false;
    for (int attempt = 0; attempt < 10 && !mine; attempt++) { /* others may be faster */
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        snprintf(path, sizeof path, "/dev/loop%d", number);
        if (device >= 0)
            close(device);
        device = number >= 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
        mine = device >= 0 && ioctl(device, LOOP_CONFIGURE, &how) == 0;
    }
    close(control);
    if (!mine)
        return false;
    snprintf(command, sizeof command,
             "mkfs.ext4 -q -O ^has_journal -E nodiscard,lazy_itable_init=0 %s >/dev/null 2>&1",
             path);
    return system(command) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(path, place, "ext4", 0, NULL) == 0;
}

static int set_up(void **state) {
    (void)state;
    check_folder(place);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    umount2(place, MNT_DETACH);
    close(device);
    close(memory);
    check_folder_remove(place);
    return 0;
}

/* Nothing of the index stays in memory: not in this process, and then not in the page cache. */
static void forget_index(void) {
    char line[600], path[400] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char *name = strchr(line, '/');
        if (!name || !strstr(name, ".index\n") || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        assert_int_equal(madvise((void *)from, to - from, MADV_DONTNEED), 0);
        snprintf(path, sizeof path, "%.*s", (int)strcspn(name, "\n"), name);
    }
    fclose(maps);
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_int_equal(fsync(file), 0);
    assert_int_equal(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(file);
}

static void fail_disk(void) {
    assert_int_equal(ftruncate(memory, 0), 0);
    assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_GROW), 0);
}

static void test_disk_dies(void **state) {
    (void)state;
    char folder[300], note[600];
    if (geteuid() != 0 || !make_disk()) {
        print_message("no loop device with ext4 for this test\n");
        skip();
    }
    snprintf(folder, sizeof folder, "%s/cache", place);
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, 32 * MIB, 1, KEYS);
    check_ok(larder__disk_open(&d, &conf));
    disk_put(d, 1, 0, SIZE);
    disk_put(d, 1, KEYS - 1, SIZE); /* a page that was never written is not read from the disk */
    assert_true(larder__disk_settle(d, PATIENCE));
    forget_index();
    larder_buf *b = disk_get(d, 0);
    assert_true(b && disk_same(1, 0, SIZE, b));
    larder_buf_unref(&b);
    fail_disk();
    assert_null(disk_get(d, KEYS - 1)); /* its word lies on a page that cannot be had any more */
    disk_put(d, 1, KEYS - 2, SIZE);
    larder__disk_settle(d, PATIENCE);
    larder__disk_note(d, note, sizeof note);
    if (!strstr(note, folder) || !strstr(note, "a table there cannot be read any more"))
        fail_msg("\"%s\"", note);
    assert_false(larder__disk_has(d, 0));
    assert_false(larder__disk_has(d, KEYS - 2));
    larder__disk_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_disk_dies, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
