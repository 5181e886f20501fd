"""Our classifiers beside other libraries on the same rows."""
