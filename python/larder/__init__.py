"""larder: a training-aware cache, sampler and loader; ``larder.svm`` has support vector machines."""
