"""What every layer uses and that knows none of them: files, threads, interrupts, words."""
