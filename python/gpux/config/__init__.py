"""Where GPUX keeps its parser of gpux.yml."""
