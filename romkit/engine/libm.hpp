// What kernels call of <math.h>, for both precisions. In C++ that header is a library of templates, whose parsing takes
// half of the time of a kernel.

#ifndef __CUDACC_RTC__
#define OF_ONE(name) \
  static inline double name(double x) { return __builtin_##name(x); } \
  static inline float name(float x) { return __builtin_##name##f(x); }
#define OF_TWO(name) \
  static inline double name(double x, double y) { return __builtin_##name(x, y); } \
  static inline float name(float x, float y) { return __builtin_##name##f(x, y); }

OF_ONE(sqrt) OF_ONE(fabs) OF_ONE(floor) OF_ONE(ceil) OF_ONE(trunc) OF_ONE(nearbyint) OF_ONE(erf)
OF_ONE(exp) OF_ONE(exp2) OF_ONE(expm1) OF_ONE(log) OF_ONE(log2) OF_ONE(log10) OF_ONE(log1p)
OF_ONE(sin) OF_ONE(cos) OF_ONE(tan) OF_ONE(asin) OF_ONE(acos) OF_ONE(atan)
OF_ONE(sinh) OF_ONE(cosh) OF_ONE(tanh)
OF_TWO(atan2) OF_TWO(fmod) OF_TWO(nextafter) OF_TWO(pow)

#define NAN __builtin_nan("")
#define INFINITY __builtin_inf()
#endif
