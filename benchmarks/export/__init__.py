"""Steps of exported models against those of the engine."""
