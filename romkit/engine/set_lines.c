void ${name}_set_control(struct $name *model, double t, const double before[], double h, const double after[]) {
  double *values = model->numbers + $context, *slopes = values + $control;
  for (int i = 0; i < $control; i++) {
    values[i] = before[i];
    slopes[i] = (after[i] - before[i]) / h;
  }
  slopes[$control] = t;
}
