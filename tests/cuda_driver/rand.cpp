// A stand-in for libcurand.so.10: candle makes a generator for each device; this program never asks it for a number.
#include "stand_in.h"

#define API extern "C" __attribute__((visibility("default"))) int

static int begin(const char *call) { return stand_in::begin(call) == 0 ? 0 : 203; } // CURAND_STATUS_INITIALIZATION_FAILED

API curandCreateGenerator(void **generator, int) {
    if (int code = begin("curandCreateGenerator")) return code;
    *generator = new char;
    stand_in::made("curand generators");
    return 0;
}
API curandDestroyGenerator(void *generator) {
    if (int code = begin("curandDestroyGenerator")) return code;
    delete static_cast<char *>(generator);
    stand_in::gone("curand generators");
    return 0;
}
API curandSetStream(void *, void *) { return begin("curandSetStream"); }
API curandSetPseudoRandomGeneratorSeed(void *, unsigned long long) { return begin("curandSetPseudoRandomGeneratorSeed"); }
