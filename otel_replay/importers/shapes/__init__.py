"""One file a shape: each turns documents of its kind into spans, and tells the report what they lack."""
