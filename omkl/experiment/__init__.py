"""From settings to a finished job: preparation, computation, and regret against comparators."""
