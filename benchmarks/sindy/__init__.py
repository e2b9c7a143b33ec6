"""SINDy against pysindy: one problem of many samples, and a stack of problems."""
