"""Values of libraries that are looked up only where the program has imported them: HTTP answers and arrays."""
