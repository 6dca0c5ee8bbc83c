#include "stores.h"

#include <stdlib.h>
#include <string.h>

#if LARDER_HAVE_LMDB
#include <lmdb.h>

bool kit_lmdb(const char *folder, const char *const *keys, const void *const *values,
              const size_t *bytes, size_t n) {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, folder, MDB_NOLOCK, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    for (size_t i = 0; i < n; i++) {
        MDB_val key = {strlen(keys[i]), (void *)(uintptr_t)keys[i]};
        MDB_val value = {bytes[i], (void *)(uintptr_t)values[i]};
        assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return true;
}
#else
bool kit_lmdb(const char *folder, const char *const *keys, const void *const *values,
              const size_t *bytes, size_t n) {
    (void)folder, (void)keys, (void)values, (void)bytes, (void)n;
    return false;
}
#endif

#if LARDER_HAVE_HDF5
#include <hdf5.h>

static void put(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims,
                const hsize_t *chunk, const void *data) {
    hid_t space = H5Screate_simple(rank, dims, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    if (chunk) {
        H5Pset_chunk(how, rank, chunk);
        H5Pset_shuffle(how);
    }
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(set >= 0 && H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
}

bool kit_hdf5(const char *path, size_t n) {
    uint8_t *x = malloc(n * 12);
    float *f = malloc(n * 2 * sizeof *f);
    int16_t *y = malloc(n * sizeof *y);
    double *t = malloc(n * sizeof *t);
    assert_true(x && f && y && t);
    for (size_t i = 0; i < n * 12; i++)
        x[i] = (uint8_t)i;
    for (size_t i = 0; i < n; i++) {
        f[2 * i] = (float)i;
        f[2 * i + 1] = -(float)i;
        y[i] = (int16_t)(n - 1 - i);
        t[i] = (double)i / 2;
    }
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    put(file, "x", H5T_NATIVE_UINT8, 3, (const hsize_t[]){n, 4, 3}, NULL, x);
    put(file, "f", H5T_NATIVE_FLOAT, 2, (const hsize_t[]){n, 2}, (const hsize_t[]){2, 2}, f);
    put(file, "y", H5T_NATIVE_INT16, 1, (const hsize_t[]){n}, NULL, y);
    put(file, "t", H5T_NATIVE_DOUBLE, 2, (const hsize_t[]){n, 1}, NULL, t);
    H5Fclose(file);
    free(x), free(f), free(y), free(t);
    return true;
}
#else
bool kit_hdf5(const char *path, size_t n) {
    (void)path, (void)n;
    return false;
}
#endif
