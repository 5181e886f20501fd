"""From settings to a finished job: preparing, computing, regret, comparators."""
