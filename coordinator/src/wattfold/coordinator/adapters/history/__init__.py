"""History of ended jobs: the file, its writer thread, and answers from it."""
