/* Model text is read or refused; a model that was read predicts without a crash. */
#include "svm/model.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char rows[] = "1 0:1 1:1 2:0.5\n-1 0:2 3:1\n";
    larder_svm_model *m = NULL;
    larder_svm_data *d = NULL;
    int rc = larder__model_parse(&m, data, size, "fuzz");
    if ((rc == 0) != (m != NULL))
        abort();
    if (m && m->classes < 100 && larder__model_vectors(m) < 1000 &&
        larder__svm_parse(&d, rows, sizeof rows - 1, "rows", LARDER_SVM_INDEX_ZERO) == 0) {
        double labels[2];
        (void)larder_svm_predict(m, d, labels, NULL, NULL);
    }
    larder_svm_data_close(&d);
    larder_svm_model_close(&m);
    return 0;
}
