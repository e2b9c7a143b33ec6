// Functions of FMI 3.0 for co-simulation, around an exported model. Sizes come from its header; STEP, TOKEN, START and
// SLOPES, which stand above, from the FMU. References of variables: 0 is time, then context, control, slopes of the
// control (SLOPES of them: all or none), latent state, state.

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK, WARNING, DISCARD, ERROR };
enum {
  CONTEXT = 1,
  CONTROL = CONTEXT + model_CONTEXT,
  SLOPE = CONTROL + model_CONTROL,
  LATENT = SLOPE + SLOPES,
  STATE = LATENT + model_LATENT,
  END = STATE + model_STATE
};

typedef void Logger(void *environment, int status, const char *category, const char *message);

struct instance {
  struct model model;
  double values[END];
  bool decoded, started;
  void *environment;
  Logger *log;
};

static int failed(const struct instance *self, const char *message) {
  if (self->log) self->log(self->environment, ERROR, "error", message);
  return ERROR;
}

const char *fmi3GetVersion(void) { return "3.0"; }

// Inputs of a communication step that begins at t.
static void set_control(struct instance *self, double t) {
  double *control = self->values + CONTROL;
#if SLOPES
  double later[model_CONTROL];
  for (int i = 0; i < model_CONTROL; i++) later[i] = control[i] + self->values[SLOPE + i];
  model_set_control(&self->model, t, control, 1, later);
#else
  (void)t;
  model_set_control(&self->model, control);
#endif
}

int fmi3Reset(struct instance *self) {
  self->decoded = self->started = false;
  memset(self->values, 0, sizeof self->values);
  memcpy(self->values + CONTEXT, START, (STATE - CONTEXT) * sizeof(double));
  model_set_context(&self->model, self->values + CONTEXT);
  return OK;
}

void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, bool visible,
                                  bool logging, bool events, bool early, const uint32_t required[], size_t size,
                                  void *environment, Logger *log, void (*update)(void)) {
  (void)name, (void)resources, (void)visible, (void)logging, (void)events, (void)early, (void)required, (void)size;
  (void)update;
  struct instance *self = strcmp(token, TOKEN) ? NULL : malloc(sizeof *self);
  if (!self) return NULL;
  self->environment = environment;
  self->log = log;
  fmi3Reset(self);
  return self;
}

void fmi3FreeInstance(struct instance *self) { free(self); }

int fmi3EnterInitializationMode(struct instance *self, bool tolerant, double tolerance, double start, bool stops,
                                double stop) {
  (void)tolerant, (void)tolerance, (void)stops, (void)stop;
  self->values[0] = start;
  return OK;
}

int fmi3ExitInitializationMode(struct instance *self) {
  self->started = true;
  return OK;
}

int fmi3GetFloat64(struct instance *self, const uint32_t which[], size_t count, double values[], size_t size) {
  for (size_t k = 0; k < count; k++) {
    if (which[k] >= END || size != count) return failed(self, "no such variable");
    if (which[k] >= STATE && !self->decoded) {
      model_decode(&self->model, self->values + LATENT, self->values + STATE);
      self->decoded = true;
    }
    values[k] = self->values[which[k]];
  }
  return OK;
}

// Where the context changes during a run, the manifold moves: the state stays, and is encoded anew.
int fmi3SetFloat64(struct instance *self, const uint32_t which[], size_t count, const double values[], size_t size) {
  bool moved = false;
  for (size_t k = 0; k < count; k++) {
    if (which[k] < CONTEXT || which[k] >= STATE || size != count) return failed(self, "no variable that can be set");
    moved |= which[k] < CONTROL && values[k] != self->values[which[k]];
    self->values[which[k]] = values[k];
  }
  if (moved && self->started) model_decode(&self->model, self->values + LATENT, self->values + STATE);
  if (moved) model_set_context(&self->model, self->values + CONTEXT);
  if (moved && self->started) model_encode(&self->model, self->values + STATE, self->values + LATENT);
  self->decoded = false;
  return OK;
}

int fmi3DoStep(struct instance *self, double t, double h, bool no_return, bool *event, bool *terminate, bool *early,
               double *reached) {
  (void)no_return;
  set_control(self, t);
  const double steps = fmax(1, ceil(h / STEP * (1 - 1e-9)));
  for (double k = 0; k < steps; k++) model_step(&self->model, t + k * (h / steps), h / steps, self->values + LATENT);
  self->values[0] = *reached = t + h;
  self->decoded = *event = *terminate = *early = false;
  for (int i = LATENT; i < STATE; i++)
    if (!isfinite(self->values[i])) return failed(self, "the model diverges");
  return OK;
}

int fmi3SetDebugLogging(struct instance *self, bool on, size_t count, const char *const categories[]) {
  (void)self, (void)on, (void)count, (void)categories;
  return OK;
}

int fmi3Terminate(struct instance *self) {
  (void)self;
  return OK;
}

// Importers look for all functions of the standard. Those of capabilities that modelDescription.xml lacks are not called.
#define ABSENT(name) \
  int fmi3##name(void) { return ERROR; }
#define VALUES(type) ABSENT(Get##type) ABSENT(Set##type)
VALUES(Float32) VALUES(Int8) VALUES(UInt8) VALUES(Int16) VALUES(UInt16) VALUES(Int32) VALUES(UInt32) VALUES(Int64)
VALUES(UInt64) VALUES(Boolean) VALUES(String) VALUES(Binary) VALUES(Clock) VALUES(FMUState)
VALUES(IntervalDecimal) VALUES(IntervalFraction) VALUES(ShiftDecimal) VALUES(ShiftFraction)
ABSENT(FreeFMUState) ABSENT(SerializedFMUStateSize) ABSENT(SerializeFMUState) ABSENT(DeserializeFMUState)
ABSENT(GetNumberOfVariableDependencies) ABSENT(GetVariableDependencies) ABSENT(GetDirectionalDerivative)
ABSENT(GetAdjointDerivative) ABSENT(GetOutputDerivatives) ABSENT(EnterConfigurationMode) ABSENT(ExitConfigurationMode)
ABSENT(EvaluateDiscreteStates) ABSENT(UpdateDiscreteStates) ABSENT(EnterEventMode) ABSENT(EnterStepMode)
ABSENT(EnterContinuousTimeMode) ABSENT(CompletedIntegratorStep) ABSENT(SetTime) ABSENT(SetContinuousStates)
ABSENT(GetContinuousStateDerivatives) ABSENT(GetEventIndicators) ABSENT(GetContinuousStates)
ABSENT(GetNominalsOfContinuousStates) ABSENT(GetNumberOfEventIndicators) ABSENT(GetNumberOfContinuousStates)
ABSENT(ActivateModelPartition)
void *fmi3InstantiateModelExchange(void) { return NULL; }
void *fmi3InstantiateScheduledExecution(void) { return NULL; }
