// Steps whose length the estimate of their error controls, for every member by itself.

enum { RUNNING, COMPLETED, STIFF, LOST };

// Members of a block on their way; of what lanes decide for themselves, arrays of one number for each lane.
struct Block {
  V t, h, previous, scale, start, latest, stop;
  V y[D];
  int64_t next[W], code[W], stiff[W];
  bool rejected[W];
};

// What all members share.
struct Limits {
  const T *times, *jumps;
  int64_t outputs, jump_count;
  T rtol, atol, floor, longest, bound;
};

// The end of the steps from t on: the next jump, before which the stages stay, or the last time. A step from a jump
// begins behind it.
static void aim(Block &block, const Limits &limits, int l) {
  const T t = of(block.t, l);
  int64_t first = 0, end = limits.jump_count;
  while (first < end) {
    const int64_t middle = (first + end) / 2;
    if (limits.jumps[middle] <= t)
      first = middle + 1;
    else
      end = middle;
  }
  const bool on_jump = first > 0 && limits.jumps[first - 1] == t;
  const T last = limits.times[limits.outputs - 1];
  const bool to_jump = first < limits.jump_count && limits.jumps[first] < last;
  const T stop = to_jump ? limits.jumps[first] : last;
  set(block.stop, l, stop);
  set(block.latest, l, to_jump ? beside(stop, t) : T(INFINITY));
  set(block.start, l, on_jump ? beside(t, T(INFINITY)) : t);
}

// The length of the next step: all that is left, if that is nearly as short; 0 of members that rest.
static V step_length(const Block &block, const Limits &limits) {
  V step = vec(T(0));
  for (int l = 0; l < W; l++) {
    if (block.code[l] != RUNNING) continue;
    const T rest = of(block.stop, l) - of(block.t, l), h = smaller(of(block.h, l), limits.longest);
    set(step, l, rest <= h * T(1 + 1e-2) ? rest : rest < 2 * h ? rest / 2 : h);
  }
  return step;
}

// Root mean square of the error of each member, in units of what is tolerated.
static V error_norm(const Block &block, const Limits &limits, const V *next, const V *error, V *largest) {
  V sum = vec(T(0)), size[D];
  *largest = block.scale;
  for (int i = 0; i < D; i++) {
    size[i] = each_maximum(each_abs(block.y[i]), each_abs(next[i]));
    *largest = each_maximum(*largest, size[i]);
  }
  for (int i = 0; i < D; i++) {
    const V allowed = limits.atol + limits.rtol * (size[i] + limits.floor * *largest);
    const V ratio = each_where(each_eq(error[i], vec(T(0))), error[i], error[i] / allowed);
    sum += ratio * ratio;
  }
  return each_sqrt(sum / T(D));
}

// The shortest step: time hardly moves. Where the field jumps no step is short enough, so this one is taken.
static T shortest(const Block &block, int l) {
  return 16 * EPSILON * larger(fabs(of(block.t, l)), fabs(of(block.stop, l)));
}

// Take a step back: it is tried again with a shorter one. A member whose rates are not finite then is lost.
static void reject(Block &block, int l, T step, T error) {
  const T factor = finite_number(error) ? T(SAFETY) * exp(-log(error) / T(ORDER)) : T(0);
  const T h = step * smaller(T(1), larger(T(SHORTER), factor)), least = shortest(block, l);
  if (h <= least && !finite_number(error)) block.code[l] = LOST;
  set(block.h, l, larger(h, least));
  block.rejected[l] = true;
}

// The length of the step after one that was taken.
static void prolong(Block &block, int l, T step, T error) {
  const T size = log(larger(error, T(1e-10)));
  T factor = T(SAFETY) * exp(T(INTEGRAL) * of(block.previous, l) - T(PROPORTIONAL) * size);
  factor = smaller(T(LONGER), larger(T(SHORTER), factor));
  if (block.rejected[l]) factor = smaller(factor, T(1));
  // a step that was cut at a jump says little of how long the next one may be
  const T h = of(block.h, l);
  set(block.h, l, step < h && factor > 1 ? larger(h, step * factor) : step * factor);
  set(block.previous, l, larger(size, T(-9.2)));
  block.rejected[l] = false;
}

// Write the states at output times that the step has passed.
static void report(Block &block, const Limits &limits, const Method &method, const V *next, T step, T reached,
                   int64_t member, int64_t members, T *states, int l) {
  for (int64_t &k = block.next[l]; k < limits.outputs && limits.times[k] <= reached; k++) {
    const T share = (limits.times[k] - of(block.t, l)) / step;
    T *target = states + (k * members + member) * D;
    for (int i = 0; i < D; i++)
      target[i] = limits.times[k] == reached ? of(next[i], l) : method.between(i, l, share, step, block.y, next);
  }
}

// Count steps whose length is bounded by stability, not by accuracy; a few others in a row end the count.
static void count_unstable(Block &block, int l, bool unstable) {
  int64_t &count = block.stiff[l];
  if (count < 0) return;  // not asked for
  count = unstable ? (count / 8 + 1) * 8 : count % 8 == 5 ? 0 : count + (count > 0);
  if (count >= 15 * 8) block.code[l] = STIFF;
}

static void run(Block &block, const Limits &limits, int64_t attempts, int64_t first, int64_t members, T *states,
                int64_t *taken, const T *C, const V *M) {
  Method method{};
  V next[D], error[D], largest;
  for (int l = 0; l < W; l++) aim(block, limits, l);
  method.begin(block.start, block.y, vec(T(1)), C, M);
  for (int64_t attempt = 0; attempt < attempts; attempt++) {
    bool running = false;
    for (int l = 0; l < W; l++) running |= block.code[l] == RUNNING;
    if (!running) return;
    const V step = step_length(block, limits);
    method.attempt(block.start, block.t, step, block.latest, block.scale, block.y, next, error, C, M);
    const V norm = error_norm(block, limits, next, error, &largest), unstable = method.unstable(step, next);
    V accepted = vec(T(0)), t = block.t, renewed = vec(T(0));
    bool jumped = false;
    for (int l = 0; l < W; l++) {
      if (block.code[l] != RUNNING) continue;
      const T h = of(step, l), e = of(norm, l);
      const bool at_least = h <= shortest(block, l) && finite_number(e);
      if (!(e <= 1 || at_least)) {
        reject(block, l, h, e);
        continue;
      }
      const bool stops = h == of(block.stop, l) - of(block.t, l);
      const T reached = stops ? of(block.stop, l) : of(block.t, l) + h;
      report(block, limits, method, next, h, reached, first + l, members, states, l);
      set(accepted, l, T(1));
      set(t, l, reached);
      prolong(block, l, h, e);
      count_unstable(block, l, of(unstable, l) != 0);
      taken[first + l]++;
      if (!(of(largest, l) <= limits.bound)) block.code[l] = LOST;
      if (block.next[l] == limits.outputs) block.code[l] = COMPLETED;
      if (stops && block.code[l] == RUNNING) {
        set(renewed, l, T(1));
        jumped = true;
      }
    }
    for (int i = 0; i < D; i++) block.y[i] = each_where(accepted, next[i], block.y[i]);
    block.t = t;
    block.scale = each_where(accepted, largest, block.scale);
    method.accept(accepted);
    for (int l = 0; l < W; l++)
      if (of(accepted, l) != 0) aim(block, limits, l);
    if (jumped) method.begin(block.start, block.y, renewed, C, M);
  }
}

// Take at most so many steps with every member that is RUNNING. All that a member is, is kept in arrays of `members`
// entries: time, length of the next step, the error before as a logarithm, the largest component so far, the state,
// the next output, a code, and a count of steps that only stability bounds.
KERNEL advance(const T *times, int64_t outputs, const T *jumps, int64_t jump_count, T rtol, T atol, T floor, T longest,
               T bound, int64_t attempts, T *t, T *h, T *previous, T *scale, T *y, int64_t *next, int64_t *code,
               int64_t *stiff, int64_t *taken, int64_t *rejected, T *states, const T *C, const V *M, int64_t members) {
  const Limits limits{times, jumps, outputs, jump_count, rtol, atol, floor, longest, bound};
  EACH_BLOCK(first, members) {
    Block block{};
    bool running = false;
    for (int l = 0; l < W; l++) {
      const int64_t member = first + l < members ? first + l : members - 1;
      set(block.t, l, t[member]), set(block.h, l, h[member]);
      set(block.previous, l, previous[member]), set(block.scale, l, scale[member]);
      block.next[l] = next[member], block.stiff[l] = stiff[member], block.rejected[l] = rejected[member];
      block.code[l] = first + l < members ? code[member] : COMPLETED;
      running |= block.code[l] == RUNNING;
    }
    if (!running) continue;
    CONSTANTS(own, first);
    load(block.y, y, first, members);
    run(block, limits, attempts, first, members, states, taken, C, own);
    store(y, block.y, first, members);
    for (int l = 0; l < W && first + l < members; l++) {
      const int64_t member = first + l;
      t[member] = of(block.t, l), h[member] = of(block.h, l);
      previous[member] = of(block.previous, l), scale[member] = of(block.scale, l);
      next[member] = block.next[l], code[member] = block.code[l], stiff[member] = block.stiff[l];
      rejected[member] = block.rejected[l];
    }
  }
}
