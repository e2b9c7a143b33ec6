// Inputs stay as they are until they are set again; set them before the first step, if there are any.
void $name_set_control(struct $name *model, const double control[]);
