// The field with the widest vectors that pay, where the options of the compiler leave this open.

#if defined(__GNUC__) && defined(__x86_64__) && !defined(__AVX2__)
__attribute__((target("avx2"))) static void wide(T t, const V *y, V *out, const T *C, const V *M) {
  evaluate(t, y, out, C, M);
}

static void field(T t, const V *y, V *out, const T *C, const V *M) {
  if (__builtin_cpu_supports("avx2"))
    wide(t, y, out, C, M);
  else
    evaluate(t, y, out, C, M);
}
#else
static void field(T t, const V *y, V *out, const T *C, const V *M) { evaluate(t, y, out, C, M); }
#endif
