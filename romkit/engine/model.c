$about
#include "$name.h"

#include <math.h>

typedef double T;
typedef T V;
#define T(x) ((T)(x))
#define vec(x) (x)
#define EACH(function) return function
#define OF(x) x
#define D $latent
#define ANY
#define COLUMNS 32
typedef V A;
typedef V B;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
double sqrt(double) __attribute__((const));  // it would set errno otherwise, and be a call
#endif

$functions
static const T NUMBERS[$count] = {
$table};

INLINE void evaluate(T time, const V *y, V *out, const T *C, const V *M) {
  const V t[1] = {vec(time)};
  (void)t, (void)y, (void)C, (void)M;
$rate
}

$dispatch
$step
void ${name}_set_context(struct $name *model, const double context[]) {
  const T *C = NUMBERS;
  V *M = model->numbers;
  (void)C;
  for (int i = 0; i < $context; i++) M[i] = context[i];
$setting
}

$set_control

void ${name}_encode(const struct $name *model, const double state[], double latent[]) {
  const T *C = NUMBERS, *M = model->numbers;
  (void)C, (void)M;
$encode
}

void ${name}_decode(const struct $name *model, const double latent[], double state[]) {
  const T *C = NUMBERS, *M = model->numbers;
  (void)C, (void)M;
$decode
}

void ${name}_rate(const struct $name *model, double t, const double latent[], double rate[]) {
  field(t, latent, rate, NUMBERS, model->numbers);
}

void ${name}_step(const struct $name *model, double t, double h, double latent[]) {
  step(t, h, latent, NUMBERS, model->numbers);
}
