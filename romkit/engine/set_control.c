void ${name}_set_control(struct $name *model, const double control[]) {
  for (int i = 0; i < $control; i++) model->numbers[$context + i] = control[i];
}
