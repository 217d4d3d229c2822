// What the stand-in libraries share: libcublas and libcurand are built on libcuda, as NVIDIA's are.
#pragma once
#include <cstddef>
#include <functional>

namespace stand_in {

// Every entry point begins with this: counts the call and says with which code it must fail, 0 for none. A sticky error of
// the device (700 and above) fails every later call, as on a real one.
int begin(const char *call);

// Whether the device has failed for good.
bool broken();

// Puts work at the end of a stream. It is done when somebody waits for it, and not before.
void enqueue(void *stream, const char *what, std::function<void()> work);

// Whether the bytes lie in one allocation of the device.
bool inside(const void *place, size_t bytes);

// Counts of what is made and must be given back, by name.
void made(const char *what);
void gone(const char *what);

// Whether CUDA_STAND_IN_BREAK names this fault, for negative controls.
bool breaks(const char *what);

// Whether nothing is to be computed any more, only counted.
bool dry();

} // namespace stand_in
