"""Code that several cases share: networks, workloads and the settings of a profile."""
