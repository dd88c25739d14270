"""What several cases share: networks, workloads and how a profile is chosen."""
