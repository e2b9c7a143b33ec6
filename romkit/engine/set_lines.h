// Inputs are straight lines, from `before` at time t to `after` at time t + h; set them before each step.
void $name_set_control(struct $name *model, double t, const double before[], double h, const double after[]);
