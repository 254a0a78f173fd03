// Grows with the store and the configuration.
