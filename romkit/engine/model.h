$about
#ifndef ${name}_H
#define ${name}_H

#ifdef __cplusplus
extern "C" {
#endif

enum { ${name}_LATENT = $latent, ${name}_STATE = $state, ${name}_CONTEXT = $context, ${name}_CONTROL = $control };

// A model at a context, which is set before anything else. All that changes is in here, so a copy is a model of its
// own, and every thread may have one. Nothing is allocated.
struct $name {
  double numbers[$numbers];
};

void ${name}_set_context(struct $name *model, const double context[]);

$declare_control

// latent = rho(state), and state = phi(latent), in physical units.
void ${name}_encode(const struct $name *model, const double state[], double latent[]);
void ${name}_decode(const struct $name *model, const double latent[], double state[]);

// rate = d latent / dt at time t.
void ${name}_rate(const struct $name *model, double t, const double latent[], double rate[]);

// One step of length h of the classical Runge-Kutta method, in place.
void ${name}_step(const struct $name *model, double t, double h, double latent[]);

#ifdef __cplusplus
}
#endif

#endif
